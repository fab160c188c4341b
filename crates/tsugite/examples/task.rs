//! A task that asks half way and survives being killed: `cargo run --example task -- FILE`.
//!
//! The store is the file. Kill the process while it waits for the answer, start it again, and answer: the task goes on. The
//! order is placed once, whatever happens.

use std::time::Duration;

use tsugite::prelude::*;
use tsugite::server::{SealKey, SealKeys};
use tsugite_store::FileStore;

#[derive(Form)]
struct Confirmation {
    /// Place the order?
    order: bool,
}

/// Looks for the best price and orders if the user agrees.
#[tool(task = "required", restartable)]
async fn buy(item: String, cx: Context) -> Result<String, HandlerError> {
    cx.status("comparing prices").await;
    let price: u32 = cx.once_repeatable("price", find_price()).await?;
    let Confirmation { order } =
        cx.ask(format!("{item} costs {price} euros. Order it?")).key("order").await?;
    if !order {
        return Ok(format!("{item} was not ordered"));
    }
    cx.status("ordering").await;
    let number: u32 = cx.once("order", place_order()).await?;
    Ok(format!("{item} is ordered, number {number}"))
}

async fn find_price() -> Result<u32, HandlerError> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(42)
}

async fn place_order() -> Result<u32, HandlerError> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(7)
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("shop", "1.0.0").tool(buy)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: task FILE")?;
    // A real server takes its keys from the environment: `SealKeys::from_env`.
    let keys = SealKeys::new(SealKey::derive(b"an example secret of 32 bytes!!!")?);
    server().store(FileStore::open(file)?).seal_keys(keys).serve_stdio().await?;
    Ok(())
}
