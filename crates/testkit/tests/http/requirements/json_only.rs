//! Clients that take JSON and no event stream: they get results, and nothing before them.

use serde_json::{Value, json};
use tsugite_testkit::http::{Request, TestServer, open_session};

use super::{HANDSHAKES, call, feature_server, send};

fn json_only(request: Request) -> Request {
    request.replace_header("Accept", "application/json")
}

#[tokio::test]
async fn call_with_notifications_is_answered_with_json() {
    let serving = TestServer::start(&feature_server().server).await;
    let mut requests = vec![Request::stateless(call(1, "steps"))];
    for revision in HANDSHAKES {
        let session = open_session(&serving, revision, json!({"roots": {}})).await;
        requests.push(Request::post(&call(1, "steps")).session(&session));
    }
    for request in requests {
        let answer = send(&serving, json_only(request.clone())).await;
        assert_eq!(answer.header("content-type"), Some("application/json"), "{request:?} {answer:?}");
        assert_eq!(answer.json()["result"]["content"][0]["text"], "done", "{answer:?}");
    }
}

#[tokio::test]
async fn question_before_the_result_is_unavailable() {
    let serving = TestServer::start(&feature_server().server).await;
    for revision in HANDSHAKES {
        let session = open_session(&serving, revision, json!({"roots": {}})).await;
        let answer = send(&serving, json_only(Request::post(&call(1, "asks")).session(&session))).await;
        assert_eq!(answer.json()["result"]["isError"], true, "{revision} {answer:?}");
    }
    // On 2026-07-28 the question is the result.
    let mut asking = call(1, "asks");
    asking["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"roots": {}});
    let answer = send(&serving, json_only(Request::stateless(asking))).await;
    assert_eq!(answer.json()["result"]["resultType"], "input_required", "{answer:?}");
}

#[tokio::test]
async fn stream_is_not_acceptable_as_json() {
    let serving = TestServer::start(&feature_server().server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let listen =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {}}});
    for request in [Request::stateless(listen), Request::get_stream(&session)] {
        let refused = send(&serving, json_only(request)).await;
        assert_eq!(refused.status, 406, "{refused:?}");
        assert_eq!(refused.json()["id"], Value::Null, "{refused:?}");
    }
}
