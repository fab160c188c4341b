//! `prompts`, by hand.

use serde::Deserialize;
use tsugite::prelude::*;
use tsugite::protocol::Role;
use tsugite::protocol::prompts::PromptMessage;

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// The code to look at.
    code: String,
    /// How many remarks at most.
    remarks: Option<u8>,
}

#[derive(Deserialize, JsonSchema)]
struct Lesson {
    topic: String,
}

pub fn server() -> Server {
    let review = Prompt::new("review")
        .title("Review code")
        .description("Asks for a review of code.")
        .handler(|Args(Review { code, remarks }): Args<Review>| async move {
            format!("Review this code with at most {} remarks:\n{code}", remarks.unwrap_or(5))
        });
    let lesson = Prompt::new("lesson").description("Begins a lesson.").handler(
        |Args(Lesson { topic }): Args<Lesson>| async move {
            vec![
                PromptMessage::new(Role::User, ContentBlock::text(format!("Teach me {topic}."))),
                PromptMessage::new(Role::Assistant, ContentBlock::text("Gladly. What do you know already?")),
            ]
        },
    );
    Server::new("prompts", "1.0.0").prompt(review).prompt(lesson)
}
