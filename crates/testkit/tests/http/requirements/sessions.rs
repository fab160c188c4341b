//! Sessions: their start, their id, and their end.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, TestServer, initialize_request, open_session};

use super::{
    FeatureServer, HANDSHAKES, call, delete, feature_server, notice, rest, send, stream, with_http, within,
};

#[tokio::test]
async fn initialize_response_has_a_visible_ascii_session_id() {
    // SESS-001, SESS-003
    let serving = TestServer::start(&feature_server().server).await;
    for revision in HANDSHAKES {
        let opened = send(&serving, Request::post(&initialize_request(revision, json!({})))).await;
        assert_eq!(opened.json()["result"]["protocolVersion"], revision);
        let id = opened.header("mcp-session-id").unwrap();
        assert!(!id.is_empty() && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        let answer = send(&serving, Request::post(&call(1, "echo")).session(id)).await;
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None), "{answer:?}");
    }
}

#[tokio::test]
async fn session_ids_are_unique_and_unguessable() {
    // SESS-002, SEC-016: also across two identical servers.
    let mut ids = HashSet::new();
    for _ in 0..2 {
        let serving = TestServer::start(&feature_server().server).await;
        for _ in 0..64 {
            assert!(ids.insert(open_session(&serving, "2025-11-25", json!({})).await));
        }
    }
    // No position of an id is constant or a counter: among 128 ids each position shows many letters.
    let length = ids.iter().next().unwrap().len();
    assert!(length >= 22, "{length} letters hold less than 128 bits");
    for place in 0..length {
        let letters: HashSet<u8> = ids.iter().map(|id| id.as_bytes()[place]).collect();
        assert!(letters.len() >= 16, "{} letters at place {place}", letters.len());
    }
}

#[tokio::test]
async fn delete_invalidates_the_session_and_releases_it() {
    // SESS-008, SESS-012
    for revision in HANDSHAKES {
        let FeatureServer { server, mut ended, .. } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let other = open_session(&serving, revision, json!({})).await;
        let listening = stream(&serving, Request::get_stream(&session)).await;
        let mut waiting = stream(&serving, Request::post(&call(1, "waits")).session(&session)).await;
        assert!(within(waiting.next_message()).await.is_some());
        drop(waiting);
        delete(&serving, &session).await;
        // The call that ran without its connection is dropped, and streams end.
        assert_eq!(within(ended.recv()).await, Some(false), "{revision}");
        assert!(rest(listening).await.is_empty());
        for request in [
            Request::post(&call(2, "echo")).session(&session),
            Request::post(&notice("notifications/x")).session(&session),
            Request::get_stream(&session),
            Request::new("DELETE").session(&session),
        ] {
            let gone = send(&serving, request.clone()).await;
            assert_eq!(gone.status, 404, "{revision} {request:?} {gone:?}");
        }
        let answer = send(&serving, Request::post(&call(3, "echo")).session(&other)).await;
        assert_eq!(answer.status, 200, "another session is none of it");
    }
}

#[tokio::test]
async fn server_ends_idle_sessions() {
    // SESS-007, SESS-008
    let serving =
        TestServer::start(&with_http(Http::new().session_idle_timeout(Duration::from_secs(3600)))).await;
    let used = open_session(&serving, "2025-11-25", json!({})).await;
    let unused = open_session(&serving, "2025-11-25", json!({})).await;
    let listening = stream(&serving, Request::get_stream(&used)).await;
    tokio::time::pause();
    // Sessions are swept once a minute; more than an hour passes in steps of a little more than a minute.
    for _ in 0..70 {
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    let gone = send(&serving, Request::post(&call(1, "echo")).session(&unused)).await;
    assert_eq!(gone.status, 404, "{gone:?}");
    let answer = send(&serving, Request::post(&call(1, "echo")).session(&used)).await;
    assert_eq!(answer.status, 200, "an open stream is a use");
    drop(listening);
}
