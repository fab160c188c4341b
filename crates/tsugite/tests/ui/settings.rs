//! Settings that are unknown, duplicate, or of the wrong type.

#![allow(unused)]

use tsugite::prelude::*;

#[tool(nmae = "add")]
async fn unknown() {}

#[tool(name = "add", name = "sub")]
async fn twice() {}

#[tool(name = 5)]
async fn number() {}

#[tool(title)]
async fn nothing() {}

#[tool(read_only = "yes")]
async fn flag() {}

#[tool(timeout = "soon")]
async fn time() {}

#[tool(timeout = 30)]
async fn time_of_what() {}

#[tool(tags = "one")]
async fn list() {}

#[tool]
async fn parameters(
    #[arg(complete = ["a"])] a: String,
    #[arg(name = 7)] b: String,
    #[arg] c: String,
    #[arg(name = "a")] d: String,
) {
}

#[prompt(size = 3)]
async fn of_a_prompt() -> String {
    String::new()
}

#[prompt]
async fn rules_of_a_prompt(#[schemars(length(min = 1))] topic: String) -> String {
    topic
}

#[tool]
async fn rules_of_a_part(#[schemars(length(min = 1))] cx: Context) {}

fn main() {
    let _ = Server::new("test", "1").tool(unknown).tool(parameters).prompt(of_a_prompt);
}
