//! POST, and the other methods of the endpoint.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, Response, TestServer, open_session};

use super::{HANDSHAKES, call, feature_server, notice, send, stream, summary, with_http};

#[tokio::test]
async fn one_path_serves_post_and_get() {
    // HTTP-001; HTTP-034: a GET opens a stream of events or gets 405.
    let serving = TestServer::start(&feature_server().server).await;
    for revision in HANDSHAKES {
        let session = open_session(&serving, revision, json!({})).await;
        let posted = send(&serving, Request::post(&call(1, "echo")).session(&session)).await;
        assert_eq!((posted.status, posted.json()["id"].clone()), (200, json!(1)), "{posted:?}");
        stream(&serving, Request::get_stream(&session)).await;
    }
    let without = TestServer::start(&with_http(Http::new().sessions(false))).await;
    let refused = send(&without, Request::new("GET").header("Accept", "text/event-stream")).await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")), "{refused:?}");
}

#[tokio::test]
async fn only_post_is_served_on_2026_07_28() {
    // HTTP-002
    let newest = Revisions::NONE.with(Revision::NEWEST);
    for server in [feature_server().server, feature_server().server.revisions(newest)] {
        let serving = TestServer::start(&server).await;
        let posted = send(&serving, Request::stateless(call(1, "echo"))).await;
        assert_eq!(posted.status, 200, "{posted:?}");
        for method in ["GET", "DELETE"] {
            let request =
                Request::new(method).header("MCP-Protocol-Version", "2026-07-28").header("Accept", "*/*");
            let refused = send(&serving, request).await;
            assert_eq!(refused.status, 405, "{refused:?}");
        }
    }
}

#[tokio::test]
async fn foreign_origin_is_always_refused() {
    // HTTP-003: every request, also on an accepted connection. HTTP-004: 403, and an error without an id.
    let serving = TestServer::start(&with_http(Http::new().allow_origin("https://app.example"))).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let requests = [
        Request::post(&call(1, "echo")).session(&session),
        Request::stateless(call(1, "echo")),
        Request::post(&notice("notifications/x")).session(&session),
        Request::get_stream(&session),
        Request::new("DELETE").session(&session),
    ];
    for origin in [
        "https://evil.example",
        "http://app.example",
        "https://app.example.evil.example",
        "https://app.example:8443",
        "null",
        "",
    ] {
        let mut connection = serving.connect().await;
        let good = connection.send(Request::stateless(call(1, "echo"))).await;
        assert_eq!(good.status, 200);
        connection.read_body().await;
        for request in &requests {
            let mut refused = connection.send(request.clone().header("Origin", origin)).await;
            refused.body = connection.read_body().await;
            assert_eq!(refused.status, 403, "{origin} {request:?}");
            is_error_without_id(&refused);
        }
    }
}

#[tokio::test]
async fn missing_and_allowed_origins_are_served() {
    // HTTP-005; HTTP-003: the list contains the allowed origins.
    let serving = TestServer::start(&with_http(Http::new().allow_origin("https://app.example"))).await;
    let request = Request::stateless(call(1, "echo"));
    for request in [
        request.clone(),
        request.clone().header("Origin", "https://app.example"),
        request.header("Origin", "http://localhost:5173"),
    ] {
        let served = send(&serving, request.clone()).await;
        assert_eq!(served.status, 200, "{request:?}");
        assert_eq!(served.json()["result"]["content"][0]["text"], "hello");
    }
}

#[tokio::test]
async fn notifications_and_responses_get_202_with_an_empty_body() {
    // HTTP-013: notifications, responses, and on 2025-03-26 arrays of either.
    let serving = TestServer::start(&feature_server().server).await;
    let response = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
    for revision in HANDSHAKES {
        let session = open_session(&serving, revision, json!({})).await;
        let mut bodies =
            vec![notice("notifications/x"), notice("notifications/initialized"), response.clone()];
        if revision == "2025-03-26" {
            bodies.push(json!([notice("notifications/x"), notice("notifications/y")]));
            bodies.push(json!([response]));
        }
        for body in bodies {
            let accepted = send(&serving, Request::post(&body).session(&session)).await;
            assert_eq!((accepted.status, accepted.body.as_str()), (202, ""), "{body}");
        }
    }
}

#[tokio::test]
async fn notification_on_2026_07_28_gets_an_empty_202() {
    // HTTP-014
    let serving = TestServer::start(&feature_server().server).await;
    for method in ["notifications/cancelled", "notifications/x"] {
        let accepted = send(&serving, Request::stateless(notice(method))).await;
        assert_eq!((accepted.status, accepted.body.as_str()), (202, ""), "{accepted:?}");
    }
}

#[tokio::test]
async fn refused_notifications_and_responses_get_an_error_status() {
    // HTTP-015
    let serving = TestServer::start(&feature_server().server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let response = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
    let unknown = "A".repeat(32);
    for (request, status) in [
        (Request::post(&notice("notifications/x")), 400),
        (Request::post(&response), 400),
        (Request::post(&notice("notifications/x")).session(&unknown), 404),
        (Request::post(&response).session(&unknown), 404),
        (
            Request::post(&notice("notifications/x"))
                .session(&session)
                .replace_header("MCP-Protocol-Version", "1999-01-01"),
            400,
        ),
        (Request::post(&response).header("MCP-Protocol-Version", "2026-07-28"), 400),
        (Request::post(&json!({"jsonrpc": "1.0", "method": "notifications/x"})).session(&session), 400),
    ] {
        let refused = send(&serving, request.clone()).await;
        assert_eq!(refused.status, status, "{request:?} {refused:?}");
        is_error_without_id(&refused);
    }
}

/// Checks that the body is empty or an error without an id.
fn is_error_without_id(response: &Response) {
    if !response.body.is_empty() {
        let error = response.json();
        assert!(error["error"]["code"].is_i64() && error["id"].is_null(), "{error}");
    }
}

#[tokio::test]
async fn response_is_json_or_ends_an_event_stream() {
    // HTTP-016, HTTP-018; HTTP-025: after the response the stream ends.
    let serving = TestServer::start(&feature_server().server).await;
    for revision in HANDSHAKES.into_iter().chain(["2026-07-28"]) {
        let request = match revision {
            "2026-07-28" => Request::stateless(call(1, "echo")),
            _ => Request::post(&call(1, "echo")).session(&open_session(&serving, revision, json!({})).await),
        };
        let whole = send(&serving, request).await;
        assert_eq!((whole.status, whole.header("content-type")), (200, Some("application/json")));
        assert_eq!(whole.json()["id"], 1);

        let request = match revision {
            "2026-07-28" => Request::stateless(call(2, "steps")),
            _ => Request::post(&call(2, "steps")).session(&open_session(&serving, revision, json!({})).await),
        };
        // The whole response can be read only if the stream ends.
        let events = send(&serving, request).await;
        assert_eq!((events.status, events.header("content-type")), (200, Some("text/event-stream")));
        let messages = messages(&events);
        assert_eq!(summary(&messages).last().unwrap(), "answer 2", "{events:?}");
        assert_eq!(summary(&messages).iter().filter(|summary| summary.starts_with("answer")).count(), 1);
    }
}

#[tokio::test]
async fn batch_gets_one_response_per_request_together() {
    // HTTP-018; HTTP-021: the responses are one array, also at the end of a stream.
    let serving = TestServer::start(&feature_server().server).await;
    let session = open_session(&serving, "2025-03-26", json!({})).await;
    let quick = json!([call(1, "echo"), notice("notifications/x"), call(2, "echo")]);
    let answer = send(&serving, Request::post(&quick).session(&session)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(ids(&answer.json()), [1, 2]);

    let speaking = json!([call(3, "steps"), call(4, "echo")]);
    let answer = send(&serving, Request::post(&speaking).session(&session)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let messages = messages(&answer);
    let (together, before) = messages.split_last().unwrap();
    assert_eq!(ids(together), [3, 4]);
    assert!(before.iter().all(|message| message["method"].is_string()), "{before:?}");
}

fn ids(answers: &Value) -> Vec<u64> {
    let mut ids: Vec<_> =
        answers.as_array().unwrap().iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

fn messages(response: &Response) -> Vec<Value> {
    response.events().iter().filter(|event| !event.data.is_empty()).map(|event| event.json()).collect()
}
