//! The errors that handlers may return, and what the peer sees of them.

use std::error::Error;

use anyhow::Context as _;
use serde_json::{Value, json};
use tsugite::prelude::*;

use crate::{REVISIONS, answer, answers, call};

#[tool]
async fn fails_with_string() -> Result<i64, String> {
    Err(format!("only {} left", 3))
}

#[tool]
fn fails_with_text() -> Result<(), &'static str> {
    Err("too late")
}

#[tool]
async fn fails_with_anyhow() -> anyhow::Result<i64> {
    std::fs::read("/no/such/file").context("reading the secret file").map(|_| 1)
}

#[tool]
async fn fails_with_box() -> Result<String, Box<dyn Error + Send + Sync>> {
    Err("of a box".into())
}

#[tool]
async fn converts_anyhow() -> Result<i64, HandlerError> {
    Ok(fails_with_anyhow::call().await?)
}

#[tool]
async fn shows_anyhow() -> Result<i64, HandlerError> {
    fails_with_anyhow::call().await.map_err(HandlerError::shown)
}

#[resource("broken://anyhow")]
async fn resource() -> anyhow::Result<String> {
    anyhow::bail!("the secret")
}

#[prompt]
async fn prompt_with_text() -> Result<String, &'static str> {
    Err("no such topic")
}

fn text(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn text_is_shown_and_other_errors_are_hidden() {
    let server = Server::new("test", "1")
        .tool(fails_with_string)
        .tool(fails_with_text)
        .tool(fails_with_anyhow)
        .tool(fails_with_box)
        .tool(converts_anyhow)
        .tool(shows_anyhow);
    let failure = async |tool: &str| text(&answer(&server, call(tool, json!({}))).await).to_owned();
    assert_eq!(failure("fails_with_string").await, "only 3 left");
    assert_eq!(failure("fails_with_text").await, "too late");
    for hidden in ["fails_with_anyhow", "fails_with_box", "converts_anyhow"] {
        let text = failure(hidden).await;
        assert!(text.starts_with("tool failed (number ") && !text.contains("secret"), "{hidden}: {text}");
    }
    let shown = failure("shows_anyhow").await;
    assert!(shown.starts_with("reading the secret file: "), "{shown}");
}

#[tokio::test]
async fn resources_and_prompts_fail_with_any_error() {
    let server = Server::new("test", "1").resource(resource).prompt(prompt_with_text);
    let read = answer(&server, ("resources/read", json!({"uri": "broken://anyhow"}))).await;
    let message = read["error"]["message"].as_str().unwrap();
    assert!(message.contains("resource failed (number ") && !message.contains("secret"), "{read}");
    let got = answer(&server, ("prompts/get", json!({"name": "prompt_with_text"}))).await;
    assert!(got["error"]["message"].as_str().unwrap().contains("no such topic"), "{got}");
}

#[derive(Form)]
struct Confirm {
    sure: bool,
}

#[tool]
async fn asks(cx: Context) -> anyhow::Result<bool> {
    Ok(cx.ask::<Confirm>("Sure?").await?.sure)
}

#[tool]
async fn asks_with_context(cx: Context) -> anyhow::Result<bool> {
    tokio::task::yield_now().await;
    Ok(cx.ask::<Confirm>("Sure?").await.context("asking")?.sure)
}

#[tokio::test]
async fn failed_question_keeps_its_meaning_inside_anyhow() {
    let server = Server::new("test", "1").tool(asks).tool(asks_with_context);
    // The client has not declared elicitation.
    let requests = [call("asks", json!({})), call("asks_with_context", json!({}))];
    for revision in REVISIONS {
        for answer in answers(&server, revision, &requests).await {
            match revision {
                "2026-07-28" => assert_eq!(answer["error"]["code"], -32021, "{answer}"),
                _ => assert!(text(&answer).contains("elicitation"), "{answer}"),
            }
        }
    }
}
