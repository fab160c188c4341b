//! Servers do not survive the binary that started them, even if it is killed.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{Place, Running, TSUGITE};

/// A server that ignores the end of its input and SIGTERM. It shares the standard error of the binary.
fn stubborn_server(place: &Place) -> [String; 6] {
    let script = format!(
        "trap '' TERM INT HUP; echo $$ >> \"$0\"; {TSUGITE} serve --stdio --rev 2025-11-25; while :; do sleep 1; done"
    );
    let pid = place.path.join("pid").display().to_string();
    ["-v".into(), "--".into(), "sh".into(), "-c".into(), script, pid]
}

/// Kills every server that was started if the test fails.
struct KillOnDrop<'a>(&'a Place);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for pid in fs::read_to_string(self.0.path.join("pid")).unwrap_or_default().lines() {
            let group = format!("-{pid}");
            let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        }
    }
}

/// Kills the binary, and waits until the server has closed the standard error that they share.
fn kill_and_wait(place: &Place, running: Running) {
    place.holds("pid", "\n");
    let _cleanup = KillOnDrop(place);
    running.signal("-KILL");
    assert_eq!(running.ends().code, -1);
}

fn serving_ends_with(verb: &str, tool: &str) {
    let place = Place::new();
    let words = [verb, "--listen", "127.0.0.1:0"].map(str::to_owned);
    let running = Running::start(place.command(words.into_iter().chain(stubborn_server(&place))));
    let url = running.line().trim().to_owned();
    assert_eq!(place.run(["call", &url, tool, "a=1", "b=2"]).fine(), "3\n");
    kill_and_wait(&place, running);
}

#[test]
fn server_behind_a_killed_bridge_ends() {
    // L-08
    serving_ends_with("bridge", "add");
}

#[test]
fn server_behind_a_killed_serve_ends() {
    serving_ends_with("serve", "sh_add");
}

#[test]
fn server_of_a_killed_shell_ends() {
    let place = Place::new();
    let mut command = place.command(["shell".to_owned()].into_iter().chain(stubborn_server(&place)));
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    running.send_line("add a=1 b=2");
    assert_eq!(running.line(), "3\n");
    kill_and_wait(&place, running);
}
