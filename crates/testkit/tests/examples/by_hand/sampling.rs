//! `sampling`, by hand.

use serde::Deserialize;
use tsugite::prelude::*;
use tsugite::protocol::Role;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::sampling::{CreateMessageParams, SamplingMessage};

#[derive(Deserialize, JsonSchema)]
struct Summarize {
    text: String,
}

async fn summarize(Args(Summarize { text }): Args<Summarize>, cx: Context) -> Result<String, HandlerError> {
    let question = SamplingMessage::new(Role::User, SamplingBlock::text(format!("Summarize: {text}")));
    let answer = cx.sample(CreateMessageParams::new([question], 100_u64).system_prompt("Be brief.")).await?;
    let words = answer.content.into_vec().into_iter().filter_map(|block| match block {
        SamplingBlock::Text(text) => Some(text.text),
        _ => None,
    });
    Ok(words.collect())
}

async fn places(cx: Context) -> Result<Json<Vec<String>>, HandlerError> {
    Ok(Json(cx.roots().await?.into_iter().map(|root| root.uri).collect()))
}

pub fn server() -> Server {
    let summarize = Tool::new("summarize")
        .description("Summarizes a text in one sentence.")
        .read_only(true)
        .handler(summarize);
    let places = Tool::new("places").description("Lists the client's roots.").read_only(true).handler(places);
    Server::new("sampling", "1.0.0").tool(summarize).tool(places)
}
