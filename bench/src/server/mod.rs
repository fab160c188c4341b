//! Compares servers: a bare one, ours and that of rmcp, under the same client and in the same run.
//!
//! ```console
//! cargo run --release --manifest-path bench/Cargo.toml -- server [options]
//!   --rounds N    bursts on each server; 9
//!   --calls N     calls of one burst, over stdio with 64 in flight 8 times as many; 8000
//!   --sessions N  idle sessions to open for the measurement of memory; 2000
//! ```
//!
//! Each server is a process of its own on one thread: this program again, in another role. The servers share one
//! processor, the client has the other (`load::cpu_pinning`). Each round starts all servers of a scenario and has one
//! burst on every server, so that a disturbance affects all of them, and what differs from start to start does not
//! decide. A figure is the median of the rounds, a ratio the median of the ratios to the bare server in each round. CPU
//! time is that of the server's process, user and kernel. Every response is checked.

mod memory;

use std::process::{ChildStdin, Command};

use crate::load::cpu_pinning::CpuPinning;
use crate::load::http_clients::StreamableHttpClient;
use crate::load::process::Process;
use crate::load::stdio_client::StdioClient;
use crate::load::{BurstClient, LoadSample};
use crate::table::median;
use crate::{BoxError, Era};

pub(crate) fn run(args: &[&str]) -> Result<(), BoxError> {
    let options = ServerBenchOptions::parse(args)?;
    let pinning = CpuPinning::detect()?;
    println!("| scenario | server | calls/s | CPU µs per call | × bare | least | most |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    for scenario in SCENARIOS {
        options.measure(scenario, &pinning)?;
    }
    println!("\n| server | memory of each of {} idle sessions, KiB |", options.sessions);
    println!("|---|---:|");
    for server in [OURS, RMCP] {
        let bytes = memory::per_session(server.http(Era::Handshake)?, options.sessions, &pinning)?;
        println!("| {} | {:.2} |", server.name, bytes / 1024.0);
    }
    Ok(())
}

struct ServerBenchOptions {
    rounds: usize,
    calls: usize,
    sessions: usize,
}

impl ServerBenchOptions {
    fn parse(args: &[&str]) -> Result<Self, BoxError> {
        let mut options = Self { rounds: 9, calls: 8000, sessions: 2000 };
        for option in args.chunks(2) {
            match *option {
                ["--rounds", rounds] => options.rounds = rounds.parse::<usize>()?.max(1),
                ["--calls", calls] => options.calls = calls.parse::<usize>()?.max(MAX_WINDOW),
                ["--sessions", sessions] => options.sessions = sessions.parse::<usize>()?.max(1),
                _ => {
                    let said = option.join(" ");
                    return Err(format!("{said} is not understood; see src/server/mod.rs").into());
                }
            }
        }
        Ok(options)
    }

    /// Measures all servers in one scenario, and prints a row for each.
    fn measure(&self, scenario: Scenario, pinning: &CpuPinning) -> Result<(), BoxError> {
        let calls = self.calls * scenario.calls_factor;
        let mut samples = SERVERS.map(|_| Vec::with_capacity(self.rounds));
        for round in 0..self.rounds {
            pinning.pin_servers()?;
            let mut targets = SERVERS
                .into_iter()
                .map(|server| Target::start(server, scenario))
                .collect::<Result<Vec<_>, BoxError>>()?;
            pinning.pin_client()?;
            for target in &mut targets {
                target.run_burst(calls / 4 + scenario.window, scenario.window)?;
            }
            for turn in 0..targets.len() {
                // Each server goes first in one round after the other.
                let turn = (turn + round) % targets.len();
                samples[turn].push(targets[turn].run_burst(calls, scenario.window)?);
            }
        }
        let [bare, ..] = &samples;
        for (server, of_server) in SERVERS.iter().zip(&samples) {
            print_row(scenario, server.name, of_server, bare);
        }
        Ok(())
    }
}

fn print_row(scenario: Scenario, server: &str, samples: &[LoadSample], bare: &[LoadSample]) {
    let all = |of: fn(&LoadSample) -> f64| median(samples.iter().map(of).collect());
    let ratios = samples.iter().zip(bare).map(|(sample, bare)| sample.cpu_per_call() / bare.cpu_per_call());
    let ratios: Vec<f64> = ratios.collect();
    println!(
        "| {} | {server} | {:.0} | {:.1} | {:.2} | {:.2} | {:.2} |",
        scenario.name,
        all(LoadSample::rate),
        all(LoadSample::cpu_per_call),
        median(ratios.clone()),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max),
    );
}

/// A server with its client.
struct Target {
    server: ServerRole,
    client: Box<dyn BurstClient>,
    process: Process,
    /// Kept open, since a program may exit when its standard input ends.
    _stdin: Option<ChildStdin>,
}

impl Target {
    fn start(server: ServerRole, scenario: Scenario) -> Result<Self, BoxError> {
        let Some(era) = scenario.http else {
            let (process, stdin, stdout) = Process::start(server.stdio()?)?;
            let client = Box::new(StdioClient::open(stdin, stdout)?);
            return Ok(Self { server, client, process, _stdin: None });
        };
        let (process, url, stdin) = Process::start_listening(server.http(era)?)?;
        let client = match era {
            Era::Handshake => StreamableHttpClient::open(&url)?,
            Era::Stateless => StreamableHttpClient::stateless(&url)?,
        };
        Ok(Self { server, client: Box::new(client), process, _stdin: Some(stdin) })
    }

    fn run_burst(&mut self, calls: usize, window: usize) -> Result<LoadSample, BoxError> {
        LoadSample::measure(&mut *self.client, &self.process, calls, window)
            .map_err(|error| format!("{}: {error}", self.server.name).into())
    }
}

#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    /// The era of the calls over HTTP; `None` over stdio.
    http: Option<Era>,
    /// Calls in flight; over HTTP each on a connection of its own.
    window: usize,
    /// Makes more calls where a call takes less time, so that a burst takes long enough.
    calls_factor: usize,
}

/// A role of this program as a server.
#[derive(Clone, Copy)]
struct ServerRole {
    name: &'static str,
    stdio: &'static [&'static str],
    http: fn(Era) -> Vec<&'static str>,
}

impl ServerRole {
    fn stdio(self) -> Result<Command, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(self.stdio);
        Ok(command)
    }

    fn http(self, era: Era) -> Result<Command, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args((self.http)(era));
        Ok(command)
    }
}

const BARE: ServerRole =
    ServerRole { name: "bare", stdio: &["serve", "stdio", "0"], http: |_| vec!["serve", "http", "0"] };
const OURS: ServerRole = ServerRole {
    name: "tsugite",
    stdio: &["serve", "library"],
    // One endpoint serves both eras.
    http: |_| vec!["serve", "library-http"],
};
const RMCP: ServerRole = ServerRole {
    name: "rmcp",
    stdio: &["serve", "rmcp"],
    http: |era| vec!["serve", "rmcp-http", era.revision()],
};
const SERVERS: [ServerRole; 3] = [BARE, OURS, RMCP];

const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "HTTP `echo`, stateless, 16 connections",
        http: Some(Era::Stateless),
        window: 16,
        calls_factor: 1,
    },
    Scenario {
        name: "HTTP `echo`, session, 16 connections",
        http: Some(Era::Handshake),
        window: 16,
        calls_factor: 1,
    },
    Scenario { name: "stdio `echo`, 64 requests in flight", http: None, window: MAX_WINDOW, calls_factor: 8 },
    Scenario { name: "stdio `echo`, 1 request in flight", http: None, window: 1, calls_factor: 1 },
];
const MAX_WINDOW: usize = 64;
