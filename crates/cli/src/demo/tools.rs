//! The tools of the demo server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use tsugite::prelude::*;
use tsugite::protocol::Role;
use tsugite::protocol::content::{
    Audio, EmbeddedResource, Image, ResourceContents, ResourceLink, SamplingBlock,
};
use tsugite::protocol::sampling::{CreateMessageParams, SamplingMessage};
use tsugite::server::ListKind;

use super::{COUNTER, Counter, LOGO, MOTTO, media};

/// Adds two numbers.
#[tool(read_only)]
pub(super) async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
) -> i64 {
    a.saturating_add(b)
}

/// The length of a text.
#[derive(Serialize, JsonSchema)]
#[schemars(crate = "tsugite::schemars")]
pub(super) struct Measured {
    letters: usize,
    words: usize,
    lines: usize,
}

/// Measures a text, and returns structured content.
#[tool(read_only, title = "Measure a text")]
pub(super) async fn measure(text: String) -> Json<Measured> {
    Json(Measured {
        letters: text.chars().count(),
        words: text.split_whitespace().count(),
        lines: text.lines().count(),
    })
}

/// Counts, and reports progress.
#[tool(read_only)]
pub(super) async fn count(
    /// The number to count to.
    #[arg(default = 5)]
    to: u32,
    /// The duration of each step, in milliseconds.
    #[arg(default = 200)]
    pause_ms: u64,
    cx: Context,
) -> Result<String, HandlerError> {
    if to > 1_000 {
        return Err(HandlerError::new(format!("`to` is {to}, and the limit is 1000")));
    }
    for step in 1..=to {
        cx.progress(step).total(to).message(format!("step {step} of {to}")).await;
        // Also after the last step: some clients drop progress just before the response, or disconnect over it.
        if pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(pause_ms.min(10_000))).await;
        }
    }
    Ok(format!("counted to {to}"))
}

#[derive(Form)]
pub(super) enum Wood {
    #[form(title = "Cedar, light")]
    Cedar,
    #[form(title = "Oak, heavy")]
    Oak,
}

#[derive(Form)]
pub(super) struct Order {
    /// The customer's name
    #[form(min_length = 1)]
    name: String,
    /// How many planks?
    #[form(min = 1, max = 12, default = 2)]
    planks: u32,
    /// Which wood?
    #[form(default = Wood::Cedar)]
    wood: Wood,
    /// Wrap it?
    wrapped: Option<bool>,
}

/// Takes an order: asks the user for the details.
#[tool]
pub(super) async fn order(cx: Context) -> Result<String, HandlerError> {
    match cx.ask::<Order>("What shall it be?").await {
        Ok(Order { name, planks, wood, wrapped }) => {
            let wood = if matches!(wood, Wood::Oak) { "oak" } else { "cedar" };
            let wrapped = if wrapped == Some(true) { ", wrapped" } else { "" };
            Ok(format!("{planks} planks of {wood} for {name}{wrapped}"))
        }
        Err(AskError::Declined) => Ok("order declined".to_owned()),
        Err(other) => Err(other.into()),
    }
}

/// Asks the user to visit a web page.
#[tool(read_only)]
pub(super) async fn visit(cx: Context) -> Result<&'static str, HandlerError> {
    let page =
        cx.url_elicitation("https://modelcontextprotocol.io/")?.message("Read about what a server can do.");
    match page.ask().await {
        Ok(()) => Ok("visited"),
        Err(AskError::Declined) => Ok("visit declined"),
        Err(other) => Err(other.into()),
    }
}

/// Summarizes a text in one sentence, by asking the client's model.
#[tool(read_only)]
pub(super) async fn summarize(text: String, cx: Context) -> Result<String, HandlerError> {
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
pub(super) async fn places(cx: Context) -> Result<Vec<String>, HandlerError> {
    Ok(cx.roots().await?.into_iter().map(|root| root.uri).collect())
}

/// Logs a message on each of five levels.
#[tool(read_only)]
pub(super) async fn chatter(cx: Context) -> &'static str {
    for (level, message) in [
        (Level::Debug, "sharpening"),
        (Level::Info, "measuring"),
        (Level::Notice, "measuring again"),
        (Level::Warning, "the wood is damp"),
        (Level::Error, "cut too short"),
    ] {
        cx.log_with_logger(level, "workshop", message).await;
    }
    "logged 5 messages"
}

/// Draws a joint of two timbers.
#[tool(read_only)]
pub(super) async fn picture(
    /// The width and height in pixels, 8 to 256.
    #[arg(default = 64)]
    size: u32,
) -> Image {
    Image::from_bytes(&media::picture(size), "image/png")
}

/// Returns a tone of half a second.
#[tool(read_only)]
pub(super) async fn sound(
    /// The frequency in Hz, 50 to 3,000.
    #[arg(default = 440)]
    hz: u32,
) -> Audio {
    Audio::from_bytes(&media::sound(hz), "audio/wav")
}

/// Returns a link to a resource, and embeds another.
#[tool(read_only)]
pub(super) async fn links() -> CallResult {
    let link = ResourceLink::new(LOGO, "logo").mime_type("image/png");
    let motto = ResourceContents::text(MOTTO, "Measure twice, cut once.").mime_type("text/plain");
    CallResult::new([
        ContentBlock::text("Two things:"),
        ContentBlock::ResourceLink(link),
        ContentBlock::Resource(EmbeddedResource::new(motto)),
    ])
}

/// Increments the counter, and notifies the subscribers of `demo://counter`.
#[tool]
pub(super) async fn touch(cx: Context, State(counter): State<Counter>) -> u64 {
    let value = counter.fetch_add(1, Ordering::Relaxed) + 1;
    cx.server().notify_resource_updated(COUNTER);
    value
}

/// Adds the tool `surprise`, or removes it again: the list of tools changes.
#[tool]
pub(super) async fn toggle(cx: Context) -> Result<&'static str, HandlerError> {
    if cx.server().remove(ListKind::Tool, "surprise") {
        return Ok("removed `surprise`");
    }
    let surprise =
        Tool::new("surprise").description("A tool that was added at run time.").handler(async || "boo");
    cx.server().add(surprise).map_err(|error| HandlerError::new(error.to_string()))?;
    Ok("added `surprise`")
}

/// Waits, to test timeouts and cancellation.
#[tool(read_only)]
pub(super) async fn wait(
    /// The duration in seconds, at most an hour.
    #[arg(default = 60)]
    seconds: u32,
) -> String {
    tokio::time::sleep(Duration::from_secs(seconds.min(3_600).into())).await;
    format!("waited {seconds} s")
}

/// Fails with the given message.
#[tool(read_only)]
pub(super) async fn fail(
    #[arg(default = "failed as requested")] why: String,
) -> Result<String, HandlerError> {
    Err(HandlerError::new(why))
}
