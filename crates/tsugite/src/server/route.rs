//! The switchboard: one line per method.

use tsugite_core::protocol::{Method, discover, logging, ping, result, tools};
use tsugite_core::revision::{Kind, Refusal, Sender, canonical, read_params};

use super::context::Context;
use super::link::{Asked, Link, Step};

/// Finds what answers a request.
pub(crate) fn route(link: &Link, asked: Asked<'_>, context: &Context) -> Result<Step, Refusal> {
    let (method, revision) = (canonical(&asked.request.method), asked.revision);
    let unknown = || Refusal::MethodNotFound { method: method.to_owned() };
    if !revision.has(Kind::Request, method, Sender::Client) {
        return Err(unknown());
    }
    match method {
        ping::Ping::NAME => Ok(link.say::<ping::Ping>(asked, result::Empty::new())),
        discover::Discover::NAME => {
            Ok(link.say::<discover::Discover>(asked, super::lifecycle::discovered(link)))
        }
        logging::SetLevel::NAME => {
            link.set_log_level(read_params::<logging::SetLevel>(asked.request.params(), revision)?.level);
            Ok(link.say::<logging::SetLevel>(asked, result::Empty::new()))
        }
        tools::List::NAME if offers_tools(link) => super::tools::list(link, asked),
        tools::Call::NAME if offers_tools(link) => super::tools::call(link, asked, context),
        _ => Err(unknown()),
    }
}

fn offers_tools(link: &Link) -> bool {
    link.server.shared.registry(|registry| registry.has_tools())
}
