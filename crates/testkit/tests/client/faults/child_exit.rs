//! Child processes that exit unexpectedly.

use tsugite::client::{Change, ChangeFilter, Client, ConnectStep, ErrorKind};
use tsugite::prelude::Revision;
use tsugite_testkit::log::Warnings;
use tsugite_testkit::script::ScriptFile;

use super::script::{noted, script, spawn, spawn_modern};
use super::{Running, call, kind, until, within};

/// How a child exits, and the words that the error must contain.
const ENDS: [(&str, &str); 3] =
    [("exit 0", "ended with code 0"), ("exit 7", "ended with code 7"), ("abort", CRASHED)];

/// How the end of a crashed process is reported: Windows has no signals, and a code of its own for this.
const CRASHED: &str = if cfg!(unix) { "was killed by signal 6" } else { "ended with code -" };

#[tokio::test]
async fn child_exit_during_a_call_is_reported_without_retry() {
    for (end, words) in ENDS {
        for script in [
            format!("handshake; read_line; {end}"),
            // Half a response does not count.
            format!("handshake; read_line; print '{{\"jsonrpc\":\"2.0\",\"id\":2,'; {end}"),
            // Neither does a response to another call, nor progress.
            format!(
                r#"handshake; read_line; answer 9 no; send_line '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":2,"progress":1}}}}'; {end}"#
            ),
        ] {
            let client = within(spawn(&script)).await.unwrap();
            match kind(call(&client, "t").await) {
                ErrorKind::ConnectionLost { may_have_run: true, reason } => {
                    assert!(reason.contains(words), "{reason}")
                }
                other => panic!("{script}: {other:?}"),
            }
            client.close().await;
        }
    }
}

#[tokio::test]
async fn last_response_without_a_newline_is_read() {
    let last = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"last"}]}}"#;
    let client = within(spawn(&format!("handshake; read_line; print '{last}'"))).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "last");
}

#[tokio::test]
async fn child_exit_during_the_handshake_reports_code_and_stderr() {
    for (end, words) in ENDS {
        for script in [
            format!("stderr why; {end}"),
            format!("stderr why; read_line; {end}"),
            format!("read_line; print '{{\"jsonrpc\":\"2.0\",\"id\":1,'; stderr why; {end}"),
        ] {
            match kind(within(spawn(&script)).await) {
                ErrorKind::Connect { step: ConnectStep::Handshake, reason } => {
                    assert!(reason.contains(words) && reason.contains("why"), "{script}: {reason}");
                }
                other => panic!("{script}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn next_call_restarts_an_exited_child() {
    let (started, first) = (ScriptFile::new(), ScriptFile::new());
    // The first of them ends at once, the second answers.
    let script = format!(
        "append {started} x; handshake; once {first} {{ exit 3 }}; read_line; answer 2 second; drain"
    );
    let client = within(spawn(&script)).await.unwrap();
    let first = client.process_id();
    // If the call was not sent before the exit it is retried; otherwise it fails, as it may have run.
    let mut outcome = call(&client, "t").await;
    if let Err(error) = &outcome {
        assert!(error.is_connection_lost() && error.to_string().contains("ended with code 3"), "{error}");
        outcome = call(&client, "t").await;
    }
    assert_eq!(outcome.unwrap(), "second");
    assert_ne!(client.process_id(), first);
    assert_eq!(started.lines(), 2);
}

#[tokio::test]
async fn safe_request_is_retried_on_a_new_child_within_limits() {
    let started = ScriptFile::new();
    let script = format!("append {started} x; handshake; read_line; exit 1");
    let client = within(spawn(&script)).await.unwrap();
    assert!(matches!(kind(within(client.list_tools()).await), ErrorKind::ConnectionLost { .. }));
    assert_eq!(started.lines(), 3, "the first attempt and two retries");
    assert!(matches!(kind(call(&client, "t").await), ErrorKind::ConnectionLost { may_have_run: true, .. }));
    assert_eq!(started.lines(), 4, "a tool is called once");
}

#[tokio::test]
async fn child_exit_fails_every_pending_call() {
    let script = r#"handshake; read_line; read_line; read_line; send_line '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; abort"#;
    let client = within(spawn(script)).await.unwrap();
    let calls = (0..3).map(|_| call(&client, "t"));
    for outcome in futures_util::future::join_all(calls).await {
        match kind(outcome) {
            ErrorKind::ConnectionLost { may_have_run: true, reason } => {
                assert!(reason.contains(CRASHED), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn probe_that_kills_its_child_falls_back_to_handshake() {
    let started = ScriptFile::new();
    let text = format!(
        "append {started} x; read_line; if_line discover {{ exit 1 }}; welcome; read_line; read_line; answer 2 yes; drain"
    );
    let client = within(Client::spawn(script(&text))).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
    assert_eq!(started.lines(), 2);
    // A child that always exits is not restarted forever.
    let started = ScriptFile::new();
    let text = format!("append {started} x; read_line; exit 1");
    assert!(matches!(kind(within(Client::spawn(script(&text))).await), ErrorKind::Connect { .. }));
    assert_eq!(started.lines(), 2);
}

#[tokio::test]
async fn stateless_child_exit_fails_the_call() {
    let client = within(spawn_modern("read_line; exit 4")).await.unwrap();
    match kind(call(&client, "t").await) {
        ErrorKind::ConnectionLost { may_have_run: true, reason } => {
            assert!(reason.contains("code 4"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn spawn_failure_is_reported_at_once() {
    match kind(within(Client::spawn(["/no/such/program"])).await) {
        ErrorKind::Connect { step: ConnectStep::Spawn, reason } => {
            assert!(reason.contains("/no/such/program"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn closing_during_resubscription_logs_no_warning() {
    let first = ScriptFile::new();
    let client = within(spawn(&format!(
        r#"once {first} {{ handshake; read_line; send_line '{{"jsonrpc":"2.0","id":2,"result":{{}}}}'; exit 0 }}
        handshake; read_line; stderr again; drain"#
    )))
    .await
    .unwrap();
    let _watching = within(client.listen(ChangeFilter::new().resource("file:///x"))).await.unwrap();
    until(|| !client.is_connected()).await;
    let opening = Running::new({
        let client = client.clone();
        async move { client.ping().await }
    });
    noted(&client, "again").await;
    let warnings = Warnings::capture();
    within(client.close()).await;
    assert!(opening.end().await.is_err());
    assert_eq!(warnings.take(), [""; 0]);
}

/// The result of `server/discover`, under the id 1.
const DISCOVERED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","resultType":"complete"}}"#;
/// The result of `initialize`, under the id 2.
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;

#[tokio::test]
async fn late_result_of_the_probe_counts_before_initialize() {
    // The child reads `initialize` too before it answers: it takes longer than the timeout of the probe to start.
    let text = format!(
        "read_line; read_line; send_line '{DISCOVERED}'; send_line '{INITIALIZED}'; read_line; answer 3 yes; drain"
    );
    let builder = Client::spawn(script(&text)).probe_timeout(std::time::Duration::from_millis(50));
    let client = within(builder).await.unwrap();
    assert_eq!(client.revision(), Revision::V2026_07_28);
    assert_eq!(client.probe_record().map(|record| record.revision), Some(Revision::V2026_07_28));
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
}

#[tokio::test]
async fn revision_guessed_after_a_timeout_is_not_recorded() {
    let slow = |answers: &str| {
        Client::spawn(script(&format!("read_line; read_line; {answers}; drain")))
            .probe_timeout(std::time::Duration::from_millis(50))
    };
    let client = within(slow(&format!("send_line '{INITIALIZED}'"))).await.unwrap();
    assert_eq!((client.revision(), client.probe_record()), (Revision::V2025_11_25, None));
    // An error is an answer, even a late one.
    let refused = r#"send_line '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'"#;
    let client = within(slow(&format!("{refused}; send_line '{INITIALIZED}'"))).await.unwrap();
    assert_eq!(client.probe_record().map(|record| record.revision), Some(Revision::V2025_11_25));
}

#[tokio::test]
async fn calls_do_not_restart_a_child_that_always_exits() {
    // L-10
    let started = ScriptFile::new();
    let script = format!("append {started} x; handshake; exit 3");
    let client = within(spawn(&script)).await.unwrap();
    let mut last = None;
    for _ in 0..20 {
        last = Some(kind(call(&client, "t").await));
    }
    match last {
        Some(ErrorKind::Connect { step: ConnectStep::Spawn, reason }) => {
            assert!(reason.contains("ended with code 3") && reason.contains("6 times"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(started.lines(), 6);
}

#[tokio::test]
async fn exited_child_is_restarted_for_its_listeners() {
    let first = ScriptFile::new();
    let script = format!(
        r#"once {first} {{ handshake; read_line; send_line '{{"jsonrpc":"2.0","id":2,"result":{{}}}}'; exit 0 }}
        handshake; drain"#
    );
    let client = within(spawn(&script)).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    within(client.ping()).await.unwrap();
    assert_eq!(within(changes.next()).await.unwrap().unwrap(), Change::All);
    assert!(client.is_connected());
}

#[tokio::test]
async fn listeners_hear_that_a_child_is_gone() {
    let (started, first) = (ScriptFile::new(), ScriptFile::new());
    let script = format!(
        r#"append {started} x
        once {first} {{ handshake; read_line; send_line '{{"jsonrpc":"2.0","id":2,"result":{{}}}}'; exit 0 }}
        exit 5"#
    );
    let client = within(spawn(&script)).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    within(client.ping()).await.unwrap();
    let error = within(changes.next()).await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect { .. }), "{error}");
    assert!(within(changes.next()).await.is_none());
    assert_eq!(started.lines(), 6);
}
