//! Prints the measurements as markdown: startup, every route, and the goals.

use std::time::Duration;

use super::routes::{self, RouteName};
use super::startup::{StartupReport, StartupSamples};
use crate::load::LoadSample;
use crate::table::median;

/// The samples of one route: each round with sequential and with concurrent calls.
pub(super) struct RouteSamples {
    name: RouteName,
    pub(super) samples: Vec<(LoadSample, LoadSample)>,
    /// Resident memory at the end, in bytes.
    pub(super) memory: u64,
}

impl RouteSamples {
    pub(super) fn new(name: RouteName) -> Self {
        Self { name, samples: Vec::new(), memory: 0 }
    }

    fn median(&self, of: impl Fn(&(LoadSample, LoadSample)) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }

    /// The median of the ratios of each round.
    fn ratio_to(
        &self,
        other: &Self,
        of: impl Fn(&(LoadSample, LoadSample), &(LoadSample, LoadSample)) -> f64,
    ) -> f64 {
        median(self.samples.iter().zip(&other.samples).map(|(visit, other)| of(visit, other)).collect())
    }
}

pub(super) fn print_startup(started: &StartupReport) {
    println!("| start | wall, median ms | least | CPU, median ms | least |");
    println!("|---|---:|---:|---:|---:|");
    for (name, program) in
        [("a program that does nothing", &started.noop), ("`tsugite --version`", &started.tsugite)]
    {
        let StartupSamples { time, cpu } = program;
        let [time, cpu] =
            [time, cpu].map(|all| [milliseconds(median_duration(all)), milliseconds(min_duration(all))]);
        println!("| {name} | {:.2} | {:.2} | {:.2} | {:.2} |", time[0], time[1], cpu[0], cpu[1]);
    }
    println!();
    print_goal_head();
    let size = started.size as f64 / 1e6;
    print_goal("size of the binary", &format!("{size:.1} MB"), "< 15 MB", size < 15.0);
    let StartupReport { noop: nothing, tsugite, .. } = started;
    let ratio = |of: fn(&[Duration]) -> Duration, what: fn(&StartupSamples) -> &[Duration]| {
        of(what(tsugite)).as_secs_f64() / of(what(nothing)).as_secs_f64()
    };
    let wall = ratio(median_duration, |program| &program.time);
    print_goal("start, wall, to a program that does nothing", &format!("{wall:.2} ×"), "≤ 3 ×", wall <= 3.0);
    let cpu = ratio(median_duration, |program| &program.cpu);
    print_goal("start, CPU, to a program that does nothing", &format!("{cpu:.2} ×"), "≤ 3 ×", cpu <= 3.0);
    println!();
}

pub(super) fn print_routes(all: &[RouteSamples]) {
    println!(
        "| way | bridge | p50 µs | p99 µs | CPU µs per call | calls/s, 64 at a time | CPU µs per call | memory MB |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for way in all {
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.1} | {:.0} | {:.1} | {:.1} |",
            way.name.route,
            way.name.bridge,
            way.median(|(alone, _)| alone.percentile(50)),
            way.median(|(alone, _)| alone.percentile(99)),
            way.median(|(alone, _)| alone.cpu_per_call()),
            way.median(|(_, many)| many.rate()),
            way.median(|(_, many)| many.cpu_per_call()),
            way.memory as f64 / 1e6,
        );
    }
    println!();
    print_goal_head();
    let find = |name: RouteName| all.iter().find(|way| way.name == name);
    let added = |name: RouteName, direct: RouteName| {
        let (way, direct) = (find(name)?, find(direct)?);
        let added =
            way.ratio_to(direct, |(way, _), (direct, _)| way.percentile(50) / direct.percentile(50) - 1.0);
        Some((format!("{name}: added to the p50 of {}", direct.name.route), added))
    };
    for (what, added) in BASELINES.into_iter().filter_map(|(name, direct)| added(name, direct)) {
        print_goal(&what, &format!("{added:.2} ×"), "≤ 2 ×", added <= 2.0);
    }
    // The smallest possible overhead, for comparison.
    if let Some((what, added)) = added(routes::STDIO_STDIO_COPIED, routes::DIRECT_STDIO) {
        println!("| {what} | {added:.2} × | – | |");
    }
    for (name, _) in BASELINES {
        let Some(way) = find(name) else { continue };
        let memory = way.memory as f64 / 1e6;
        print_goal(&format!("{name}: memory"), &format!("{memory:.1} MB"), "< 15 MB", memory < 15.0);
    }
    for (name, peer) in COMPARISONS {
        let (Some(way), Some(peer)) = (find(name), find(peer)) else { continue };
        let times = way.ratio_to(peer, |(_, way), (_, peer)| way.rate() / peer.rate());
        let what = format!("{}: calls/s to {}", name.route, peer.name.bridge);
        print_goal(&what, &format!("{times:.1} ×"), "≥ 5 ×", times >= 5.0);
    }
}

fn print_goal_head() {
    println!("| goal | figure | to reach | |");
    println!("|---|---:|---:|---|");
}

fn print_goal(what: &str, figure: &str, target: &str, reached: bool) {
    println!("| {what} | {figure} | {target} | {} |", if reached { "reached" } else { "**missed**" });
}

fn median_duration(all: &[Duration]) -> Duration {
    let mut all = all.to_vec();
    all.sort();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn min_duration(all: &[Duration]) -> Duration {
    all.iter().min().copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Our routes, each with the direct route to compare it with.
const BASELINES: [(RouteName, RouteName); 7] = [
    (routes::STDIO_STDIO, routes::DIRECT_STDIO),
    (routes::STDIO_STDIO_NEWEST, routes::DIRECT_STDIO),
    (routes::STDIO_LIBRARY, routes::DIRECT_LIBRARY),
    (routes::STDIO_LIBRARY_NEWEST, routes::DIRECT_LIBRARY),
    (routes::STDIO_HTTP, routes::DIRECT_HTTP),
    (routes::HTTP_STDIO, routes::DIRECT_HTTP),
    (routes::SSE_STDIO, routes::DIRECT_HTTP),
];

/// Our routes, each with the other bridges on the same route.
const COMPARISONS: [(RouteName, RouteName); 4] = [
    (routes::STDIO_HTTP, routes::STDIO_HTTP_MCP_REMOTE),
    (routes::STDIO_HTTP, routes::STDIO_HTTP_SUPERGATEWAY),
    (routes::HTTP_STDIO, routes::HTTP_STDIO_SUPERGATEWAY),
    (routes::SSE_STDIO, routes::SSE_STDIO_SUPERGATEWAY),
];
