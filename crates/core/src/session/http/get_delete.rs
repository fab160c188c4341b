//! Decides about GET and DELETE, which only the handshake era has.

use super::{HttpError, HttpPolicy, RequestHeaders, SessionHeader, VersionHeader};
use crate::jsonrpc::Request;
use crate::revision::Revision;
use crate::session::request_meta::RequestMeta;

/// The decision for a GET on the endpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum GetDecision {
    /// Open the standalone stream of a session with this revision.
    Stream(Revision),
    /// Resume the stream that `Last-Event-ID` names.
    Resume(Revision),
    /// Reject the request.
    Reject(HttpError),
}

/// The decision for a DELETE on the endpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum DeleteDecision {
    /// End the session: 200, and 404 from then on.
    EndSession,
    /// Reject the request.
    Reject(HttpError),
}

/// The headers that decide how a GET is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetHeaders<'a> {
    /// The headers that every decision depends on.
    pub common: RequestHeaders<'a>,
    /// Whether `Accept` allows `text/event-stream`.
    pub accepts_events: bool,
    /// Whether `Last-Event-ID` is present.
    pub has_last_event_id: bool,
}

/// Decides how a GET is served.
pub fn decide_get(policy: &HttpPolicy, headers: &GetHeaders<'_>) -> GetDecision {
    match session_revision(policy, &headers.common) {
        Err(error) => GetDecision::Reject(error),
        Ok(_) if !headers.accepts_events => GetDecision::Reject(HttpError::invalid_request(
            406,
            "`Accept` must include `text/event-stream`",
            Revision::NEWEST_HANDSHAKE,
        )),
        // Row 21.
        Ok(revision) if headers.has_last_event_id => GetDecision::Resume(revision),
        Ok(revision) => GetDecision::Stream(revision),
    }
}

/// Decides about a DELETE.
pub fn decide_delete(policy: &HttpPolicy, head: &RequestHeaders<'_>) -> DeleteDecision {
    match session_revision(policy, head) {
        Err(error) => DeleteDecision::Reject(error),
        // Row 24.
        Ok(_) if policy.allow_delete => DeleteDecision::EndSession,
        Ok(_) => DeleteDecision::Reject(method_not_allowed()),
    }
}

/// Decides about a GET or POST on the endpoints of the old HTTP+SSE transport.
///
/// Any revision with a handshake can be negotiated there; the transport stays the same.
pub fn decide_http_sse(policy: &HttpPolicy) -> Result<(), HttpError> {
    // Row 22.
    if policy.http_sse && !policy.served.handshake().is_empty() {
        return Ok(());
    }
    Err(HttpError::invalid_request(
        404,
        "The HTTP+SSE transport is not served here",
        Revision::NEWEST_HANDSHAKE,
    ))
}

/// The revision that serves a request on the HTTP+SSE transport although it belongs to no handshake: `mcp/discover` without
/// `_meta`, whose result is the same for every client.
pub fn decide_http_sse_discover(
    policy: &HttpPolicy,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
) -> Option<Revision> {
    let served = policy.served.contains(Revision::NEWEST) && meta.is_bare_discover(request);
    served.then_some(Revision::NEWEST)
}

fn session_revision(policy: &HttpPolicy, head: &RequestHeaders<'_>) -> Result<Revision, HttpError> {
    let version = VersionHeader::parse(head.version, policy.served);
    // Row 23. A server without sessions has no streams either.
    let stateless = matches!(version, VersionHeader::Stateless);
    if stateless || policy.served.handshake().is_empty() || !policy.sessions {
        return Err(method_not_allowed());
    }
    match (head.session, version) {
        (SessionHeader::Absent, _) => {
            Err(HttpError::invalid_request(400, "`Mcp-Session-Id` is missing", Revision::NEWEST_HANDSHAKE))
        }
        (SessionHeader::Unknown, _) => Err(HttpError::session_not_found()),
        (_, VersionHeader::Unsupported(requested)) => {
            Err(HttpError::unsupported_version(requested, policy.served, Revision::NEWEST_HANDSHAKE))
        }
        (_, VersionHeader::Ambiguous) => Err(super::ambiguous_version()),
        (SessionHeader::Known(revision), _) => Ok(revision),
    }
}

fn method_not_allowed() -> HttpError {
    HttpError::invalid_request(405, "Only POST is served here", Revision::NEWEST)
}
