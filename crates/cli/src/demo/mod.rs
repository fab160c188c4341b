//! The built-in demo server: an example of every feature, to test clients with.

mod media;
mod resources_and_prompts;
mod tools;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tsugite::prelude::*;
use tsugite::protocol::Implementation;

/// The counter that `touch` increments and `demo://counter` shows.
type Counter = Arc<AtomicU64>;

/// Builds the demo server.
pub(crate) fn server() -> Server {
    let info = Implementation::new("tsugite-demo", env!("CARGO_PKG_VERSION")).title("Tsugite's demo server");
    Server::from_info(info)
        .instructions("A server for trying out clients. It stores nothing.")
        .state(Counter::default())
        .tool(tools::add)
        .tool(tools::measure)
        .tool(tools::count)
        .tool(tools::order)
        .tool(tools::visit)
        .tool(tools::summarize)
        .tool(tools::places)
        .tool(tools::chatter)
        .tool(tools::picture)
        .tool(tools::sound)
        .tool(tools::links)
        .tool(tools::touch)
        .tool(tools::toggle)
        .tool(tools::wait)
        .tool(tools::fail)
        .resource(Resource::text(MOTTO, "Measure twice, cut once.").name("motto").mime_type("text/plain"))
        .resource(Resource::bytes(LOGO, media::picture(32)).name("logo").mime_type("image/png"))
        .resource(resources_and_prompts::counter)
        .resource(resources_and_prompts::city)
        .prompt(resources_and_prompts::review)
}

const MOTTO: &str = "demo://motto";
const LOGO: &str = "demo://logo";
const COUNTER: &str = "demo://counter";
