//! Which requests may be sent again although they may have run.
//!
//! A response under the id of a request is its outcome, whatever the HTTP status. Without one, a request is sent again only
//! if the server cannot have processed it, or if running it twice does no harm. The table in `docs/client.md` has a row for
//! each case.

use tsugite_core::protocol::{Method, tasks, tools};

use super::connection::{ClientConnection, OutboundRequest};
use super::options::Options;

impl ClientConnection {
    /// Whether running a request twice does no harm: every method of the specification but those with an effect of their
    /// own, and the tools that the application names. The server's hints count only if the application trusts them.
    pub(super) fn is_harmless(&self, request: &dyn OutboundRequest, options: &Options) -> bool {
        if options.idempotent {
            return true;
        }
        match request.method() {
            tools::Call::NAME => request.name().is_some_and(|name| self.is_harmless_tool(name)),
            tasks::Update::NAME | tasks::Cancel::NAME => false,
            method => tsugite_core::revision::methods().iter().any(|row| row.name == method),
        }
    }

    fn is_harmless_tool(&self, name: &str) -> bool {
        let settings = &self.shared.settings;
        settings.repeatable_tools.iter().any(|known| known == name)
            || settings.trust_tool_hints && self.shared.tools.is_idempotent(name)
    }
}
