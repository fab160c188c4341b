//! Child processes that ignore, close, or fill a pipe.

use std::time::Duration;

use serde_json::json;
use tsugite::client::{Client, ClientBuilder, ConnectStep, ErrorKind};
use tsugite::prelude::Revision;

use super::shell::{noted, spawn};
use super::{call, kind, until, within, without_growing};

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
fn quick(script: &str) -> ClientBuilder {
    Client::spawn(super::shell::sh(script).shutdown_grace(Duration::from_millis(50)))
}

#[tokio::test]
async fn output_queue_of_a_child_that_never_reads_is_limited() {
    // The child sends endless requests of every kind and reads no response.
    let asks = [
        r#"{"jsonrpc":"2.0","id":'$n',"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":'$n',"method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":"same","method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":'$n',"method":"no/such"}"#,
    ];
    for ask in asks {
        // A process that writes much faster than a shell: the same thousand lines again and again.
        let script = format!(
            "handshake; read_line; n=0; while [ $n -lt 1000 ]; do n=$((n+1)); send_line '{ask}'; done > \"$FILE\"; \
             for i in 1 2 3 4 5 6 7 8 9 10; do cat \"$FILE\" \"$FILE\" \"$FILE\" \"$FILE\" \"$FILE\"; done; \
             for i in 1 2 3 4 5 6 7 8 9 10; do cat \"$FILE\" \"$FILE\" \"$FILE\" \"$FILE\" \"$FILE\"; done; answer 2 done; stay"
        );
        let file = super::shell::Path::new();
        let command = super::shell::sh(&script).env("FILE", &file.0);
        let client = Client::spawn(command).revision(super::HANDSHAKE).roots([]);
        let client = within(client).await.unwrap();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(without_growing(call(&client, "t")).await.unwrap(), "done");
        assert!(tasks() < 200, "{} tasks wait to respond to {ask}", tasks());
    }
}

#[tokio::test]
async fn child_that_closes_stdout_is_replaced_by_the_next_call() {
    let file = super::shell::Path::new();
    let script = format!(
        "echo started >> {0}; handshake; read_line; [ $(wc -l < {0}) = 1 ] && exec 1>&- sleep 600; answer 2 second; drain",
        file.0.display()
    );
    let client = within(spawn(&script)).await.unwrap();
    let first = client.process_id().unwrap();
    match kind(call(&client, "t").await) {
        ErrorKind::ConnectionLost { may_have_run: true, reason } => {
            assert!(reason.contains("closed its output"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(call(&client, "t").await.unwrap(), "second");
    until(|| !super::process_tree::is_in_table(first)).await;
}

#[tokio::test]
async fn child_that_closes_stdin_loses_its_connection() {
    let client = within(spawn("handshake; exec 0<&-; echo closed >&2; stay")).await.unwrap();
    noted(&client, "closed").await;
    // Nothing can be sent any more, so waiting for a response would be useless.
    match kind(call(&client, "t").await) {
        ErrorKind::ConnectionLost { reason, .. } => assert!(reason.contains("closed its input"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_the_end_of_long_stderr_is_kept() {
    // STDIO-008
    let script = r#"handshake; read_line; head -c 50000000 /dev/zero | tr '\0' 'e' >&2; echo >&2; echo the last >&2; answer 2 yes; drain"#;
    let client = within(spawn(script)).await.unwrap();
    assert_eq!(without_growing(call(&client, "t")).await.unwrap(), "yes");
    noted(&client, "the last").await;
    assert!(client.stderr().len() < 70_000);
}

#[tokio::test]
async fn child_that_writes_before_reading_causes_no_deadlock() {
    // The child reads the call only after all of its output is read; the call is larger than a pipe.
    let script = r#"handshake; head -c 3000000 /dev/zero | tr '\0' '\n'; read_line; answer 2 yes; drain"#;
    let client = within(spawn(script)).await.unwrap();
    let text = within(client.call::<String>("t", json!({"big": "x".repeat(1 << 20)}))).await.unwrap();
    assert_eq!(text, "yes");
}
