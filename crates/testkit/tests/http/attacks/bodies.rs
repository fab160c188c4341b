//! Bodies that are too deep, too large, or not a message.

use serde_json::{Value, json};
use tsugite::jsonrpc::MessageLimits;
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, TestServer, open_session};

use super::{OLD, call, counted, refused, request, text};

fn post(body: impl Into<Vec<u8>>) -> Request {
    Request::post(&json!(0)).body(body)
}

#[tokio::test]
async fn oversized_batch_is_refused_before_it_runs() {
    // F-39
    let (server, count) = counted();
    let serving = TestServer::start(&server.http(Http::new().sessions(false))).await;
    let one = call("ran", json!({})).to_string();
    let many = format!("[{}]", vec![one.as_str(); 20_000].join(","));
    let empty = format!("[{}]", vec!["0"; 1_000_000].join(","));
    let nested = format!("{}{one}{}", "[".repeat(100), "]".repeat(100));
    let open = "[".repeat(1_000_000);
    for body in [many, empty, open] {
        let answer = serving.send(post(body)).await;
        assert!(matches!(answer.status, 400 | 413), "{answer:?}");
        assert!(answer.json()["error"]["code"].is_i64() && answer.body.len() < 1000, "{answer:?}");
    }
    // An array within an array is not a message.
    let answer = serving.send(post(nested)).await;
    let error = answer.json();
    let error = if error.is_array() { &error[0] } else { &error };
    assert_eq!(error["error"]["code"], -32600, "{answer:?}");
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn batch_response_size_is_limited() {
    // F-39
    let large = Tool::new("large").handler(|| async { "x".repeat(1000) });
    let limits = MessageLimits::default().max_message_bytes(20_000);
    let server = Server::new("s", "1").tool(large).limits(limits).http(Http::new().sessions(false));
    let serving = TestServer::start(&server).await;
    let calls: Vec<_> = (0..200).map(|id| request(id, "tools/call", json!({"name": "large"}))).collect();
    let answer = serving.send(Request::post(&json!(calls))).await;
    assert!(answer.body.len() < 80_000, "{} bytes", answer.body.len());
    assert_eq!(answer.json().as_array().unwrap().len(), 200, "each request gets a response");
}

#[tokio::test]
async fn hostile_json_is_refused() {
    // F-40
    let (server, count) = counted();
    let serving = TestServer::start(&server).await;
    let sessions = [None, Some(open_session(&serving, "2025-11-25", json!({})).await)];
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let params = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"ran","arguments":{text}}}}}"#
        )
    };
    for session in sessions {
        let send = |body: Vec<u8>| {
            let request = match &session {
                Some(session) => post(body).session(session),
                None => {
                    let ran = Request::stateless(call("ran", json!({})));
                    ran.body(body)
                }
            };
            serving.send(request)
        };
        for body in [
            nested(100_000),
            format!("{}{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000)),
            params(&format!(r#"{{"a":{}}}"#, nested(1000))),
        ] {
            let answer = send(body.into_bytes()).await;
            assert!(matches!(answer.status, 400 | 413), "{}", &answer.body[..answer.body.len().min(200)]);
            assert!(answer.error_code().is_some());
        }
        for body in [
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\xfe\"}".to_vec(),
            b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\"}".to_vec(),
            br#"{"jsonrpc":"2.0","id":7,"method":"\ud800"}"#.to_vec(),
            br#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#.to_vec(),
            br#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#.to_vec(),
            br#"{"jsonrpc":"2.0","id":7,"method":"ping"} {}"#.to_vec(),
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\nb\"}".to_vec(),
            b"\0".to_vec(),
        ] {
            assert_eq!(
                refused(&send(body.clone()).await),
                (400, -32700),
                "{}",
                String::from_utf8_lossy(&body)
            );
        }
    }
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn duplicate_members_do_not_bypass_header_checks() {
    // F-40: the header is compared with the same parse of the body that is run.
    let (server, count) = counted();
    let other = super::Count::default();
    let serving = TestServer::start(&server.tool(super::counting("other", &other))).await;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let ran = Request::stateless(call("ran", json!({})));
    let body = |inside: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{{inside},{meta}}}}}"#)
    };
    for names in [r#""name":"ran","name":"other""#, r#""name":"other","name":"ran""#] {
        serving.send(ran.clone().body(body(names))).await;
    }
    let methods = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","method":"tools/list","params":{{"name":"other",{meta}}}}}"#
    );
    serving.send(ran.clone().body(methods)).await;
    assert_eq!(other.get(), 0, "the header named another tool");
    assert!(count.get() <= 1);
    let escaped = r#""n\u0061me":"r\u0061n""#;
    assert_eq!(text(&serving.send(ran.body(body(escaped))).await), "ran");
}

#[tokio::test]
async fn every_legal_id_is_repeated_unchanged() {
    // F-40
    let (server, _) = counted();
    let serving = TestServer::start(&server).await;
    for id in
        [json!(0), json!(""), json!("7"), json!(-1), json!(9_007_199_254_740_993_i64), json!("\u{2028}\"")]
    {
        let message = request(id.clone(), "tools/call", json!({"name": "ran"}));
        assert_eq!(serving.send(Request::stateless(message)).await.json()["id"], id);
    }
    let long = request("x".repeat(100_000), "tools/call", json!({"name": "ran"}));
    let answer = serving.send(Request::stateless(long)).await;
    assert!(matches!(answer.status, 400 | 413) && answer.body.len() < 1000, "{}", answer.status);
}

#[tokio::test]
async fn unmatched_responses_are_harmless() {
    // F-41
    let asks = Tool::new("asks")
        .handler(|cx: Context| async move { cx.roots().await.map(|roots| roots.len().to_string()) });
    let serving = TestServer::start(&Server::new("s", "1").tool(asks)).await;
    for revision in OLD {
        let session = open_session(&serving, revision, json!({"roots": {}})).await;
        let mut calling = serving.connect().await;
        calling.send(Request::post(&call("asks", json!({}))).session(&session)).await;
        let question = calling.next_message().await.unwrap();
        let id = &question["id"];
        let wrong_type = match id {
            Value::String(text) => text.parse::<i64>().map_or(json!(1), Value::from),
            other => json!(other.to_string()),
        };
        let (roots, error) = (json!({"roots": []}), json!({"code": 1, "message": "no"}));
        for response in [
            json!({"jsonrpc": "2.0", "id": id, "result": roots, "error": error}),
            json!({"jsonrpc": "2.0", "id": wrong_type, "result": roots}),
            json!({"jsonrpc": "2.0", "id": "unknown", "result": roots}),
            json!({"jsonrpc": "2.0", "id": null, "error": error}),
            json!({"jsonrpc": "2.0", "error": error}),
            json!({"jsonrpc": "2.0", "id": id}),
            json!({"id": id, "result": roots}),
        ] {
            let answer = serving.send(Request::post(&response).session(&session)).await;
            assert!(matches!(answer.status, 202 | 400), "{revision} {response}: {answer:?}");
        }
        let real = json!({"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": "file:///a"}]}});
        assert_eq!(serving.send(Request::post(&real).session(&session)).await.status, 202);
        assert_eq!(super::result_text(&calling.next_message().await.unwrap()), "1", "{revision}");
        // A second response is too late.
        assert_eq!(serving.send(Request::post(&real).session(&session)).await.status, 202);
    }
}

#[tokio::test]
async fn long_names_and_uris_are_refused() {
    // F-10, T-17
    let server = Server::new("s", "1").resource(Resource::text("text://a", "a"));
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    for uri in [format!("text://{}", "a".repeat(1 << 20)), "nowhere://a".to_owned(), "no uri".to_owned()] {
        let read = request(7, "resources/read", json!({"uri": uri}));
        let answer = serving.send(Request::post(&read).session(&session)).await;
        assert!(matches!(refused(&answer), (200, -32002 | -32602)), "{}", answer.status);
        assert!(answer.body.len() < 2000);
    }
    let uri = format!("text://{}", "a".repeat(20_000));
    let answer = serving.send(Request::stateless(request(7, "resources/read", json!({"uri": uri})))).await;
    assert_eq!(refused(&answer), (200, -32602));
    assert!(answer.body.len() < 2000);
}

#[tokio::test]
async fn trace_headers_of_any_shape_are_harmless() {
    // F-38
    let (server, _) = counted();
    let serving = TestServer::start(&server).await;
    for (name, value) in
        [("traceparent", "nonsense"), ("tracestate", ""), ("baggage", &"b=c,".repeat(10_000))]
    {
        let mut message = call("ran", json!({}));
        message["params"]["_meta"][name] = json!(value);
        let request = Request::stateless(message).header(name, value);
        assert_eq!(text(&serving.send(request).await), "ran", "{name}");
    }
}
