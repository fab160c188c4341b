//! Child processes on every system, with `helper` in place of a shell.

use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tsugite::client::{Client, Command};

const HELPER: &str = env!("CARGO_BIN_EXE_helper");

/// Starts a server with a process of its own, which holds a connection to us as long as it lives.
async fn family() -> (Client, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let command = Command::from([HELPER, "family", &port]).shutdown_grace(Duration::from_millis(200));
    let client = Client::spawn(command).await.unwrap();
    let (held, _) = tokio::task::spawn_blocking(move || listener.accept()).await.unwrap().unwrap();
    (client, held)
}

/// Waits until the process at the other end is gone.
async fn ends(mut held: std::net::TcpStream) {
    held.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let read = tokio::task::spawn_blocking(move || held.read(&mut [0])).await.unwrap();
    // A killed process resets its connections on some systems.
    let gone = match &read {
        Ok(length) => *length == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(gone, "{read:?}");
}

#[tokio::test]
async fn close_kills_a_grandchild() {
    let (client, held) = family().await;
    assert_eq!(client.call::<i64>("add", json!({"a": 1, "b": 2})).await.unwrap(), 3);
    client.close().await;
    ends(held).await;
}

#[tokio::test]
async fn drop_kills_a_grandchild() {
    let (client, held) = family().await;
    drop(client);
    ends(held).await;
}

#[tokio::test]
async fn exit_code_and_last_words_are_in_the_error() {
    let error =
        Client::spawn(Command::from([HELPER, "fails", "3", "out of wood"])).await.unwrap_err().to_string();
    assert!(error.contains("ended with code 3") && error.contains("out of wood"), "{error}");
}

#[tokio::test]
async fn server_inherits_what_it_needs_and_no_secret() {
    let file = std::env::temp_dir().join(format!("tsugite-environment-{}", std::process::id()));
    let command = Command::new(HELPER).arg("environment").arg(&file).env("GIVEN", "1").env("given_too", "2");
    // Cargo sets it for tests; a server must not see it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let client = Client::spawn(command).await.unwrap();
    client.close().await;
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let names: Vec<String> =
        text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_ascii_uppercase())).collect();
    for name in ["PATH", "GIVEN", "GIVEN_TOO"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("CARGO_")), "{names:?}");
}

#[tokio::test]
async fn missing_program_is_explained() {
    let error = Client::spawn(Command::new("no-such-program-at-all")).await.unwrap_err().to_string();
    assert!(error.contains("not found in PATH"), "{error}");
    let missing = PathBuf::from(HELPER).with_file_name("no-such-program").into_os_string();
    let error = Client::spawn(Command::new(missing)).await.unwrap_err().to_string();
    assert!(error.contains("no such file"), "{error}");
}
