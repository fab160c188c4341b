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

mod built;
mod lines;
mod places;
mod process;
mod report;
mod sockets;
mod start;
mod ways;

use std::time::{Duration, Instant};

use crate::Failed;
use built::Built;
use places::Places;
use report::Measured;
use ways::Way;

pub(crate) fn run(args: &[&str]) -> Result<(), Failed> {
    let plan = Plan::read(args)?;
    let built = Built::new()?;
    report::start(&start::measure(&built, plan.starts)?);
    let places = Places::find()?;
    places.start_others()?;
    let (server, mut ways) = ways::all(&built, &plan.only)?;
    places.be_the_client()?;
    let mut measured: Vec<_> = ways.iter().map(|way| Measured::new(way.name)).collect();
    for way in &mut ways {
        way.visit(plan.calls, WINDOW)?;
    }
    for round in 0..plan.rounds {
        for turn in 0..ways.len() {
            // Each goes first in its turn.
            let turn = (turn + round) % ways.len();
            let alone = ways[turn].visit(plan.calls.div_ceil(4), 1)?;
            let many = ways[turn].visit(plan.calls, WINDOW)?;
            measured[turn].visits.push((alone, many));
        }
        eprintln!("round {} of {}", round + 1, plan.rounds);
    }
    for (way, measured) in ways.iter_mut().zip(&mut measured) {
        measured.memory = way.memory()?;
    }
    drop((ways, server));
    report::ways(&measured);
    Ok(())
}

struct Plan {
    rounds: usize,
    calls: usize,
    starts: usize,
    only: Vec<String>,
}

impl Plan {
    fn read(args: &[&str]) -> Result<Self, Failed> {
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
trait Client {
    /// Has been idle for a while: what others close meanwhile is not used again.
    fn renew(&mut self) {}

    /// Makes them, and says how long each took.
    fn burst(&mut self, calls: usize, window: usize) -> Result<Vec<Duration>, Failed>;
}

/// What one burst took.
#[derive(Debug, Clone)]
struct Visit {
    calls: usize,
    time: Duration,
    /// Of the bridge; of the server, where there is no bridge.
    cpu: Duration,
    /// How long each call took, the shortest first.
    each: Vec<Duration>,
}

impl Way {
    fn visit(&mut self, calls: usize, window: usize) -> Result<Visit, Failed> {
        let mut burst = || {
            // What opening connections costs is not measured.
            self.client.renew();
            self.client.burst(window, window)?;
            let (start, cpu) = (Instant::now(), self.process.cpu()?);
            let mut each = self.client.burst(calls, window)?;
            let (time, cpu) = (start.elapsed(), self.process.cpu()?.saturating_sub(cpu));
            each.sort();
            Ok(Visit { calls, time, cpu, each })
        };
        burst().map_err(|error: Failed| format!("{}: {error}", self.name).into())
    }

    /// Resident memory in bytes; of the bridge alone.
    fn memory(&self) -> Result<u64, Failed> {
        self.process.memory()
    }
}

/// Calls under way where many are.
const WINDOW: usize = 64;
