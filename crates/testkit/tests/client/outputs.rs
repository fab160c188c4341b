//! The type that a call reads from the result of a tool, on every revision.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tsugite::client::{Client, ErrorKind};
use tsugite::jsonrpc::RawJson;
use tsugite::prelude::*;
use tsugite::protocol::{
    CreateMessageParams, CreateMessageResult, Image, ReadResult, ResourceContents, Role, SamplingBlock,
    SamplingMessage,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Point {
    x: i64,
    y: i64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Wrapped {
    result: i64,
}

fn raw(value: Value) -> RawJson {
    RawJson::from_value(&value).unwrap()
}

/// One tool for each kind of result.
fn server() -> Server {
    Server::new("outputs", "1")
        .tool(Tool::new("unit").handler(async || ()))
        .tool(Tool::new("text").handler(async || "hello"))
        .tool(Tool::new("digits").handler(async || "42"))
        .tool(Tool::new("integer").handler(async || 3))
        .tool(Tool::new("boolean").handler(async || true))
        .tool(Tool::new("string").handler(async || Json("hi".to_owned())))
        .tool(Tool::new("some").handler(async || Json(Some(3))))
        .tool(Tool::new("none").handler(async || Json(None::<i64>)))
        .tool(Tool::new("list").handler(async || Json(vec![1, 2])))
        .tool(Tool::new("point").handler(async || Json(Point { x: 1, y: 2 })))
        .tool(Tool::new("wrapped").handler(async || Json(Wrapped { result: 3 })))
        .tool(Tool::new("bare").handler(async || CallResult::new([]).structured_content(raw(json!(3)))))
        .tool(
            Tool::new("bare_object")
                .handler(async || CallResult::new([]).structured_content(raw(json!({"x": 1, "y": 2})))),
        )
        .tool(Tool::new("lines").handler(async || vec![ContentBlock::text("one"), ContentBlock::text("two")]))
        .tool(Tool::new("picture").handler(async || Image::from_bytes(b"png", "image/png")))
        .tool(Tool::new("failing").handler(async || Err::<(), _>(HandlerError::new("no luck"))))
}

/// Calls `tool` on every revision and returns the outcome, which must be the same on all of them.
async fn outcome<T: DeserializeOwned + Debug + Send + 'static>(tool: &str) -> Result<String, String> {
    let mut first: Option<Result<String, String>> = None;
    for revision in Revision::ALL {
        let client = Client::in_process(&server()).revision(revision).await.unwrap();
        let outcome = client.call::<T>(tool, json!({})).await;
        let outcome = outcome.map(|value| format!("{value:?}")).map_err(|error| error.to_string());
        match &first {
            Some(first) => {
                assert_eq!(&outcome, first, "{tool} as {} on {revision}", std::any::type_name::<T>())
            }
            None => first = Some(outcome),
        }
        client.close().await;
    }
    first.unwrap()
}

const TOOLS: [&str; 15] = [
    "unit",
    "text",
    "digits",
    "integer",
    "boolean",
    "string",
    "some",
    "none",
    "list",
    "point",
    "wrapped",
    "bare",
    "bare_object",
    "lines",
    "picture",
];

#[tokio::test]
async fn unit_discards_any_output_but_not_errors() {
    for tool in TOOLS {
        assert_eq!(outcome::<()>(tool).await, Ok("()".to_owned()), "{tool}");
    }
    assert_eq!(outcome::<()>("failing").await, Err("the tool failed: no luck".to_owned()));
}

#[tokio::test]
async fn string_takes_any_text_on_every_revision() {
    for (tool, text) in [
        ("unit", ""),
        ("text", "hello"),
        ("digits", "42"),
        ("integer", "3"),
        ("boolean", "true"),
        ("string", "hi"),
        ("some", "3"),
        ("none", "null"),
        ("list", "[1,2]"),
        ("point", r#"{"x":1,"y":2}"#),
        ("wrapped", r#"{"result":3}"#),
        ("bare", "3"),
        ("bare_object", r#"{"x":1,"y":2}"#),
        ("lines", "one\ntwo"),
    ] {
        assert_eq!(outcome::<String>(tool).await, Ok(format!("{text:?}")), "{tool}");
    }
    assert!(outcome::<String>("picture").await.is_err());
}

#[tokio::test]
async fn typed_output_is_the_same_on_every_revision() {
    for tool in TOOLS {
        let _ = outcome::<i64>(tool).await;
        let _ = outcome::<bool>(tool).await;
        let _ = outcome::<Option<String>>(tool).await;
        let _ = outcome::<Vec<i64>>(tool).await;
        let _ = outcome::<Vec<String>>(tool).await;
        let _ = outcome::<Point>(tool).await;
    }
    assert_eq!(outcome::<i64>("integer").await, Ok("3".to_owned()));
    assert_eq!(outcome::<i64>("wrapped").await, Ok("3".to_owned()));
    assert_eq!(outcome::<i64>("bare").await, Ok("3".to_owned()));
    assert_eq!(outcome::<bool>("boolean").await, Ok("true".to_owned()));
    assert_eq!(outcome::<Vec<i64>>("list").await, Ok("[1, 2]".to_owned()));
    assert_eq!(outcome::<Point>("point").await, Ok("Point { x: 1, y: 2 }".to_owned()));
    assert_eq!(outcome::<Point>("bare_object").await, Ok("Point { x: 1, y: 2 }".to_owned()));
}

#[tokio::test]
async fn option_is_none_for_null_and_for_no_output() {
    assert_eq!(outcome::<Option<i64>>("some").await, Ok("Some(3)".to_owned()));
    assert_eq!(outcome::<Option<i64>>("none").await, Ok("None".to_owned()));
    assert_eq!(outcome::<Option<i64>>("unit").await, Ok("None".to_owned()));
    assert!(outcome::<Option<i64>>("point").await.is_err());
}

#[tokio::test]
async fn value_takes_any_output_on_every_revision() {
    for (tool, value) in [
        ("unit", json!(null)),
        ("text", json!("hello")),
        ("integer", json!(3)),
        ("none", json!(null)),
        ("list", json!([1, 2])),
        ("point", json!({"x": 1, "y": 2})),
        ("wrapped", json!({"result": 3})),
        ("bare_object", json!({"x": 1, "y": 2})),
    ] {
        assert_eq!(outcome::<Value>(tool).await, Ok(format!("{value:?}")), "{tool}");
    }
}

#[tokio::test]
async fn mismatch_names_the_tool_and_the_type() {
    for (outcome, error) in [
        (
            outcome::<Vec<String>>("point").await,
            "tool `point`: the result does not fit `Vec<String>`: invalid type: map, expected a sequence",
        ),
        (
            outcome::<std::collections::HashMap<String, Option<Point>>>("integer").await,
            "tool `integer`: the result does not fit `HashMap<String, Option<Point>>`: invalid type: integer \
             `3`, expected a map",
        ),
        (
            outcome::<i64>("text").await,
            "tool `text`: the result does not fit `i64`: invalid type: string \"hello\", expected i64",
        ),
        (
            outcome::<i64>("unit").await,
            "tool `unit`: the result does not fit `i64`: it has no text and no structured content",
        ),
        (
            outcome::<Point>("picture").await,
            "tool `picture`: the result does not fit `Point`: it has no text and no structured content",
        ),
    ] {
        assert_eq!(outcome, Err(error.to_owned()));
    }
}

#[tokio::test]
async fn results_return_their_text() {
    async fn greet(cx: Context) -> Result<String, AskError> {
        let question = SamplingMessage::new(Role::User, SamplingBlock::text("Who is there?"));
        Ok(cx.sample(CreateMessageParams::new([question], 100_u64)).await?.text())
    }

    let parts = [
        ResourceContents::text("notes://a", "one"),
        ResourceContents::bytes("notes://b", b"png"),
        ResourceContents::text("notes://c", "two"),
    ];
    let notes = Resource::new("notes://all").handler(move || {
        let parts = ReadResult::new(parts.clone());
        async move { parts }
    });
    let server = server().resource(notes).tool(Tool::new("greet").handler(greet));
    for revision in Revision::ALL {
        let client = Client::in_process(&server)
            .revision(revision)
            .on_sample(async |_| {
                Ok(CreateMessageResult::new(Role::Assistant, SamplingBlock::text("Kiku"), "model"))
            })
            .await
            .unwrap();
        assert_eq!(client.call_raw("lines", json!({})).await.unwrap().text(), "one\ntwo");
        assert_eq!(client.call_raw("picture", json!({})).await.unwrap().text(), "");
        assert_eq!(client.call_raw("failing", json!({})).await.unwrap().text(), "no luck");
        assert_eq!(client.read_resource("notes://all").await.unwrap().text(), "one\ntwo");
        assert_eq!(client.call_raw("greet", json!({})).await.unwrap().text(), "Kiku");
    }
}

#[tokio::test]
async fn mismatch_is_an_error_of_its_own_kind() {
    let client = Client::in_process(&server()).await.unwrap();
    let error = client.call::<bool>("integer", json!({})).await.unwrap_err();
    match error.kind() {
        ErrorKind::OutputMismatch { tool, expected, .. } => {
            assert_eq!((tool.as_str(), expected.as_str()), ("integer", "bool"));
        }
        other => panic!("{other:?}"),
    }
    assert!(error.may_have_run());
}
