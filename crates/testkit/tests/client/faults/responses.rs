//! Responses that come late, twice, in another order, without a request, or with slightly wrong ids.

use std::time::Duration;

use serde_json::json;
use tsugite::client::ErrorKind;
use tsugite_testkit::log::Warnings;

use super::raw::{AfterResponse, Raw};
use super::script::{noted, spawn, spawn_modern};
use super::{call, kind, within};

#[tokio::test]
async fn responses_are_matched_in_any_order() {
    // JRPC-047
    let script =
        "handshake; read_line; read_line; read_line; answer 4 three; answer 2 one; answer 3 two; drain";
    let client = within(spawn(script)).await.unwrap();
    let all = tokio::join!(call(&client, "a"), call(&client, "b"), call(&client, "c"));
    assert_eq!(
        (all.0.unwrap(), all.1.unwrap(), all.2.unwrap()),
        ("one".into(), "two".into(), "three".into())
    );
}

#[tokio::test]
async fn response_without_a_request_is_ignored() {
    // F-41
    let script = |id: u32| {
        let ids = format!(
            r#"5 77 0 -1 9223372036854775807 99999999999999999999 {id}.5 "{id}" "" null true [{id}] {{}}"#
        );
        let wrong: String = ids.split(' ').map(|id| format!("answer '{id}' wrong; ")).collect();
        format!(
            r#"
            read_line; {wrong}
            send_line '{{"jsonrpc":"2.0","id":null,"error":{{"code":-32700,"message":"wrong"}}}}'
            send_line '{{"jsonrpc":"2.0","id":"{id}","error":{{"code":-32700,"message":"wrong"}}}}'
            answer {id} right; drain"#
        )
    };
    for client in [spawn(&format!("handshake; {}", script(2))), spawn_modern(&script(1))] {
        let client = within(client).await.unwrap();
        assert_eq!(call(&client, "t").await.unwrap(), "right");
    }
}

#[tokio::test]
async fn response_with_both_or_no_outcome_is_ignored() {
    // F-41
    let script = r#"
        handshake; read_line
        send_line '{"jsonrpc":"2.0","id":2,"result":{"content":[]},"error":{"code":1,"message":"both"}}'
        send_line '{"jsonrpc":"2.0","id":2}'
        send_line '{"jsonrpc":"2.0","id":2,"method":"tools/call","result":{"content":[]}}'
        answer 2 right; drain"#;
    let client = within(spawn(script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "right");
}

#[tokio::test]
async fn second_response_to_a_call_is_ignored() {
    let script = "handshake; read_line; answer 2 first; answer 2 second; read_line; answer 2 third; answer 3 right; drain";
    let client = within(spawn(script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "first");
    assert_eq!(call(&client, "t").await.unwrap(), "right");
}

#[tokio::test]
async fn response_after_the_timeout_is_ignored() {
    // CANC-010
    let script =
        "handshake; read_line; read_line; answer 2 late; read_line; answer 2 later; answer 3 right; drain";
    let client = within(spawn(script)).await.unwrap();
    let late = within(client.call::<String>("t", ()).timeout(Duration::from_millis(50))).await.unwrap_err();
    assert!(late.is_timeout() && late.may_have_run(), "{late}");
    // The second line that the child reads is the cancellation.
    noted(&client, "notifications/cancelled").await;
    assert_eq!(call(&client, "t").await.unwrap(), "right");
}

#[tokio::test]
async fn response_to_a_cancelled_call_is_ignored() {
    // CANC-010
    let script = "handshake; read_line; read_line; answer 2 unwanted; read_line; answer 3 right; drain";
    let client = within(spawn(script)).await.unwrap();
    let dropped =
        tokio::time::timeout(Duration::from_millis(50), client.call::<String>("t", ()).into_future());
    assert!(dropped.await.is_err());
    assert_eq!(call(&client, "t").await.unwrap(), "right");
}

#[tokio::test]
async fn malformed_result_has_its_own_error_kind() {
    for result in ["{}", "[]", "null", "7", r#"{"content":7}"#, r#"{"content":[{"type":"text"}]}"#] {
        let script = format!(
            r#"handshake; read_line; send_line '{{"jsonrpc":"2.0","id":2,"result":{result}}}'; read_line; answer 3 yes; drain"#
        );
        let client = within(spawn(&script)).await.unwrap();
        match kind(within(client.call_raw("t", ())).await) {
            ErrorKind::MalformedResult { method, .. } => assert_eq!(method, "tools/call"),
            other => panic!("{result}: {other:?}"),
        }
        assert_eq!(call(&client, "t").await.unwrap(), "yes", "{result}");
    }
}

#[tokio::test]
async fn http_response_must_have_the_id_of_its_call() {
    let wrong = [json!("2"), json!("x"), json!(77), json!(2.5), json!(true)];
    let raw = Raw::after_handshake(move |request, writer| {
        let mut answer = request.answer("wrong");
        let which = request.body["params"]["arguments"]["id"].as_u64().unwrap() as usize;
        answer["id"] = match &wrong[which] {
            id if id == "2" => json!(request.id().to_string()),
            id => id.clone(),
        };
        writer.json(&answer);
        AfterResponse::Keep
    });
    for client in [raw.client(), raw.stateless_client()] {
        let client = within(client).await.unwrap();
        for which in 0..5 {
            let outcome = within(client.call::<String>("t", json!({"id": which}))).await;
            assert!(outcome.is_err(), "{which}: {outcome:?}");
        }
    }
    assert_eq!(raw.calls(), 10, "no call was sent again");
}

#[tokio::test]
async fn events_for_other_requests_are_ignored() {
    let raw = Raw::after_handshake(|request, writer| {
        writer.stream();
        for id in [json!(request.id().to_string()), json!(999), json!(null), json!(1.5)] {
            let mut wrong = request.answer("wrong");
            wrong["id"] = id;
            writer.event(None, &wrong);
        }
        writer.event(
            None,
            &json!({"jsonrpc": "2.0", "id": request.id(), "result": {}, "error": {"code": 1, "message": "m"}}),
        );
        writer.event(None, &json!({"jsonrpc": "2.0", "id": request.id()}));
        writer.write("data: no message\n\ndata\n\n: comment\n\nevent: other\ndata: {}\n\n");
        writer.event(None, &request.answer("right"));
        writer.event(None, &request.answer("second"));
        AfterResponse::Close
    });
    for client in [raw.client(), raw.stateless_client()] {
        let client = within(client).await.unwrap();
        assert_eq!(call(&client, "t").await.unwrap(), "right");
        assert_eq!(call(&client, "t").await.unwrap(), "right");
    }
}

#[tokio::test]
async fn tool_removed_from_a_list_is_logged() {
    // HTTP-068
    let raw = Raw::start(|request, writer| {
        let marked = json!({"type": "object", "properties": {"x": {"type": "object", "x-mcp-header": "X"}}});
        let tools = json!([{"name": "odd-one", "inputSchema": marked}, {"name": "good", "inputSchema": {"type": "object"}}]);
        writer.json(&request.result(json!({"tools": tools, "resultType": "complete", "ttlMs": 0})));
        AfterResponse::Keep
    });
    let client = within(raw.stateless_client()).await.unwrap();
    let warnings = Warnings::capture();
    let names: Vec<_> =
        within(client.list_tools()).await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["good"]);
    let [warning] = &warnings.take_with_fields()[..] else { panic!("not one warning") };
    assert!(warning.contains("odd-one") && warning.contains("mark="), "{warning}");
    assert!(warning.contains("removed a tool with an invalid `x-mcp-header`"), "{warning}");
}
