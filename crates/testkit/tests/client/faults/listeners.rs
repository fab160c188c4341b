//! Subscriptions whose connection is lost, and servers that stop answering while nothing is called.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::client::{Change, ChangeFilter, Client, ErrorKind};
use tsugite_testkit::log::Warnings;

use super::raw::{Raw, Then, hello, welcome};
use super::shell::{spawn, spawn_modern};
use super::{Running, kind, until, within};

/// A server over HTTP+SSE whose stream breaks when `breaks` is set, after which it is `gone` or not.
fn http_sse(breaks: &Arc<AtomicBool>, gone: bool) -> Raw {
    let (breaks, is_gone) = (Arc::clone(breaks), AtomicBool::new(false));
    let mail = Mutex::new(Vec::<Value>::new());
    Raw::start(move |asked, wire| {
        if is_gone.load(Ordering::SeqCst) {
            return Then::Reset;
        }
        if asked.verb == "POST" {
            if asked.method() == "initialize" {
                mail.lock().unwrap().push(welcome(asked));
            }
            wire.status(202, "", "");
            return Then::Keep;
        }
        wire.stream();
        wire.write("event: endpoint\ndata: /messages\n\n");
        loop {
            if let Some(message) = mail.lock().unwrap().pop() {
                wire.event(None, &message);
            }
            if breaks.swap(false, Ordering::SeqCst) {
                is_gone.store(gone, Ordering::SeqCst);
                return Then::Close;
            }
            // Writing notices a client that has disconnected.
            if !wire.write(":\n\n") {
                return Then::Close;
            }
            std::thread::yield_now();
        }
    })
}

#[tokio::test]
async fn broken_http_sse_stream_is_reopened_for_its_listeners() {
    let breaks = Arc::default();
    let raw = http_sse(&breaks, false);
    let client = within(Client::connect(raw.url()).http_sse()).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    breaks.store(true, Ordering::SeqCst);
    assert_eq!(within(changes.next()).await.unwrap().unwrap(), Change::All);
    assert!(client.is_connected());
    assert_eq!(raw.count(|asked| asked.verb == "GET"), 2);
}

#[tokio::test]
async fn listeners_hear_that_an_http_server_is_gone() {
    let breaks = Arc::default();
    let raw = http_sse(&breaks, true);
    let client = within(Client::connect(raw.url()).http_sse()).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    breaks.store(true, Ordering::SeqCst);
    until(|| !client.is_connected()).await;
    // The client waits longer and longer between its attempts.
    tokio::time::pause();
    let told = tokio::time::timeout(Duration::from_secs(100_000), changes.next()).await.unwrap();
    let error = told.unwrap().unwrap_err();
    let expected = matches!(
        error.kind(),
        ErrorKind::Connect { .. } | ErrorKind::ConnectionLost { .. } | ErrorKind::TimedOut { .. }
    );
    assert!(expected && !error.may_have_run(), "{error}");
    assert!(changes.next().await.is_none());
    assert!(raw.count(|asked| asked.verb == "GET") <= 11);
}

/// A server that answers its first `pings` pings, and no other until the client has connected again.
fn silent_after(pings: usize) -> Raw {
    let (sessions, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Raw::start(move |asked, wire| match asked.method() {
        "initialize" => {
            sessions.fetch_add(1, Ordering::SeqCst);
            wire.json_with("mcp-session-id: one\r\n", &welcome(asked));
            Then::Keep
        }
        "ping" | "server/discover" => {
            let answers = seen.fetch_add(1, Ordering::SeqCst) < pings || sessions.load(Ordering::SeqCst) > 1;
            match answers {
                true => wire.json(&asked.result(json!({}))),
                false => wire.closed(),
            }
            Then::Keep
        }
        "tools/call" => {
            wire.closed();
            Then::Close
        }
        _ => hello(asked, wire).unwrap_or(Then::Keep),
    })
}

#[tokio::test]
async fn silent_http_server_is_treated_as_gone() {
    // PING-003, PING-004
    for modern in [false, true] {
        let warnings = Warnings::capture();
        let raw = silent_after(2);
        let builder = if modern { raw.modern() } else { raw.client() };
        let builder = builder.timeout(Duration::from_secs(1)).ping_interval(Duration::from_millis(20));
        let client = within(builder).await.unwrap();
        let call = Running::new({
            let client = client.clone();
            async move { client.call::<String>("t", json!({})).timeout(super::PATIENCE).await }
        });
        match kind(call.end().await) {
            ErrorKind::ConnectionLost { may_have_run: true, reason } => {
                assert!(reason.contains("did not answer a ping"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(raw.count(|asked| matches!(asked.method(), "ping" | "server/discover")), 3);
        assert!(warnings.take().iter().any(|text| text.contains("does not answer pings")));
    }
}

#[tokio::test]
async fn listeners_get_a_new_connection_after_a_ping_fails() {
    let raw = silent_after(0);
    let builder = raw.client().timeout(Duration::from_secs(1)).ping_interval(Duration::from_millis(20));
    let client = within(builder).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    assert_eq!(within(changes.next()).await.unwrap().unwrap(), Change::All);
    assert_eq!(raw.count(|asked| asked.method() == "initialize"), 2);
}

#[tokio::test]
async fn silent_child_is_treated_as_gone() {
    // PING-003, PING-004
    for builder in [spawn("hello; drain"), spawn_modern("drain")] {
        let warnings = Warnings::capture();
        let builder = builder.timeout(Duration::from_secs(2)).ping_interval(Duration::from_millis(20));
        let client = within(builder).await.unwrap();
        let call = client.call::<String>("t", json!({})).timeout(super::PATIENCE);
        match kind(within(call).await) {
            ErrorKind::ConnectionLost { may_have_run: true, reason } => {
                assert!(reason.contains("did not answer a ping"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        assert!(warnings.take().iter().any(|text| text.contains("does not answer pings")));
        within(client.close()).await;
    }
}
