//! A client in a few lines.
//!
//! Run: `cargo run -p tsugite --example http` in one terminal, `cargo run -p tsugite --example client` in another.

use tsugite::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("http://127.0.0.1:3000/mcp".to_owned());
    let client = Client::connect(url).await?;
    let sum: i64 = client.call("add", serde_json::json!({"a": 1, "b": 2})).await?;
    println!("1 + 2 = {sum}, revision {}", client.revision());
    Ok(())
}
