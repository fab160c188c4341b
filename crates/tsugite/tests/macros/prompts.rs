//! `#[prompt]`.

use serde::Deserialize;
use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::prompts::PromptMessage;
use tsugite::protocol::{ContentBlock, Icon, Role};
use tsugite::server::CompletionRequest;

use crate::{Request, assert_twins};

/// Reviews code.
#[prompt(name = "review-code", title = "Review", icons = [Icon::new("https://example.com/r.png")], tags = ["code"])]
async fn review(
    /// The code to look at.
    code: String,
    #[arg(complete = ["rust", "ruby"], default = "rust", description = "In which language.")]
    language: String,
    #[arg(name = "lines", complete = counts)] most: Option<u32>,
) -> Result<Vec<PromptMessage>, HandlerError> {
    let text = format!("Please review {most:?} lines of {language}:\n{code}");
    Ok(vec![PromptMessage::new(Role::User, ContentBlock::text(text))])
}

async fn counts(typing: CompletionRequest) -> Result<Vec<String>, HandlerError> {
    Ok(vec![typing.argument("language").unwrap_or("none").to_owned()])
}

#[prompt]
fn hello() -> &'static str {
    "Say hello."
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// The code to look at.
    code: String,
    /// In which language.
    #[serde(default = "rust")]
    language: String,
    lines: Option<u32>,
}

fn rust() -> String {
    "rust".to_owned()
}

fn get(name: &str, arguments: Value) -> Request {
    ("prompts/get", json!({"name": name, "arguments": arguments}))
}

fn complete(name: &str, value: &str) -> Request {
    let reference = json!({"type": "ref/prompt", "name": "review-code"});
    let context = json!({"arguments": {"language": "rust"}});
    (
        "completion/complete",
        json!({"ref": reference, "argument": {"name": name, "value": value}, "context": context}),
    )
}

#[tokio::test]
async fn function_becomes_a_prompt() {
    let by_hand = Prompt::new("review-code")
        .title("Review")
        .description("Reviews code.")
        .icons([Icon::new("https://example.com/r.png")])
        .tag("code")
        .handler(|Args(it): Args<Review>| async move { review::call(it.code, it.language, it.lines).await })
        .complete("language", ["rust", "ruby"])
        .complete("lines", counts);
    let hello_by_hand = Prompt::new("hello").blocking_handler(|| "Say hello.");
    assert_twins(
        Server::new("test", "1").prompt(review).prompt(hello),
        Server::new("test", "1").prompt(by_hand).prompt(hello_by_hand),
        [
            get("review-code", json!({"code": "fn"})),
            get("review-code", json!({"code": "fn", "language": "ruby", "lines": "7"})),
            get("hello", json!({})),
            complete("language", "ru"),
            complete("lines", ""),
        ],
    )
    .await;
}
