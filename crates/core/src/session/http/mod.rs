//! Decides what to do with an HTTP request: one endpoint for every revision.
//!
//! [`decide_post`], [`decide_get`] and [`decide_delete`] decide which revision governs a request and what to do with
//! it; a request of the stateless era then passes [`check_stateless_headers`]. All of them are pure functions, so that
//! each row of the decision table is a test.

mod get_delete;
mod post;
mod stateless_checks;
#[cfg(test)]
mod tests;

pub use get_delete::{
    DeleteDecision, GetDecision, GetHeaders, decide_delete, decide_get, decide_http_sse,
    decide_http_sse_discover,
};
pub use post::{PostDecision, decide_post, decide_post_request};
pub use stateless_checks::{MirrorHeaders, check_stateless_headers};

use crate::jsonrpc::code;
use crate::revision::{Revision, Revisions, RpcError, code as mcp_code};

/// A header that may occur once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionalHeader<'a> {
    /// The header is absent.
    Absent,
    /// The header occurs once.
    Present(&'a str),
    /// The header occurs more than once, or is not text.
    Ambiguous,
}

/// The session a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionHeader {
    /// The request names no session.
    Absent,
    /// The session does not exist: never opened, ended, expired, or owned by another principal.
    Unknown,
    /// The session exists and has this revision.
    Known(Revision),
}

/// The headers that every decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeaders<'a> {
    /// `MCP-Protocol-Version`.
    pub version: OptionalHeader<'a>,
    /// `Mcp-Session-Id`.
    pub session: SessionHeader,
}

/// The server's configuration as far as decisions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpPolicy {
    /// The served revisions.
    pub served: Revisions,
    /// Whether requests of the handshake era need a session; otherwise each is served on its own, without the features
    /// that need one.
    pub sessions: bool,
    /// Whether clients may end their session.
    pub allow_delete: bool,
    /// Whether the two endpoints of the old HTTP+SSE transport are served.
    pub http_sse: bool,
}

impl HttpPolicy {
    /// Sessions for the handshake era, which clients may end; no HTTP+SSE.
    pub fn new(served: Revisions) -> Self {
        Self { served, sessions: true, allow_delete: true, http_sse: false }
    }
}

/// The rejection of an HTTP request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HttpError {
    /// The HTTP status.
    pub status: u16,
    /// The error for the body; the caller adds the id of the request, if known.
    pub error: RpcError,
    /// The revision the error is encoded for.
    pub revision: Revision,
}

impl HttpError {
    /// A rejection with its status, encoded for a revision.
    pub fn new(status: u16, error: RpcError, revision: Revision) -> Self {
        Self { status, error, revision }
    }

    /// A rejection encoded for the newest revision.
    fn for_newest(status: u16, error: RpcError) -> Self {
        Self::new(status, error, Revision::NEWEST)
    }

    fn invalid_request(status: u16, text: &'static str, revision: Revision) -> Self {
        Self::new(status, RpcError::InvalidRequest(text.into()), revision)
    }

    // 404, not 400: the client must open a new session (Streamable HTTP, "Session Management").
    fn session_not_found() -> Self {
        Self::invalid_request(404, "Session not found", Revision::NEWEST_HANDSHAKE)
    }

    fn unsupported_version(requested: &str, served: Revisions, revision: Revision) -> Self {
        let error = RpcError::UnsupportedVersion { requested: requested.to_owned(), supported: served };
        Self::new(400, error, revision)
    }
}

fn ambiguous_version() -> HttpError {
    let text = "`MCP-Protocol-Version` occurs more than once or is not text";
    HttpError::invalid_request(400, text, Revision::NEWEST_HANDSHAKE)
}

/// The HTTP status of a response of the stateless era that is an error with this code.
pub fn status_for_code(code: i64) -> u16 {
    match code {
        code::PARSE_ERROR | code::INVALID_REQUEST => 400,
        mcp_code::HEADER_MISMATCH | mcp_code::MISSING_CLIENT_CAPABILITY | mcp_code::UNSUPPORTED_VERSION => {
            400
        }
        code::METHOD_NOT_FOUND => 404,
        code::CONTENT_TOO_LARGE => 413,
        code::UNAVAILABLE => 503,
        // An error of the method itself: the HTTP exchange succeeded.
        _ => 200,
    }
}

/// The parsed `MCP-Protocol-Version`.
enum VersionHeader<'a> {
    Absent,
    /// A revision of the handshake era that is served.
    Handshake(Revision),
    /// A revision of the stateless era, served or not.
    Stateless,
    /// A revision that is not served, or not known.
    Unsupported(&'a str),
    Ambiguous,
}

impl<'a> VersionHeader<'a> {
    fn parse(header: OptionalHeader<'a>, served: Revisions) -> Self {
        let text = match header {
            OptionalHeader::Absent => return VersionHeader::Absent,
            OptionalHeader::Ambiguous => return VersionHeader::Ambiguous,
            OptionalHeader::Present(text) => text.trim_ascii(),
        };
        match text.parse::<Revision>() {
            Ok(revision) if revision.is_stateless() => VersionHeader::Stateless,
            Ok(revision) if served.contains(revision) => VersionHeader::Handshake(revision),
            _ => VersionHeader::Unsupported(text),
        }
    }
}
