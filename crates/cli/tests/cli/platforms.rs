//! What the binary does on every system: verbs, the shell without a terminal, servers, bridges and child processes.

#[cfg(windows)]
mod windows;

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Place, Running, Served, TSUGITE, tsugite};

#[test]
fn verbs_use_the_built_in_server() {
    assert_eq!(tsugite("call demo add a=1 b=2").fine(), "3\n");
    assert!(tsugite("list demo").fine().contains("add(a: integer, b: integer)"));
    let told = tsugite("call demo no_such_tool");
    assert_ne!(told.code, 0, "{told:?}");
}

#[test]
fn question_of_a_server_is_answered_over_stdio() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let words =
            ["call", "--rev", revision, "--answer", "name=Kiku", "order", "--", TSUGITE, "serve", "--stdio"];
        assert_eq!(Place::new().run(words).fine(), "2 planks of cedar for Kiku\n", "{revision}");
    }
}

#[test]
fn shell_reads_lines_without_a_terminal() {
    let place = Place::new();
    let mut command = place.command(["shell", "--", TSUGITE, "serve", "--stdio"]);
    let mut running = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    running.send_line("call touch");
    running.send_line("touch");
    running.send_line("read demo://counter");
    assert_eq!(running.end().fine(), "1\n2\n2\n");
}

#[test]
fn served_server_is_called_over_http() {
    let served = Served::start();
    assert_eq!(tsugite(&format!("call {} add a=1 b=2", served.url)).fine(), "3\n");
}

#[test]
fn bridge_translates_between_pipes() {
    let place = Place::new();
    let mut command = place.command(["bridge", "--", TSUGITE, "serve", "--stdio"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let client = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    running
        .send_line(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).to_string());
    let welcome: Value = serde_json::from_str(&running.line()).unwrap();
    assert_eq!(welcome["result"]["protocolVersion"], "2025-03-26", "{welcome}");
    running.send_line(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    let call = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    running
        .send_line(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).to_string());
    let answer: Value = serde_json::from_str(&running.line()).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "3", "{answer}");
    running.end().fine();
}

#[test]
fn configuration_is_written_and_read_again() {
    let place = Place::new();
    place.run(["config", "add", "mine", "--", TSUGITE, "serve", "--stdio"]).fine();
    let written = fs::read_to_string(place.path.join("config").join("tsugite").join("mcp.json")).unwrap();
    assert!(written.contains("\"mine\""), "{written}");
    assert_eq!(place.run(["call", "mine", "add", "a=1", "b=2"]).fine(), "3\n");
}

#[test]
fn missing_program_is_an_error_that_names_the_search_path() {
    let ran = tsugite("list -- no-such-program-at-all");
    assert!(ran.code != 0 && ran.err.contains("not found in PATH"), "{ran:?}");
}
