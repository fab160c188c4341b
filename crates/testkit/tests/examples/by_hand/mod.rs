//! The examples without macros: all code that a macro generates can be written by hand.

pub mod axum;
pub mod calculator;
pub mod completion;
pub mod dynamic;
pub mod elicitation;
pub mod http;
pub mod mounting;
pub mod prompts;
pub mod resources;
pub mod sampling;
pub mod tools;
