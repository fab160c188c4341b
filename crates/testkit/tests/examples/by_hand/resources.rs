//! `resources`, by hand.

use serde::{Deserialize, Serialize};
use tsugite::prelude::*;

#[derive(Serialize)]
struct Settings {
    theme: &'static str,
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    title: String,
    page: u32,
}

pub fn server() -> Server {
    let settings = Resource::new("config://settings")
        .name("settings")
        .description("The settings of the application.")
        .mime_type("application/json")
        .handler(|| async { Json(Settings { theme: "dark" }) });
    let page = Resource::template("books://{title}/{page}")
        .name("page")
        .description("One page of a book.")
        .mime_type("text/plain")
        .handler(|Args(Page { title, page }): Args<Page>| async move {
            (1..=100).contains(&page).then(|| format!("{title}, page {page}"))
        });
    Server::new("resources", "1.0.0")
        .resource(settings)
        .resource(page)
        .resource(Resource::text("notes://motto", "Measure twice, cut once.").title("Motto"))
        .resource(Resource::directory(
            "source:///",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tsugite/examples"),
        ))
}
