//! Tools of every kind: plain values, structs, state, errors, progress, images.
//!
//! Run: `cargo run -p tsugite --example tools`

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tsugite::prelude::*;
use tsugite::protocol::Image;

#[derive(Clone)]
struct Shop {
    currency: &'static str,
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    /// The name of the item.
    name: String,
    /// The number of pieces.
    count: u32,
}

#[derive(Serialize, JsonSchema)]
struct Bill {
    total: f64,
    currency: String,
}

/// Calculates the price of a basket.
#[tool(title = "Price a basket", read_only, idempotent)]
async fn price(
    /// The items in the basket.
    items: Vec<Item>,
    /// The discount in percent.
    #[arg(default = 0)]
    discount: u8,
    State(shop): State<Shop>,
) -> Result<Bill, HandlerError> {
    if discount > 100 {
        return Err(HandlerError::new(format!("the discount is {discount} %, and the limit is 100 %")));
    }
    let pieces: u32 = items.iter().map(|item| item.count * item.name.len() as u32).sum();
    let total = f64::from(pieces) * f64::from(100 - discount) / 100.0;
    Ok(Bill { total, currency: shop.currency.to_owned() })
}

/// Counts to a number, and reports progress.
#[tool(timeout = "30s")]
async fn count(to: u32, cx: Context) -> String {
    for step in 1..=to {
        cx.progress(step).total(to).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    format!("counted to {to}")
}

/// A picture of one dot.
#[tool]
fn dot() -> Image {
    Image::from_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", "image/gif")
}

/// Reads a file. Errors are only written to the log of the server.
#[tool]
fn read(path: String) -> Result<String, std::io::Error> {
    std::fs::read_to_string(path)
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("tools", "1.0.0")
        .instructions("Price baskets before paying.")
        .state(Shop { currency: "EUR" })
        .tool(price)
        .tool(count)
        .tool(dot)
        .tool(read)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
