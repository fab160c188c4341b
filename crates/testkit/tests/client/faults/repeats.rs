//! When a request is sent again: the rows of the table in `docs/client.md`, for a client, a host and a bridge.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::client::{Authorizer, Challenge, Client, ClientBuilder, ClientError, ErrorKind, Host, Result};

use super::raw::{AfterResponse, Raw, ReceivedRequest, ResponseWriter, answer_handshake};
use super::{kind, within};

/// What the server does with a tool call or a read. It has "run" each of them once it is received.
type Serve = fn(&ReceivedRequest, &mut ResponseWriter) -> AfterResponse;

const JSON: &str = "content-type: application/json\r\n";

fn error(id: &Value, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32050, "message": message}}).to_string()
}

/// A server that answers the handshake, and serves calls and reads as told.
fn server(serve: Serve) -> Raw {
    Raw::start(move |request, writer| match request.method() {
        "tools/call" | "resources/read" => serve(request, writer),
        "tools/list" => {
            let tool = json!({"name": "t", "inputSchema": {"type": "object"},
                "annotations": {"idempotentHint": true, "readOnlyHint": true}});
            writer.json(&request.result(
                json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
            ));
            AfterResponse::Keep
        }
        "server/discover" => {
            let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
            writer.json(&request.result(discovered));
            AfterResponse::Keep
        }
        _ => answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
    })
}

/// The outcome of a request, and how often the server received it.
struct Sent<T> {
    outcome: Result<T>,
    times: usize,
}

async fn call_tool(raw: &Raw, client: &Client) -> Sent<String> {
    let before = raw.calls();
    let outcome = within(client.call::<String>("t", json!({}))).await;
    Sent { outcome, times: raw.calls() - before }
}

async fn read(raw: &Raw, client: &Client) -> Sent<String> {
    let reads = || raw.count(|request| request.method() == "resources/read");
    let before = reads();
    let outcome = within(client.read_resource("a://b")).await.map(|result| result.text());
    Sent { outcome, times: reads() - before }
}

/// Both eras.
fn builders(raw: &Raw) -> [ClientBuilder; 2] {
    [raw.client(), raw.stateless_client()]
}

fn is_error_response<T>(sent: &Sent<T>) -> bool {
    matches!(&sent.outcome, Err(error) if matches!(error.kind(), ErrorKind::ErrorResponse { .. }))
}

fn status<T>(sent: &Sent<T>) -> Option<(u16, bool, Option<Duration>)> {
    match sent.outcome.as_ref().err()?.kind() {
        ErrorKind::Status { status, may_have_run, retry_after, .. } => {
            Some((*status, *may_have_run, *retry_after))
        }
        _ => None,
    }
}

#[tokio::test]
async fn error_under_the_id_is_the_outcome_whatever_the_status() {
    // JRPC-038
    let rows: [Serve; 4] = [
        |request, writer| {
            writer.status(503, JSON, &error(&request.body["id"], "no"));
            AfterResponse::Keep
        },
        |request, writer| {
            writer.status(400, JSON, &error(&request.body["id"], "Checkout session already paid"));
            AfterResponse::Keep
        },
        |request, writer| {
            writer.status(429, &format!("{JSON}retry-after: 0\r\n"), &error(&request.body["id"], "no"));
            AfterResponse::Keep
        },
        |request, writer| {
            writer.status(500, JSON, &error(&request.body["id"], "no"));
            AfterResponse::Keep
        },
    ];
    for serve in rows {
        let raw = server(serve);
        for builder in builders(&raw) {
            let client = within(builder).await.unwrap();
            let called = call_tool(&raw, &client).await;
            assert!(is_error_response(&called) && called.times == 1, "{:?} {}", called.outcome, called.times);
            let read = read(&raw, &client).await;
            assert!(is_error_response(&read) && read.times == 1, "{:?} {}", read.outcome, read.times);
        }
    }
}

#[tokio::test]
async fn result_under_the_id_is_the_outcome_whatever_the_status() {
    let raw = server(|request, writer| {
        writer.status(500, JSON, &request.answer("done").to_string());
        AfterResponse::Keep
    });
    for builder in builders(&raw) {
        let client = within(builder).await.unwrap();
        let called = call_tool(&raw, &client).await;
        assert_eq!((called.outcome.unwrap().as_str(), called.times), ("done", 1));
    }
}

#[tokio::test]
async fn busy_server_is_retried_only_for_harmless_requests() {
    let rows: [(Serve, u16); 3] = [
        (
            |_, writer| {
                writer.status(503, "retry-after: 0\r\n", "later");
                AfterResponse::Keep
            },
            503,
        ),
        (
            |_, writer| {
                writer.status(429, "retry-after: 0\r\n", "later");
                AfterResponse::Keep
            },
            429,
        ),
        // An error that names no request is not the outcome of one.
        (
            |_, writer| {
                writer.status(503, &format!("{JSON}retry-after: 0\r\n"), &error(&Value::Null, "session"));
                AfterResponse::Keep
            },
            503,
        ),
    ];
    for (serve, expected) in rows {
        let raw = server(serve);
        for builder in builders(&raw) {
            let client = within(builder).await.unwrap();
            let called = call_tool(&raw, &client).await;
            assert_eq!(
                (status(&called), called.times),
                (Some((expected, true, Some(Duration::ZERO))), 1),
                "{:?}",
                called.outcome
            );
            let read = read(&raw, &client).await;
            assert_eq!((status(&read).map(|found| found.0), read.times), (Some(expected), 4));
            let marked = raw.calls();
            let _ = within(client.call::<String>("t", json!({})).idempotent()).await;
            assert_eq!(raw.calls() - marked, 4);
        }
    }
}

#[tokio::test]
async fn failed_call_reports_status_delay_and_possible_execution() {
    let raw = server(|_, writer| {
        writer.status(503, "retry-after: 7\r\n", "busy");
        AfterResponse::Keep
    });
    let client = within(raw.stateless_client()).await.unwrap();
    let called = call_tool(&raw, &client).await;
    assert_eq!(status(&called), Some((503, true, Some(Duration::from_secs(7)))));
    let text = called.outcome.unwrap_err().to_string();
    assert!(text.contains("503") && text.contains("7 s") && text.contains("may have run"), "{text}");
}

#[tokio::test]
async fn gateway_errors_are_not_repeated() {
    let rows: [(Serve, u16); 2] = [
        (
            |_, writer| {
                writer.status(502, "", "");
                AfterResponse::Keep
            },
            502,
        ),
        (
            |_, writer| {
                writer.status(504, "", "");
                AfterResponse::Keep
            },
            504,
        ),
    ];
    for (serve, expected) in rows {
        let raw = server(serve);
        let client = within(raw.client()).await.unwrap();
        let called = call_tool(&raw, &client).await;
        assert_eq!((status(&called), called.times), (Some((expected, true, None)), 1));
        let read = read(&raw, &client).await;
        assert_eq!((status(&read), read.times), (Some((expected, true, None)), 1));
    }
}

#[tokio::test]
async fn status_that_refuses_a_request_did_not_run_it() {
    let rows: [Serve; 4] = [
        |_, writer| {
            writer.status(405, "", "");
            AfterResponse::Keep
        },
        |_, writer| {
            writer.status(413, "", "");
            AfterResponse::Keep
        },
        |_, writer| {
            writer.status(403, "", "");
            AfterResponse::Keep
        },
        |_, writer| {
            writer.status(415, "", "");
            AfterResponse::Keep
        },
    ];
    for serve in rows {
        let raw = server(serve);
        let client = within(raw.client()).await.unwrap();
        let called = call_tool(&raw, &client).await;
        assert!(matches!(status(&called), Some((_, false, None))), "{:?}", called.outcome);
        assert_eq!(called.times, 1);
    }
}

#[tokio::test]
async fn request_that_was_not_processed_is_sent_again() {
    // 421 and 425 once, then an answer.
    for code in [421, 425] {
        let first = AtomicUsize::new(0);
        let raw = Raw::after_handshake(move |request, writer| {
            match first.fetch_add(1, Ordering::SeqCst) {
                0 => writer.status(code, "", ""),
                _ => writer.json(&request.answer("done")),
            }
            AfterResponse::Keep
        });
        let client = within(raw.client()).await.unwrap();
        let called = call_tool(&raw, &client).await;
        assert_eq!((called.outcome.unwrap().as_str(), called.times), ("done", 2), "{code}");
    }
}

#[tokio::test]
async fn redirect_repeats_a_call_only_if_it_keeps_the_method() {
    for (code, times) in [(307, 2), (308, 2), (301, 1), (302, 1)] {
        let raw = Raw::after_handshake(move |request, writer| {
            match request.path.as_str() {
                "/mcp" => writer.status(code, "location: /mcp/there\r\n", ""),
                _ => writer.json(&request.answer("done")),
            }
            AfterResponse::Keep
        });
        let client = within(raw.client()).await.unwrap();
        let called = call_tool(&raw, &client).await;
        assert_eq!((called.outcome.is_ok(), called.times), (times == 2, times), "{code}");
        let marked = within(client.call::<String>("t", json!({})).idempotent()).await;
        assert_eq!(marked.unwrap(), "done", "{code}");
    }
}

#[tokio::test]
async fn permanent_redirect_is_remembered() {
    for code in [301, 308] {
        let raw = Raw::start(move |request, writer| match request.path.as_str() {
            "/mcp" => {
                writer.status(code, "location: /mcp/\r\n", "");
                AfterResponse::Keep
            }
            _ => match answer_handshake(request, writer) {
                Some(then) => then,
                None => {
                    writer.json(&request.answer("done"));
                    AfterResponse::Keep
                }
            },
        });
        let client = within(raw.client()).await.unwrap();
        let called = call_tool(&raw, &client).await;
        assert_eq!((called.outcome.unwrap().as_str(), called.times), ("done", 1), "{code}");
    }
}

struct Renewing;

impl Authorizer for Renewing {
    fn authorization(&self) -> Pin<Box<dyn Future<Output = Result<Option<String>>> + Send + '_>> {
        Box::pin(async { Ok(Some("Bearer t".to_owned())) })
    }

    fn handle_challenge(&self, _: Challenge) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + '_>> {
        Box::pin(async { Ok(true) })
    }
}

#[tokio::test]
async fn challenge_is_judged_by_its_status() {
    // A 403 without a challenge is about something else than credentials.
    for (code, challenge, times) in [
        (401, "", 2),
        (401, "www-authenticate: Bearer\r\n", 2),
        (403, "www-authenticate: Bearer\r\n", 2),
        (403, "", 1),
    ] {
        let first = AtomicUsize::new(0);
        let raw = Raw::after_handshake(move |request, writer| {
            match first.fetch_add(1, Ordering::SeqCst) {
                0 => writer.status(code, &format!("{JSON}{challenge}"), &error(&request.body["id"], "no")),
                _ => writer.json(&request.answer("done")),
            }
            AfterResponse::Keep
        });
        let client = within(raw.client().authorizer(Renewing)).await.unwrap();
        let called = call_tool(&raw, &client).await;
        assert_eq!((called.outcome.is_ok(), called.times), (times == 2, times), "{code} {challenge}");
    }
}

#[tokio::test]
async fn lost_connection_repeats_only_harmless_requests() {
    // TOOL-019, F-01
    let raw = server(|_, _| AfterResponse::Reset);
    for builder in builders(&raw) {
        let client = within(builder).await.unwrap();
        within(client.list_tools()).await.unwrap();
        // The server's own hints do not count.
        let called = call_tool(&raw, &client).await;
        assert_eq!(called.times, 1);
        assert!(matches!(kind(called.outcome), ErrorKind::ConnectionLost { may_have_run: true, .. }));
        assert_eq!(read(&raw, &client).await.times, 3);
    }
    for builder in builders(&raw) {
        let client = within(builder.trust_tool_hints(true)).await.unwrap();
        within(client.list_tools()).await.unwrap();
        assert_eq!(call_tool(&raw, &client).await.times, 3);
    }
    for builder in builders(&raw) {
        let client = within(builder.repeatable_tool("t")).await.unwrap();
        assert_eq!(call_tool(&raw, &client).await.times, 3);
    }
}

#[tokio::test]
async fn text_of_a_400_does_not_end_a_session() {
    let raw = server(|_, writer| {
        writer.status(400, JSON, &error(&Value::Null, "Bad Request: No valid session ID provided"));
        AfterResponse::Keep
    });
    let handshakes = || raw.count(|request| request.method() == "initialize");
    let client = within(raw.client()).await.unwrap();
    let called = call_tool(&raw, &client).await;
    assert!(is_error_response(&called) && called.times == 1);
    let found = read(&raw, &client).await;
    assert!(is_error_response(&found) && found.times == 1);
    assert_eq!(handshakes(), 1);
    // With the setting it does, but never for a tool call.
    let client = within(raw.client().session_expired_on_400(true)).await.unwrap();
    assert_eq!(call_tool(&raw, &client).await.times, 1);
    assert_eq!(handshakes(), 2);
    assert_eq!(read(&raw, &client).await.times, 3);
    assert!(handshakes() > 2);
}

/// The tool runs once for each of these, through whatever is in between.
const RUNS_ONCE: [Serve; 4] = [
    |request, writer| {
        writer.status(503, JSON, &error(&request.body["id"], "no"));
        AfterResponse::Keep
    },
    |request, writer| {
        writer.status(400, JSON, &error(&request.body["id"], "session"));
        AfterResponse::Keep
    },
    |_, writer| {
        writer.status(503, "retry-after: 0\r\n", "");
        AfterResponse::Keep
    },
    |_, _| AfterResponse::Reset,
];

#[tokio::test]
async fn host_calls_a_tool_once() {
    for serve in RUNS_ONCE {
        let raw = server(serve);
        let host = within(Host::builder().server("s", raw.client()).connect()).await;
        within(host.list_tools()).await;
        let outcome: std::result::Result<String, ClientError> = within(host.call("s_t", json!({}))).await;
        assert!(outcome.is_err());
        assert_eq!(raw.calls(), 1);
    }
}

#[tokio::test]
async fn bridge_calls_a_tool_once() {
    for serve in RUNS_ONCE {
        for stateless in [false, true] {
            let raw = server(serve);
            let bridge = Bridge::to(if stateless { raw.stateless_client() } else { raw.client() });
            let client = within(Client::in_process(&bridge.server())).await.unwrap();
            let outcome = within(client.call::<String>("t", json!({}))).await;
            assert!(outcome.is_err());
            assert_eq!(raw.calls(), 1, "{outcome:?}");
            within(client.close()).await;
            within(bridge.close()).await;
        }
    }
}
