//! `tsugite dev`: starts a server again when its files change, and keeps its clients.

use std::fs;
use std::process::Stdio;

use crate::held::Holds;
use crate::support::{Place, Running, helper};

/// A folder with a server, whose script is in a file.
struct Project {
    place: Place,
    holds: Holds,
}

impl Project {
    /// The server has one tool.
    fn with_tool(tool: &str) -> Self {
        let project = Self { place: Place::new(), holds: Holds::new() };
        project.write_tool(tool);
        project
    }

    /// The server runs this script.
    fn with_script(script: &str) -> Self {
        let project = Self { place: Place::new(), holds: Holds::new() };
        project.write(script);
        project
    }

    fn write_tool(&self, tool: &str) {
        let reply = |request: &str, result: &str| {
            let response = format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{result}}}"#);
            format!("if_line '\"{request}\"' {{ send_line '{response}' }}")
        };
        let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bench","version":"1"}}"#;
        let tools = format!(r#"{{"tools":[{{"name":"{tool}","inputSchema":{{"type":"object"}}}}]}}"#);
        let called = format!(r#"{{"content":[{{"type":"text","text":"called {tool}"}}]}}"#);
        let replies = [reply("initialize", hello), reply("tools/list", &tools), reply("tools/call", &called)];
        self.write(&format!("repeat forever {{ read_line; {} }}", replies.join("; ")));
    }

    /// Changes the server. Each start of it is noted.
    fn write(&self, script: &str) {
        self.place.file("server.txt", &format!("hold {}; append .starts $process; {script}", self.holds));
    }

    /// Starts `tsugite dev` on the server, with a piped standard input.
    fn dev(&self, options: &[&str]) -> Running {
        let words = [&["dev"], options, &["--", helper(), "file", "server.txt"]].concat();
        let mut command = self.place.command(words);
        command.stdin(Stdio::piped());
        Running::start(command)
    }

    /// How often the server was started.
    fn starts(&self) -> usize {
        let text = fs::read_to_string(self.place.path.join(".starts")).unwrap_or_default();
        text.lines().count()
    }

    #[track_caller]
    fn assert_none_left(&self) {
        for _ in 0..self.starts() {
            self.holds.next().ends();
        }
    }
}

/// The server in messages.
fn name() -> String {
    format!("`{} file server.txt`", helper())
}

const OLD: [&str; 2] = ["--rev", "2025-11-25"];

#[test]
fn clients_over_http_stay_connected() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let project = Project::with_tool("one");
        let running = project.dev(&[&OLD[..], &["--listen", "127.0.0.1:0"]].concat());
        let url = running.line().trim().to_owned();
        running.wait_for_stderr(&format!("{} runs: bench 1, revision 2025-11-25: 1 tool", name()));
        let mut command = project.place.command(["shell", &url, "--rev", revision]);
        command.stdin(Stdio::piped());
        let mut session = Running::start(command);
        session.send_line("one");
        assert_eq!(session.line(), "called one\n", "{revision}");
        let words = ["listen", &url, "-n", "1", "--rev", revision];
        let listening = Running::start(project.place.command(words));
        listening.wait_for_stderr("listening");
        project.write_tool("other");
        running.wait_for_stderr(&format!("server.txt changed; starting {} again", name()));
        running.wait_for_stderr("runs: bench 1");
        // They are told that the list changed, and still connected.
        assert_eq!(listening.end().fine(), "tools\n", "{revision}");
        session.send_line("call other");
        assert_eq!(session.line(), "called other\n", "{revision}");
        assert_eq!(session.end().code, 0, "{revision}");
        drop(running);
        project.assert_none_left();
    }
}

#[test]
fn server_that_fails_waits_for_the_next_change() {
    let project = Project::with_tool("one");
    let running = project.dev(&[&OLD[..], &["--listen", "127.0.0.1:0", "--watch", "server.txt"]].concat());
    let url = running.line().trim().to_owned();
    running.wait_for_stderr("runs: bench 1");
    assert_eq!(project.place.run(["call", &url, "one"]).fine(), "called one\n");
    project.write("stderr 'out of wood'; exit 3");
    running.wait_for_stderr("out of wood");
    running.wait_for_stderr(&format!("error: {} does not start: the server ended with code 3", name()));
    running.wait_for_stderr("waiting for a change of its files");
    let before = project.starts();
    for _ in 0..3 {
        let err = project.place.run(["call", &url, "one"]).failed(3);
        assert!(err.contains("cannot be reached: it does not start"), "{err}");
    }
    assert_eq!(project.starts(), before);
    project.write_tool("three");
    running.wait_for_stderr("runs: bench 1");
    assert_eq!(project.place.run(["call", &url, "three"]).fine(), "called three\n");
    drop(running);
    project.assert_none_left();
}

#[test]
fn server_that_fails_is_started_once_per_change() {
    // Also if the revision must be probed, and if it has no handshake.
    for revision in ["auto", "2025-11-25", "2026-07-28"] {
        let project = Project::with_script("serve");
        let mut running = project.dev(&["--rev", revision]);
        running.send_line("add a=1 b=2");
        assert_eq!(running.line(), "3\n", "{revision}");
        project.write("append .failures $process; exit 3");
        running.wait_for_stderr("waiting for a change of its files");
        let failures = fs::read_to_string(project.place.path.join(".failures")).unwrap();
        assert_eq!(failures.lines().count(), 1, "{revision}");
        assert_eq!(running.end().code, 0, "{revision}");
    }
}

#[test]
fn shell_stays_open_while_the_server_restarts() {
    let project = Project::with_script("stderr broken; exit 1");
    let mut running = project.dev(&OLD);
    running.wait_for_stderr("broken");
    running.wait_for_stderr("waiting for a change of its files");
    project.write_tool("one");
    running.wait_for_stderr("runs: bench 1");
    running.send_line("one");
    assert_eq!(running.line(), "called one\n");
    running.send_line("info --json");
    assert!(running.line().starts_with("{\"revision\":\"2025-11-25\","));
    project.write_tool("two");
    running.wait_for_stderr("note: tools: + two, - one");
    running.send_line("two --json");
    assert!(running.line().contains("\"text\":\"called two\""));
    assert_eq!(running.end().code, 0);
    project.assert_none_left();
}

/// Signals.
#[cfg(unix)]
mod unix {
    use super::*;

    #[test]
    fn signal_ends_dev_and_its_server() {
        for signal in ["-INT", "-TERM"] {
            let project = Project::with_tool("one");
            let running = project.dev(&[&OLD[..], &["--listen", "127.0.0.1:0"]].concat());
            let url = running.line().trim().to_owned();
            running.wait_for_stderr("runs: bench 1");
            assert_eq!(project.place.run(["call", &url, "one"]).fine(), "called one\n");
            running.signal(signal);
            assert_eq!(running.ends().code, 0, "{signal}");
            project.assert_none_left();
        }
    }

    #[test]
    fn interrupt_ends_a_server_that_is_starting() {
        for signal in ["-INT", "-TERM"] {
            let project = Project::with_script("stderr waiting; stay");
            let running = project.dev(&OLD);
            running.wait_for_stderr("waiting");
            running.signal(signal);
            assert_eq!(running.end().code, 130, "{signal}");
            project.assert_none_left();
        }
    }
}
