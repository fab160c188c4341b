//! The fixture server on stdio, for transcripts. `fixture 50` gives what runs 50 milliseconds when the client has gone.

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    let server = tsugite_testkit::fixture::server();
    let grace = std::env::args().nth(1).and_then(|millis| millis.parse().ok()).map(Duration::from_millis);
    let server = match grace {
        Some(grace) => server.grace(grace),
        None => server,
    };
    server.serve_stdio().await
}
