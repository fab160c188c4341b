//! Rows 1, 2, 9 to 13 and 17 to 20: batches, handshakes, sessions, and servers without them.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite_testkit::http::{Request, initialize_request};

use super::{
    CountingServer, MODERN, call, claiming, notice, plain, refused, refused_without_id, response, text,
};

fn numbered(mut message: Value, id: i64) -> Value {
    message["id"] = json!(id);
    message
}

#[tokio::test]
async fn row_1_batch_of_2025_03_26_gets_an_array() {
    let sessions = CountingServer::start().await;
    let session = sessions.open("2025-03-26").await;
    let none = CountingServer::without_sessions().await;
    let version = "2025-03-26";
    let requests = |batch: &Value| {
        let request = Request::post(batch);
        let named = request.clone().header("MCP-Protocol-Version", version);
        let inside = request.clone().session(&session);
        [(&sessions, inside), (&none, request), (&none, named)]
    };
    let two = json!([numbered(call("echo"), 1), notice("notifications/x"), numbered(plain("ping"), 2)]);
    for (counted, request) in requests(&two) {
        let answer = counted.send(request).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let answers = answer.json();
        let mut ids: Vec<_> =
            answers.as_array().unwrap().iter().map(|answer| answer["id"].as_i64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [Some(1), Some(2)], "{answers}");
    }
    // An array of one request gets an array, too.
    for (counted, request) in requests(&json!([call("echo")])) {
        let answer = counted.send(request).await.json();
        assert_eq!(answer[0]["result"]["content"][0]["text"], version, "{answer}");
    }
    for (counted, request) in requests(&json!([notice("notifications/x"), notice("notifications/y")])) {
        let answer = counted.send(request).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    }
    let before = (sessions.calls(), none.calls());
    let mut hello = initialize_request(version, json!({}));
    hello["id"] = json!(1);
    // HTTP-010: requests and responses are not mixed.
    let mixed = json!([call("echo"), response(json!(1))]);
    for batch in [json!([]), json!([hello, call("echo")]), mixed] {
        for (counted, request) in requests(&batch) {
            assert_eq!(refused_without_id(&counted.send(request).await), (400, -32600), "{batch}");
        }
    }
    assert_eq!((sessions.calls(), none.calls()), before);
}

#[tokio::test]
async fn row_2_other_arrays_are_refused() {
    let sessions = CountingServer::start().await;
    let none = CountingServer::without_sessions().await;
    let batch = json!([call("echo")]);
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = sessions.open(revision).await;
        let answer = sessions.send(Request::post(&batch).session(&session)).await;
        assert_eq!(refused_without_id(&answer), (400, -32600), "{revision}");
        let alone = Request::post(&batch).header("MCP-Protocol-Version", revision);
        assert_eq!(refused_without_id(&none.send(alone).await), (400, -32600), "{revision}");
    }
    let claims = json!([claiming(MODERN, call("echo"))]);
    for counted in [&sessions, &none, &CountingServer::stateless_only().await] {
        for batch in [&batch, &claims, &json!([])] {
            let modern = Request::post(batch).header("MCP-Protocol-Version", MODERN);
            assert_eq!(refused_without_id(&counted.send(modern).await), (400, -32600), "{batch}");
        }
        let answer = counted.send(Request::post(&claims)).await;
        assert_eq!(refused_without_id(&answer), (400, -32600));
        assert_eq!(counted.calls(), 0);
    }
}

#[tokio::test]
async fn row_9_handshake_negotiates_a_revision_and_opens_a_session() {
    // VER-028, SESS-001
    let counted = CountingServer::start().await;
    for (offered, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        (MODERN, "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let opened = counted.send(Request::post(&initialize_request(offered, json!({})))).await;
        assert_eq!(opened.status, 200, "{opened:?}");
        assert_eq!(opened.json()["result"]["protocolVersion"], agreed, "{offered}");
        let session = opened.header("mcp-session-id").unwrap();
        assert_eq!(text(&counted.send(Request::post(&call("echo")).session(session)).await), agreed);
    }
    let some = Revisions::ALL.handshake().without("2025-11-25".parse().unwrap());
    let older = CountingServer::with(|server| server.revisions(some)).await;
    let opened = older.send(Request::post(&initialize_request("2025-11-25", json!({})))).await;
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn row_10_session_keeps_its_revision() {
    // HTTP-044
    let counted = CountingServer::start().await;
    let session = counted.open("2025-06-18").await;
    let request = Request::post(&call("echo")).session(&session);
    for version in ["2025-06-18", "2025-11-25", "2024-11-05"] {
        let request = request.clone().header("MCP-Protocol-Version", version);
        assert_eq!(text(&counted.send(request).await), "2025-06-18", "{version}");
    }
    assert_eq!(text(&counted.send(request.clone()).await), "2025-06-18");
    let before = counted.calls();
    for version in ["1999-01-01", "2030-01-01", "", "latest"] {
        let request = request.clone().header("MCP-Protocol-Version", version);
        assert_eq!(refused(&counted.send(request).await).0, 400, "{version}");
    }
    assert_eq!(counted.calls(), before);
}

#[tokio::test]
async fn row_11_unknown_session_is_not_found() {
    // SESS-008
    let counted = CountingServer::start().await;
    let unknown = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for message in [call("echo"), plain("ping"), plain("tools/list")] {
        for session in [unknown, "short", &"x".repeat(2000)] {
            let answer = counted.send(Request::post(&message).session(session)).await;
            assert_eq!((answer.status, answer.error_code().is_some()), (404, true), "{answer:?}");
        }
    }
    for message in [notice("notifications/initialized"), response(json!(1)), json!([call("echo")])] {
        let answer = counted.send(Request::post(&message).session(unknown)).await;
        assert_eq!(answer.status, 404, "{message}");
    }
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn row_12_request_without_a_session_names_initialize() {
    // SESS-006
    let counted = CountingServer::start().await;
    for message in [call("echo"), plain("ping"), plain("no/such/method"), notice("notifications/initialized")]
    {
        let request = Request::post(&message);
        for request in [request.clone(), request.header("MCP-Protocol-Version", "2025-11-25")] {
            let answer = counted.send(request).await;
            assert_eq!(answer.status, 400, "{message}");
            let error = answer.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(error.contains("initialize") && error.contains(MODERN), "{error}");
            assert_eq!(answer.header("mcp-session-id"), None);
        }
    }
    assert_eq!(counted.calls(), 0);
}

#[tokio::test]
async fn row_13_requests_are_independent_without_sessions() {
    // HTTP-043
    let counted = CountingServer::without_sessions().await;
    assert_eq!(text(&counted.send(Request::post(&call("echo"))).await), "2025-03-26");
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let request = |message: &Value| Request::post(message).header("MCP-Protocol-Version", version);
        assert_eq!(text(&counted.send(request(&call("echo"))).await), version);
        // Without a session the client cannot be asked.
        let roots = counted.send(request(&call("roots"))).await;
        assert_eq!((roots.status, &roots.json()["result"]["isError"]), (200, &json!(true)), "{version}");
        let opened = counted.send(request(&initialize_request(version, json!({})))).await;
        assert_eq!((opened.status, opened.header("mcp-session-id")), (200, None));
    }
}

#[tokio::test]
async fn row_17_session_notification_is_accepted() {
    // HTTP-013
    let counted = CountingServer::start().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = counted.open(revision).await;
        for method in [
            "notifications/initialized",
            "notifications/cancelled",
            "notifications/roots/list_changed",
            "notifications/unheard/of",
        ] {
            let answer = counted.send(Request::post(&notice(method)).session(&session)).await;
            assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{revision} {method}");
        }
    }
}

#[tokio::test]
async fn row_18_notification_without_sessions_is_accepted() {
    let counted = CountingServer::without_sessions().await;
    let request = Request::post(&notice("notifications/initialized"));
    for request in [request.clone(), request.header("MCP-Protocol-Version", "2025-06-18")] {
        let answer = counted.send(request).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    }
}

#[tokio::test]
async fn row_19_session_response_reaches_its_request() {
    let counted = CountingServer::start().await;
    for revision in ["2025-03-26", "2025-11-25"] {
        let session = counted.open(revision).await;
        let mut stream = counted.serving.connect().await;
        let begun = stream.send(Request::post(&call("roots")).session(&session)).await;
        assert_eq!(begun.header("content-type"), Some("text/event-stream"));
        let question = stream.next_message().await.unwrap();
        assert_eq!(question["method"], "roots/list");
        // A response without a pending request is dropped.
        let stray = counted.send(Request::post(&response(json!("unknown"))).session(&session)).await;
        assert_eq!(stray.status, 202);
        let answer = Request::post(&response(question["id"].clone())).session(&session);
        let answer = counted.send(answer).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""));
        let done = stream.next_message().await.unwrap();
        assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(7), &json!("0 roots")));
        assert_eq!(stream.next_event().await, None);
    }
}

#[tokio::test]
async fn row_20_response_without_a_request_is_refused() {
    // JRPC-040
    let counted = CountingServer::start().await;
    let none = CountingServer::without_sessions().await;
    let session = counted.open("2025-11-25").await;
    let request = Request::post(&response(json!(1)));
    let modern = request.clone().header("MCP-Protocol-Version", MODERN);
    for (counted, request) in [
        (&counted, request.clone()),
        (&counted, modern.clone()),
        (&counted, modern.clone().session(&session)),
        (&none, request),
        (&none, modern),
    ] {
        let answer = counted.send(request).await;
        assert_eq!((answer.status, answer.error_code()), (400, Some(-32600)), "{answer:?}");
    }
}

#[tokio::test]
async fn unserved_version_is_refused_without_a_session() {
    // HTTP-044
    for counted in [CountingServer::start().await, CountingServer::without_sessions().await] {
        for version in ["1999-01-01", "2030-01-01", "latest", ""] {
            let request = Request::post(&call("echo")).header("MCP-Protocol-Version", version);
            assert_eq!(refused(&counted.send(request).await).0, 400, "{version}");
        }
        assert_eq!(counted.calls(), 0);
    }
}
