//! `tsugite dev`: starts a server again when its files change, and keeps its clients.

use std::fs;
use std::process::Stdio;

use crate::support::{LONG, Place, Running, TSUGITE};

/// A server with one tool, whose name is in a file.
const SERVER: &str = r#"
echo $$ >> .starts
. ./config.sh
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"initialize"'*) reply '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bench","version":"1"}}';;
  *'"tools/list"'*) reply '{"tools":[{"name":"'$TOOL'","inputSchema":{"type":"object"}}]}';;
  *'"tools/call"'*) reply '{"content":[{"type":"text","text":"called '$TOOL'"}]}';;
  esac
done
"#;

/// A folder with the server and its configuration.
pub(crate) fn place(config: &str) -> Place {
    let place = Place::new();
    place.file("server.sh", SERVER).file("config.sh", config);
    place
}

/// Starts `tsugite dev` on the server, with a piped standard input.
fn dev(place: &Place, options: &[&str]) -> Running {
    let words = [&["dev", "--rev", "2025-11-25"], options, &["--", "sh", "server.sh"]].concat();
    let mut command = place.command(words);
    command.stdin(Stdio::piped());
    Running::start(command)
}

/// The process ids of all starts so far.
fn starts(place: &Place) -> Vec<String> {
    let text = fs::read_to_string(place.path.join(".starts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn assert_none_left(place: &Place) {
    let started = std::time::Instant::now();
    while starts(place).iter().any(|pid| fs::metadata(format!("/proc/{pid}")).is_ok()) {
        assert!(started.elapsed() < LONG, "a child is left");
    }
}

#[test]
fn clients_over_http_stay_connected() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let place = place("TOOL=one");
        let running = dev(&place, &["--listen", "127.0.0.1:0"]);
        let url = running.line().trim().to_owned();
        running.wait_for_stderr("`sh server.sh` runs: bench 1, revision 2025-11-25: 1 tool");
        let mut command = place.command(["shell", &url, "--rev", revision]);
        command.stdin(Stdio::piped());
        let mut session = Running::start(command);
        session.send_line("one");
        assert_eq!(session.line(), "called one\n", "{revision}");
        let listening = Running::start(place.command(["listen", &url, "-n", "1", "--rev", revision]));
        listening.wait_for_stderr("listening");
        place.file("config.sh", "TOOL=other");
        running.wait_for_stderr("config.sh changed; starting `sh server.sh` again");
        running.wait_for_stderr("runs: bench 1");
        // They are told that the list changed, and still connected.
        assert_eq!(listening.end().fine(), "tools\n", "{revision}");
        session.send_line("call other");
        assert_eq!(session.line(), "called other\n", "{revision}");
        assert_eq!(session.end().code, 0, "{revision}");
        running.signal("-INT");
        assert_eq!(running.end().code, 0, "{revision}");
        assert_none_left(&place);
    }
}

#[test]
fn server_that_fails_waits_for_the_next_change() {
    let place = place("TOOL=one");
    let running = dev(&place, &["--listen", "127.0.0.1:0", "--watch", "config.sh"]);
    let url = running.line().trim().to_owned();
    running.wait_for_stderr("runs: bench 1");
    assert_eq!(place.run(["call", &url, "one"]).fine(), "called one\n");
    place.file("config.sh", "echo out of wood >&2; exit 3");
    running.wait_for_stderr("out of wood");
    running.wait_for_stderr("error: `sh server.sh` does not start: the server ended with code 3");
    running.wait_for_stderr("waiting for a change of its files");
    let before = starts(&place);
    for _ in 0..3 {
        let err = place.run(["call", &url, "one"]).failed(3);
        assert!(err.contains("cannot be reached: it does not start"), "{err}");
    }
    assert_eq!(starts(&place), before);
    place.file("config.sh", "TOOL=three");
    running.wait_for_stderr("runs: bench 1");
    assert_eq!(place.run(["call", &url, "three"]).fine(), "called three\n");
    running.signal("-TERM");
    assert_eq!(running.end().code, 0);
    assert_none_left(&place);
}

#[test]
fn server_that_fails_is_started_once_per_change() {
    // Also if the revision must be probed, and if it has no handshake.
    for revision in ["auto", "2025-11-25", "2026-07-28"] {
        let place = place("");
        let script = format!(". ./config.sh; exec {TSUGITE} serve --stdio");
        let mut command = place.command(["dev", "--rev", revision, "--", "sh", "-c", &script]);
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        running.send_line("add a=1 b=2");
        assert_eq!(running.line(), "3\n", "{revision}");
        place.file("config.sh", "echo $$ >> .failures; exit 3");
        running.wait_for_stderr("waiting for a change of its files");
        let failures = fs::read_to_string(place.path.join(".failures")).unwrap();
        assert_eq!(failures.lines().count(), 1, "{revision}");
        assert_eq!(running.end().code, 0, "{revision}");
    }
}

#[test]
fn shell_stays_open_while_the_server_restarts() {
    let place = place("echo broken >&2; exit 1");
    let mut running = dev(&place, &[]);
    running.wait_for_stderr("broken");
    running.wait_for_stderr("waiting for a change of its files");
    place.file("config.sh", "TOOL=one");
    running.wait_for_stderr("runs: bench 1");
    running.send_line("one");
    assert_eq!(running.line(), "called one\n");
    running.send_line("info --json");
    assert!(running.line().starts_with("{\"revision\":\"2025-11-25\","));
    place.file("config.sh", "TOOL=two");
    running.wait_for_stderr("note: tools: + two, - one");
    running.send_line("two --json");
    assert!(running.line().contains("\"text\":\"called two\""));
    assert_eq!(running.end().code, 0);
    assert_none_left(&place);
}

#[test]
fn interrupt_ends_a_server_that_is_starting() {
    for signal in ["-INT", "-TERM"] {
        let place = place("echo waiting >&2; exec sleep 600");
        let running = dev(&place, &[]);
        running.wait_for_stderr("waiting");
        running.signal(signal);
        assert_eq!(running.end().code, 130, "{signal}");
        assert_none_left(&place);
    }
}
