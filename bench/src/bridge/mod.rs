//! Compares the binary as a bridge with other bridges: the same client, the same server, the same run.
//!
//! ```console
//! cargo run --release --manifest-path bench/Cargo.toml -- bridge [options]
//!   --rounds N   bursts on each route; 7
//!   --calls N    calls of one burst, and a quarter of them one at a time; 2000
//!   --starts N   starts of each program; 200
//!   --only A,B   routes whose name contains one of these words; all of them
//! ```
//!
//! It builds `tsugite` as it is released, and installs the others with npm from the lock file in `bench/npm`. The
//! server is the bare one, and the client writes and reads bytes: both know only the necessary parts of the protocol.
//! Over stdio there is also a server made with the library, since a bare one takes less time than any server that
//! parses its input. The client runs on one processor, everything else on another (`load::cpu_pinning`). All routes are open
//! at the same time, and each round has one burst on every route, so that a disturbance affects all of them. A figure
//! is the median of the rounds, a ratio the median of the ratios of each round. CPU time and memory are those of the
//! bridge's process alone. Every response is checked.

mod programs;
mod report;
mod routes;
mod startup;

use crate::BoxError;
use crate::load::LoadSample;
use crate::load::cpu_pinning::CpuPinning;
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
            // Each route goes first in one round after the other.
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

impl Route {
    fn run_burst(&mut self, calls: usize, window: usize) -> Result<LoadSample, BoxError> {
        LoadSample::measure(&mut *self.client, &self.process, calls, window)
            .map_err(|error| format!("{}: {error}", self.name).into())
    }

    /// Resident memory in bytes; of the bridge alone.
    fn memory(&self) -> Result<u64, BoxError> {
        self.process.memory()
    }
}

/// Calls in flight in a concurrent burst.
const WINDOW: usize = 64;
