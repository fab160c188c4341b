//! Resources: fixed ones, templates, and the files of a directory.
//!
//! Run: `cargo run -p tsugite --example resources`

use serde::Serialize;
use tsugite::prelude::*;

#[derive(Serialize)]
struct Settings {
    theme: &'static str,
}

/// The settings of the application.
#[resource("config://settings", mime_type = "application/json")]
async fn settings() -> Json<Settings> {
    Json(Settings { theme: "dark" })
}

/// One page of a book.
#[resource("books://{title}/{page}", name = "page", mime_type = "text/plain")]
async fn page(
    /// The title of the book.
    title: String,
    /// The number of the page, from 1.
    page: u32,
) -> Option<String> {
    (1..=100).contains(&page).then(|| format!("{title}, page {page}"))
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("resources", "1.0.0")
        .resource(settings)
        .resource(page)
        .resource(Resource::text("notes://motto", "Measure twice, cut once.").title("Motto"))
        .resource(Resource::directory(
            "source:///",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tsugite/examples"),
        ))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
