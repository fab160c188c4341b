//! Secrets of the user stay out of errors, notes, the process table and files that others can read.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Place, Running, always};

#[test]
fn secrets_of_a_url_are_in_no_error_or_note() {
    let place = Place::new();
    let missing = always("404 Not Found", "");
    let denied = always("401 Unauthorized", "");
    let urls = [
        format!("http://{missing}/api?key=SECRET#SECRET"),
        format!("http://{denied}/mcp?key=SECRET"),
        "http://127.0.0.1:1/mcp?key=SECRET".to_owned(),
        "http://me:SECRET@127.0.0.1:1/mcp".to_owned(),
        "unix:/no/such.sock:/mcp?key=SECRET".to_owned(),
        "127.0.0.1:1/mcp?key=SECRET".to_owned(),
        "ftp://me:SECRET@host/?key=SECRET".to_owned(),
        "host/mcp?key=SECRET".to_owned(),
    ];
    for url in &urls {
        for words in
            [&["ping", url][..], &["info", url, "--json"], &["ping", "demo", url], &["list", url, "-vv"]]
        {
            let ran = place.run(words);
            assert!(ran.code != 0 && !ran.err.is_empty(), "{words:?} {ran:?}");
            assert!(!ran.err.contains("SECRET"), "{words:?} {}", ran.err);
        }
    }
    let url = "http://127.0.0.1:1/mcp?key=SECRET";
    for words in [&["bridge", "--listen", "127.0.0.1:0", url][..], &["serve", "--listen", "127.0.0.1:0", url]]
    {
        let running = Running::start(place.command(words));
        running.line();
        let banner = running.heard("serving ");
        assert!(!banner.contains("SECRET"), "{banner}");
    }
}

#[test]
fn trace_file_is_for_its_owner_alone() {
    let place = Place::new();
    let mode = |path: &str| fs::metadata(place.path.join(path)).unwrap().permissions().mode() & 0o777;
    place.run(["ping", "demo", "--trace", "new.jsonl"]).fine();
    assert_eq!(mode("new.jsonl"), 0o600);
    place.file("old.jsonl", "before\n");
    fs::set_permissions(place.path.join("old.jsonl"), PermissionsExt::from_mode(0o644)).unwrap();
    place.run(["ping", "demo", "--trace", "old.jsonl"]).fine();
    assert_eq!(mode("old.jsonl"), 0o600);
    assert!(!fs::read_to_string(place.path.join("old.jsonl")).unwrap().contains("before"));
    // The mode of a device is not ours to change.
    place.run(["ping", "demo", "--trace", "/dev/null"]).fine();
    assert_ne!(mode("/dev/null"), 0o600);
}

#[test]
fn errors_as_json_are_cleaned_like_text() {
    let place = Place::new();
    let reply = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"a\u{9b}31mb\u{202e}c\u{7f}\"}}";
    let script = format!("while read -r line; do echo '{reply}'; done");
    let ran = place.run(["ping", "--rev", "2025-11-25", "--json", "--", "sh", "-c", &script]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(!ran.err.contains(['\u{9b}', '\u{202e}', '\u{7f}']), "{:?}", ran.err);
    // Escapes do not change the value.
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert!(error.to_string().contains("a\u{9b}31mb\u{202e}c\u{7f}"), "{error}");
}
