//! When a request is sent again, where that depends on more than what arrived (see `repeat_table`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::client::{
    Authorizer, AuthorizerFuture, Challenge, Client, ClientBuilder, Credentials, ErrorKind, RequestInfo,
    Result,
};
use tsugite_testkit::script::ScriptFile;

use super::raw::{AfterResponse, Raw, ReceivedRequest, ResponseWriter, answer_handshake};
use super::{kind, within};

/// What the server does with a tool call or a read. It has "run" each of them once it is received.
type Serve = fn(&ReceivedRequest, &mut ResponseWriter) -> AfterResponse;

const JSON: &str = "content-type: application/json\r\n";

fn error_body(id: &Value, message: &str) -> String {
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
async fn failed_call_reports_status_and_delay() {
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
    fn authorize<'a>(&'a self, _: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials> {
        Box::pin(async { Ok(Credentials::bearer("t")) })
    }

    fn handle_challenge<'a>(
        &'a self,
        _: RequestInfo<'a>,
        _: &'a Credentials,
        _: &'a Challenge,
    ) -> AuthorizerFuture<'a, bool> {
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
                0 => {
                    writer.status(code, &format!("{JSON}{challenge}"), &error_body(&request.body["id"], "no"))
                }
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
async fn earlier_attempt_that_may_have_run_is_not_forgotten() {
    // The first attempt is lost, every later one is refused because the session is unknown.
    let first = AtomicUsize::new(0);
    let raw = Raw::after_handshake(move |_, writer| match first.fetch_add(1, Ordering::SeqCst) {
        0 => AfterResponse::Reset,
        _ => {
            writer.status(404, "", "");
            AfterResponse::Keep
        }
    });
    let client = within(raw.client()).await.unwrap();
    let error = within(client.call::<String>("t", json!({})).idempotent()).await.unwrap_err();
    assert_eq!(raw.calls(), 3);
    assert!(error.may_have_run(), "{error}");
    assert!(matches!(error.kind(), ErrorKind::ConnectionLost { may_have_run: true, .. }), "{error}");
    assert!(error.to_string().ends_with("; the call may have run"), "{error}");

    // The same, and then the server answers with an error, or does not process the call.
    for code in [405, 200] {
        let first = AtomicUsize::new(0);
        let raw = Raw::after_handshake(move |request, writer| {
            match first.fetch_add(1, Ordering::SeqCst) {
                0 => return AfterResponse::Reset,
                _ => writer.status(code, JSON, &error_body(&request.body["id"], "no")),
            }
            AfterResponse::Keep
        });
        let client = within(raw.client().repeatable_tool("t")).await.unwrap();
        let error = call_tool(&raw, &client).await.outcome.unwrap_err();
        assert!(error.may_have_run() && error.to_string().ends_with("; the call may have run"), "{error}");
    }

    // The server was busy, and is gone when it is tried again.
    let raw = Raw::once(|_, writer| {
        writer.status(503, "retry-after: 0\r\nconnection: close\r\n", "");
        AfterResponse::Close
    });
    let client = within(raw.stateless_client()).await.unwrap();
    let error = within(client.call::<String>("t", json!({})).idempotent()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect { .. }), "{error}");
    assert!(error.may_have_run() && error.to_string().ends_with("; the call may have run"), "{error}");
    // A call that begins now cannot have run.
    let error = within(client.call::<String>("t", json!({})).idempotent()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect { .. }) && !error.may_have_run(), "{error}");
}

#[tokio::test]
async fn reconnect_that_fails_says_that_the_call_may_have_run() {
    let first = ScriptFile::new();
    let script = format!("once {first} {{ handshake; read_line; exit 0 }}; exit 3");
    let client = within(super::script::spawn(&script)).await.unwrap();
    let error = within(client.call::<String>("t", json!({})).idempotent()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect { .. }), "{error}");
    assert!(error.may_have_run() && error.to_string().ends_with("; the call may have run"), "{error}");
}

#[tokio::test]
async fn text_of_a_400_does_not_end_a_session() {
    let raw = server(|_, writer| {
        writer.status(400, JSON, &error_body(&Value::Null, "Bad Request: No valid session ID provided"));
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
