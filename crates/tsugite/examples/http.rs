//! A calculator over HTTP, for every revision at once.
//!
//! Run: `cargo run -p tsugite --example http`; clients go to `http://127.0.0.1:3000/mcp`.

use tsugite::prelude::*;

/// Add two numbers.
#[tool]
async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
) -> i64 {
    a + b
}

/// Adds all numbers up to one, and says how far it is.
#[tool]
async fn add_up(to: u32, cx: Context) -> u64 {
    let mut sum = 0;
    for number in 1..=to {
        sum += u64::from(number);
        cx.progress(number).total(to).await;
    }
    sum
}

/// The server.
pub fn server() -> Server {
    Server::new("calculator", "1.0.0").tool(add).tool(add_up)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_http("127.0.0.1:3000").await
}
