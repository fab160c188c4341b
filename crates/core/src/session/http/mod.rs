//! What to do with an HTTP request: one endpoint for every revision.
//!
//! [`decide_post`], [`decide_get`] and [`decide_delete`] say which revision governs a request and what is to be done;
//! a request of the stateless era then [climbs](climb) a ladder of checks. All of them are functions from what arrived to
//! what to do, so that each row of the table is a test.

mod get_delete;
mod post;
mod stateless_checks;
#[cfg(test)]
mod tests;

pub use get_delete::{DeleteDecision, GetDecision, decide_delete, decide_get, decide_http_sse};
pub use post::{PostDecision, decide_post, decide_post_request};
pub use stateless_checks::{MirrorHeaders, check_stateless_headers};

use crate::jsonrpc::code;
use crate::revision::{Revision, Revisions, RpcError, code as refusal_code};

/// A header that may stand once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionalHeader<'a> {
    /// It is not there.
    Absent,
    /// It is there once.
    Present(&'a str),
    /// It is there more than once, or is not text: nobody can say what it means.
    Ambiguous,
}

/// The session a request names, as far as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionHeader {
    /// It names none.
    Absent,
    /// It names one that is not there: never opened, ended, expired, or another principal's.
    Unknown,
    /// It names one that speaks this revision.
    Known(Revision),
}

/// What every decision looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeaders<'a> {
    /// `MCP-Protocol-VersionHeader`.
    pub version: OptionalHeader<'a>,
    /// `Mcp-Session-Id`.
    pub session: SessionHeader,
}

/// What the server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpPolicy {
    /// The revisions it serves.
    pub served: Revisions,
    /// Whether requests of the handshake era need a session; otherwise each stands alone, without what needs one.
    pub sessions: bool,
    /// Whether clients may end their session.
    pub allow_delete: bool,
    /// Whether the two paths of the old HTTP+SSE transport are served.
    pub http_sse: bool,
}

impl HttpPolicy {
    /// Sessions for the handshake era, which clients may end; no HTTP+SSE.
    pub fn new(served: Revisions) -> Self {
        Self { served, sessions: true, allow_delete: true, http_sse: false }
    }
}

/// An HTTP request that is not served.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HttpError {
    /// The HTTP status.
    pub status: u16,
    /// The error for the body, with the id of the request if there is one.
    pub error: RpcError,
    /// The revision whose words the error is in.
    pub revision: Revision,
}

impl HttpError {
    /// A refusal with its status, in the words of a revision.
    pub fn new(status: u16, error: RpcError, revision: Revision) -> Self {
        Self { status, error, revision }
    }

    /// A refusal in words of the newest revision.
    fn for_newest(status: u16, refusal: RpcError) -> Self {
        Self::new(status, refusal, Revision::NEWEST)
    }

    fn invalid_request(status: u16, text: &'static str, revision: Revision) -> Self {
        Self::new(status, RpcError::InvalidRequest(text.into()), revision)
    }

    // 404, not 400: the client must open a new session (Streamable HTTP, "Session Management").
    fn session_not_found() -> Self {
        Self::invalid_request(404, "Session not found", Revision::NEWEST_HANDSHAKE)
    }

    fn unsupported_version(requested: &str, served: Revisions, revision: Revision) -> Self {
        let refusal = RpcError::UnsupportedVersion { requested: requested.to_owned(), supported: served };
        Self::new(400, refusal, revision)
    }
}

fn ambiguous_version() -> HttpError {
    let text = "`MCP-Protocol-Version` stands there more than once or is not text";
    HttpError::invalid_request(400, text, Revision::NEWEST_HANDSHAKE)
}

/// The HTTP status of an answer of the stateless era that is an error with this code.
pub fn status_for_code(code: i64) -> u16 {
    match code {
        code::PARSE_ERROR | code::INVALID_REQUEST => 400,
        refusal_code::HEADER_MISMATCH
        | refusal_code::MISSING_CLIENT_CAPABILITY
        | refusal_code::UNSUPPORTED_VERSION => 400,
        code::METHOD_NOT_FOUND => 404,
        code::CONTENT_TOO_LARGE => 413,
        // The request was fine as far as HTTP is concerned.
        _ => 200,
    }
}

/// What `MCP-Protocol-VersionHeader` says.
enum VersionHeader<'a> {
    Absent,
    /// A revision of the handshake era that is served.
    Handshake(Revision),
    /// A revision of the stateless era, served or not.
    Stateless,
    /// One that nobody serves here.
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
