//! Arguments that hold a name twice, which two parsers can read as two different values.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::{Schema, tools};
use tsugite_testkit::http::Request;

use super::guard::Guarded;
use super::{refused, request, text};

/// Arguments of any names.
type Members = serde_json::Map<String, Value>;

/// A call whose arguments are exactly `arguments`.
fn raw_call(name: &str, arguments: &str, more: Value) -> Request {
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
    let mut params = json!({"name": name, "arguments": "$", "_meta": meta});
    for (member, value) in more.as_object().unwrap() {
        params[member] = value.clone();
    }
    let call = Request::stateless(request(7, "tools/call", params));
    let body = String::from_utf8(call.body.clone()).unwrap().replace("\"$\"", arguments);
    call.body(body)
}

#[tokio::test]
async fn raw_tool_never_sees_a_name_twice() {
    let schema = || Schema::from(json!({"type": "object"}));
    let echo = |tool: Tool| tool.raw_handler(|arguments, _| async move { arguments.text().to_owned() });
    let server = Server::new("s", "1")
        .tool(echo(Tool::new("raw").input_schema(schema())))
        .tool(echo(Tool::from_definition(tools::Tool::new("defined", schema()))));
    let guarded = Guarded::start(&server).await;
    for name in ["raw", "defined"] {
        for (arguments, at) in [
            (r#"{"a":1,"a":2}"#, "`a`"),
            (r#"{"a":1,"\u0061":2}"#, "`a`"),
            (r#"{"deep":[0,{"b":{"c":1,"d":2,"c":3}}]}"#, "`c`"),
        ] {
            let answer = guarded.send(raw_call(name, arguments, json!({}))).await.json();
            assert_eq!(answer["result"]["isError"], true, "{name} {arguments}: {answer}");
            let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text.contains(at) && text.contains("twice"), "{text}");
        }
        let fine = r#"{"a":{"x":1},"b":{"x":1},"c":["a","a"]}"#;
        assert_eq!(text(&guarded.send(raw_call(name, fine, json!({}))).await), fine);
    }
}

#[tokio::test]
async fn state_is_not_opened_for_a_name_twice() {
    let ask = Tool::new("ask").handler(|Args(given): Args<Members>, cx: Context| async move {
        cx.ask_form(tsugite::protocol::form::FormSchema::new(), "Sure?").key("sure").await?;
        Ok::<_, HandlerError>(Value::from(given).to_string())
    });
    let guarded = Guarded::start(&Server::new("s", "1").tool(ask)).await;
    let asked = guarded.send(raw_call("ask", r#"{"path":"a"}"#, json!({}))).await.json();
    let state = asked["result"]["requestState"].clone();
    assert!(state.is_string(), "{asked}");
    let answers =
        json!({"requestState": state, "inputResponses": {"sure": {"action": "accept", "content": {}}}});
    // The last name is what the state is bound to.
    let twice = guarded.send(raw_call("ask", r#"{"path":"b","path":"a"}"#, answers.clone())).await;
    assert_eq!(refused(&twice), (200, -32602), "{twice:?}");
    assert!(twice.body.contains("twice"), "{twice:?}");
    assert_eq!(text(&guarded.send(raw_call("ask", r#"{"path":"a"}"#, answers)).await), r#"{"path":"a"}"#);
}
