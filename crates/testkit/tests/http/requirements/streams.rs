//! Streams of the handshake revisions: which messages they carry, and what their end means.

use serde_json::{Value, json};
use tsugite_testkit::http::{Request, TestServer, open_session};

use super::{
    FeatureServer, HANDSHAKES, call, delete, feature_server, notice, rest, send, stream, summary, within,
};

#[tokio::test]
async fn messages_before_a_response_belong_to_its_request() {
    // HTTP-019: also a server request. HTTP-020, HTTP-036: on the stream of its request, not on the GET stream.
    // HTTP-040: on no other.
    for revision in HANDSHAKES {
        let FeatureServer { server, gate, .. } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({"roots": {}})).await;
        let listening = stream(&serving, Request::get_stream(&session)).await;
        let mut waiting = stream(&serving, Request::post(&call(1, "waits")).session(&session)).await;
        assert_eq!(within(waiting.next_message()).await.unwrap()["params"]["progressToken"], 1);
        let mut asking = stream(&serving, Request::post(&call(2, "asks")).session(&session)).await;
        let question = within(asking.next_message()).await.unwrap();
        assert_eq!(question["method"], "roots/list", "{revision} {question}");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
        assert_eq!(send(&serving, Request::post(&answer).session(&session)).await.status, 202);
        let asked = rest(asking).await;
        assert_eq!(summary(&asked), ["answer 2"], "{revision}");
        assert_eq!(asked[0]["result"]["content"][0]["text"], "0 roots");
        gate.add_permits(1);
        assert_eq!(summary(&rest(waiting).await), ["notifications/progress", "answer 1"], "{revision}");
        delete(&serving, &session).await;
        assert_eq!(summary(&rest(listening).await), [] as [&str; 0], "{revision}");
    }
}

#[tokio::test]
async fn stream_stays_open_until_its_response() {
    // HTTP-022: even if the handler asks to close it. HTTP-024: the end of the session ends its streams.
    for revision in ["2025-03-26", "2025-06-18"] {
        let FeatureServer { server, gate, .. } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let leaving = stream(&serving, Request::post(&call(1, "leaves")).session(&session)).await;
        gate.add_permits(1);
        let progress = "notifications/progress";
        assert_eq!(summary(&rest(leaving).await), [progress, progress, "answer 1"], "{revision}");
    }
    for revision in HANDSHAKES {
        let FeatureServer { server, mut ended, .. } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let waiting = stream(&serving, Request::post(&call(1, "waits")).session(&session)).await;
        delete(&serving, &session).await;
        assert_eq!(summary(&rest(waiting).await), ["notifications/progress"], "{revision}");
        assert_eq!(within(ended.recv()).await, Some(false), "{revision}");
    }
}

#[tokio::test]
async fn lost_connection_does_not_cancel() {
    // HTTP-026
    for revision in HANDSHAKES {
        let FeatureServer { server, gate, mut ended } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let mut waiting = stream(&serving, Request::post(&call(1, "waits")).session(&session)).await;
        assert!(within(waiting.next_message()).await.is_some());
        drop(waiting);
        // The server must have noticed by now: it has served two more connections since.
        for id in 2..4 {
            let answer = send(&serving, Request::post(&call(id, "echo")).session(&session)).await;
            assert_eq!(answer.status, 200);
        }
        gate.add_permits(1);
        assert_eq!(within(ended.recv()).await, Some(true), "{revision}");
    }
}

#[tokio::test]
async fn unrelated_messages_use_one_of_the_get_streams() {
    // HTTP-039
    // HTTP-035; HTTP-040: on exactly one of them. HTTP-037: responses never do.
    for revision in HANDSHAKES {
        let FeatureServer { server, gate, .. } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let first = stream(&serving, Request::get_stream(&session)).await;
        let second = stream(&serving, Request::get_stream(&session)).await;
        let waiting = stream(&serving, Request::post(&call(1, "waits")).session(&session)).await;
        let hidden = send(&serving, Request::post(&call(2, "hides")).session(&session)).await;
        assert_eq!((hidden.status, hidden.json()["id"].clone()), (200, json!(2)), "{hidden:?}");
        gate.add_permits(1);
        let progress = "notifications/progress";
        assert_eq!(summary(&rest(waiting).await), [progress, progress, "answer 1"], "{revision}");
        // The messages must be sent before the session ends.
        let mut second = second;
        let mut heard: Vec<Value> = within(second.next_message()).await.into_iter().collect();
        delete(&serving, &session).await;
        heard.extend(rest(first).await);
        heard.extend(rest(second).await);
        assert_eq!(summary(&heard), ["notifications/tools/list_changed"], "{revision}");
    }
}

#[tokio::test]
async fn either_side_may_close_the_get_stream() {
    // HTTP-038
    let FeatureServer { server, .. } = feature_server();
    let mut serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    drop(stream(&serving, Request::get_stream(&session)).await);
    let answer = send(&serving, Request::post(&call(1, "echo")).session(&session)).await;
    assert_eq!(answer.status, 200);
    let mut again = stream(&serving, Request::get_stream(&session)).await;
    assert_eq!(send(&serving, Request::post(&call(2, "hides")).session(&session)).await.status, 200);
    assert_eq!(within(again.next_message()).await.unwrap()["method"], "notifications/tools/list_changed");
    serving.request_stop();
    assert_eq!(summary(&rest(again).await), [] as [&str; 0]);
}

#[tokio::test]
async fn session_ends_without_a_message() {
    // LIFE-021: neither side sends a message about it.
    for revision in HANDSHAKES {
        let serving = TestServer::start(&feature_server().server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let listening = stream(&serving, Request::get_stream(&session)).await;
        for method in ["shutdown", "exit"] {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method});
            let answer = send(&serving, Request::post(&request).session(&session)).await;
            assert_eq!(answer.error_code(), Some(-32601), "{revision} {answer:?}");
            let accepted = send(&serving, Request::post(&notice(method)).session(&session)).await;
            assert_eq!(accepted.status, 202);
        }
        // Connections open and close; the session stays.
        let answer = send(&serving, Request::post(&call(1, "echo")).session(&session)).await;
        assert_eq!(answer.status, 200, "{revision}");
        delete(&serving, &session).await;
        assert_eq!(summary(&rest(listening).await), [] as [&str; 0], "{revision}");
        let answer = send(&serving, Request::post(&call(2, "echo")).session(&session)).await;
        assert_eq!(answer.status, 404, "{revision}");
    }
}
