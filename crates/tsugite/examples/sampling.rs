//! Sampling and roots: a tool asks the client's model, and for its directories.
//!
//! Run: `cargo run -p tsugite --example sampling`

use tsugite::prelude::*;
use tsugite::protocol::{CreateMessageParams, Role, SamplingBlock, SamplingMessage};

/// Summarizes a text in one sentence.
#[tool(read_only)]
async fn summarize(text: String, cx: Context) -> Result<String, HandlerError> {
    let question = SamplingMessage::new(Role::User, SamplingBlock::text(format!("Summarize: {text}")));
    let answer = cx.sample(CreateMessageParams::new([question], 100_u64).system_prompt("Be brief.")).await?;
    let words = answer.content.into_vec().into_iter().filter_map(|block| match block {
        SamplingBlock::Text(text) => Some(text.text),
        _ => None,
    });
    Ok(words.collect())
}

/// Lists the client's roots.
#[tool(read_only)]
async fn places(cx: Context) -> Result<Vec<String>, HandlerError> {
    Ok(cx.roots().await?.into_iter().map(|root| root.uri).collect())
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("sampling", "1.0.0").tool(summarize).tool(places)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
