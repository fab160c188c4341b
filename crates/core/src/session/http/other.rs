//! GET and DELETE, which only the handshake era has.

use super::{Denial, Head, Policy, SessionHeader, Version};
use crate::revision::Revision;

/// What to do with a GET on the endpoint.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Get {
    /// Open a stream for what belongs to no request, in a session that speaks this revision.
    Stream(Revision),
    /// Go on with the stream that `Last-Event-ID` names.
    Resume(Revision),
    /// Not served.
    Deny(Denial),
}

/// What to do with a DELETE on the endpoint.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Delete {
    /// End the session: 200, and 404 from then on.
    End,
    /// Not served.
    Deny(Denial),
}

/// The decision for a GET. `resumes` says that `Last-Event-ID` is there.
pub fn decide_get(policy: &Policy, head: &Head<'_>, accepts_events: bool, resumes: bool) -> Get {
    match session_of(policy, head) {
        Err(denial) => Get::Deny(denial),
        Ok(_) if !accepts_events => Get::Deny(Denial::invalid(
            406,
            "A stream is `text/event-stream`: `Accept` must say so",
            Revision::NEWEST_HANDSHAKE,
        )),
        // Row 21.
        Ok(revision) if resumes => Get::Resume(revision),
        Ok(revision) => Get::Stream(revision),
    }
}

/// The decision for a DELETE.
pub fn decide_delete(policy: &Policy, head: &Head<'_>) -> Delete {
    match session_of(policy, head) {
        Err(denial) => Delete::Deny(denial),
        // Row 24.
        Ok(_) if policy.delete => Delete::End,
        Ok(_) => Delete::Deny(method_not_allowed()),
    }
}

/// The decision for a GET or POST on the paths of the old HTTP+SSE transport.
///
/// What is agreed in the handshake there may be any revision that has one; the transport stays the same.
pub fn decide_sse(policy: &Policy) -> Result<(), Denial> {
    // Row 22.
    if policy.http_sse && !policy.served.handshake().is_empty() {
        return Ok(());
    }
    Err(Denial::invalid(404, "The HTTP+SSE transport is not served here", Revision::NEWEST_HANDSHAKE))
}

fn session_of(policy: &Policy, head: &Head<'_>) -> Result<Revision, Denial> {
    let version = Version::read(head.version, policy.served);
    // Row 23. A server without sessions has no streams to offer either.
    let stateless = matches!(version, Version::Stateless);
    if stateless || policy.served.handshake().is_empty() || !policy.sessions {
        return Err(method_not_allowed());
    }
    match (head.session, version) {
        (SessionHeader::Absent, _) => {
            Err(Denial::invalid(400, "`Mcp-Session-Id` is missing", Revision::NEWEST_HANDSHAKE))
        }
        (SessionHeader::Unknown, _) => Err(Denial::session_gone()),
        (_, Version::Unserved(requested)) => {
            Err(Denial::unsupported(requested, policy.served, Revision::NEWEST_HANDSHAKE))
        }
        (_, Version::Unclear) => Err(super::unclear_version()),
        (SessionHeader::Known(revision), _) => Ok(revision),
    }
}

fn method_not_allowed() -> Denial {
    Denial::invalid(405, "Only POST is served here", Revision::NEWEST)
}
