//! Disturbs replicas of a server while clients use them, and checks what the clients saw: `chaos --seconds N --seed S`.
//!
//! Three replicas run behind nginx (plain round robin) with one Redis server. A schedule that follows from the seed kills,
//! stops and restarts replicas and Redis, and disturbs the connections between them. Clients of both eras and of HTTP+SSE
//! call tools meanwhile. `cargo xtask chaos` starts it.

mod after_run;
mod call_stream;
mod deployment;
mod fault_log;
mod get_stream;
mod history;
mod http_sse_client;
mod random;
mod redis_proxy;
mod replica_log;
mod run;
mod schedule;
mod server;
mod session_client;
mod stateless_client;
mod stream_position;

use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use tokio::sync::watch;
use tokio::task::JoinSet;

use after_run::Held;
use deployment::Deployment;
use fault_log::FaultLog;
use history::{History, Trace};
use http_sse_client::HttpSseClient;
use run::{CALL_TIMEOUT, Run};
use schedule::Planned;
use session_client::SessionClient;
use stateless_client::StatelessClient;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["replica", listen, redis, marks] => server::serve(listen, redis, Path::new(marks)).await,
        ["--seconds", seconds, "--seed", seed] => match (seconds.parse(), seed.parse()) {
            (Ok(seconds), Ok(seed)) => drive(Duration::from_secs(seconds), seed).await,
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: chaos --seconds N --seed S");
    ExitCode::from(2)
}

async fn drive(length: Duration, seed: u64) -> ExitCode {
    let folder = env::temp_dir().join(format!("tsugite-chaos-{}", process::id()));
    println!("seed {seed}, {} s, {CLIENTS} clients, {REPLICAS} replicas", length.as_secs());
    let failures = match try_drive(length, seed, &folder).await {
        Ok(failures) => failures,
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    };
    if failures > 0 {
        let seconds = length.as_secs();
        eprintln!("{failures} failures; repeat the schedule with --seconds {seconds} --seed {seed}");
        eprintln!("the output of the replicas is in {}", folder.display());
        return ExitCode::FAILURE;
    }
    let _ = fs::remove_dir_all(folder);
    ExitCode::SUCCESS
}

async fn try_drive(length: Duration, seed: u64, folder: &PathBuf) -> Result<usize, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let planned = schedule::plan(seed, length, REPLICAS);
    for (number, planned) in planned.iter().enumerate() {
        println!("  {:>3}. {planned}", number + 1);
    }
    let faults = FaultLog::new(Instant::now());
    let history = History::new(faults.clone());
    let deployment = Arc::new(Deployment::start(REPLICAS, folder, faults.clone()).await?);
    let before = Held::measure(&deployment).await?;
    let (over, is_over) = watch::channel(false);
    let run = Run { address: deployment.address(), seed, faults, history: history.clone(), is_over };
    tokio::spawn(run.faults.clone().watch_stalls());
    let clients = start_clients(&run);
    let start = tokio::time::Instant::now();
    cause_faults(&planned, &deployment, &history).await;
    tokio::time::sleep_until(start + length).await;
    let _ = over.send(true);
    wait_for_clients(clients, &history).await;
    after_run::check_runs(&history, folder)?;
    after_run::check_redis(&history, &deployment).await?;
    after_run::check_held(&history, &deployment, &before).await?;
    check_output(&history, folder)?;
    println!("{} faults; calls by outcome:\n{}", planned.len(), history.summary());
    Ok(history.failure_count())
}

/// Every fourth client has no session, every eighth uses HTTP+SSE.
fn start_clients(run: &Run) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        match number % 8 {
            3 | 7 => clients.spawn(StatelessClient::new(number, run.clone()).work()),
            5 => clients.spawn(HttpSseClient::new(number, run.clone()).work()),
            _ => clients.spawn(SessionClient::new(number, run.clone()).work()),
        };
    }
    clients
}

/// Causes each fault at its time, and waits until all are mended.
async fn cause_faults(planned: &[Planned], deployment: &Arc<Deployment>, history: &History) {
    let start = tokio::time::Instant::now();
    let mut running = JoinSet::new();
    for (number, Planned { at, fault }) in planned.iter().enumerate() {
        tokio::time::sleep_until(start + *at).await;
        history.set_position(number + 1);
        let (fault, deployment) = (fault.clone(), deployment.clone());
        running.spawn(async move { deployment.apply(&fault).await });
    }
    while let Some(ended) = running.join_next().await {
        let failure = match ended {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => failure,
            Err(error) => error.to_string(),
        };
        history.fail(usize::MAX, &failure, &Trace::default());
    }
}

/// Each client ends the call that it makes.
async fn wait_for_clients(mut clients: JoinSet<()>, history: &History) {
    let waiting = async {
        while let Some(ended) = clients.join_next().await {
            if let Err(error) = ended {
                history.fail(usize::MAX, &format!("a client failed: {error}"), &Trace::default());
            }
        }
    };
    if tokio::time::timeout(CALL_TIMEOUT * 3, waiting).await.is_err() {
        history.fail(usize::MAX, "clients do not end", &Trace::default());
    }
}

/// No replica panicked.
fn check_output(history: &History, folder: &Path) -> Result<(), String> {
    for number in 0..REPLICAS {
        let file = folder.join(format!("replica-{number}.txt"));
        let output = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        if let Some(line) = output.lines().find(|line| line.contains("panicked")) {
            history.fail(usize::MAX, &format!("replica {number}: {line}"), &Trace::default());
        }
    }
    Ok(())
}

const CLIENTS: usize = 200;

const REPLICAS: usize = 3;
