//! Servers do not survive the binary that started them, even if it is killed. macOS has no way to do that.

use std::process::Stdio;

use crate::held::Holds;
use crate::support::{Place, Running, TSUGITE, helper};

/// A server that ignores the end of its input and signals. It shares the standard error of the binary.
fn stubborn_server(holds: &Holds) -> [String; 5] {
    let script = format!(
        "ignore_signals; hold {holds}; call '{TSUGITE}' serve --stdio --rev 2025-11-25; stderr survives; stay"
    );
    ["-v".into(), "--".into(), helper().into(), "script".into(), script]
}

/// Kills the binary, and waits until the server has ended and closed the standard error that they share.
fn kill_and_wait(holds: &Holds, running: Running) {
    let held = holds.next();
    running.kill();
    held.ends();
}

fn serving_ends_with(verb: &str, tool: &str) {
    let (place, holds) = (Place::new(), Holds::new());
    let words = [verb, "--listen", "127.0.0.1:0"].map(str::to_owned);
    let running = Running::start(place.command(words.into_iter().chain(stubborn_server(&holds))));
    let url = running.line().trim().to_owned();
    assert_eq!(place.run(["call", &url, tool, "a=1", "b=2"]).fine(), "3\n");
    kill_and_wait(&holds, running);
}

#[test]
fn server_behind_a_killed_bridge_ends() {
    // L-08
    serving_ends_with("bridge", "add");
}

#[test]
fn server_behind_a_killed_serve_ends() {
    serving_ends_with("serve", "helper_add");
}

#[test]
fn server_of_a_killed_shell_ends() {
    let (place, holds) = (Place::new(), Holds::new());
    let mut command = place.command(["shell".to_owned()].into_iter().chain(stubborn_server(&holds)));
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    running.send_line("add a=1 b=2");
    assert_eq!(running.line(), "3\n");
    kill_and_wait(&holds, running);
}
