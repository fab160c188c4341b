//! `calculator`, by hand.

use serde::Deserialize;
use tsugite::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

pub fn server() -> Server {
    let add = Tool::new("add")
        .description("Add two numbers.")
        .handler(|Args(Add { a, b }): Args<Add>| async move { a + b });
    Server::new("calculator", "1.0.0").tool(add)
}
