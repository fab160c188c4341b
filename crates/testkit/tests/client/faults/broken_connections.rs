//! Connections that break at every point of a response.

use serde_json::json;
use tsugite::client::{Client, ErrorKind};
use tsugite::prelude::Revision;

use super::raw::{AfterResponse, Raw, ReceivedRequest, ResponseWriter};
use super::{HANDSHAKE, call, kind, within};

/// The parts of a response that are written before the connection breaks.
const POINTS: [&str; 9] = [
    // Before the head, and in the middle of it.
    "",
    "HTTP/1.1 200 OK\r\ncontent-ty",
    // Before the body, and in the middle of it.
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\":\"2.0\",",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n12\r\n{\"jsonrpc\":\"2.0\",",
    // Before the first event, and in the middle of it.
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nid: 1\ndata: {\"jsonrpc\":\"2.0\",",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nid: 1\r\n",
    // After an event without an id.
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n",
];

/// Writes part of a response and breaks the connection, with a reset or an orderly close.
fn breaks(writer: &mut ResponseWriter, point: &str, reset: bool) -> AfterResponse {
    writer.write(point);
    if reset { AfterResponse::Reset } else { AfterResponse::Close }
}

#[tokio::test]
async fn call_with_a_truncated_response_is_not_repeated() {
    for point in POINTS {
        for reset in [false, true] {
            let raw =
                Raw::after_handshake(move |request, writer| match request.body["params"]["name"].as_str() {
                    Some("breaks") => breaks(writer, point, reset),
                    _ => {
                        writer.json(&request.answer("yes"));
                        AfterResponse::Keep
                    }
                });
            for client in [raw.client(), raw.stateless_client()] {
                let client = within(client).await.unwrap();
                let before = raw.calls();
                let outcome = call(&client, "breaks").await;
                assert!(
                    matches!(kind(outcome), ErrorKind::ConnectionLost { may_have_run: true, .. }),
                    "{point:?} {reset} {}",
                    client.revision()
                );
                assert_eq!(raw.calls(), before + 1, "{point:?}");
                // The next call succeeds.
                assert_eq!(call(&client, "works").await.unwrap(), "yes", "{point:?}");
                assert_eq!(raw.count(|request| request.method() == "initialize"), 1, "{point:?}");
            }
        }
    }
}

#[tokio::test]
async fn safe_request_is_retried_after_a_truncated_response() {
    for point in POINTS {
        let raw = Raw::after_handshake(move |request, writer| {
            let first = request.body["params"]["cursor"].is_null() && request.id() % 2 == 0;
            if first {
                return breaks(writer, point, false);
            }
            writer.json(&request.result(json!({"tools": []})));
            AfterResponse::Keep
        });
        let client = within(raw.client()).await.unwrap();
        assert_eq!(within(client.list_tools()).await.unwrap().len(), 0, "{point:?}");
        assert_eq!(raw.count(|request| request.method() == "tools/list"), 2, "{point:?}");
    }
}

#[tokio::test]
async fn retries_of_safe_requests_are_limited() {
    let raw = Raw::after_handshake(|_, writer| breaks(writer, "", false));
    let client = within(raw.client()).await.unwrap();
    assert!(within(client.list_tools()).await.unwrap_err().is_connection_lost());
    assert_eq!(raw.count(|request| request.method() == "tools/list"), 3);
}

#[tokio::test]
async fn trusted_hints_let_tools_be_retried() {
    let list = json!({"tools": [
        {"name": "reads", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "repeats", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}},
        {"name": "harms", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": false}},
        {"name": "unknown", "inputSchema": {"type": "object"}},
    ]});
    let raw = Raw::after_handshake(move |request, writer| {
        if request.method() == "tools/list" {
            writer.json(&request.result(list.clone()));
            return AfterResponse::Keep;
        }
        match request.id() % 2 {
            1 => breaks(writer, POINTS[8], false),
            _ => {
                writer.json(&request.answer("again"));
                AfterResponse::Keep
            }
        }
    });
    let of = |name: &'static str| move |request: &ReceivedRequest| request.body["params"]["name"] == name;
    let client = within(raw.client().trust_tool_hints(true)).await.unwrap();
    within(client.list_tools()).await.unwrap();
    for name in ["reads", "repeats"] {
        assert_eq!(call(&client, name).await.unwrap(), "again");
        assert_eq!(raw.count(of(name)), 2, "{name}");
    }
    assert!(matches!(
        kind(call(&client, "harms").await),
        ErrorKind::ConnectionLost { may_have_run: true, .. }
    ));
    assert_eq!(raw.count(of("harms")), 1);
    assert_eq!(call(&client, "harms").await.unwrap(), "again");
    assert!(matches!(
        kind(call(&client, "unknown").await),
        ErrorKind::ConnectionLost { may_have_run: true, .. }
    ));
    assert_eq!(raw.count(of("unknown")), 1);
    assert_eq!(call(&client, "unknown").await.unwrap(), "again");
    // The caller may allow a retry.
    let again = within(client.call::<String>("unknown", ()).idempotent()).await;
    assert_eq!((again.unwrap(), raw.count(of("unknown"))), ("again".to_owned(), 4));
}

#[tokio::test]
async fn broken_stream_with_an_event_id_is_resumed() {
    let raw = Raw::start(|request, writer| {
        if request.is_call() {
            writer.stream();
            // An event with only an id and a retry time.
            writer.write("retry: 10\nid: a-1\ndata:\n\n");
            writer.event(Some("a-2"), &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}));
            // An incomplete event does not count as received.
            writer.write("id: a-3\ndata: {\"half\"");
            return AfterResponse::Close;
        }
        match request.header("last-event-id") {
            Some("a-2") => {
                writer.stream();
                writer.write("id: a-3\ndata:\n\n");
                AfterResponse::Close
            }
            Some("a-3") => {
                writer.stream();
                writer.event(Some("a-4"), &json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "resumed"}]}}));
                AfterResponse::Close
            }
            _ => super::raw::answer_handshake(request, writer).unwrap(),
        }
    });
    let client = within(raw.client()).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "resumed");
    assert_eq!(raw.calls(), 1);
    let resumed: Vec<_> =
        raw.requests().into_iter().filter(|request| request.header("last-event-id").is_some()).collect();
    assert_eq!(resumed.len(), 2);
    for request in resumed {
        assert_eq!(request.header("mcp-session-id"), Some("one"));
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(request.header("accept"), Some("text/event-stream"));
    }
}

#[tokio::test]
async fn failed_resumption_reports_that_the_call_may_have_run() {
    for refusal in ["", "404", "405", "401", "500", "200 application/json", "302", "garbage"] {
        let raw = Raw::start(move |request, writer| {
            if request.is_call() {
                writer.stream();
                writer.write("retry: 1\nid: x\ndata:\n\n");
                return AfterResponse::Close;
            }
            if request.header("last-event-id").is_none() {
                return super::raw::answer_handshake(request, writer).unwrap();
            }
            match refusal {
                "" => return AfterResponse::Reset,
                "garbage" => drop(writer.write("garbage\r\n\r\n")),
                "302" => writer.status(302, "location: http://127.0.0.2:1/\r\n", ""),
                "200 application/json" => writer.json(&json!({})),
                status => writer.status(status.parse().unwrap(), "", ""),
            }
            AfterResponse::Close
        });
        let client = within(raw.client()).await.unwrap();
        let error = call(&client, "t").await.unwrap_err();
        assert!(error.may_have_run() && error.is_connection_lost(), "{refusal:?}: {:?}", error.kind());
        assert_eq!(raw.calls(), 1, "{refusal:?}");
    }
}

#[tokio::test]
async fn broken_stateless_stream_is_not_resumed() {
    let raw = Raw::start(|request, writer| {
        writer.stream();
        writer.write("retry: 1\n");
        writer.event(Some("x"), &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": request.id(), "progress": 1}}));
        AfterResponse::Close
    });
    let client = within(raw.stateless_client()).await.unwrap();
    assert!(matches!(kind(call(&client, "t").await), ErrorKind::ConnectionLost { may_have_run: true, .. }));
    assert_eq!(raw.requests().len(), 1);
}

#[tokio::test]
async fn broken_handshake_is_an_error_without_fallback() {
    for point in POINTS {
        let raw = Raw::start(move |_, writer| breaks(writer, point, false));
        for connecting in [raw.client(), Client::connect(raw.url())] {
            let error = within(connecting).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::ConnectionLost { .. } | ErrorKind::Connect { .. }),
                "{point:?}: {error}"
            );
        }
        // A broken connection does not decide the era of the server: the other era is not tried.
        assert_eq!(raw.requests().len(), 2, "{point:?}: {:?}", raw.requests());
    }
}

#[tokio::test]
async fn invalid_http_and_invalid_messages_are_errors() {
    let answers = [
        "\r\n\r\n",
        "garbage\r\n\r\n",
        "HTTP/3.7 200 OK\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "HTTP/1.1 999999 Much\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n<html>no</html>",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n\u{feff}7",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n\0\0",
        "HTTP/1.1 500 Bad\r\ncontent-length: 4\r\n\r\noops",
        "HTTP/1.1 418 Tea\r\ncontent-length: 100\r\n\r\ncut",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 206 Partial\r\ncontent-length: 2\r\n\r\n{}",
    ];
    for answer in answers {
        let raw = Raw::after_handshake(move |_, writer| breaks(writer, answer, false));
        for client in [raw.client(), raw.stateless_client()] {
            let client = within(client).await.unwrap();
            let error = call(&client, "t").await.unwrap_err();
            assert!(!error.is_timeout(), "{answer:?}: {error}");
        }
        assert_eq!(raw.calls(), 2, "{answer:?}");
    }
}

#[tokio::test]
async fn closed_idle_connection_is_replaced() {
    for (revision, reset) in
        [(HANDSHAKE, false), (HANDSHAKE, true), (Revision::NEWEST, false), (Revision::NEWEST, true)]
    {
        let raw = Raw::after_handshake(move |request, writer| {
            writer.json(&request.answer("yes"));
            if reset { AfterResponse::Reset } else { AfterResponse::Close }
        });
        let client = within(Client::connect(raw.url()).revision(revision)).await.unwrap();
        for ended in 1..20 {
            assert_eq!(call(&client, "t").await.unwrap(), "yes", "{revision} {reset}");
            raw.wait_for_closed(ended).await;
            // The connection counts as idle once the close was noticed.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(raw.calls(), 19);
    }
}

#[tokio::test]
async fn unreachable_server_is_a_connect_error() {
    // JRPC-038
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for connecting in [
        Client::connect(format!("http://{gone}/mcp")),
        Client::connect(format!("http://{gone}/mcp")).http_sse(),
    ] {
        match kind(within(connecting).await) {
            ErrorKind::Connect { step: tsugite::client::ConnectStep::Tcp, reason } => {
                assert!(reason.contains(&gone.to_string()), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
    let nowhere = Client::connect("http://no.such.host.invalid/mcp");
    assert!(matches!(kind(within(nowhere).await), ErrorKind::Connect { .. }));
}
