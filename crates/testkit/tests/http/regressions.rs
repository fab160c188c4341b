//! Edge cases of HTTP: non-text headers, stream counts, messages after a response, and bypasses of checks.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite::server::UrlElicitation;
use tsugite::server::layer::ConcurrencyLimit;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, Response, TestServer, initialize_request, open_session};

fn server() -> Server {
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    let schema = json!({"type": "object", "properties": {"region": region}});
    let place = Tool::new("place").input_schema(Schema::from(schema)).raw_handler(|_, _| async { "placed" });
    Server::new("s", "1")
        .tool(Tool::new("t").handler(|| async { "t" }))
        .tool(place)
        .resource(Resource::text("text://a", "a"))
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

fn code(response: &Response) -> (u16, Option<i64>) {
    (response.status, response.error_code())
}

fn listen() -> Request {
    let params = json!({"notifications": {"toolsListChanged": true}});
    Request::stateless(json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}))
}

#[tokio::test]
async fn non_text_param_header_is_refused() {
    // HTTP-055
    // T-12, HTTP-076.
    let serving = TestServer::start(&server()).await;
    let absent = Request::stateless(call("place", json!({}))).header("Mcp-Param-Region", "\u{e9}");
    assert_eq!(code(&serving.send(absent).await), (400, Some(-32020)));
}

#[tokio::test]
async fn second_non_text_param_header_is_refused() {
    // T-11: duplicates are refused.
    let serving = TestServer::start(&server()).await;
    let twice = Request::stateless(call("place", json!({"region": "us"})));
    let twice = twice.header("Mcp-Param-Region", "us").header("Mcp-Param-Region", "\u{e9}");
    assert_eq!(code(&serving.send(twice).await), (400, Some(-32020)));
}

#[tokio::test]
async fn one_client_cannot_use_all_streams() {
    // F-25.
    let plain = server().max_subscriptions(2);
    let layered = server().max_subscriptions(2).layer(ConcurrencyLimit::new(8));
    for server in [plain, layered] {
        let serving = TestServer::start(&server).await;
        let mut kept = Vec::new();
        for client in 0..3 {
            let mut connection = serving.connect().await;
            assert_eq!(connection.send(listen()).await.status, 200, "client {client} has no stream yet");
            kept.push(connection);
        }
    }
}

#[tokio::test]
async fn subscriptions_count_as_streams() {
    // F-25, and the doc of `Http::max_streams`.
    let serving = TestServer::start(&server().http(Http::new().max_streams(1))).await;
    let mut first = serving.connect().await;
    assert_eq!(first.send(listen()).await.status, 200);
    assert_ne!(serving.connect().await.send(listen()).await.status, 200);
}

#[tokio::test]
async fn completed_url_elicitation_notifies_its_client() {
    // F-18, ELIC-030.
    let visits: Arc<Mutex<Vec<UrlElicitation>>> = Arc::default();
    let kept = visits.clone();
    let login = Tool::new("login").handler(move |cx: Context| {
        let kept = kept.clone();
        async move {
            let visit = cx.url_elicitation("https://example.com/login")?.message("Please log in.");
            kept.lock().unwrap().push(visit.clone());
            Err::<(), _>(visit.required_error())
        }
    });
    let serving = TestServer::start(&Server::new("s", "1").tool(login)).await;
    let session = open_session(&serving, "2025-11-25", json!({"elicitation": {"url": {}}})).await;
    let mut news = serving.connect().await;
    news.send(Request::get_stream(&session)).await;
    assert_eq!(
        serving.send(Request::post(&call("login", json!({}))).session(&session)).await.error_code(),
        Some(-32042)
    );
    assert!(visits.lock().unwrap()[0].complete(), "the client was not notified");
    assert_eq!(serving.send(Request::new("DELETE").session(&session)).await.status, 200);
    let heard = news.next_message().await;
    assert_eq!(heard.map(|heard| heard["method"].clone()), Some(json!("notifications/elicitation/complete")));
}

#[tokio::test]
async fn http_sse_does_not_bypass_stateless_header_checks() {
    // T-10, T-19 on the path of HTTP+SSE.
    let ran = Arc::new(Notify::new());
    let runs = ran.clone();
    let tool = Tool::new("ran").handler(move || {
        runs.notify_one();
        async { "ran" }
    });
    let serving = TestServer::start(&Server::new("s", "1").tool(tool).http(Http::new().http_sse())).await;
    let mut stream = serving.connect().await;
    stream.send(Request::new("GET").path("/sse").header("Accept", "text/event-stream")).await;
    let endpoint = stream.next_event().await.unwrap().data;
    let forged = Request::stateless(call("ran", json!({}))).path(&endpoint);
    let forged = forged.replace_header("Mcp-Method", "tools/list").replace_header("Mcp-Name", "safe");
    let answer = serving.send(forged).await;
    if answer.status == 202 {
        let said = stream.next_message().await.unwrap();
        assert!(said.get("error").is_some(), "the request was run: {said}");
    }
}

#[tokio::test]
async fn http_sse_accepts_only_json() {
    // revisions.md 3.2, step 5.
    let serving = TestServer::start(&server().http(Http::new().http_sse())).await;
    let mut stream = serving.connect().await;
    stream.send(Request::new("GET").path("/sse").header("Accept", "text/event-stream")).await;
    let endpoint = stream.next_event().await.unwrap().data;
    let request = Request::post(&initialize_request("2024-11-05", json!({}))).path(&endpoint);
    assert_eq!(serving.send(request.replace_header("Content-Type", "text/plain")).await.status, 415);
}

#[tokio::test]
async fn response_with_an_unserved_version_is_refused() {
    // HTTP-044, T-18.
    let serving = TestServer::start(&server()).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let answer = Request::post(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})).session(&session);
    assert_eq!(serving.send(answer.header("MCP-Protocol-Version", "1999-01-01")).await.status, 400);
}

#[tokio::test]
async fn get_or_delete_with_two_versions_is_refused() {
    // HTTP-044, T-18.
    let serving = TestServer::start(&server()).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    for method in ["GET", "DELETE"] {
        let request = Request::new(method).header("Accept", "text/event-stream").session(&session);
        let twice = request.header("MCP-Protocol-Version", "2025-11-25").header("MCP-Protocol-Version", "x");
        assert_eq!(serving.connect().await.send(twice).await.status, 400, "{method}");
    }
}

#[tokio::test]
async fn subscriptions_need_sessions() {
    // row 13.
    let serving = TestServer::start(&server().http(Http::new().sessions(false))).await;
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 7, "method": "resources/subscribe", "params": {"uri": "text://a"}});
    let request = Request::post(&subscribe).header("MCP-Protocol-Version", "2025-11-25");
    assert!(serving.send(request).await.error_code().is_some());
    let opened = serving.send(Request::post(&initialize_request("2025-11-25", json!({})))).await.json();
    assert_ne!(opened["result"]["capabilities"]["resources"]["subscribe"], true, "{opened}");
}

#[tokio::test]
async fn allow_header_lists_only_served_methods() {
    // RFC 9110, 10.2.1.
    let serving = TestServer::start(&server().http(Http::new().sessions(false))).await;
    let refused = serving.send(Request::new("PUT")).await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
}

#[tokio::test]
async fn streams_that_cannot_resume_are_not_closed_early() {
    let go = Arc::new(Notify::new());
    let gate = go.clone();
    let cuts = Tool::new("cuts").handler(move |cx: Context| {
        let gate = gate.clone();
        async move {
            cx.close_stream();
            gate.notified().await;
            "whole"
        }
    });
    let serving = TestServer::start(&Server::new("s", "1").tool(cuts)).await;
    for revision in ["2025-03-26", "2025-06-18"] {
        let session = open_session(&serving, revision, json!({})).await;
        let mut connection = serving.connect().await;
        connection.write_request(&Request::post(&call("cuts", json!({}))).session(&session)).await;
        go.notify_one();
        let head = connection.read_head().await.unwrap();
        assert_eq!(head.header("content-type"), Some("application/json"), "{revision}");
        assert!(connection.read_body().await.contains("whole"));
    }
}

#[tokio::test]
async fn health_check_ignores_the_host() {
    let serving = TestServer::start(&server()).await;
    let probe = Request::new("GET").path("/health").replace_header("Host", "10.1.2.3:8080");
    assert_eq!(serving.send(probe).await.status, 200);
    assert_eq!(serving.send(Request::new("POST").path("/health")).await.status, 405);
}

#[tokio::test]
async fn landing_page_shows_the_requested_host() {
    let http = Http::new().page("/", |request| format!("<!doctype html><p>{}", request.host));
    let serving = TestServer::start(&server().http(http)).await;
    let page = serving.send(Request::new("GET").path("/").replace_header("Host", "localhost:7")).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.body, "<!doctype html><p>localhost:7");
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert_eq!(page.header("content-security-policy"), Some("frame-ancestors 'none'"));
    // A foreign name may resolve to this server (DNS rebinding), and its pages must not read this one.
    let foreign = Request::new("GET").path("/").replace_header("Host", "evil.example");
    assert_eq!(serving.send(foreign).await.status, 403);
    assert_eq!(serving.send(Request::new("POST").path("/")).await.status, 405);
    assert_eq!(serving.send(Request::new("GET").path("/other")).await.status, 404);
}

#[tokio::test]
async fn landing_page_has_a_content_security_policy() {
    let http = Http::new().page("/", |_| String::new()).page_policy("default-src 'none'");
    let serving = TestServer::start(&server().http(http)).await;
    let page = serving.send(Request::new("GET").path("/")).await;
    assert_eq!(page.header("content-security-policy"), Some("default-src 'none'; frame-ancestors 'none'"));
    // A policy that is no header value is an error of the server, not of each request.
    let error = server().http(Http::new().page_policy("a\nb")).http_service().err().unwrap();
    assert!(error.to_string().contains("page_policy"), "{error}");
}

#[tokio::test]
async fn large_head_is_refused() {
    let serving = TestServer::start(&server()).await;
    let large = Request::new("GET").header("X-Large", &"x".repeat(100_000));
    assert_eq!(serving.send(large).await.status, 431);
}

#[tokio::test]
async fn path_must_begin_with_a_slash() {
    let error = server().http(Http::new().path("mcp")).http_service().err().unwrap();
    assert!(error.to_string().contains("does not begin with `/`"), "{error}");
}
