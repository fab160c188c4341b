//! What was measured, as markdown: the start, every way, and what of it was to be reached.

use std::time::Duration;

use super::Visit;
use super::start::{Program, Started};
use super::ways::{self, Name};
use crate::table::median;

/// One way: each round with calls one at a time, and with many.
pub(super) struct Measured {
    name: Name,
    pub(super) visits: Vec<(Visit, Visit)>,
    /// Bytes at the end.
    pub(super) memory: u64,
}

impl Measured {
    pub(super) fn new(name: Name) -> Self {
        Self { name, visits: Vec::new(), memory: 0 }
    }

    fn median(&self, of: impl Fn(&(Visit, Visit)) -> f64) -> f64 {
        median(self.visits.iter().map(of).collect())
    }

    /// The median of what each round says of both.
    fn against(&self, other: &Self, of: impl Fn(&(Visit, Visit), &(Visit, Visit)) -> f64) -> f64 {
        median(self.visits.iter().zip(&other.visits).map(|(visit, other)| of(visit, other)).collect())
    }
}

impl Visit {
    fn rate(&self) -> f64 {
        self.calls as f64 / self.time.as_secs_f64()
    }

    /// Microseconds.
    fn cpu_per_call(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.calls as f64
    }

    /// Microseconds that so many of a hundred calls took at most.
    fn percentile(&self, hundredths: usize) -> f64 {
        let place = self.each.len() * hundredths / 100;
        self.each.get(place).or(self.each.last()).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }
}

pub(super) fn start(started: &Started) {
    println!("| start | wall, median ms | least | CPU, median ms | least |");
    println!("|---|---:|---:|---:|---:|");
    for (name, program) in
        [("a program that does nothing", &started.nothing), ("`tsugite --version`", &started.tsugite)]
    {
        let Program { time, cpu } = program;
        let [time, cpu] = [time, cpu].map(|all| [milliseconds(middle(all)), milliseconds(least(all))]);
        println!("| {name} | {:.2} | {:.2} | {:.2} | {:.2} |", time[0], time[1], cpu[0], cpu[1]);
    }
    println!();
    head();
    let size = started.size as f64 / 1e6;
    goal("size of the binary", &format!("{size:.1} MB"), "< 15 MB", size < 15.0);
    let Started { nothing, tsugite, .. } = started;
    let ratio = |of: fn(&[Duration]) -> Duration, what: fn(&Program) -> &[Duration]| {
        of(what(tsugite)).as_secs_f64() / of(what(nothing)).as_secs_f64()
    };
    let wall = ratio(middle, |program| &program.time);
    goal("start, wall, to a program that does nothing", &format!("{wall:.2} ×"), "≤ 3 ×", wall <= 3.0);
    let cpu = ratio(middle, |program| &program.cpu);
    goal("start, CPU, to a program that does nothing", &format!("{cpu:.2} ×"), "≤ 3 ×", cpu <= 3.0);
    println!();
}

pub(super) fn ways(all: &[Measured]) {
    println!(
        "| way | bridge | p50 µs | p99 µs | CPU µs per call | calls/s, 64 at a time | CPU µs per call | memory MB |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for way in all {
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.1} | {:.0} | {:.1} | {:.1} |",
            way.name.route,
            way.name.who,
            way.median(|(alone, _)| alone.percentile(50)),
            way.median(|(alone, _)| alone.percentile(99)),
            way.median(|(alone, _)| alone.cpu_per_call()),
            way.median(|(_, many)| many.rate()),
            way.median(|(_, many)| many.cpu_per_call()),
            way.memory as f64 / 1e6,
        );
    }
    println!();
    head();
    let find = |name: Name| all.iter().find(|way| way.name == name);
    let added = |name: Name, direct: Name| {
        let (way, direct) = (find(name)?, find(direct)?);
        let added =
            way.against(direct, |(way, _), (direct, _)| way.percentile(50) / direct.percentile(50) - 1.0);
        Some((format!("{name}: added to the p50 of {}", direct.name.route), added))
    };
    for (what, added) in DIRECT.into_iter().filter_map(|(name, direct)| added(name, direct)) {
        goal(&what, &format!("{added:.2} ×"), "≤ 2 ×", added <= 2.0);
    }
    // The least that anybody could add, for comparison.
    if let Some((what, added)) = added(ways::STDIO_STDIO_COPIED, ways::DIRECT_STDIO) {
        println!("| {what} | {added:.2} × | – | |");
    }
    for (name, _) in DIRECT {
        let Some(way) = find(name) else { continue };
        let memory = way.memory as f64 / 1e6;
        goal(&format!("{name}: memory"), &format!("{memory:.1} MB"), "< 15 MB", memory < 15.0);
    }
    for (name, peer) in PEERS {
        let (Some(way), Some(peer)) = (find(name), find(peer)) else { continue };
        let times = way.against(peer, |(_, way), (_, peer)| way.rate() / peer.rate());
        let what = format!("{}: calls/s to {}", name.route, peer.name.who);
        goal(&what, &format!("{times:.1} ×"), "≥ 5 ×", times >= 5.0);
    }
}

fn head() {
    println!("| goal | figure | to reach | |");
    println!("|---|---:|---:|---|");
}

fn goal(what: &str, figure: &str, target: &str, reached: bool) {
    println!("| {what} | {figure} | {target} | {} |", if reached { "reached" } else { "**missed**" });
}

fn middle(all: &[Duration]) -> Duration {
    let mut all = all.to_vec();
    all.sort();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn least(all: &[Duration]) -> Duration {
    all.iter().min().copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Our ways, and what a client does without a bridge.
const DIRECT: [(Name, Name); 7] = [
    (ways::STDIO_STDIO, ways::DIRECT_STDIO),
    (ways::STDIO_STDIO_NEWEST, ways::DIRECT_STDIO),
    (ways::STDIO_LIBRARY, ways::DIRECT_LIBRARY),
    (ways::STDIO_LIBRARY_NEWEST, ways::DIRECT_LIBRARY),
    (ways::STDIO_HTTP, ways::DIRECT_HTTP),
    (ways::HTTP_STDIO, ways::DIRECT_HTTP),
    (ways::SSE_STDIO, ways::DIRECT_HTTP),
];

/// Our ways, and who else goes them.
const PEERS: [(Name, Name); 4] = [
    (ways::STDIO_HTTP, ways::STDIO_HTTP_MCP_REMOTE),
    (ways::STDIO_HTTP, ways::STDIO_HTTP_SUPERGATEWAY),
    (ways::HTTP_STDIO, ways::HTTP_STDIO_SUPERGATEWAY),
    (ways::SSE_STDIO, ways::SSE_STDIO_SUPERGATEWAY),
];
