//! The checks before any message is parsed: host and origin, method, size, `Content-Type` and `Accept`.

use serde_json::json;
use tsugite::jsonrpc::MessageLimits;
use tsugite_testkit::http::Request;

use super::{CountingServer, call, refused_without_id};

#[tokio::test]
async fn access_checks_run_in_order() {
    let mut limits = MessageLimits::default();
    limits.max_message_bytes = 1000;
    let counted = CountingServer::with(|server| server.limits(limits)).await;
    let large = "x".repeat(2000);
    // Wrong in every way; each step corrects one thing.
    let request = Request::new("PUT").header("Origin", "http://evil.example").body(large.clone());
    assert_eq!(counted.send(request.clone()).await.status, 403);
    let request = request.without_header("Origin");
    let refused = counted.send(request.clone()).await;
    assert_eq!(refused.status, 405, "{refused:?}");
    let allowed = refused.header("allow").unwrap();
    assert!(["GET", "POST", "DELETE"].iter().all(|method| allowed.contains(method)), "{allowed}");
    let request = Request::new("POST").body("{").header("Content-Type", "text/plain");
    assert_eq!(counted.send(request.clone()).await.status, 415);
    assert_eq!(counted.send(request.clone().without_header("Content-Type")).await.status, 415);
    let request = request
        .replace_header("Content-Type", "application/json; charset=utf-8")
        .header("Accept", "text/html");
    assert_eq!(counted.send(request.clone()).await.status, 406);
    let request = request.replace_header("Accept", "text/event-stream, application/json");
    assert_eq!(refused_without_id(&counted.send(request.clone()).await), (400, -32700));
    assert_eq!(counted.send(request.body(large)).await.status, 413);
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn accept_must_name_json() {
    let counted = CountingServer::start().await;
    let request = Request::stateless(call("echo"));
    let accepted = [
        "application/json, text/event-stream",
        "text/event-stream;q=0.5, application/json;q=0.1",
        "*/*",
        "application/*, text/*",
        "Application/JSON, Text/Event-Stream",
        "application/json",
        "application/*;q=0.1, text/event-stream;q=0",
    ];
    for accept in accepted {
        assert_eq!(
            counted.send(request.clone().replace_header("Accept", accept)).await.status,
            200,
            "{accept}"
        );
    }
    assert_eq!(counted.calls(), accepted.len());
    for accept in ["text/html", "text/event-stream", "", "*/*;q=0"] {
        assert_eq!(
            counted.send(request.clone().replace_header("Accept", accept)).await.status,
            406,
            "{accept}"
        );
    }
    assert_eq!(counted.calls(), accepted.len());
}

#[tokio::test]
async fn invalid_json_is_a_parse_error() {
    let counted = CountingServer::start().await;
    for body in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\",}", "\u{feff}{}"] {
        let refused = counted.send(Request::post(&json!(0)).body(body)).await;
        assert_eq!(refused_without_id(&refused), (400, -32700), "{body:?}");
    }
    // JSON, but not a message.
    for body in ["0", "null", "\"ping\"", "{}", r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#] {
        let refused = counted.send(Request::post(&json!(0)).body(body)).await;
        assert_eq!((refused.status, refused.error_code()), (400, Some(-32600)), "{body}");
    }
}
