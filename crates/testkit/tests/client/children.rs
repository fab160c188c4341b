//! Child processes on every system, with `helper` in place of a shell.

use std::future::IntoFuture;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tsugite::client::{Client, ClientBuilder, Command, Stderr};
use tsugite::prelude::Revision;
use tsugite_testkit::replicas::TempDir;

const HELPER: &str = env!("CARGO_BIN_EXE_helper");

/// Listens, and returns the port.
fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    (listener, port)
}

async fn accept(listener: TcpListener) -> TcpStream {
    tokio::task::spawn_blocking(move || listener.accept()).await.unwrap().unwrap().0
}

/// Starts a server with a process of its own, which holds a connection to us as long as it lives.
async fn family(adapt: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Client, TcpStream) {
    let (listener, port) = listen();
    let command = Command::from([HELPER, "family", &port]).shutdown_grace(Duration::from_millis(200));
    let client = adapt(Client::spawn(command)).await.unwrap();
    (client, accept(listener).await)
}

/// Waits until the process at the other end is gone.
async fn ends(held: TcpStream) {
    tokio::task::spawn_blocking(move || wait_for_end(held)).await.unwrap();
}

fn wait_for_end(mut held: TcpStream) {
    held.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let read = held.read(&mut [0]);
    // A killed process resets its connections on some systems.
    let gone = match &read {
        Ok(length) => *length == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(gone, "{read:?}");
}

#[tokio::test]
async fn close_kills_a_grandchild() {
    let (client, held) = family(|client| client).await;
    assert_eq!(client.call::<i64>("add", json!({"a": 1, "b": 2})).await.unwrap(), 3);
    client.close().await;
    ends(held).await;
}

#[tokio::test]
async fn drop_kills_a_grandchild() {
    let (client, held) = family(|client| client).await;
    drop(client);
    ends(held).await;
}

#[tokio::test]
async fn dropped_client_ends_its_child_despite_subscriptions() {
    for revision in [Revision::NEWEST, Revision::NEWEST_HANDSHAKE] {
        let (client, held) = family(|client| client.revision(revision).on_change(|_| {})).await;
        assert_eq!(client.call::<i64>("add", json!({"a": 1, "b": 2})).await.unwrap(), 3);
        drop(client);
        ends(held).await;
    }
}

#[tokio::test]
async fn dropped_handshake_kills_its_child() {
    let (listener, port) = listen();
    // It never responds.
    let command = Command::from([HELPER, "holds", &port]);
    let connecting = tokio::spawn(Client::spawn(command).into_future());
    let held = accept(listener).await;
    connecting.abort();
    ends(held).await;
}

#[test]
fn runtime_shutdown_kills_a_grandchild() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, held) = runtime.block_on(family(|client| client));
    let (ended, has_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(runtime);
        ended.send(())
    });
    has_ended.recv_timeout(Duration::from_secs(60)).expect("the runtime waits for the child");
    drop(client);
    wait_for_end(held);
}

#[tokio::test]
async fn exit_code_and_last_words_are_in_the_error() {
    let command = Command::from([HELPER, "fails", "3", "out of wood"]);
    let error = Client::spawn(command.clone()).await.unwrap_err().to_string();
    assert!(error.contains("ended with code 3") && error.contains("out of wood"), "{error}");
    // STDIO-007
    let error = Client::spawn(command.stderr(Stderr::Discard)).await.unwrap_err().to_string();
    assert!(error.contains("ended with code 3") && !error.contains("out of wood"), "{error}");
}

#[tokio::test]
async fn arguments_reach_the_server_as_they_are() {
    // L-02
    for text in ["a b", "$HOME $(id) `id`", "; exit 7", "| more > x", "%PATH% ^&", "a\\\"b\\", "*", "'"] {
        let error = Client::spawn(Command::from([HELPER, "fails", "3", text])).await.unwrap_err().to_string();
        assert!(error.contains("ended with code 3") && error.contains(text), "{text}: {error}");
    }
}

/// The variables of a server, with their names in upper case.
async fn variables(adapt: impl FnOnce(Command) -> Command) -> Vec<(String, String)> {
    let folder = TempDir::create("environment").unwrap();
    let helper = std::path::absolute(HELPER).unwrap();
    // The server writes them to a file in its working directory.
    let command = Command::new(helper).args(["environment", "variables"]).current_dir(folder.path());
    Client::spawn(adapt(command)).await.unwrap().close().await;
    let text = std::fs::read_to_string(folder.path().join("variables")).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_ascii_uppercase(), value.to_owned())).collect()
}

#[tokio::test]
async fn server_inherits_what_it_needs_and_no_secret() {
    // L-04
    // Cargo sets it for tests; a server must not see it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let all = variables(|command| command.env("GIVEN", "1").env("given_too", "2")).await;
    for name in ["PATH", "GIVEN", "GIVEN_TOO"] {
        assert!(all.iter().any(|(known, _)| known == name), "{name} in {all:?}");
    }
    assert!(!all.iter().any(|(name, _)| name.starts_with("CARGO_")), "{all:?}");
}

#[tokio::test]
async fn server_gets_variables_that_are_passed_on() {
    // L-04
    const NAME: &str = "CARGO_PKG_NAME";
    let ours = std::env::var(NAME).unwrap();
    let adapt: [fn(Command) -> Command; 4] = [
        |command| command.pass_env(NAME),
        |command| command.inherit_env(),
        |command| command.inherit_env().env(NAME, "other"),
        |command| command.inherit_env().env_remove(NAME),
    ];
    for (adapt, expected) in adapt.into_iter().zip([Some(&*ours), Some(&ours), Some("other"), None]) {
        let all = variables(adapt).await;
        let values: Vec<&str> =
            all.iter().filter(|(name, _)| name == NAME).map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, Vec::from_iter(expected));
    }
}

#[tokio::test]
async fn missing_program_is_explained() {
    let error = Client::spawn(Command::new("no-such-program-at-all")).await.unwrap_err().to_string();
    assert!(error.contains("not found in PATH"), "{error}");
    let missing = PathBuf::from(HELPER).with_file_name("no-such-program").into_os_string();
    let error = Client::spawn(Command::new(missing)).await.unwrap_err().to_string();
    assert!(error.contains("no such file"), "{error}");
}
