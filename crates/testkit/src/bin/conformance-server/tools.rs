//! Tools that send no requests: contents, failures, logs, progress, schemas, headers, changes.

use std::time::Duration;

use serde_json::json;
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite::protocol::content::{Audio, EmbeddedResource, Image, ResourceContents};
use tsugite::server::ListKind;

use crate::{RED_DOT_PNG, SILENCE_WAV};

pub(crate) fn register(server: Server) -> Server {
    server
        .tool(test_simple_text)
        .tool(test_image_content)
        .tool(test_audio_content)
        .tool(test_embedded_resource)
        .tool(test_multiple_content_types)
        .tool(test_error_handling)
        .tool(test_tool_with_logging)
        .tool(test_logging_tool)
        .tool(test_tool_with_progress)
        .tool(test_reconnection)
        .tool(test_custom_header)
        .tool(json_schema_2020_12_tool())
        .tool(test_trigger_tool_change)
        .tool(test_trigger_prompt_change)
}

/// Gives text.
#[tool]
async fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// Gives a picture.
#[tool]
async fn test_image_content() -> Image {
    Image::new(RED_DOT_PNG, "image/png")
}

/// Gives sound.
#[tool]
async fn test_audio_content() -> Audio {
    Audio::new(SILENCE_WAV, "audio/wav")
}

/// Gives a resource.
#[tool]
async fn test_embedded_resource() -> EmbeddedResource {
    let text = "This is an embedded resource content.";
    EmbeddedResource::new(ResourceContents::text("test://embedded-resource", text).mime_type("text/plain"))
}

/// Gives text, a picture and a resource.
#[tool]
async fn test_multiple_content_types() -> Vec<ContentBlock> {
    let data = r#"{"test":"data","value":123}"#;
    let resource =
        ResourceContents::text("test://mixed-content-resource", data).mime_type("application/json");
    vec![
        ContentBlock::text("Multiple content types test:"),
        ContentBlock::Image(Image::new(RED_DOT_PNG, "image/png")),
        ContentBlock::Resource(EmbeddedResource::new(resource)),
    ]
}

/// Always fails.
#[tool]
async fn test_error_handling() -> Result<(), HandlerError> {
    Err(HandlerError::new("This tool intentionally returns an error for testing"))
}

/// Logs three times while it works.
#[tool]
async fn test_tool_with_logging(cx: Context) -> &'static str {
    cx.log(Level::Info, "Tool execution started").await;
    simulate_work().await;
    cx.log(Level::Info, "Tool processing data").await;
    simulate_work().await;
    cx.log(Level::Info, "Tool execution completed").await;
    "Tool with logging executed successfully"
}

/// Logs once, if the request asks for logs.
#[tool]
async fn test_logging_tool(cx: Context) -> &'static str {
    cx.log(Level::Info, "Tool execution started").await;
    "Logging tool executed successfully"
}

/// Tells three times how far it is.
#[tool]
async fn test_tool_with_progress(cx: Context) -> &'static str {
    cx.progress(0).total(100).await;
    simulate_work().await;
    cx.progress(50).total(100).await;
    simulate_work().await;
    cx.progress(100).total(100).await;
    "Tool with progress executed successfully"
}

/// Closes the stream of the call before it answers; the client fetches the answer elsewhere.
#[tool]
async fn test_reconnection(cx: Context) -> &'static str {
    cx.close_stream();
    simulate_work().await;
    "Reconnection test completed successfully"
}

/// Simulates work, so that messages are not sent together.
async fn simulate_work() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Takes an argument that a header repeats.
#[tool]
async fn test_custom_header(
    /// Repeated by `Mcp-Param-Value`.
    #[arg(header = "Value")]
    value: String,
) -> String {
    format!("Header value: {value}")
}

/// A schema with words that are easily lost on the way to the list.
fn json_schema_2020_12_tool() -> Tool {
    let schema = Schema::from(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    }));
    Tool::new("json_schema_2020_12_tool")
        .description("Takes arguments by a schema of 2020-12.")
        .input_schema(schema)
        .raw_handler(|arguments, _| async move { arguments.text().to_owned() })
}

/// Changes the list of tools, for a moment only: other replicas do not have the tool.
#[tool]
async fn test_trigger_tool_change(cx: Context) -> Result<&'static str, HandlerError> {
    let passing = Tool::new(TRANSIENT_NAME).description("Comes and goes.").handler(|| async { "here" });
    cx.server().add(passing)?;
    cx.server().remove(ListKind::Tool, TRANSIENT_NAME);
    Ok("The list of tools has changed")
}

/// Changes the list of prompts, for a moment only.
#[tool]
async fn test_trigger_prompt_change(cx: Context) -> Result<&'static str, HandlerError> {
    let passing = Prompt::new(TRANSIENT_NAME).description("Comes and goes.").handler(|| async { "here" });
    cx.server().add(passing)?;
    cx.server().remove(ListKind::Prompt, TRANSIENT_NAME);
    Ok("The list of prompts has changed")
}

/// The names of the items that are added and removed.
const TRANSIENT_NAME: &str = "test_passing";
