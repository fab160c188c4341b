//! A bridge to a protected server acts for one person.

use std::process::Stdio;

use serde_json::{Value, json};

use super::protected::Protected;
use super::run_login;
use crate::support::{Place, Running};

/// Calls the tool through a bridge, with its token if there is one.
fn call(place: &Place, url: &str, token_file: Option<&str>) -> i32 {
    let mut command = place.command(["call", url, "greet"]);
    if let Some(file) = token_file {
        command.args(["--bearer-env", "TOKEN"]);
        command.env("TOKEN", std::fs::read_to_string(file).unwrap().trim());
    }
    Running::start(command).end().code
}

/// The file after `clients need the token in`.
fn token_file(note: &str) -> String {
    note.split("clients need the token in ").nth(1).unwrap().trim().to_owned()
}

#[test]
fn bridge_on_pipes_tells_how_to_log_in() {
    let (place, server) = (Place::new(), Protected::start());
    let mut command = place.command(["bridge", &server.url]);
    command.stdin(Stdio::piped());
    let mut bridge = Running::start(command);
    let mut ask = |method: &str, params: Value| {
        bridge.send_line(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
        bridge.line()
    };
    let info = json!({"name": "host", "version": "1"});
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let refused = ask("initialize", initialize.clone());
    assert!(refused.contains(&format!("run `tsugite login {}`", server.url)), "{refused}");
    // The same bridge uses the login of another process.
    run_login(&place, &[&server.url]).fine();
    let accepted = ask("initialize", initialize);
    assert!(accepted.contains("\"protected\""), "{accepted}");
}

#[test]
fn logged_in_bridge_requires_a_token_of_its_own() {
    let (place, server) = (Place::new(), Protected::start());
    run_login(&place, &[&server.url]).fine();
    for verb in ["bridge", "serve"] {
        let open = place.run([verb, &server.url, "--listen", "127.0.0.1:0", "--no-auth"]).failed(1);
        assert!(open.contains("--no-auth would let every client act as you"), "{open}");
    }
    let bridge = Running::start(place.command(["bridge", &server.url, "--listen", "127.0.0.1:0"]));
    let url = bridge.line().trim().to_owned();
    let file = token_file(&bridge.wait_for_stderr("clients need the token in "));
    assert_eq!(call(&place, &url, None), 5);
    assert_eq!(call(&place, &url, Some(&file)), 0);
}

#[test]
fn open_bridge_never_uses_a_later_login() {
    let (place, server) = (Place::new(), Protected::start());
    let bridge = Running::start(place.command(["bridge", &server.url, "--listen", "127.0.0.1:0"]));
    let url = bridge.line().trim().to_owned();
    let refused = place.run(["call", &url, "greet"]);
    assert_ne!(refused.code, 0);
    assert!(!refused.err.contains(&server.url), "{refused:?}");
    bridge.wait_for_stderr(&format!("run `tsugite login {}`", server.url));
    run_login(&place, &[&server.url]).fine();
    assert_ne!(call(&place, &url, None), 0);
}
