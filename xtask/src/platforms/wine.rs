//! Tests that run as Windows programs under wine.

use super::toolchain::Toolchain;
use crate::count::Count;
use crate::process;

pub(super) const TARGET: &str = "x86_64-pc-windows-gnu";

/// The test programs, as arguments of `cargo test`.
const RUNS: [&[&str]; 4] = [
    &["--package", "tsugite-core", "--lib", "--test", "jsonrpc", "--test", "wire"],
    &["--package", "tsugite", "--lib"],
    &["--package", "tsugite-testkit", "--test", "server", "--test", "stdio", "--test", "client"],
    &["--package", "tsugite-cli", "--bins", "--test", "cli"],
];

/// Tests that are compiled for Windows and skipped under wine, by a part of their name, and why.
const SKIPPED: [(&str, &str); 0] = [];

/// Tests that are not compiled for Windows, and why.
const UNIX_ONLY: [(&str, &str); 9] = [
    ("tsugite: transport::child::unix, server::files::tests", "process groups, links and modes of Unix"),
    (
        "testkit client: faults::{cancellation, child_exit, limits, listeners, pipes, process_tree, responses, server_requests, stray_lines}",
        "servers written as shell scripts",
    ),
    (
        "testkit bridge: faults::{cancellation, isolation, request_state, subscriptions}",
        "servers written as shell scripts",
    ),
    ("testkit stdio: unix", "signals and sockets in place of pipes"),
    ("testkit http: unix_sockets", "Unix sockets"),
    ("testkit auth: logins, refresh, stores", "modes of files, a browser written as a shell script"),
    (
        "cli: access, bridging, config, dev, installing, killed, logins, many, secrets, shell, snapshots, state, terminal, trust",
        "shell scripts, modes of files, tmux",
    ),
    ("store: file::{kill, opening}; redis; notes: programs", "modes and signals of Unix, a Redis server"),
    (
        "testkit: http, bridge, auth, examples, replicas",
        "compiled, and not run under wine: too slow, or servers of other systems",
    ),
];

/// Runs the tests, and prints which are left out.
pub(super) fn run(toolchain: &Toolchain, count: &mut Count) -> Result<(), String> {
    for (name, reason) in UNIX_ONLY.iter().chain(&SKIPPED) {
        println!("   left out: {name}: {reason}");
    }
    let mut failed = 0;
    for tests in RUNS {
        let args = ["test", "--locked", "--no-fail-fast", "--target", TARGET].iter().chain(tests).copied();
        let skipped = SKIPPED.iter().flat_map(|(name, _)| ["--skip", name]);
        // Few threads: wine has one server for all of them.
        let harness = ["--", "--test-threads", "2"].into_iter().chain(skipped);
        let command = toolchain.prepare(process::cargo(args.chain(harness)));
        let (success, said) = process::run_and_capture(command)?;
        let found = Count::from_libtest(&said);
        *count += found;
        failed += found.failed;
        if !success && found.failed == 0 {
            return Err(format!(
                "`cargo test {}` did not build or run under wine; see above",
                tests.join(" ")
            ));
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} tests failed under wine")),
    }
}
