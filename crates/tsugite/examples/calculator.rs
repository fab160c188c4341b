//! A calculator over stdio. Run: `cargo run -p tsugite --example calculator`
use tsugite::prelude::*;

/// Add two numbers.
#[tool]
pub async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
) -> i64 {
    a + b
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    Server::new("calculator", "1.0.0").tool(add).serve_stdio().await
}
