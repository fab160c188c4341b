//! Compares the stores of a server: memory, one file, and Redis, under the same client and in the same run.
//!
//! ```console
//! cargo run --release --manifest-path bench/Cargo.toml -- state [options]
//!   --rounds N    bursts on each server; 9
//!   --calls N     calls of one burst; 4000
//!   --sessions N  stored sessions of the servers with many; 100000
//! ```
//!
//! Each store has two servers, one with 100 stored sessions and one with many, and each server with Redis a `redis-server` of
//! its own on loopback, without persistence or with `appendfsync everysec` (`TSUGITE_REDIS_SERVER` names the program). Each
//! server is a process on one thread, apart from the thread that writes a file. All servers share one processor; the client
//! and Redis share the other. A session call is an `echo` of 2025-11-25 that is answered at once, so it only reads state.
//!
//! Each round has one burst on every server, so that a disturbance affects all of them. A figure is the median of the rounds, a
//! ratio the median of the ratios in each round. CPU time is that of the server's process without Redis. The program fails
//! if a goal is missed.

mod goals;
mod redis_server;

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};

use crate::BoxError;
use crate::load::LoadSample;
use crate::load::cpu_pinning::CpuPinning;
use crate::load::http_clients::StreamableHttpClient;
use crate::load::process::Process;
use goals::Figures;
use redis_server::{Persistence, RedisServer};

pub(crate) fn run(args: &[&str]) -> Result<(), BoxError> {
    let options = StateBenchOptions::parse(args)?;
    let pinning = CpuPinning::detect()?;
    let folder = Folder::create()?;
    let mut targets = Vec::new();
    for store in Store::ALL {
        for sessions in [FEW, options.sessions] {
            targets.push(Target::start(store, sessions, &folder.0, &pinning)?);
        }
    }
    let mut figures = Figures::default();
    for target in &mut targets {
        target.run_burst(Call::Session, options.calls / 4)?;
        target.run_burst(Call::Stateless, options.calls / 4)?;
    }
    for round in 0..options.rounds {
        for call in Call::ALL {
            for turn in 0..targets.len() {
                // Each server goes first in one round after the other.
                let turn = (turn + round) % targets.len();
                let target = &mut targets[turn];
                figures.add(target.store, target.is_large, call, target.run_burst(call, options.calls)?);
            }
        }
    }
    figures.report(options.sessions)
}

struct StateBenchOptions {
    rounds: usize,
    calls: usize,
    sessions: usize,
}

impl StateBenchOptions {
    fn parse(args: &[&str]) -> Result<Self, BoxError> {
        let mut options = Self { rounds: 9, calls: 4000, sessions: 100_000 };
        for option in args.chunks(2) {
            match *option {
                ["--rounds", rounds] => options.rounds = rounds.parse::<usize>()?.max(1),
                ["--calls", calls] => options.calls = calls.parse::<usize>()?.max(WINDOW * 4),
                ["--sessions", sessions] => options.sessions = sessions.parse::<usize>()?.max(FEW),
                _ => {
                    let said = option.join(" ");
                    return Err(format!("{said} is not understood; see src/state/mod.rs").into());
                }
            }
        }
        Ok(options)
    }
}

/// Where a server keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Memory,
    File,
    Redis(Persistence),
}

impl Store {
    const ALL: [Self; 4] =
        [Self::Memory, Self::File, Self::Redis(Persistence::None), Self::Redis(Persistence::EverySecond)];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Redis(Persistence::None) => "Redis, `appendonly no`",
            Self::Redis(Persistence::EverySecond) => "Redis, `everysec`",
        }
    }
}

/// The call of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Session,
    Stateless,
}

impl Call {
    const ALL: [Self; 2] = [Self::Session, Self::Stateless];
}

/// A server with its clients.
struct Target {
    store: Store,
    /// Whether it has many stored sessions.
    is_large: bool,
    session: StreamableHttpClient,
    stateless: StreamableHttpClient,
    process: Process,
    /// Kept open, since a program may exit when its standard input ends.
    _stdin: ChildStdin,
    _redis: Option<RedisServer>,
}

impl Target {
    fn start(store: Store, sessions: usize, folder: &Path, pinning: &CpuPinning) -> Result<Self, BoxError> {
        pinning.pin_client()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "state"]);
        let mut redis = None;
        match store {
            Store::Memory => command.arg("memory"),
            Store::File => command.arg(folder.join(format!("{sessions}.redb"))),
            Store::Redis(persistence) => {
                let server = RedisServer::start(persistence, folder)?;
                command.arg(server.url());
                redis = Some(server);
                &mut command
            }
        };
        pinning.pin_servers()?;
        let (process, url, stdin) = Process::start_listening(command)?;
        pinning.pin_client()?;
        let failed = |error: BoxError| format!("{}: {error}", store.name());
        let mut session = StreamableHttpClient::open(&url).map_err(failed)?;
        let stateless = StreamableHttpClient::stateless(&url)?;
        session.open_sessions_at_once(sessions - 1, SESSIONS_AT_ONCE).map_err(failed)?;
        let is_large = sessions > FEW;
        eprintln!("{}: {sessions} sessions are open", store.name());
        Ok(Self { store, is_large, session, stateless, process, _stdin: stdin, _redis: redis })
    }

    fn run_burst(&mut self, call: Call, calls: usize) -> Result<LoadSample, BoxError> {
        let client = match call {
            Call::Session => &mut self.session,
            Call::Stateless => &mut self.stateless,
        };
        LoadSample::measure(client, &self.process, calls, WINDOW)
            .map_err(|error| format!("{}: {error}", self.store.name()).into())
    }
}

/// A folder for the files of the stores, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self, BoxError> {
        let folder = std::env::temp_dir().join(format!("tsugite-bench-state-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stored sessions of a server with few.
const FEW: usize = 100;
/// Connections of a burst.
const WINDOW: usize = 16;
/// Sessions that are opened at the same time.
const SESSIONS_AT_ONCE: usize = 128;
