//! Runs the benchmark: starts servers and clients, runs their bursts in turn, and prints tables.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::table::{self, BurstSample, Row};
use crate::{BoxError, Era};

pub(crate) fn run(args: &[&str]) -> Result<(), BoxError> {
    let plan = BenchOptions::parse(args)?;
    let server = ServerProcess::start("0")?;
    table::print_head();
    for scenario in Scenario::all() {
        let way = if scenario.http { &*server.url } else { "0" };
        table::print_rows(&scenario.name(), &plan.measure(scenario, way)?);
    }
    drop(server);
    let slow = ServerProcess::start(DELAY)?;
    table::print_delay_head(DELAY);
    for http in [true, false] {
        for era in Era::ALL {
            let scenario = Scenario { http, era, window: DELAY_WINDOW };
            let way = if http { &*slow.url } else { DELAY };
            for (who, one, many) in plan.measure_delay(scenario, way)? {
                table::print_delay_row(&scenario.name(), &display_name(&who, http), one, many);
            }
        }
    }
    Ok(())
}

struct BenchOptions {
    rounds: usize,
    calls: usize,
    only: Vec<String>,
    instructions: Option<usize>,
}

impl BenchOptions {
    fn parse(args: &[&str]) -> Result<Self, BoxError> {
        let only = CLIENTS.map(str::to_owned).to_vec();
        let mut plan = Self { rounds: 7, calls: 4000, only, instructions: None };
        for option in args.chunks(2) {
            match *option {
                ["--rounds", rounds] => plan.rounds = rounds.parse::<usize>()?.max(1),
                ["--calls", calls] => plan.calls = calls.parse::<usize>()?.max(1),
                ["--only", names] => plan.only = names.split(',').map(str::to_owned).collect(),
                ["--instructions", calls] => plan.instructions = Some(calls.parse::<usize>()?.max(1)),
                _ => return Err(format!("{} is not understood; see src/main.rs", option.join(" ")).into()),
            }
        }
        match plan.only.iter().find(|name| !CLIENTS.contains(&&***name)) {
            Some(name) => Err(format!("there is no client {name}; there are {}", CLIENTS.join(", ")).into()),
            None => Ok(plan),
        }
    }

    fn clients(&self, scenario: Scenario, way: &str) -> Result<Vec<ClientProcess>, BoxError> {
        let wanted = self.only.iter().filter(|who| scenario.http || *who != POOLED);
        wanted.map(|who| ClientProcess::start(who, scenario, way, Command::new(current_exe()?))).collect()
    }

    fn measure(&self, scenario: Scenario, way: &str) -> Result<Vec<Row>, BoxError> {
        let mut clients = self.clients(scenario, way)?;
        let mut visits = vec![Vec::new(); clients.len()];
        for client in &mut clients {
            client.run_burst(self.calls / 4 + scenario.window)?;
        }
        for round in 0..self.rounds {
            for turn in 0..clients.len() {
                // Each client goes first in one round after the other.
                let turn = (turn + round) % clients.len();
                visits[turn].push(clients[turn].run_burst(self.calls)?);
            }
        }
        let names: Vec<String> = clients.iter().map(|client| client.name.clone()).collect();
        // Clients under callgrind need the machine for themselves.
        drop(clients);
        let bare = names.iter().position(|who| who == BARE);
        let mut rows = Vec::new();
        for (who, of_client) in names.iter().zip(&visits) {
            let instructions = match self.instructions {
                Some(calls) => Some(instructions_per_call(who, scenario, way, calls)?),
                None => None,
            };
            let of_bare = bare.map(|place| &*visits[place]);
            rows.push(Row::new(display_name(who, scenario.http), of_client, of_bare, instructions));
        }
        Ok(rows)
    }

    /// Measures how long one call takes, and a full window of calls, in milliseconds.
    fn measure_delay(&self, scenario: Scenario, way: &str) -> Result<Vec<(String, f64, f64)>, BoxError> {
        let mut measured = Vec::new();
        for mut client in self.clients(scenario, way)? {
            let mut times = [Vec::new(), Vec::new()];
            client.run_burst(scenario.window)?;
            for _ in 0..self.rounds {
                for (times, calls) in times.iter_mut().zip([1, scenario.window]) {
                    times.push(client.run_burst(calls)?.nanoseconds / 1e6);
                }
            }
            let [one, many] = times.map(table::median);
            measured.push((client.name.clone(), one, many));
        }
        Ok(measured)
    }
}

/// Instructions of one call, in user space, without those of starting and connecting.
fn instructions_per_call(who: &str, scenario: Scenario, way: &str, calls: usize) -> Result<f64, BoxError> {
    let mut counts = Vec::new();
    for times in [1, 3] {
        let log = log_file(who);
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--tool=callgrind").arg("--callgrind-out-file=/dev/null");
        valgrind.arg(format!("--log-file={log}")).arg(current_exe()?);
        // callgrind counts a large copy by the byte, though it is one instruction to the machine; copy in pieces.
        valgrind.env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=100000000");
        let mut client = ClientProcess::start(who, scenario, way, valgrind)?;
        client.run_burst(calls * times)?;
        client.end()?;
        let said = std::fs::read_to_string(&log)?;
        std::fs::remove_file(&log)?;
        let count =
            said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<f64>().ok());
        counts.push(count.ok_or("callgrind has counted nothing")?);
    }
    Ok((counts[1] - counts[0]) / (calls * 2) as f64)
}

fn log_file(who: &str) -> String {
    let name = format!("tsugite-bench-{}-{who}.log", std::process::id());
    std::env::temp_dir().join(name).to_string_lossy().into_owned()
}

#[derive(Clone, Copy)]
struct Scenario {
    http: bool,
    era: Era,
    window: usize,
}

impl Scenario {
    fn all() -> impl Iterator<Item = Self> {
        let windows = [(true, 1), (true, 16), (true, 64), (false, 1), (false, 64)];
        windows.into_iter().flat_map(|(http, window)| Era::ALL.map(|era| Self { http, era, window }))
    }

    fn name(self) -> String {
        let way = if self.http { "HTTP" } else { "stdio" };
        format!("{way} {}, {} at a time", self.era.revision(), self.window)
    }
}

/// The name of a client in tables; the bare client differs by transport.
fn display_name(who: &str, http: bool) -> String {
    match who {
        BARE if !http => "bare pipes".to_owned(),
        BARE => "bare hyper".to_owned(),
        _ => who.to_owned(),
    }
}

/// The process of a client, killed on drop.
struct ClientProcess {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl ClientProcess {
    fn start(who: &str, scenario: Scenario, way: &str, mut command: Command) -> Result<Self, BoxError> {
        command.args(["client", who, scenario.era.revision(), way, &scenario.window.to_string()]);
        let (child, stdin, stdout) = spawn_with_pipes(command)?;
        let mut client = Self { name: who.to_owned(), child, stdin: Some(stdin), stdout };
        match &*client.read_line()? {
            "ready" => Ok(client),
            other => Err(format!("{who} does not start: {other:?}").into()),
        }
    }

    fn run_burst(&mut self, calls: usize) -> Result<BurstSample, BoxError> {
        if let Some(stdin) = &mut self.stdin {
            writeln!(stdin, "{calls}")?;
        }
        let line = self.read_line()?;
        let mut said = line.split(' ').map(str::parse::<f64>);
        let mut next = || Ok::<_, BoxError>(said.next().ok_or("a client said too little")??);
        Ok(BurstSample { calls: calls as f64, nanoseconds: next()?, cpu: next()?, allocations: next()? })
    }

    fn read_line(&mut self) -> Result<String, BoxError> {
        read_line(&mut self.stdout).map_err(|error| format!("{}: {error}", self.name).into())
    }

    /// Waits until it exits.
    fn end(mut self) -> Result<(), BoxError> {
        self.stdin = None;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process of the server, killed on drop.
struct ServerProcess {
    child: Child,
    url: String,
}

impl ServerProcess {
    fn start(delay: &str) -> Result<Self, BoxError> {
        let mut command = Command::new(current_exe()?);
        command.args(["serve", "http", delay]);
        let (child, _, mut stdout) = spawn_with_pipes(command)?;
        let mut server = Self { child, url: String::new() };
        server.url = read_line(&mut stdout)?;
        Ok(server)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn_with_pipes(mut command: Command) -> Result<(Child, ChildStdin, BufReader<ChildStdout>), BoxError> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take().ok_or("no pipe to a process")?;
    let stdout = child.stdout.take().ok_or("no pipe from a process")?;
    Ok((child, stdin, BufReader::new(stdout)))
}

fn read_line(from: &mut BufReader<ChildStdout>) -> Result<String, BoxError> {
    let mut line = String::new();
    match from.read_line(&mut line)? {
        0 => Err("it ended".into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn current_exe() -> Result<std::path::PathBuf, BoxError> {
    Ok(std::env::current_exe()?)
}

const BARE: &str = "hyper";
/// A pool changes nothing over stdio.
const POOLED: &str = "rmcp-pooled";
const CLIENTS: [&str; 4] = ["ours", "rmcp", POOLED, BARE];
/// The delay of the slow server, in milliseconds.
const DELAY: &str = "20";
/// Concurrent calls to the slow server.
const DELAY_WINDOW: usize = 64;
