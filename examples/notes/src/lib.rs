//! A notes server: SQLite behind eight tools, two resources and a prompt.

pub mod db;
pub mod http;
mod resources;
mod tools;

use db::Db;
use tsugite::prelude::*;

/// Builds the server. It is the same for stdio, HTTP and tests.
pub fn server(db: Db) -> Server {
    Server::new("notes", env!("CARGO_PKG_VERSION"))
        .instructions("Search before you add: a note may exist already.")
        .state(db)
        .tool(tools::add_note)
        .tool(tools::get_note)
        .tool(tools::search_notes)
        .tool(tools::update_note)
        .tool(tools::tag_note)
        .tool(tools::delete_note)
        .tool(tools::import_notes)
        .tool(tools::summarize_notes)
        .resource(resources::list)
        .resource(resources::note)
        .prompt(resources::plan)
}
