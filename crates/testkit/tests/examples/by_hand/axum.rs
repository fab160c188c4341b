//! `axum`, by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tsugite::prelude::*;

pub fn server(opened: Arc<AtomicU64>) -> Server {
    let visitors = Tool::new("visitors")
        .description("Returns the number of visitors of the page.")
        .read_only(true)
        .handler(|State(opened): State<Arc<AtomicU64>>| async move { opened.load(Ordering::Relaxed) });
    Server::new("visitors", "1.0.0").tool(visitors).state(opened)
}
