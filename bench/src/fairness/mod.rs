//! Measures how much one caller of an HTTP server slows another.
//!
//! ```console
//! cargo run --release --manifest-path bench/Cargo.toml -- fairness [options]
//!   --rounds N  measurements, each of an idle and of a busy server; 9
//!   --calls N   calls of the second caller in each; 2000
//! ```
//!
//! The server is made with the library and has its default settings. The first caller, at 127.0.0.1, holds calls that
//! never end until the server refuses one, and calls `echo` on 16 connections (`heavy_caller`). The second, at 127.0.0.2,
//! calls `echo` one at a time: while the server is idle, and beside the first caller. The ratio of both p99 is taken in
//! each round, and the median of the rounds is compared with the goal. The program fails if the goal is missed.
//!
//! Both callers are tasks of one thread. As two processes on one processor they would wait for the scheduler of the
//! system to switch between them, for milliseconds, which says nothing about the server. The server has the other
//! processor (`load::cpu_pinning`).

mod heavy_caller;

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::load::cpu_pinning::CpuPinning;
use crate::load::http_clients::{
    ServerAddress, SocketConnection, call_body, check_response, stateless_headers,
};
use crate::load::percentile;
use crate::load::process::Process;
use crate::table::median;
use crate::{BoxError, Era};
use heavy_caller::HeavyCaller;

pub(crate) fn run(args: &[&str]) -> Result<(), BoxError> {
    let (rounds, calls) = parse(args)?;
    let pinning = CpuPinning::detect()?;
    pinning.pin_servers()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", "library-http"]);
    let (_server, url, _stdin) = Process::start_listening(command)?;
    pinning.pin_client()?;
    // Each call that is held needs a descriptor.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ratio = runtime.block_on(measure(&url, rounds, calls))?;
    println!(
        "\np99 beside the first caller, to that of an idle server: {ratio:.2} × (goal: at most {GOAL} ×)"
    );
    match ratio <= GOAL {
        true => Ok(()),
        false => Err(format!("the goal is missed: {ratio:.2} × is more than {GOAL} ×").into()),
    }
}

fn parse(args: &[&str]) -> Result<(usize, usize), BoxError> {
    let (mut rounds, mut calls) = (9, 2000);
    for option in args.chunks(2) {
        match *option {
            ["--rounds", number] => rounds = number.parse::<usize>()?.max(1),
            ["--calls", number] => calls = number.parse::<usize>()?.max(1),
            _ => {
                return Err(format!("{} is not understood; see src/fairness/mod.rs", option.join(" ")).into());
            }
        }
    }
    Ok((rounds, calls))
}

/// Prints a table of the rounds, and returns the median ratio.
async fn measure(url: &str, rounds: usize, calls: usize) -> Result<f64, BoxError> {
    let first = ServerAddress::parse(url)?;
    let second = ServerAddress::parse(url)?.with_source(SECOND_CALLER);
    let mut connection = SocketConnection::open(&second).await?;
    call_in_turn(&mut connection, &second, calls).await?;
    println!("| round | idle: p50 µs | p99 µs | busy: p50 µs | p99 µs | p99 × idle | held | other calls/s |");
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let mut ratios = Vec::with_capacity(rounds);
    for round in 1..=rounds {
        let idle = call_in_turn(&mut connection, &second, calls).await?;
        let caller = HeavyCaller::start(&first).await?;
        let busy = call_in_turn(&mut connection, &second, calls).await?;
        let (held, rate) = caller.end().await?;
        let [idle, busy] = [idle, busy].map(|times| [percentile(&times, 50), percentile(&times, 99)]);
        let ratio = busy[1] / idle[1];
        println!(
            "| {round} | {:.0} | {:.0} | {:.0} | {:.0} | {ratio:.2} | {held} | {rate:.0} |",
            idle[0], idle[1], busy[0], busy[1],
        );
        ratios.push(ratio);
    }
    Ok(median(ratios))
}

/// Calls `echo` one at a time, and returns how long each call took, the shortest first.
async fn call_in_turn(
    connection: &mut SocketConnection,
    at: &ServerAddress,
    calls: usize,
) -> Result<Vec<Duration>, BoxError> {
    let headers = stateless_headers("echo");
    let mut times = Vec::with_capacity(calls);
    for number in 0..calls {
        let body = call_body(number, Era::Stateless)?;
        let start = Instant::now();
        let response = connection.post(&at.path, &headers, &body).await?;
        times.push(start.elapsed());
        check_response(response.message()?, number)?;
    }
    times.sort();
    Ok(times)
}

const SECOND_CALLER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The largest ratio of the two p99 that is accepted.
const GOAL: f64 = 5.0;
