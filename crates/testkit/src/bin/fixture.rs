//! The fixture server on stdio, for transcripts.

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    tsugite_testkit::fixture::server().serve_stdio().await
}
