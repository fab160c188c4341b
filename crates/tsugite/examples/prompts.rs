//! Prompts: templates that the user picks and the server fills in.
//!
//! Run: `cargo run -p tsugite --example prompts`

use tsugite::prelude::*;
use tsugite::protocol::{PromptMessage, Role};

/// Asks for a review of code.
#[prompt(title = "Review code")]
async fn review(
    /// The code to look at.
    code: String,
    /// How many remarks at most.
    remarks: Option<u8>,
) -> String {
    format!("Review this code with at most {} remarks:\n{code}", remarks.unwrap_or(5))
}

/// Begins a lesson.
#[prompt]
async fn lesson(topic: String) -> Vec<PromptMessage> {
    vec![
        PromptMessage::new(Role::User, ContentBlock::text(format!("Teach me {topic}."))),
        PromptMessage::new(Role::Assistant, ContentBlock::text("Gladly. What do you know already?")),
    ]
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("prompts", "1.0.0").prompt(review).prompt(lesson)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
