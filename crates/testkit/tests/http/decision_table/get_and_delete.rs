//! Rows 21 to 24: GET and DELETE, which only sessions have, and the paths of HTTP+SSE.

use serde_json::json;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, initialize_request};

use super::{CountingServer, MODERN, call, refused_without_id, text};

const UNKNOWN: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[tokio::test]
async fn row_21_get_opens_a_stream() {
    // HTTP-034
    let counted = CountingServer::start().await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = counted.open(revision).await;
        let mut stream = counted.serving.connect().await;
        let opened = stream.send(Request::get_stream(&session)).await;
        assert_eq!((opened.status, opened.header("content-type")), (200, Some("text/event-stream")));
        let refused =
            counted.send(Request::get_stream(&session).replace_header("Accept", "application/json")).await;
        assert_eq!(refused.status, 406, "{revision}");
    }
}

#[tokio::test]
async fn row_21_get_with_last_event_id_resumes() {
    // RESM-004, RESM-005, RESM-007
    let counted = CountingServer::start().await;
    let session = counted.open("2025-11-25").await;
    let mut stream = counted.serving.connect().await;
    stream.send(Request::post(&call("roots")).session(&session)).await;
    let first = stream.next_event().await.unwrap();
    assert!(first.id.is_some() && first.data.is_empty(), "{first:?}");
    let question = stream.next_event().await.unwrap();
    drop(stream);
    let mut again = counted.serving.connect().await;
    let last = first.id.unwrap();
    let resumed = again.send(Request::get_stream(&session).header("Last-Event-ID", &last)).await;
    assert_eq!((resumed.status, resumed.header("content-type")), (200, Some("text/event-stream")));
    let asked = again.next_message().await.unwrap();
    assert_eq!(asked, question.json());
    let answer = super::response(asked["id"].clone());
    assert_eq!(counted.send(Request::post(&answer).session(&session)).await.status, 202);
    assert_eq!(again.next_message().await.unwrap()["result"]["content"][0]["text"], "0 roots");
}

#[tokio::test]
async fn row_22_http_sse_uses_its_endpoint_and_stream() {
    // HSSE-001, HSSE-002
    let counted = CountingServer::with(|server| server.http(Http::new().http_sse())).await;
    let mut stream = counted.serving.connect().await;
    let old = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    let opened = stream.send(old.clone()).await;
    assert_eq!((opened.status, opened.header("content-type")), (200, Some("text/event-stream")));
    let endpoint = stream.next_event().await.unwrap();
    assert_eq!(endpoint.event.as_deref(), Some("endpoint"));
    let post = |message| Request::post(&message).path(&endpoint.data);
    assert_eq!(counted.send(post(initialize_request("2024-11-05", json!({})))).await.status, 202);
    let hello = stream.next_event().await.unwrap();
    assert_eq!(hello.event.as_deref(), Some("message"));
    assert_eq!(hello.json()["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(counted.send(post(call("echo"))).await.status, 202);
    assert_eq!(stream.next_message().await.unwrap()["result"]["content"][0]["text"], "2024-11-05");
    // Unless it is enabled, its path does not exist.
    assert_eq!(CountingServer::start().await.send(old).await.status, 404);
}

#[tokio::test]
async fn row_23_stateless_get_and_delete_are_not_allowed() {
    // HTTP-094
    let all = CountingServer::start().await;
    let only = CountingServer::stateless_only().await;
    let none = CountingServer::without_sessions().await;
    let session = all.open("2025-11-25").await;
    for method in ["GET", "DELETE"] {
        let request = Request::new(method).header("Accept", "text/event-stream");
        let modern = request.clone().header("MCP-Protocol-Version", MODERN);
        for (counted, request) in [
            (&all, modern.clone()),
            (&all, modern.clone().session(&session)),
            (&only, modern.clone()),
            (&only, request.clone()),
            (&only, request.clone().session(UNKNOWN)),
            (&none, request),
            (&none, modern),
        ] {
            let answer = counted.send(request).await;
            assert_eq!(answer.status, 405, "{answer:?}");
            assert!(answer.header("allow").unwrap().contains("POST"), "{answer:?}");
        }
    }
    assert_eq!(text(&all.send(Request::post(&call("echo")).session(&session)).await), "2025-11-25");
}

#[tokio::test]
async fn row_24_delete_ends_the_session() {
    // SESS-012
    let counted = CountingServer::start().await;
    let session = counted.open("2025-11-25").await;
    let end = Request::new("DELETE").session(&session);
    let ended = counted.send(end.clone().header("MCP-Protocol-Version", "2025-11-25")).await;
    assert!(ended.status == 200 || ended.status == 204, "{ended:?}");
    assert_eq!(counted.send(Request::post(&call("echo")).session(&session)).await.status, 404);
    assert_eq!(counted.send(Request::get_stream(&session)).await.status, 404);
    assert_eq!(counted.send(end).await.status, 404);
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn row_24_delete_can_be_disabled() {
    // SESS-011
    let counted = CountingServer::with(|server| server.http(Http::new().allow_delete(false))).await;
    let session = counted.open("2025-11-25").await;
    let kept = counted.send(Request::new("DELETE").session(&session)).await;
    assert_eq!((kept.status, kept.header("allow")), (405, Some("GET, POST")), "{kept:?}");
    assert_eq!(text(&counted.send(Request::post(&call("echo")).session(&session)).await), "2025-11-25");
}

#[tokio::test]
async fn get_and_delete_need_a_live_session() {
    let counted = CountingServer::start().await;
    for method in ["GET", "DELETE"] {
        let request = Request::new(method).header("Accept", "text/event-stream");
        assert_eq!(refused_without_id(&counted.send(request.clone()).await).0, 400, "{method}");
        for unknown in [UNKNOWN, "short"] {
            let answer = counted.send(request.clone().session(unknown)).await;
            assert_eq!(refused_without_id(&answer).0, 404, "{method}");
        }
        let session = counted.open("2025-11-25").await;
        let unserved = request.session(&session).header("MCP-Protocol-Version", "1999-01-01");
        assert_eq!(refused_without_id(&counted.send(unserved).await).0, 400, "{method}");
        assert_eq!(text(&counted.send(Request::post(&call("echo")).session(&session)).await), "2025-11-25");
    }
}
