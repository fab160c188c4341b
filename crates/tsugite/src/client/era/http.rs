//! Differences between the eras over Streamable HTTP: headers, sessions and resumption.

use std::borrow::Cow;

use tsugite_core::session::header;
use tsugite_core::sse::SseReader;

use super::Era;

impl Era {
    /// The headers that repeat the method and name of a request.
    pub(in crate::client) fn routing_headers<'a>(
        self,
        method: &'a str,
        name: Option<&'a str>,
    ) -> impl Iterator<Item = (&'static str, Cow<'a, str>)> {
        let method = self.mirrors_headers().then_some((MCP_METHOD, Cow::Borrowed(method)));
        let name = name.filter(|_| self.mirrors_headers()).map(|name| (MCP_NAME, header::encode(name)));
        method.into_iter().chain(name)
    }

    /// Whether requests belong to a session that the server may end.
    pub(in crate::client) fn has_sessions(self) -> bool {
        match self {
            Era::Handshake => true,
            Era::Stateless => false,
        }
    }

    /// Checks that a broken response stream can be resumed. Fails with the end of a sentence that says why not.
    pub(in crate::client) fn check_resumable(self, events: &SseReader) -> Result<(), &'static str> {
        match self {
            Era::Handshake if events.last_event_id().is_some() => Ok(()),
            Era::Handshake => Err("before the response arrived, and has no event id to resume from"),
            Era::Stateless => Err("before the response arrived"),
        }
    }
}

const MCP_METHOD: &str = "mcp-method";
const MCP_NAME: &str = "mcp-name";
