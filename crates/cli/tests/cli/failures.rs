//! Every kind of failure says which step failed, what was seen and what to try, and ends with its number.

use std::net::TcpListener;

use serde_json::Value;

use crate::support::{Place, TSUGITE, always, tsugite};

/// The rows of a failure, of which each must hold its words.
#[track_caller]
fn says(err: &str, what: &str, rows: &[(&str, &str)]) {
    assert!(err.starts_with(&format!("error: {what}")), "{err}");
    for (name, words) in rows {
        let row = err.lines().find(|line| line.starts_with(&format!("  {name:<5} ")) && line.contains(words));
        assert!(row.is_some(), "{name} {words:?} in {err}");
    }
}

#[test]
fn nobody_listens() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/mcp");
    let err = tsugite(&format!("info {url}")).failed(2);
    says(
        &err,
        &format!("cannot connect to {url}"),
        &[("step", "tcp"), ("seen", "refused"), ("try", "is the server running")],
    );
}

#[test]
fn a_name_that_leads_nowhere() {
    // Longer than a part of a name may be: no resolver needs to be asked.
    let host = "x".repeat(64);
    let err = tsugite(&format!("info http://{host}.example/mcp")).failed(2);
    says(
        &err,
        &format!("cannot connect to http://{host}.example/mcp"),
        &[("step", "dns"), ("try", "spelt right")],
    );
}

#[test]
fn no_encryption_where_some_is_expected() {
    let plain = always("400 Bad Request", "what?");
    let err = tsugite(&format!("info https://{plain}/mcp")).failed(2);
    says(&err, "cannot connect to https://", &[("step", "tls"), ("try", "begins with http://")]);
}

#[test]
fn a_path_that_is_not_there() {
    let lost = always("404 Not Found", "no such page");
    let err = tsugite(&format!("info http://{lost}/")).failed(2);
    says(&err, "cannot connect to http://", &[("step", "http"), ("seen", "404"), ("try", "/mcp")]);
}

#[test]
fn credentials_are_missing() {
    let closed = always(
        "401 Unauthorized\r\nWWW-Authenticate: Bearer resource_metadata=\"https://auth.example/m\"",
        "",
    );
    let err = tsugite(&format!("list http://{closed}/mcp")).failed(5);
    let rows = [
        ("step", "authorization"),
        ("seen", "WWW-Authenticate: Bearer resource_metadata="),
        ("try", "-H 'Authorization: Bearer …'"),
    ];
    says(&err, &format!("http://{closed}/mcp wants credentials"), &rows);
    let forbidden = always("403 Forbidden", "not you");
    let err = tsugite(&format!("list http://{forbidden}/mcp")).failed(5);
    says(&err, "the server refuses", &[("step", "authorization"), ("seen", "403")]);
}

#[test]
fn a_command_that_is_not_there() {
    let err = tsugite("info -- no-such-program-at-all").failed(2);
    says(&err, "cannot connect to `no-such-program-at-all`", &[("step", "start"), ("try", "PATH")]);
}

#[test]
fn a_command_that_ends_before_it_has_said_anything() {
    let place = Place::new();
    let err = place.run(["info", "--", "sh", "-c", "echo out of wood >&2; exit 3"]).failed(2);
    says(
        &err,
        "cannot connect to `sh`",
        &[("step", "handshake"), ("seen", "ended with code 3"), ("seen", "out of wood"), ("try", "-e NAME")],
    );
}

#[test]
fn noise_on_standard_output_is_shown_and_passed_over() {
    let place = Place::new();
    let script = format!("echo 'Welcome to my server'; exec '{TSUGITE}' serve --stdio");
    let ran = place.run(["call", "add", "a=1", "b=2", "--", "sh", "-c", &script]);
    assert_eq!(ran.out, "3\n", "{ran:?}");
    assert!(ran.err.starts_with("warning: the server sent something that is no message"), "{ran:?}");
    assert!(ran.err.contains("Welcome to my server"), "{ran:?}");
}

#[test]
fn a_revision_nobody_knows() {
    let place = Place::new();
    let script = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1603-01-01","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}'; read line"#;
    let err = place.run(["info", "--rev", "2025-11-25", "--", "sh", "-c", script]).failed(3);
    says(
        &err,
        "the server does not answer as it should",
        &[("step", "revision"), ("seen", "1603-01-01"), ("try", "--rev")],
    );
}

#[test]
fn a_server_that_answers_nonsense() {
    let place = Place::new();
    let script = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}}'; read line; read line; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":17}}'; read line"#;
    let err = place.run(["list", "--rev", "2025-11-25", "--", "sh", "-c", script]).failed(3);
    says(
        &err,
        "the server does not answer as it should",
        &[("step", "list"), ("seen", "tools/list"), ("try", "--trace FILE")],
    );
}

#[test]
fn a_refusal_a_failed_tool_and_one_that_takes_too_long() {
    let err = tsugite("read demo demo://nothing").failed(3);
    says(&err, "the server refused", &[("step", "read"), ("seen", "Resource not found: demo://nothing")]);
    let err = tsugite("call demo fail why=broken").failed(4);
    says(&err, "the tool failed", &[("step", "call"), ("seen", "broken")]);
    let err = tsugite("call demo wait seconds=3600 --timeout 0.2").failed(6);
    says(&err, "the server took too long", &[("step", "call"), ("seen", "0.2 s"), ("try", "--timeout")]);
}

#[test]
fn failures_as_json_are_one_object_on_standard_error() {
    let err: Value = serde_json::from_str(&tsugite("read demo demo://nothing --json").failed(3)).unwrap();
    let keys: Vec<&String> = err["error"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["exit", "step", "message", "seen", "try"]);
    assert_eq!((&err["error"]["exit"], &err["error"]["step"]), (&3.into(), &"read".into()));
    // What a tool says of its failure is a result.
    let ran = tsugite("call demo fail why=broken --json --rev 2025-11-25");
    assert_eq!((ran.code, ran.err.as_str()), (4, ""));
    assert_eq!(ran.out, "{\"content\":[{\"type\":\"text\",\"text\":\"broken\"}],\"isError\":true}\n");
}

#[test]
fn words_that_make_no_sense() {
    let place = Place::new();
    for (words, what) in [
        (&["call", "demo"][..], "`call` needs the name of a tool"),
        (&["call"], "`call` needs a server"),
        (&["read", "demo"], "`read` needs the URI of a resource"),
        (&["list", "demo", "more"], "\"more\" is one word too many"),
        (&["call", "demo", "ad", "a=1"], "the server has no tool `ad`"),
        (&["call", "demo", "add", "a=1"], "`b` is missing"),
        (&["call", "demo", "add", "a=one", "b=2"], "`a`: expected integer, got \"one\""),
        (&["call", "demo", "add", "a=1", "bb=2"], "there is no argument `bb`"),
        (&["call", "demo", "add", "a:={", "b=2"], "`a`: \"{\" is no JSON"),
        (&["call", "demo", "add", "@nothing.json"], "cannot read nothing.json"),
        (&["prompt", "demo", "reviev"], "the server has no prompt `reviev`"),
        (&["prompt", "demo", "review"], "`code` is missing"),
        (&["raw", "demo", "{"], "the request is no request"),
        (&["raw", "demo", "[]"], "the request is no request"),
        (&["raw", "demo", "{\"method\":\"notifications/x\"}"], "the request is no request"),
        (&["raw", "demo", "{\"method\":\"ping\",\"params\":[1]}"], "the request is no request"),
        (&["list", "demo", "-H", "A: b"], "-H is for servers with a URL"),
        (&["list", "demo", "-e", "A=b"], "-e is for servers that are started"),
        (&["list", "demo", "--transport", "sse"], "--transport is for servers with a URL"),
        (&["list", "http://127.0.0.1:1/mcp", "-H", "Host: x"], "\"Host\" cannot be sent as a header"),
        (&["list", "ftp://example.com"], "`ftp` is nothing a server speaks"),
        (&["list", "demo", "--trace", "no/such/folder"], "--trace: cannot write no/such/folder"),
    ] {
        let err = place.run(words).failed(1);
        says(&err, what, &[]);
    }
    for (words, what) in [
        (&["list", "demo", "--rev", "2025-11-26"][..], "did you mean `2025-11-25`?"),
        (&["list", "demo", "--timeout", "soon"], "expected a number of seconds"),
        (&["list", "demo", "--timeout", "0"], "expected a number of seconds"),
        (&["list", "demo", "--timeout", "inf"], "expected a number of seconds"),
        (&["list", "demo", "-H", "no colon"], "expected 'Name: value'"),
        (&["call", "demo", "order", "--answer", "no"], "expected k=v"),
        (&["serve", "--stdio", "--listen", "127.0.0.1:0"], "cannot be used with"),
    ] {
        let err = place.run(words).failed(1);
        assert!(err.contains(what), "{words:?}: {err}");
    }
}
