//! `tools`, by hand.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tsugite::prelude::*;
use tsugite::protocol::content::Image;

#[derive(Clone)]
struct Shop {
    currency: &'static str,
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    /// What it is called.
    name: String,
    /// Pieces.
    count: u32,
}

#[derive(Serialize, JsonSchema)]
struct Bill {
    total: f64,
    currency: String,
}

#[derive(Deserialize, JsonSchema)]
struct Basket {
    /// What is in the basket.
    items: Vec<Item>,
    /// Taken off the price, in percent.
    #[serde(default)]
    discount: u8,
}

async fn price(Args(basket): Args<Basket>, State(shop): State<Shop>) -> Result<Json<Bill>, HandlerError> {
    let discount = basket.discount;
    if discount > 100 {
        return Err(HandlerError::new(format!("nobody gets {discount} % off")));
    }
    let pieces: u32 = basket.items.iter().map(|item| item.count * item.name.len() as u32).sum();
    let total = f64::from(pieces) * f64::from(100 - discount) / 100.0;
    Ok(Json(Bill { total, currency: shop.currency.to_owned() }))
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    to: u32,
}

async fn count(Args(Count { to }): Args<Count>, cx: Context) -> String {
    for step in 1..=to {
        cx.progress(step).total(to).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    format!("counted to {to}")
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    path: String,
}

pub fn server() -> Server {
    Server::new("tools", "1.0.0")
        .instructions("Price baskets before paying.")
        .state(Shop { currency: "EUR" })
        .tool(
            Tool::new("price")
                .title("Price a basket")
                .description("What a basket costs.")
                .read_only(true)
                .idempotent(true)
                .handler(price),
        )
        .tool(
            Tool::new("count")
                .description("Counts to a number, telling how far it is.")
                .timeout(Duration::from_secs(30))
                .handler(count),
        )
        .tool(
            Tool::new("dot")
                .description("A picture of one dot.")
                .blocking_handler(|| Image::from_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", "image/gif")),
        )
        .tool(
            Tool::new("read")
                .description("Reads a file. What goes wrong stays in the log of the server.")
                .blocking_handler(|Args(Read { path }): Args<Read>| std::fs::read_to_string(path)),
        )
}
