//! The binary as a bridge, beside the bridges of others: the same client, the same server, the same run.
//!
//! ```console
//! cargo run --release --manifest-path bench/Cargo.toml -- bridge [options]
//!   --rounds N   visits to each way; 7
//!   --calls N    calls of one visit, and a quarter of them one at a time; 2000
//!   --starts N   starts of each program; 200
//!   --only A,B   ways whose name holds one of these words; all of them
//! ```
//!
//! It builds `tsugite` as it is released, and installs the others with npm as `bench/npm` writes them down. The server is
//! the bare one, and the client writes and reads bytes: neither knows more of the protocol than it must. Over stdio there
//! is one made with the library too, since a bare one takes less time than any server that reads what it is sent. The client
//! runs on one processor, everything else on another (`places`). All ways are up at once and each round visits every one of them, so what disturbs a round disturbs all alike. A figure is the median of
//! the rounds, a ratio the median of the rounds' own ratios. CPU and memory are those of the bridge's process alone. Every
//! answer is checked.

mod cpu_pinning;
mod http_clients;
mod process;
mod programs;
mod report;
mod routes;
mod startup;
mod stdio_client;

use std::time::{Duration, Instant};

use crate::BoxError;
use cpu_pinning::CpuPinning;
use programs::Programs;
use report::RouteSamples;
use routes::Route;

pub(crate) fn run(args: &[&str]) -> Result<(), BoxError> {
    let plan = BridgeBenchOptions::parse(args)?;
    let built = Programs::new()?;
    report::print_startup(&startup::measure(&built, plan.starts)?);
    let places = CpuPinning::detect()?;
    places.pin_servers()?;
    let (server, mut ways) = routes::open_all(&built, &plan.only)?;
    places.pin_client()?;
    let mut measured: Vec<_> = ways.iter().map(|way| RouteSamples::new(way.name)).collect();
    for way in &mut ways {
        way.run_burst(plan.calls, WINDOW)?;
    }
    for round in 0..plan.rounds {
        for turn in 0..ways.len() {
            // Each goes first in its turn.
            let turn = (turn + round) % ways.len();
            let alone = ways[turn].run_burst(plan.calls.div_ceil(4), 1)?;
            let many = ways[turn].run_burst(plan.calls, WINDOW)?;
            measured[turn].samples.push((alone, many));
        }
        eprintln!("round {} of {}", round + 1, plan.rounds);
    }
    for (way, measured) in ways.iter_mut().zip(&mut measured) {
        measured.memory = way.memory()?;
    }
    drop((ways, server));
    report::print_routes(&measured);
    Ok(())
}

struct BridgeBenchOptions {
    rounds: usize,
    calls: usize,
    starts: usize,
    only: Vec<String>,
}

impl BridgeBenchOptions {
    fn parse(args: &[&str]) -> Result<Self, BoxError> {
        let mut plan = Self { rounds: 7, calls: 2000, starts: 200, only: Vec::new() };
        for option in args.chunks(2) {
            match *option {
                ["--rounds", rounds] => plan.rounds = rounds.parse::<usize>()?.max(1),
                ["--calls", calls] => plan.calls = calls.parse::<usize>()?.max(WINDOW),
                ["--starts", starts] => plan.starts = starts.parse::<usize>()?.max(1),
                ["--only", words] => plan.only = words.split(',').map(str::to_owned).collect(),
                _ => {
                    return Err(
                        format!("{} is not understood; see src/bridge/mod.rs", option.join(" ")).into()
                    );
                }
            }
        }
        Ok(plan)
    }
}

/// Somebody who makes calls, some at a time.
trait BurstClient {
    /// Has been idle for a while: what others close meanwhile is not used again.
    fn drop_idle(&mut self) {}

    /// Makes them, and says how long each took.
    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, BoxError>;
}

/// What one burst took.
#[derive(Debug, Clone)]
struct BridgeSample {
    calls: usize,
    time: Duration,
    /// Of the bridge; of the server, where there is no bridge.
    cpu: Duration,
    /// How long each call took, the shortest first.
    latencies: Vec<Duration>,
}

impl Route {
    fn run_burst(&mut self, calls: usize, window: usize) -> Result<BridgeSample, BoxError> {
        let mut burst = || {
            // What opening connections costs is not measured.
            self.client.drop_idle();
            self.client.burst(window, window)?;
            let (start, cpu) = (Instant::now(), self.process.cpu_time()?);
            let mut each = self.client.burst(calls, window)?;
            let (time, cpu) = (start.elapsed(), self.process.cpu_time()?.saturating_sub(cpu));
            each.sort();
            Ok(BridgeSample { calls, time, cpu, latencies: each })
        };
        burst().map_err(|error: BoxError| format!("{}: {error}", self.name).into())
    }

    /// Resident memory in bytes; of the bridge alone.
    fn memory(&self) -> Result<u64, BoxError> {
        self.process.memory()
    }
}

/// Calls under way where many are.
const WINDOW: usize = 64;
