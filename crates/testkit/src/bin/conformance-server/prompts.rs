//! Prompts: with arguments, a resource, a picture, and one that asks.

use tsugite::prelude::*;
use tsugite::protocol::Role;
use tsugite::protocol::content::{EmbeddedResource, Image, ResourceContents};
use tsugite::protocol::prompts::PromptMessage;

use crate::RED_DOT_PNG;

pub(crate) fn register(server: Server) -> Server {
    server
        .prompt(test_simple_prompt)
        .prompt(test_prompt_with_arguments)
        .prompt(test_prompt_with_embedded_resource)
        .prompt(test_prompt_with_image)
        .prompt(test_input_required_result_prompt)
}

/// Takes no arguments.
#[prompt]
async fn test_simple_prompt() -> &'static str {
    "This is a simple prompt for testing."
}

/// Quotes its arguments.
#[prompt]
async fn test_prompt_with_arguments(
    /// The first argument.
    #[arg(complete = ["testValue1", "testValue2"])]
    arg1: String,
    /// The second argument.
    arg2: String,
) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

/// Holds a resource.
#[prompt]
async fn test_prompt_with_embedded_resource(
    /// Which resource.
    #[arg(name = "resourceUri")]
    resource_uri: String,
) -> Vec<PromptMessage> {
    let contents = ResourceContents::text(resource_uri, "Embedded resource content for testing.");
    let resource = EmbeddedResource::new(contents.mime_type("text/plain"));
    vec![
        PromptMessage::new(Role::User, ContentBlock::Resource(resource)),
        PromptMessage::new(Role::User, ContentBlock::text("Please process the embedded resource above.")),
    ]
}

/// Holds a picture.
#[prompt]
async fn test_prompt_with_image() -> Vec<PromptMessage> {
    vec![
        PromptMessage::new(Role::User, ContentBlock::Image(Image::new(RED_DOT_PNG, "image/png"))),
        PromptMessage::new(Role::User, ContentBlock::text("Please analyze the image above.")),
    ]
}

#[derive(Form)]
struct UserContext {
    context: String,
}

/// Asks the user what it shall be about.
#[prompt]
async fn test_input_required_result_prompt(cx: Context) -> Result<String, HandlerError> {
    let UserContext { context } = cx.ask("What context should the prompt use?").key("user_context").await?;
    Ok(format!("Use the following context: {context}"))
}
