//! `tsugite serve` with targets: several servers at one address.

use std::time::Instant;

use serde_json::json;

use crate::held::Holds;
use crate::support::{LONG, Place, Running, TSUGITE, helper};

/// Serves the servers of a file until it is dropped.
fn serve(place: &Place, more: &[&str]) -> (Running, String) {
    let words = ["serve", "--listen", "127.0.0.1:0", "--no-auth", "--trust-folder", "--config", "many.json"];
    let running = Running::start(place.command(words.iter().chain(more)));
    let url = running.line().trim().to_owned();
    (running, url)
}

fn demo(more: &[&str]) -> serde_json::Value {
    let args: Vec<&str> = ["serve", "--stdio"].iter().chain(more).copied().collect();
    json!({ "command": TSUGITE, "args": args })
}

fn listed(place: &Place, servers: serde_json::Value) {
    place.file("many.json", &json!({ "mcpServers": servers }).to_string());
}

fn until(mut condition: impl FnMut() -> bool, message: &str) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "{message}");
    }
}

#[test]
fn all_servers_share_one_address() {
    let place = Place::new();
    listed(&place, json!({ "old": demo(&["--rev", "2025-06-18"]), "new": demo(&["--rev", "2026-07-28"]) }));
    let (_running, url) = serve(&place, &[]);
    for rev in ["2026-07-28", "2025-11-25", "2024-11-05"] {
        let run = |words: &[&str]| place.run([words, &["--rev", rev]].concat()).fine();
        let list = run(&["list", &url]);
        for words in ["old_add(a: integer, b: integer)", "new_add(", "demo://old/motto", "new_review("] {
            assert!(list.contains(words), "{rev}: {words:?} in {list}");
        }
        assert_eq!(run(&["call", &url, "old_add", "a=1", "b=2"]), "3\n");
        assert_eq!(run(&["call", &url, "new_add", "a=2", "b=3"]), "5\n");
        assert_eq!(run(&["read", &url, "demo://new/motto"]), "Measure twice, cut once.");
        assert!(run(&["prompt", &url, "old_review", "code=x"]).contains('x'));
    }
    for rev in ["2026-07-28", "2025-11-25", "2025-06-18"] {
        for server in ["old", "new"] {
            let tool = format!("{server}_order");
            let output = place.run(["call", &url, &tool, "--answer", "name=Kiku", "--rev", rev]).fine();
            assert_eq!(output, "2 planks of cedar for Kiku\n", "{rev} {server}");
        }
    }
}

#[test]
fn links_in_results_are_prefixed() {
    let place = Place::new();
    listed(&place, json!({ "shop": demo(&[]) }));
    let (_running, url) = serve(&place, &[]);
    let output = place.run(["call", &url, "shop_links", "--json"]).fine();
    assert!(output.contains("\"uri\":\"demo://shop/motto\""), "{output}");
    assert!(!output.contains("\"uri\":\"demo://motto\""), "{output}");
}

#[test]
fn dead_server_does_not_affect_others() {
    let place = Place::new();
    listed(
        &place,
        json!({ "one": demo(&[]), "dead": { "command": "/no/such/program" }, "unset": { "command": "${NOBODY_SET_THIS}" },
                "nowhere": { "url": "http://127.0.0.1:1/mcp" }, "ends": { "command": "false" } }),
    );
    let (running, url) = serve(&place, &[]);
    running.wait_for_stderr("skipped: invalid entry `unset` in many.json: line 1, mcpServers.unset.command: the variable NOBODY_SET_THIS is not set");
    let list = place.run(["list", &url]).fine();
    assert!(list.contains("one_add(") && !list.contains("dead_"), "{list}");
    assert_eq!(place.run(["call", &url, "one_add", "a=1", "b=2"]).fine(), "3\n");
    let raw = r#"{"method":"tools/call","params":{"name":"dead_add","arguments":{}}}"#;
    let err = place.run(["raw", &url, raw]).failed(3);
    assert!(err.contains("the server `dead` cannot be reached: it could not be started"), "{err}");
    assert!(!err.contains("/no/such"), "{err}");
}

#[test]
fn unreachable_server_is_reported_once() {
    let place = Place::new();
    // Relative paths are skipped, and on Windows a path is relative without a drive.
    let drive = if cfg!(windows) { "c:" } else { "" };
    let folders = ["/a", "/b", "/c", "/d", "/e"].map(|folder| format!("{drive}{folder}"));
    listed(
        &place,
        json!({ "one": demo(&[]), "dead": { "command": "no-such-program" }, "nowhere": { "url": "http://127.0.0.1:1/mcp" } }),
    );
    let mut command = place.command([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--no-auth",
        "--trust-folder",
        "--config",
        "many.json",
    ]);
    command.env("PATH", std::env::join_paths(&folders).unwrap());
    let running = Running::start(command);
    let url = running.line().trim().to_owned();
    for rev in ["2025-11-25", "2026-07-28", "2025-11-25", "2024-11-05"] {
        place.run(["list", &url, "--rev", rev]).fine();
        place.run(["call", &url, "one_add", "a=1", "b=2", "--rev", rev]).fine();
    }
    let err = running.kill().err;
    for server in ["dead", "nowhere"] {
        assert_eq!(err.matches(&format!("the server `{server}`")).count(), 1, "{err}");
    }
    let tried = folders[..3].join(", ");
    assert!(err.contains(&format!("not found in PATH ({tried} and 2 more)")), "{err}");
}

/// A server with the tool `add`, which ends if the test says so.
fn mortal(holds: &Holds) -> serde_json::Value {
    json!({ "command": helper(), "args": ["script", format!("hold {holds}; serve")] })
}

#[test]
fn ended_server_is_restarted_and_others_continue() {
    let (place, holds) = (Place::new(), Holds::new());
    let mortal = mortal(&holds);
    listed(&place, json!({ "one": demo(&[]), "mortal": mortal }));
    let (_running, url) = serve(&place, &[]);
    let call = |tool: &str| place.run(["call", &url, tool, "a=1", "b=2"]);
    assert_eq!(call("mortal_add").fine(), "3\n");
    holds.next().kill();
    assert_eq!(call("one_add").fine(), "3\n");
    until(|| call("mortal_add").code == 0, "the server is not restarted");
    // It was started again.
    holds.next();
}

#[cfg(unix)]
#[test]
fn serve_leaves_no_child() {
    let (place, holds) = (Place::new(), Holds::new());
    listed(&place, json!({ "one": mortal(&holds) }));
    let (running, url) = serve(&place, &[]);
    place.run(["call", &url, "one_add", "a=1", "b=2", "--rev", "2025-11-25"]).fine();
    running.signal("-TERM");
    assert_eq!(running.end().code, 0);
    holds.next().ends();
}

#[test]
fn targets_can_be_named_on_the_command_line() {
    let place = Place::new();
    listed(&place, json!({ "one": demo(&[]) }));
    let words = [
        "serve",
        "--no-auth",
        "--trust-folder",
        "--listen",
        "127.0.0.1:0",
        "many.json:one",
        "two=demo",
        "--",
        TSUGITE,
        "serve",
        "--stdio",
    ];
    let running = Running::start(place.command(words));
    let url = running.line().trim().to_owned();
    running.wait_for_stderr("3 servers (one, two, tsugite)");
    for tool in ["one_add", "two_add", "tsugite_add"] {
        assert_eq!(place.run(["call", &url, tool, "a=1", "b=2"]).fine(), "3\n");
    }
}

#[cfg(unix)]
#[test]
fn hanging_server_delays_neither_start_nor_shutdown() {
    for signal in ["-INT", "-TERM"] {
        let (place, holds) = (Place::new(), Holds::new());
        let hangs = json!({ "command": helper(), "args": ["script", format!("hold {holds}; stay")] });
        listed(&place, json!({ "hangs": hangs, "works": demo(&[]) }));
        let words =
            ["serve", "--listen", "127.0.0.1:0", "--no-auth", "--trust-folder", "--config", "many.json"];
        let running = Running::start(place.command(words));
        // The server has started and does not respond.
        let held = holds.next();
        running.signal(signal);
        assert_eq!(running.ends().code, 0, "{signal}");
        held.ends();
    }
}
