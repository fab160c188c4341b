//! Bearer tokens: requests without a valid one reach no handler.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tsugite::prelude::*;
use tsugite::transport::http::{Http, StaticToken, VerifyError};
use tsugite_testkit::http::{Request, TestServer, initialize_request};
use tsugite_testkit::log::Warnings;

use super::{Count, counting, request};

fn list() -> Request {
    Request::stateless(request(1, "tools/call", json!({"name": "ran", "arguments": {}})))
}

fn with_token(request: Request, token: &str) -> Request {
    request.header("Authorization", &format!("Bearer {token}"))
}

#[tokio::test]
async fn request_without_a_valid_token_gets_401() {
    // HTTP-007, HSSE-006, A-04
    let count = Count::default();
    let token = StaticToken::new("s3cret", Principal::new("owner"));
    let http = Http::new().http_sse().page("/", |_| "page".to_owned());
    let server = Server::new("s", "1").tool(counting("ran", &count)).http(http).authorize(token);
    let serving = TestServer::start(&server).await;
    let stream = || Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    let messages =
        || Request::post(&initialize_request("2024-11-05", json!({}))).path("/messages?sessionId=x");
    for refused in [
        list(),
        with_token(list(), "S3CRET"),
        list().header("Authorization", "Basic s3cret"),
        list().path("/mcp?access_token=s3cret"),
        Request::post(&initialize_request("2025-11-25", json!({}))),
        Request::new("GET").header("Accept", "text/event-stream"),
        Request::new("DELETE"),
        stream(),
        messages(),
    ] {
        let response = serving.send(refused.clone()).await;
        assert_eq!(response.status, 401, "{refused:?}");
        assert!(response.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
        assert!(!response.body.contains("s3cret") && response.json().get("id").is_none(), "{response:?}");
    }
    for malformed in [with_token(list(), ""), with_token(with_token(list(), "s3cret"), "s3cret")] {
        let response = serving.send(malformed).await;
        let challenge = response.header("www-authenticate");
        assert_eq!((response.status, challenge), (400, Some("Bearer error=\"invalid_request\"")));
    }
    assert_eq!(count.get(), 0);
    assert_eq!(serving.send(with_token(list(), "s3cret")).await.status, 200);
    assert_eq!(count.get(), 1);
    // These say nothing about the server's tools.
    for open in ["/health", "/"] {
        assert_eq!(serving.send(Request::new("GET").path(open)).await.status, 200);
    }
}

#[tokio::test]
async fn token_is_checked_before_the_body_is_read() {
    let token = StaticToken::new("s3cret", Principal::new("owner"));
    let serving = TestServer::start(&Server::new("s", "1").authorize(token)).await;
    let mut connection = serving.connect().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nContent-Length: 1000\r\n\r\n";
    connection.socket().write_all(head.as_bytes()).await.unwrap();
    assert_eq!(connection.read_head().await.unwrap().status, 401);
}

#[tokio::test]
async fn owner_of_the_token_is_the_principal() {
    let who = Tool::new("who").handler(|who: Principal| async move { who.subject().to_owned() });
    let server = Server::new("s", "1").tool(who).authorize(async |token: String| {
        tokio::task::yield_now().await;
        match token.as_str() {
            "of-ann" => Ok(Principal::new("ann")),
            "down" => Err(VerifyError::unavailable("the issuer is away")),
            _ => Err(VerifyError::invalid_token()),
        }
    });
    let serving = TestServer::start(&server).await;
    let call = Request::stateless(request(1, "tools/call", json!({"name": "who", "arguments": {}})));
    let answered = serving.send(with_token(call.clone(), "of-ann")).await;
    assert!(answered.status == 200 && answered.body.contains("ann"), "{answered:?}");
    assert_eq!(serving.send(with_token(call.clone(), "of-bob")).await.status, 401);
    let away = serving.send(with_token(call, "down")).await;
    assert_eq!((away.status, away.header("retry-after")), (503, Some("1")));
    assert!(!away.body.contains("issuer"), "{away:?}");
}

#[tokio::test]
async fn log_of_the_library_contains_no_secrets() {
    // LOG-015, ARS-027, A-12
    const SECRET: &str = "hunter2";
    let log = Warnings::capture_from(tracing::Level::TRACE);
    let count = Count::default();
    let token = StaticToken::new(SECRET, Principal::new("owner"));
    let http = Http::new().http_sse();
    let server = Server::new("s", "1").tool(counting("ran", &count)).http(http).authorize(token);
    let serving = TestServer::start(&server).await;
    let opened =
        serving.send(with_token(Request::post(&initialize_request("2025-11-25", json!({}))), SECRET)).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let secret_call = request(2, "tools/call", json!({"name": "ran", "arguments": {"password": SECRET}}));
    let unknown = request(3, SECRET, json!({"password": SECRET}));
    let mut statuses = Vec::new();
    for request in [
        Request::stateless(secret_call.clone()),
        Request::post(&secret_call).session(&session),
        Request::stateless(unknown),
        Request::stateless(secret_call.clone()).body(format!("{{\"password\":\"{SECRET}")),
        Request::stateless(secret_call.clone()).replace_header("Mcp-Name", SECRET),
        Request::post(&secret_call).session(&format!("{session}{SECRET}")),
        Request::new("DELETE").session(&session),
    ] {
        let request = request.header("Cookie", SECRET).path(&format!("/mcp?access_token={SECRET}"));
        let refused = request.clone().header("Authorization", &format!("Bearer not-{SECRET}"));
        assert_eq!(serving.send(refused).await.status, 401);
        statuses.push(serving.send(with_token(request, SECRET)).await.status);
    }
    assert!(statuses.contains(&200) && statuses.contains(&400) && statuses.contains(&404), "{statuses:?}");
    serving.stop().await.unwrap();
    let lines = log.take_with_fields();
    assert!(!lines.is_empty(), "nothing was logged");
    for line in lines {
        assert!(!line.contains(SECRET) && !line.contains(&session), "{line}");
    }
}
