//! Which revision governs a POST, and what is to be done with it.
//!
//! Row numbers are those of the decision table in ARCHITECTURE.md.

use super::super::peek::{Claim, Peek};
use super::{Denial, Head, Header, Policy, SessionHeader, Version};
use crate::jsonrpc::{Batch, Incoming, Message, Request};
use crate::protocol::discover::Discover;
use crate::protocol::lifecycle::Initialize;
use crate::protocol::{Method, meta};
use crate::revision::{Refusal, Revision, canonical};

/// What to do with a POST.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Post {
    /// A request of the stateless era: let it climb the ladder.
    Stateless(Revision),
    /// An `initialize`: open a session, or none in a server without them, that speaks this revision.
    Initialize(Revision),
    /// A request or notification of a session that speaks this revision.
    InSession(Revision),
    /// A request or notification of the handshake era that stands alone: nothing can be asked back.
    Alone(Revision),
    /// A batch, in a session or alone.
    Batch {
        /// Its revision.
        revision: Revision,
        /// Whether it belongs to a session.
        in_session: bool,
    },
    /// An answer to a request of ours: 202, and hand it on if something waits for it.
    Deliver,
    /// A notification nobody acts on: 202.
    Accept,
    /// Not served.
    Deny(Denial),
}

/// The decision for a POST whose body was parsed.
pub fn decide_post(policy: &Policy, head: &Head<'_>, body: &Incoming<'_>) -> Post {
    match body {
        Incoming::Batch(batch) => decide_batch(policy, head, batch),
        Incoming::Single(Message::Request(request)) => match Peek::at(request.params()) {
            Ok(peek) => return decide_post_request(policy, head, request, &peek),
            Err(error) => Err(Denial::newest(400, Refusal::bad_params(&error))),
        },
        Incoming::Single(Message::Notification(notice)) => {
            let claims = Peek::at(notice.params()).is_ok_and(|peek| is_stateless_claim(&peek.claim()));
            decide_notification(policy, head, claims)
        }
        Incoming::Single(Message::Response(_)) => decide_response(policy, head),
    }
    .unwrap_or_else(Post::Deny)
}

/// The same for a request whose params were looked at already.
pub fn decide_post_request(policy: &Policy, head: &Head<'_>, request: &Request<'_>, peek: &Peek<'_>) -> Post {
    decide_request(policy, head, request, peek).unwrap_or_else(Post::Deny)
}

fn decide_request(
    policy: &Policy,
    head: &Head<'_>,
    request: &Request<'_>,
    peek: &Peek<'_>,
) -> Result<Post, Denial> {
    match peek.claim() {
        Claim::Malformed => Err(Denial::newest(400, peek.check_sender().err().unwrap_or(Refusal::Internal))),
        claim if is_stateless_claim(&claim) => {
            let Claim::Version(claimed) = claim else { return Err(Denial::newest(400, Refusal::Internal)) };
            decide_stateless(policy, head, &claimed)
        }
        // Row 7: a claim of an older version does not make it stateless.
        _ => decide_handshake(policy, head, request, peek),
    }
}

/// Whether the claim is one of the stateless era, or of a version we have never heard of, which can be no other.
fn is_stateless_claim(claim: &Claim<'_>) -> bool {
    match claim {
        Claim::Version(version) => version.parse::<Revision>().map_or(true, Revision::is_stateless),
        Claim::None | Claim::Malformed => false,
    }
}

fn decide_stateless(policy: &Policy, head: &Head<'_>, claimed: &str) -> Result<Post, Denial> {
    let mismatch = |text: &'static str| Denial::newest(400, Refusal::HeaderMismatch(text.into()));
    match head.version {
        // Row 4.
        Header::Absent => Err(mismatch("`MCP-Protocol-Version` is missing")),
        Header::Unclear => Err(mismatch("`MCP-Protocol-Version` stands there more than once or is not text")),
        // Row 5: before asking whether either is served.
        Header::Once(header) if header.trim_ascii() != claimed => {
            Err(mismatch("`MCP-Protocol-Version` differs from the version in `_meta`"))
        }
        Header::Once(_) => match claimed.parse::<Revision>() {
            // Row 3.
            Ok(revision) if policy.served.contains(revision) => Ok(Post::Stateless(revision)),
            // Row 6.
            _ => Err(Denial::unsupported(claimed, policy.served, Revision::NEWEST)),
        },
    }
}

fn decide_handshake(
    policy: &Policy,
    head: &Head<'_>,
    request: &Request<'_>,
    peek: &Peek<'_>,
) -> Result<Post, Denial> {
    let version = Version::read(head.version, policy.served);
    // Row 8: never served with the leniency of an older revision, `initialize` included.
    if let Version::Stateless = version {
        return Err(Denial::newest(400, missing_meta()));
    }
    let method = canonical(&request.method);
    let served = policy.served;
    if served.handshake().is_empty() {
        return Err(no_handshake(policy, &version, method, peek));
    }
    match (method, head.session) {
        // Row 14: not -32601, which would tell a half-migrated client that there is no such method.
        (Discover::NAME, _) => Err(Denial::newest(400, missing_meta())),
        // Row 9: whatever session it names, a new one begins.
        (Initialize::NAME, _) => {
            let offered = peek.offered_version().ok_or_else(|| {
                let text = "Invalid params: `initialize` needs `protocolVersion`";
                Denial::new(400, Refusal::InvalidParams(text.into()), Revision::NEWEST_HANDSHAKE)
            })?;
            let agreed = served.answer_to_initialize(offered);
            agreed.map(Post::Initialize).ok_or_else(|| Denial::unsupported(offered, served, Revision::NEWEST))
        }
        _ => in_session_or_alone(policy, head, &version),
    }
}

/// Rows 10 to 13, and 17 and 18: which revision governs what names no version of its own.
fn in_session_or_alone(policy: &Policy, head: &Head<'_>, version: &Version<'_>) -> Result<Post, Denial> {
    match (head.session, version) {
        // Row 11.
        (SessionHeader::Unknown, _) => Err(Denial::session_gone()),
        (_, Version::Unserved(requested)) => {
            Err(Denial::unsupported(requested, policy.served, Revision::NEWEST_HANDSHAKE))
        }
        (_, Version::Unclear) => Err(super::unclear_version()),
        // Row 10: the session's own revision counts, even if the header names another one that is served.
        (SessionHeader::Known(revision), _) => Ok(Post::InSession(revision)),
        // Row 12.
        (SessionHeader::Absent, _) if policy.sessions => Err(Denial::invalid(
            400,
            "No session: send `initialize` first, or speak 2026-07-28 with its `_meta` keys and headers",
            Revision::NEWEST_HANDSHAKE,
        )),
        // Row 13.
        (SessionHeader::Absent, Version::Handshake(revision)) => Ok(Post::Alone(*revision)),
        (SessionHeader::Absent, _) if policy.served.contains(Revision::ASSUMED) => {
            Ok(Post::Alone(Revision::ASSUMED))
        }
        (SessionHeader::Absent, _) => {
            Err(Denial::unsupported(Revision::ASSUMED.as_str(), policy.served, Revision::NEWEST_HANDSHAKE))
        }
    }
}

/// Row 25: nothing but the stateless era is served.
fn no_handshake(policy: &Policy, version: &Version<'_>, method: &str, peek: &Peek<'_>) -> Denial {
    if method == Initialize::NAME {
        let offered = peek.offered_version().unwrap_or_default();
        return Denial::unsupported(offered, policy.served, Revision::NEWEST);
    }
    let requested = match version {
        Version::Unserved(text) => text,
        Version::Handshake(revision) => revision.as_str(),
        _ => {
            return Denial::newest(400, Refusal::HeaderMismatch("`MCP-Protocol-Version` is missing".into()));
        }
    };
    Denial::unsupported(requested, policy.served, Revision::NEWEST)
}

fn decide_notification(policy: &Policy, head: &Head<'_>, claims: bool) -> Result<Post, Denial> {
    let version = Version::read(head.version, policy.served);
    // Row 16.
    if claims || matches!(version, Version::Stateless) {
        return Ok(Post::Accept);
    }
    if policy.served.handshake().is_empty() {
        return Err(Denial::newest(400, Refusal::HeaderMismatch("`MCP-Protocol-Version` is missing".into())));
    }
    in_session_or_alone(policy, head, &version)
}

fn decide_response(policy: &Policy, head: &Head<'_>) -> Result<Post, Denial> {
    let version = Version::read(head.version, policy.served);
    match (head.session, version) {
        // Row 20.
        (_, Version::Stateless) | (SessionHeader::Absent, _) => {
            Err(Denial::invalid(400, "Nobody here waits for a response", Revision::NEWEST))
        }
        (SessionHeader::Unknown, _) => Err(Denial::session_gone()),
        (_, Version::Unserved(requested)) => {
            Err(Denial::unsupported(requested, policy.served, Revision::NEWEST_HANDSHAKE))
        }
        (_, Version::Unclear) => Err(super::unclear_version()),
        // Row 19.
        (SessionHeader::Known(_), _) => Ok(Post::Deliver),
    }
}

fn decide_batch(policy: &Policy, head: &Head<'_>, batch: &Batch<'_>) -> Result<Post, Denial> {
    let refuse = |text| Err(Denial::invalid(400, text, Revision::NEWEST_HANDSHAKE));
    let no_batch = "Invalid request: only 2025-03-26 has batches";
    // Row 2.
    if batch.messages().iter().flatten().any(Claim::is_made_in) {
        return refuse(no_batch);
    }
    if batch.request_methods().any(|method| canonical(method) == Initialize::NAME) {
        return refuse("Invalid request: `initialize` cannot be part of a batch");
    }
    let version = Version::read(head.version, policy.served);
    if matches!(version, Version::Stateless) {
        return refuse(no_batch);
    }
    // Row 1.
    match in_session_or_alone(policy, head, &version)? {
        Post::InSession(revision) if revision.has_batches() => Ok(Post::Batch { revision, in_session: true }),
        Post::Alone(revision) if revision.has_batches() => Ok(Post::Batch { revision, in_session: false }),
        _ => refuse(no_batch),
    }
}

fn missing_meta() -> Refusal {
    let text = format!(
        "Invalid params: `_meta` lacks `{}` and `{}`",
        meta::PROTOCOL_VERSION,
        meta::CLIENT_CAPABILITIES
    );
    Refusal::InvalidParams(text.into())
}
