//! Decides which revision governs a POST, and what to do with it.
//!
//! Row numbers are those of the decision table, one test each in `tests.rs`.

use super::super::request_meta::{ClaimedVersion, RequestMeta};
use super::{HttpError, HttpPolicy, OptionalHeader, RequestHeaders, SessionHeader, VersionHeader};
use crate::jsonrpc::{Batch, Incoming, Message, Request};
use crate::protocol::discover::Discover;
use crate::protocol::lifecycle::Initialize;
use crate::protocol::{Method, meta};
use crate::revision::{Revision, RpcError, canonical_method};

/// The decision for a POST.
#[derive(Debug, Clone, PartialEq)]
pub enum PostDecision {
    /// A request of the stateless era: check its headers next.
    Stateless(Revision),
    /// `mcp/discover` without `_meta`: respond with this revision, without a session and without checking headers.
    BareDiscover(Revision),
    /// An `initialize`: open a session with this revision, unless the server has no sessions.
    Initialize(Revision),
    /// A request or notification of a session with this revision.
    InSession(Revision),
    /// A request or notification of the handshake era without a session: the server cannot send requests of its own.
    Sessionless(Revision),
    /// A batch, in a session or without.
    Batch {
        /// The revision of the batch.
        revision: Revision,
        /// Whether the batch belongs to a session.
        in_session: bool,
    },
    /// A response to a request of the server: 202, and deliver it if a request waits for it.
    DeliverResponse,
    /// A notification that needs no action: 202.
    Accept,
    /// Reject the request.
    Reject(HttpError),
}

/// Decides about a POST whose body was parsed.
pub fn decide_post(policy: &HttpPolicy, head: &RequestHeaders<'_>, body: &Incoming<'_>) -> PostDecision {
    match body {
        Incoming::Batch(batch) => decide_batch(policy, head, batch),
        Incoming::Single(Message::Request(request)) => match RequestMeta::from_params(request.params()) {
            Ok(meta) => return decide_post_request(policy, head, request, &meta),
            Err(error) => Err(HttpError::for_newest(400, RpcError::invalid_params(&error))),
        },
        Incoming::Single(Message::Notification(notice)) => {
            let claims = RequestMeta::from_params(notice.params())
                .is_ok_and(|meta| claims_stateless(&meta.claimed_version()));
            decide_notification(policy, head, claims)
        }
        Incoming::Single(Message::Response(_)) => decide_response(policy, head),
    }
    .unwrap_or_else(PostDecision::Reject)
}

/// Decides about a request whose params were scanned already.
pub fn decide_post_request(
    policy: &HttpPolicy,
    head: &RequestHeaders<'_>,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
) -> PostDecision {
    decide_request(policy, head, request, meta).unwrap_or_else(PostDecision::Reject)
}

fn decide_request(
    policy: &HttpPolicy,
    head: &RequestHeaders<'_>,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
) -> Result<PostDecision, HttpError> {
    match meta.claimed_version() {
        ClaimedVersion::Malformed => {
            Err(HttpError::for_newest(400, meta.check_client_meta().err().unwrap_or(RpcError::Internal)))
        }
        claim if claims_stateless(&claim) => {
            let ClaimedVersion::Version(claimed) = claim else {
                return Err(HttpError::for_newest(400, RpcError::Internal));
            };
            decide_stateless(policy, head, &claimed)
        }
        // Row 7: a claim of an older version does not make the request stateless.
        _ => decide_handshake(policy, head, request, meta),
    }
}

/// Whether the claim is one of the stateless era, or of an unknown version, which can only be a newer one.
fn claims_stateless(claim: &ClaimedVersion<'_>) -> bool {
    match claim {
        ClaimedVersion::Version(version) => version.parse::<Revision>().map_or(true, Revision::is_stateless),
        ClaimedVersion::None | ClaimedVersion::Malformed => false,
    }
}

fn decide_stateless(
    policy: &HttpPolicy,
    head: &RequestHeaders<'_>,
    claimed: &str,
) -> Result<PostDecision, HttpError> {
    let mismatch = |text: &'static str| {
        let error =
            RpcError::HeaderMismatch(text.into()).with("header", VERSION_HEADER).with("expected", claimed);
        HttpError::for_newest(
            400,
            match head.version {
                OptionalHeader::Present(received) => error.with("received", received),
                OptionalHeader::Absent | OptionalHeader::Ambiguous => error,
            },
        )
    };
    match head.version {
        // Row 4.
        OptionalHeader::Absent => Err(mismatch("`MCP-Protocol-Version` is missing")),
        OptionalHeader::Ambiguous => {
            Err(mismatch("`MCP-Protocol-Version` occurs more than once or is not text"))
        }
        // Row 5: checked before whether either version is served.
        OptionalHeader::Present(header) if header.trim_ascii() != claimed => {
            Err(mismatch("`MCP-Protocol-Version` differs from the version in `_meta`"))
        }
        OptionalHeader::Present(_) => match claimed.parse::<Revision>() {
            // Row 3.
            Ok(revision) if policy.served.contains(revision) => Ok(PostDecision::Stateless(revision)),
            // Row 6.
            _ => Err(HttpError::unsupported_version(claimed, policy.served, Revision::NEWEST)),
        },
    }
}

fn decide_handshake(
    policy: &HttpPolicy,
    head: &RequestHeaders<'_>,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
) -> Result<PostDecision, HttpError> {
    let version = VersionHeader::parse(head.version, policy.served);
    // Row 8: never served as an older revision, `initialize` included.
    if let VersionHeader::Stateless = version {
        return Err(HttpError::for_newest(400, missing_meta()));
    }
    let method = canonical_method(&request.method);
    let served = policy.served;
    let refused = matches!(version, VersionHeader::Unsupported(_) | VersionHeader::Ambiguous)
        || matches!(head.session, SessionHeader::Unknown);
    // Row 14.
    if meta.is_bare_discover(request) && served.contains(Revision::NEWEST) && !refused {
        return Ok(PostDecision::BareDiscover(Revision::NEWEST));
    }
    if served.handshake().is_empty() {
        return Err(handshake_unsupported(policy, &version, method, meta));
    }
    match (method, head.session) {
        // Not -32601, because a client would conclude that the method does not exist.
        (Discover::NAME, _) => Err(HttpError::for_newest(400, missing_meta())),
        // Row 9: starts a new session, even if it names another.
        (Initialize::NAME, _) => {
            let offered = meta.offered_version().ok_or_else(|| {
                let text = "Invalid params: `initialize` needs `protocolVersion`";
                let error = RpcError::InvalidParams(text.into())
                    .with("path", "protocolVersion")
                    .with("supported", served.names());
                HttpError::new(400, error, Revision::NEWEST_HANDSHAKE)
            })?;
            let agreed = served.negotiate(offered);
            agreed
                .map(PostDecision::Initialize)
                .ok_or_else(|| HttpError::unsupported_version(offered, served, Revision::NEWEST))
        }
        _ => resolve_session(policy, head, &version),
    }
}

/// Rows 10 to 13, 17 and 18: the revision of a message that claims none.
fn resolve_session(
    policy: &HttpPolicy,
    head: &RequestHeaders<'_>,
    version: &VersionHeader<'_>,
) -> Result<PostDecision, HttpError> {
    match (head.session, version) {
        // Row 11.
        (SessionHeader::Unknown, _) => Err(HttpError::session_not_found()),
        (_, VersionHeader::Unsupported(requested)) => {
            Err(HttpError::unsupported_version(requested, policy.served, Revision::NEWEST_HANDSHAKE))
        }
        (_, VersionHeader::Ambiguous) => Err(super::ambiguous_version()),
        // Row 10: the session's revision counts, even if the header names another one that is served.
        (SessionHeader::Known(revision), _) => Ok(PostDecision::InSession(revision)),
        // Row 12.
        (SessionHeader::Absent, _) if policy.sessions => Err(HttpError::new(
            400,
            RpcError::InvalidRequest(
                "No session: send `initialize` first, or speak 2026-07-28 with its `_meta` keys and headers"
                    .into(),
            )
            .with("supported", policy.served.names()),
            Revision::NEWEST_HANDSHAKE,
        )),
        // Row 13.
        (SessionHeader::Absent, VersionHeader::Handshake(revision)) => {
            Ok(PostDecision::Sessionless(*revision))
        }
        (SessionHeader::Absent, _) if policy.served.contains(Revision::HTTP_DEFAULT) => {
            Ok(PostDecision::Sessionless(Revision::HTTP_DEFAULT))
        }
        (SessionHeader::Absent, _) => Err(HttpError::unsupported_version(
            Revision::HTTP_DEFAULT.as_str(),
            policy.served,
            Revision::NEWEST_HANDSHAKE,
        )),
    }
}

/// Row 25: only the stateless era is served.
fn handshake_unsupported(
    policy: &HttpPolicy,
    version: &VersionHeader<'_>,
    method: &str,
    meta: &RequestMeta<'_>,
) -> HttpError {
    if method == Initialize::NAME {
        let offered = meta.offered_version().unwrap_or_default();
        return HttpError::unsupported_version(offered, policy.served, Revision::NEWEST);
    }
    let requested = match version {
        VersionHeader::Unsupported(text) => text,
        VersionHeader::Handshake(revision) => revision.as_str(),
        _ => {
            return missing_version(policy);
        }
    };
    HttpError::unsupported_version(requested, policy.served, Revision::NEWEST)
}

fn decide_notification(
    policy: &HttpPolicy,
    head: &RequestHeaders<'_>,
    claims: bool,
) -> Result<PostDecision, HttpError> {
    let version = VersionHeader::parse(head.version, policy.served);
    // Row 16.
    if claims || matches!(version, VersionHeader::Stateless) {
        return Ok(PostDecision::Accept);
    }
    if policy.served.handshake().is_empty() {
        return Err(missing_version(policy));
    }
    resolve_session(policy, head, &version)
}

fn decide_response(policy: &HttpPolicy, head: &RequestHeaders<'_>) -> Result<PostDecision, HttpError> {
    let version = VersionHeader::parse(head.version, policy.served);
    match (head.session, version) {
        // Row 20.
        (_, VersionHeader::Stateless) | (SessionHeader::Absent, _) => {
            Err(HttpError::invalid_request(400, "No request waits for this response", Revision::NEWEST))
        }
        (SessionHeader::Unknown, _) => Err(HttpError::session_not_found()),
        (_, VersionHeader::Unsupported(requested)) => {
            Err(HttpError::unsupported_version(requested, policy.served, Revision::NEWEST_HANDSHAKE))
        }
        (_, VersionHeader::Ambiguous) => Err(super::ambiguous_version()),
        // Row 19.
        (SessionHeader::Known(_), _) => Ok(PostDecision::DeliverResponse),
    }
}

fn decide_batch(
    policy: &HttpPolicy,
    head: &RequestHeaders<'_>,
    batch: &Batch<'_>,
) -> Result<PostDecision, HttpError> {
    let refuse = |text| Err(HttpError::invalid_request(400, text, Revision::NEWEST_HANDSHAKE));
    let no_batch = "Invalid request: only 2025-03-26 has batches";
    // Row 2.
    if batch.messages().iter().flatten().any(ClaimedVersion::is_present_in) {
        return refuse(no_batch);
    }
    if batch.request_methods().any(|method| canonical_method(method) == Initialize::NAME) {
        return refuse("Invalid request: `initialize` cannot be part of a batch");
    }
    let version = VersionHeader::parse(head.version, policy.served);
    if matches!(version, VersionHeader::Stateless) {
        return refuse(no_batch);
    }
    // Row 1.
    match resolve_session(policy, head, &version)? {
        PostDecision::InSession(revision) if revision.has_batches() => {
            Ok(PostDecision::Batch { revision, in_session: true })
        }
        PostDecision::Sessionless(revision) if revision.has_batches() => {
            Ok(PostDecision::Batch { revision, in_session: false })
        }
        _ => refuse(no_batch),
    }
}

fn missing_version(policy: &HttpPolicy) -> HttpError {
    let error = RpcError::HeaderMismatch("`MCP-Protocol-Version` is missing".into())
        .with("header", VERSION_HEADER)
        .with("supported", policy.served.names());
    HttpError::for_newest(400, error)
}

fn missing_meta() -> RpcError {
    let text = format!(
        "Invalid params: `_meta` lacks `{}` and `{}`",
        meta::PROTOCOL_VERSION,
        meta::CLIENT_CAPABILITIES
    );
    RpcError::InvalidParams(text.into()).with("path", "_meta")
}

/// The header that names the version of a request.
const VERSION_HEADER: &str = "MCP-Protocol-Version";
