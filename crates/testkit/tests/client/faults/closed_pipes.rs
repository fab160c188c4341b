//! Child processes that close a pipe and stay. Safe code cannot close stdin or stdout, so they are shell scripts.

use tsugite::client::{Client, ClientBuilder, ErrorKind};
use tsugite_testkit::script::ScriptFile;

use super::process_tree::is_in_table;
use super::script::noted;
use super::shell::sh;
use super::{HANDSHAKE, call, kind, until, within};

fn spawn(script: &str) -> ClientBuilder {
    Client::spawn(sh(script)).revision(HANDSHAKE)
}

#[tokio::test]
async fn child_that_closes_stdout_is_replaced_by_the_next_call() {
    let first = ScriptFile::new();
    let script = format!(
        "handshake; read_line; [ -e {first} ] || {{ : > {first}; exec 1>&- sleep 600; }}; answer 2 second; drain"
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
    until(|| !is_in_table(first)).await;
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
