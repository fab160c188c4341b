//! Sessions that end before the client closes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tsugite::client::ErrorKind;

use super::raw::{AfterResponse, Raw, ReceivedRequest, ResponseWriter, answer_handshake, welcome};
use super::{call, kind, within};

/// A server that forgets each session after `most` calls and gives each a new id.
fn forgetful(
    most: usize,
    forgotten: impl Fn(&ReceivedRequest, &mut ResponseWriter) + Send + Sync + 'static,
) -> Raw {
    let (sessions, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Raw::start(move |request, writer| {
        if request.method() == "initialize" {
            assert_eq!(request.header("mcp-session-id"), None, "a handshake with an old session id");
            let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            calls.store(0, Ordering::SeqCst);
            writer.json_with(&format!("mcp-session-id: s{number}\r\n"), &welcome(request));
            return AfterResponse::Keep;
        }
        let now = format!("s{}", sessions.load(Ordering::SeqCst));
        if request.header("mcp-session-id") != Some(&*now) {
            forgotten(request, writer);
            return AfterResponse::Keep;
        }
        if let Some(then) = answer_handshake(request, writer) {
            return then;
        }
        if calls.fetch_add(1, Ordering::SeqCst) >= most {
            forgotten(request, writer);
            return AfterResponse::Keep;
        }
        match request.method() {
            "tools/list" => writer.json(&request.result(json!({"tools": []}))),
            _ => writer.json(&request.answer(&now)),
        }
        AfterResponse::Keep
    })
}

fn is_handshake(request: &ReceivedRequest) -> bool {
    request.method() == "initialize"
}

#[tokio::test]
async fn lost_session_is_replaced_transparently() {
    let refusals: [fn(&ReceivedRequest, &mut ResponseWriter); 3] = [
        |_, writer| writer.status(404, "", ""),
        |request, writer| {
            let error = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": -32001, "message": "Session not found"}});
            writer.status(404, "content-type: application/json\r\n", &error.to_string());
        },
        // With a truncated body, and one that is not a message.
        |_, writer| writer.status(404, "content-type: text/html\r\n", "<html>"),
    ];
    for refusal in refusals {
        let raw = forgetful(1, refusal);
        let client = within(raw.client()).await.unwrap();
        // A refused call has not run, so any call may be repeated.
        for number in 1..4 {
            assert_eq!(call(&client, "harms").await.unwrap(), format!("s{number}"));
        }
        within(client.list_tools()).await.unwrap();
        assert_eq!(raw.count(is_handshake), 4);
        assert_eq!(raw.count(|request| request.method() == "notifications/initialized"), 4);
    }
}

#[tokio::test]
async fn session_renewals_are_limited() {
    let raw = forgetful(0, |_, writer| writer.status(404, "", ""));
    let client = within(raw.client()).await.unwrap();
    for _ in 0..2 {
        match kind(call(&client, "t").await) {
            ErrorKind::ConnectionLost { may_have_run: false, reason } => {
                assert!(reason.contains("session"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(raw.calls() <= 6 && raw.count(is_handshake) <= 7, "{} {}", raw.calls(), raw.count(is_handshake));
}

#[tokio::test]
async fn restarted_server_gets_a_new_session() {
    // A server that is restarted on the same port and has lost its sessions.
    let life = Arc::new(AtomicUsize::new(1));
    let now = Arc::clone(&life);
    let raw = Raw::start(move |request, writer| {
        let id = format!("life-{}", now.load(Ordering::SeqCst));
        match request.method() {
            "initialize" => writer.json_with(&format!("mcp-session-id: {id}\r\n"), &welcome(request)),
            _ if request.header("mcp-session-id") != Some(&*id) => writer.status(404, "", ""),
            _ => match answer_handshake(request, writer) {
                Some(then) => return then,
                None => writer.json(&request.answer(&id)),
            },
        }
        AfterResponse::Keep
    });
    let client = within(raw.client()).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "life-1");
    life.store(2, Ordering::SeqCst);
    // Concurrent calls share the new session.
    let all = futures_util::future::join_all((0..8).map(|_| call(&client, "t"))).await;
    assert!(all.into_iter().all(|text| text.unwrap() == "life-2"));
    assert_eq!(raw.count(is_handshake), 2);
    within(client.close()).await;
    let last = raw.requests().pop().unwrap();
    assert_eq!((last.verb.as_str(), last.header("mcp-session-id")), ("DELETE", Some("life-2")));
}

#[tokio::test]
async fn not_found_without_a_session_stays_404() {
    let raw = Raw::start(|request, writer| {
        match request.method() {
            // A server without sessions.
            "initialize" => writer.json(&welcome(request)),
            "notifications/initialized" => writer.status(202, "", ""),
            _ => writer.status(404, "", "nothing here"),
        }
        AfterResponse::Keep
    });
    let client = within(raw.client()).await.unwrap();
    match kind(call(&client, "t").await) {
        ErrorKind::Status { status: 404, body, .. } => assert_eq!(body, "nothing here"),
        other => panic!("{other:?}"),
    }
    assert_eq!((raw.calls(), raw.count(is_handshake)), (1, 1));
    // The same on the newest revision, whatever the server sends.
    let raw = Raw::start(|_, writer| {
        writer.status(404, "mcp-session-id: x\r\n", "");
        AfterResponse::Keep
    });
    let client = within(raw.stateless_client()).await.unwrap();
    assert!(matches!(kind(call(&client, "t").await), ErrorKind::Status { status: 404, .. }));
    assert!(matches!(kind(call(&client, "t").await), ErrorKind::Status { status: 404, .. }));
    assert!(raw.requests().iter().all(|request| request.header("mcp-session-id").is_none()));
}

#[tokio::test]
async fn error_status_with_an_endless_body_is_reported() {
    let raw = Raw::after_handshake(|request, writer| {
        let status = request.body["params"]["arguments"]["status"].as_u64().unwrap();
        writer.write(format!(
            "HTTP/1.1 {status} X\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n\r\n"
        ));
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
        writer.repeat_until_closed(chunk)
    });
    let client = within(raw.stateless_client()).await.unwrap();
    let outcome = super::without_growing(within(client.call::<String>("t", json!({"status": 500})))).await;
    match kind(outcome) {
        ErrorKind::Status { status: 500, .. } => {}
        other => panic!("{other:?}"),
    }
    let client = within(raw.client()).await.unwrap();
    let outcome = within(client.call::<String>("t", json!({"status": 404}))).await;
    assert!(matches!(kind(outcome), ErrorKind::ConnectionLost { may_have_run: false, .. }));
}

#[tokio::test]
async fn unusable_session_id_is_refused() {
    // S-10
    let long = "x".repeat(1_024);
    for (id, words) in [
        (format!("{long}x"), Some("1025 bytes; the limit is 1024")),
        ("x".repeat(200_000), Some("200000 bytes")),
        ("a b".to_owned(), Some("visible ASCII")),
        ("a\tb".to_owned(), Some("visible ASCII")),
        ("\u{e9}".to_owned(), Some("visible ASCII")),
        (String::new(), Some("empty")),
        (long, None),
    ] {
        let header = format!("mcp-session-id: {id}\r\n");
        let raw = Raw::start(move |request, writer| match request.method() {
            "initialize" => {
                writer.json_with(&header, &welcome(request));
                AfterResponse::Keep
            }
            _ => answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        });
        match (within(raw.client()).await, words) {
            (Ok(_), None) => {}
            (Err(error), Some(words)) => {
                assert!(matches!(error.kind(), ErrorKind::Protocol(_)), "{error}");
                assert!(error.to_string().contains(words) && error.to_string().len() < 200, "{error}");
                assert!(raw.requests().iter().all(|request| request.header("mcp-session-id").is_none()));
            }
            (outcome, _) => panic!("{id:?}: {outcome:?}"),
        }
    }
}
