//! The fixture server on stdio, for transcripts. `fixture 50` gives what runs 50 milliseconds when the client has gone.
//! `fixture 50 soon` has a tool more, after whose answer the list of tools changes.

use std::time::Duration;

use tsugite::prelude::*;
use tsugite::server::ListKind;

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let server = tsugite_testkit::fixture::server();
    let grace = std::env::args().nth(1).and_then(|millis| millis.parse().ok()).map(Duration::from_millis);
    let server = match grace {
        Some(grace) => server.shutdown_grace(grace),
        None => server,
    };
    let soon = Tool::new("soon").handler(|cx: Context| async move {
        let server = cx.server().clone();
        tokio::spawn(async move { server.disable(ListKind::Tool, "soon") });
        "soon"
    });
    let server = if std::env::args().nth(2).is_some() { server.tool(soon) } else { server };
    server.serve_stdio().await
}
