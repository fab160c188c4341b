//! An axum application with a page and an MCP server.
//!
//! Run: `cargo run -p tsugite --example axum`; the page is `http://127.0.0.1:3000/`, clients connect
//! to `http://127.0.0.1:3000/mcp`, and Ctrl-C stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tsugite::prelude::*;

/// The number of page views, shared by the page and the tool.
pub type Opened = Arc<AtomicU64>;

/// Returns the number of visitors of the page.
#[tool(read_only)]
async fn visitors(State(opened): State<Opened>) -> u64 {
    opened.load(Ordering::Relaxed)
}

/// Builds the server.
pub fn server(opened: Opened) -> Server {
    Server::new("visitors", "1.0.0").tool(visitors).state(opened)
}

/// Serves until `stop` completes.
pub async fn serve(
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> tsugite::Result<()> {
    let opened = Opened::default();
    let mcp = server(opened.clone()).http_service()?;
    let page = move || async move { format!("visitor {}\n", opened.fetch_add(1, Ordering::Relaxed) + 1) };
    let app = Router::new().route("/", get(page)).route_service("/mcp", mcp.clone());
    // Send events at once, without waiting for more data.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let stop = async move {
        stop.await;
        // axum waits for every connection, and subscription streams do not end by themselves.
        mcp.close();
    };
    Ok(axum::serve(listener, app).with_graceful_shutdown(stop).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    serve(listener, async { drop(tokio::signal::ctrl_c().await) }).await
}
