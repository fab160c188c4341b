//! `tsugite serve --state`: sessions that survive a restart, sessions that replicas share, and the keys of both.

#[cfg(unix)]
mod unix;

use crate::serving::post;
use crate::support::{Place, Running, tsugite};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;

fn key(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

/// Serves with these options and keys; returns the process and its address.
fn serve(place: &Place, state: &str, keys: Option<&str>) -> (Running, String) {
    let mut command = place.command(["serve", "--listen", "127.0.0.1:0", "--state", state]);
    command.env_remove("TSUGITE_SEAL_KEYS");
    if let Some(keys) = keys {
        command.env("TSUGITE_SEAL_KEYS", keys);
    }
    let running = Running::start(command);
    let url = running.line();
    let address = url.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    (running, address.to_owned())
}

fn open_session(address: &str) -> String {
    let response = post(address, "/mcp", "", INITIALIZE);
    let mut lines = response.lines();
    let id = lines.find_map(|line| line.strip_prefix("mcp-session-id: "));
    id.unwrap_or_else(|| panic!("{response}")).to_owned()
}

fn ping(address: &str, session: &str) -> String {
    let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    post(address, "/mcp", &headers, PING).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn session_in_a_file_survives_a_kill() {
    let place = Place::new();
    let (running, address) = serve(&place, "state.redb", None);
    let session = open_session(&address);
    running.kill();
    let key_file = place.path.join("state.redb.key");
    let made = std::fs::read_to_string(&key_file).unwrap();
    assert_eq!(made.trim().len(), 64);
    #[cfg(unix)]
    for name in ["state.redb", "state.redb.key"] {
        crate::support::unix::assert_mode(place.path.join(name), 0o600);
    }
    let (_running, address) = serve(&place, "state.redb", None);
    assert_eq!(ping(&address, &session), "HTTP/1.1 200 OK");
    assert_eq!(std::fs::read_to_string(&key_file).unwrap(), made);
    let left: Vec<_> =
        std::fs::read_dir(&place.path).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("new-")), "{left:?}");
}

#[test]
fn keys_of_the_environment_replace_the_key_file() {
    let place = Place::new();
    let (running, address) = serve(&place, "state.redb", Some(&key(1)));
    let session = open_session(&address);
    assert!(!place.path.join("state.redb.key").exists());
    drop(running);
    let rotated = format!("{},{}", key(2), key(1));
    let (running, address) = serve(&place, "state.redb", Some(&rotated));
    assert_eq!(ping(&address, &session), "HTTP/1.1 200 OK");
    drop(running);
    let (_running, address) = serve(&place, "state.redb", Some(&key(2)));
    assert_eq!(ping(&address, &session), "HTTP/1.1 404 Not Found");
}

#[test]
fn state_file_of_another_process_is_refused_by_name() {
    let place = Place::new();
    let (_running, _) = serve(&place, "state.redb", None);
    let second = place.run(["serve", "--listen", "127.0.0.1:0", "--state", "state.redb"]);
    let err = second.failed(1);
    assert!(err.contains("step  state") && err.contains("state.redb"), "{err}");
}

#[test]
fn server_starts_without_redis_and_answers_503() {
    let place = Place::new();
    // Nothing listens at the discard port.
    let (_running, address) = serve(&place, "redis://127.0.0.1:9", Some(&key(1)));
    let response = post(&address, "/mcp", "", INITIALIZE);
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    assert!(response.to_ascii_lowercase().contains("retry-after:"), "{response}");
}

#[test]
fn unusable_state_is_refused_without_its_password() {
    let place = Place::new();
    place.file("empty.txt", "").file("other.txt", "https://:hunter2@db.example");
    for (state, expected) in [
        ("redis://127.0.0.1:9", "TSUGITE_SEAL_KEYS is not set"),
        ("redis://:hunter2@db.example", "--state-unencrypted"),
        ("redis://:hunter2@127.0.0.1:99999", "not of the form"),
        ("postgres://:hunter2@127.0.0.1", "--state does not know postgres://"),
        ("@missing.txt", "cannot read the address of Redis in missing.txt"),
        ("@empty.txt", "one line with redis://"),
        ("@other.txt", "one line with redis://"),
        ("missing/state.redb", "missing/state.redb"),
    ] {
        let mut command = place.command(["serve", "--listen", "127.0.0.1:0", "--state", state]);
        command.env_remove("TSUGITE_SEAL_KEYS");
        let err = Running::start(command).end().failed(1);
        assert!(err.contains("step  state") && err.contains(expected), "{state}: {err}");
        assert!(!err.contains("hunter2"), "{err}");
    }
    let mut command = place.command(["serve", "--listen", "127.0.0.1:0"]);
    command.env("TSUGITE_SEAL_KEYS", "hunter2");
    let err = Running::start(command).end().failed(1);
    assert!(err.contains("TSUGITE_SEAL_KEYS") && err.contains("of 7 characters"), "{err}");
    assert!(!err.contains("hunter2"), "{err}");
    let err = tsugite("serve --stdio --state state.redb").failed(1);
    assert!(err.contains("--stdio"), "{err}");
}

#[test]
fn unencrypted_connections_and_visible_passwords_are_accepted_with_warning() {
    let place = Place::new();
    let state = "redis://:hunter2@192.0.2.1";
    let mut command =
        place.command(["serve", "--listen", "127.0.0.1:0", "--state-unencrypted", "--state", state]);
    command.env("TSUGITE_SEAL_KEYS", key(1));
    let running = Running::start(command);
    running.wait_for_stderr("--state @FILE");
    running.wait_for_stderr("sharing state");
    assert!(running.line().starts_with("http://127.0.0.1:"));
}
