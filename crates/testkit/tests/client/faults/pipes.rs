//! Child processes that ignore or fill a pipe.

use std::time::Duration;

use serde_json::json;
use tsugite::client::{Client, ClientBuilder, ConnectStep, ErrorKind};
use tsugite::prelude::Revision;

use super::script::{noted, script, spawn};
use super::{call, within, without_growing};

/// So short that it expires at once.
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn child_that_never_reads_does_not_block_forever() {
    for (client, with_handshake) in [
        (quick("handshake; stay").revision(super::HANDSHAKE), true),
        (quick("stay").revision(Revision::NEWEST), false),
    ] {
        let client = within(client.timeout(SHORT)).await.unwrap();
        // More than a pipe and the buffer before it can hold.
        let big = "x".repeat(4 << 20);
        for _ in 0..3 {
            let error = within(client.call::<String>("t", json!({"big": big}))).await.unwrap_err();
            assert!(error.is_timeout(), "{with_handshake}: {error}");
        }
        let error = within(client.ping()).await.unwrap_err();
        assert!(error.is_timeout() || !with_handshake, "{error}");
        within(client.close()).await;
    }
    let error = within(spawn("stay").timeout(SHORT)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Connect { step: ConnectStep::FirstResponse, .. })
            && error.is_timeout(),
        "{error}"
    );
}

/// A client of a script, with a short shutdown timeout.
fn quick(text: &str) -> ClientBuilder {
    Client::spawn(script(text).shutdown_grace(Duration::from_millis(50)))
}

#[tokio::test]
async fn output_queue_of_a_child_that_never_reads_is_limited() {
    // The child sends endless requests of every kind and reads no response.
    let asks = [
        r#"{"jsonrpc":"2.0","id":$n,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":$n,"method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":"same","method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":$n,"method":"no/such"}"#,
    ];
    for ask in asks {
        // The same thousand requests again and again.
        let script = format!(
            "handshake; read_line; repeat 100 {{ repeat 1000 {{ send_line '{ask}' }} }}; answer 2 done; stay"
        );
        let client = spawn(&script).roots([]);
        let client = within(client).await.unwrap();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(without_growing(call(&client, "t")).await.unwrap(), "done");
        assert!(tasks() < 200, "{} tasks wait to respond to {ask}", tasks());
    }
}

#[tokio::test]
async fn only_the_end_of_long_stderr_is_kept() {
    // STDIO-008
    let kilobyte = "e".repeat(999);
    let script = format!(
        "handshake; read_line; repeat 50000 {{ stderr {kilobyte} }}; stderr 'the last'; answer 2 yes; drain"
    );
    let client = within(spawn(&script)).await.unwrap();
    assert_eq!(without_growing(call(&client, "t")).await.unwrap(), "yes");
    noted(&client, "the last").await;
    assert!(client.stderr().len() < 70_000);
}

#[tokio::test]
async fn child_that_writes_before_reading_causes_no_deadlock() {
    // The child reads the call only after all of its output is read; the call is larger than a pipe.
    let script = r"handshake; repeat 3000000 { print '\n' }; read_line; answer 2 yes; drain";
    let client = within(spawn(script)).await.unwrap();
    let text = within(client.call::<String>("t", json!({"big": "x".repeat(1 << 20)}))).await.unwrap();
    assert_eq!(text, "yes");
}
