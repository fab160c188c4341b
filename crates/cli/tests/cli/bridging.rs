//! `tsugite bridge` as a process. The features that a bridge forwards are tested in `tests/bridge`.

use crate::held::Holds;
use crate::serving::post;
use crate::support::{Place, Running, TSUGITE, helper};

#[test]
fn bridge_converts_between_stdio_and_http() {
    let place = Place::new();
    let words = ["bridge", "--listen", "127.0.0.1:0", "--", TSUGITE, "serve", "--stdio"];
    let running = Running::start(place.command(words));
    let url = running.line().trim().to_owned();
    running.wait_for_stderr("a bridge to");
    let over_two = ["call", "add", "a=1", "b=2", "--", TSUGITE, "bridge", &url];
    assert_eq!(place.run(over_two).fine(), "3\n");
}

#[test]
fn unreachable_server_is_reported_to_client_and_log() {
    let place = Place::new();
    let ran = place.run(["info", "--rev", "2025-11-25", "--", TSUGITE, "bridge", "http://127.0.0.1:1/mcp"]);
    let err = ran.failed(3);
    assert!(err.contains("cannot be reached: nothing answers at its address"), "{err}");
    let ran = place.run(["info", "-v", "--", TSUGITE, "bridge", "--", "/no/such/program"]);
    let err = ran.failed(3);
    assert!(err.contains("it could not be started") && err.contains("/no/such/program"), "{err}");
}

#[test]
fn bridge_ends_with_its_input_and_leaves_no_child() {
    let (place, holds) = (Place::new(), Holds::new());
    place.file("in", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"n\",\"version\":\"1\"}}}\n");
    let script = format!("hold {holds}; call '{TSUGITE}' serve --stdio");
    let mut command = place.command(["bridge", "--", helper(), "script", &script]);
    command.stdin(std::fs::File::open(place.path.join("in")).unwrap());
    let output = Running::start(command).end().fine();
    assert!(
        output.contains("\"tsugite-demo\"") && output.contains("\"protocolVersion\":\"2025-11-25\""),
        "{output}"
    );
    holds.next().ends();
}

#[test]
fn handshakes_without_a_request_start_one_child() {
    // L-11
    let place = Place::new();
    let pids = place.path.join("pids");
    let script = format!("append pids $process; call '{TSUGITE}' serve --stdio --rev 2025-11-25");
    let words = ["bridge", "--listen", "127.0.0.1:0", "--", helper(), "script", &script];
    let running = Running::start(place.command(words));
    let url = running.line().trim().to_owned();
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    let mut last = String::new();
    for index in 0..20 {
        let client = format!(r#"{{"name":"client {index}","version":"1"}}"#);
        let hello = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{client}}}}}"#
        );
        let answer = post(address, "/mcp", "", &hello);
        assert!(answer.contains("\"tsugite-demo\""), "{answer}");
        let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        last = format!("Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-11-25\r\n", session.trim());
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(post(address, "/mcp", &last, ready).starts_with("HTTP/1.1 202"));
    }
    let started = || std::fs::read_to_string(&pids).unwrap().lines().count();
    assert_eq!(started(), 1);
    let listed = post(address, "/mcp", &last, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    assert!(listed.contains("\"add\""), "{listed}");
    assert_eq!(started(), 2);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_bridge_with_a_stubborn_server() {
    let (place, holds) = (Place::new(), Holds::new());
    // Ignores all signals, and has a call in flight.
    let script =
        format!("ignore_signals; hold {holds}; call '{TSUGITE}' serve --stdio --rev 2025-11-25; stay");
    let words = ["bridge", "--listen", "127.0.0.1:0", "--", helper(), "script", &script];
    let running = Running::start(place.command(words));
    let url = running.line().trim().to_owned();
    let waiting = Running::start(place.command(["call", "--rev", "2025-11-25", &url, "wait"]));
    place.run(["call", "--rev", "2025-11-25", &url, "add", "a=1", "b=2"]).fine();
    running.signal("-INT");
    running.signal("-INT");
    assert_eq!(running.end().code, 0);
    assert_eq!(waiting.end().code, 2);
    holds.next().ends();
}
