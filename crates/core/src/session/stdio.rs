//! Decides what to do with a line on a server's stdin: both eras share one process.
//!
//! A request that claims a revision of the stateless era is served by that revision at any time; any other message
//! belongs to the handshake, of which a process has one at a time.

use super::handshake::HandshakePhase;
use super::request_meta::{ClaimedVersion, RequestMeta};
use crate::jsonrpc::{Id, Incoming, Message, ParseError, Request};
use crate::protocol::cancellation::{Cancelled, CancelledParams};
use crate::protocol::lifecycle::{Initialize, Initialized};
use crate::protocol::ping::Ping;
use crate::protocol::{Method, NotificationMethod};
use crate::revision::{MessageSender, MethodKind, Revision, Revisions, RpcError, canonical_method};

/// The decision for one line.
#[derive(Debug, PartialEq)]
pub enum StdioDecision {
    /// Serve the request with this revision.
    Serve(Revision),
    /// Respond to `initialize` with this revision and start a new session.
    Initialize(Revision),
    /// Respond to a `ping` before `initialize`.
    Pong,
    /// Handle the notification with this revision.
    Notification(Revision),
    /// The client has confirmed the handshake.
    Initialized,
    /// Cancel the request with this id, of either era.
    Cancel(Id<'static>),
    /// Serve the messages of the batch, each with this revision.
    Batch(Revision),
    /// Deliver the response to the request that waits for it, if one does.
    DeliverResponse,
    /// Do nothing.
    Ignore,
    /// Reject the request with this error, encoded for this revision. Reading continues.
    Reject(RpcError, Revision),
    /// Send the parse error, if it needs a response, encoded for this revision. Reading continues.
    ParseError(Revision),
}

/// Decides about one line. `phase` is the handshake phase of this process.
pub fn decide(
    phase: HandshakePhase,
    served: Revisions,
    line: &Result<Incoming<'_>, ParseError>,
) -> StdioDecision {
    // Until a revision is negotiated, errors are encoded for the oldest one, with a null id.
    let error_revision = phase.revision().unwrap_or_else(|| served.error_fallback());
    match line {
        Err(_) => StdioDecision::ParseError(error_revision),
        Ok(Incoming::Batch(_)) if !error_revision.has_batches() => {
            StdioDecision::Reject(RpcError::InvalidRequest(no_batch_message().into()), error_revision)
        }
        Ok(Incoming::Batch(batch))
            if batch.request_methods().any(|method| canonical_method(method) == Initialize::NAME) =>
        {
            StdioDecision::Reject(
                RpcError::InvalidRequest("`initialize` cannot be part of a batch".into()),
                error_revision,
            )
        }
        Ok(Incoming::Batch(batch))
            if batch.messages().iter().flatten().any(ClaimedVersion::is_present_in) =>
        {
            StdioDecision::Reject(
                RpcError::InvalidRequest(
                    "Invalid request: a message in a batch must not claim a version".into(),
                ),
                error_revision,
            )
        }
        Ok(Incoming::Batch(_)) => StdioDecision::Batch(error_revision),
        Ok(Incoming::Single(Message::Response(_))) => match phase {
            HandshakePhase::Uninitialized => StdioDecision::Ignore,
            _ => StdioDecision::DeliverResponse,
        },
        Ok(Incoming::Single(Message::Request(request))) => match RequestMeta::from_params(request.params()) {
            Ok(meta) => decide_request(phase, served, request, &meta),
            Err(error) => StdioDecision::Reject(RpcError::invalid_params(&error), error_revision),
        },
        Ok(Incoming::Single(Message::Notification(notice))) => match notice.method.as_ref() {
            Cancelled::NAME => {
                let params = notice.params().read::<CancelledParams>();
                params
                    .ok()
                    .and_then(|params| params.request_id)
                    .map_or(StdioDecision::Ignore, StdioDecision::Cancel)
            }
            Initialized::NAME => match phase {
                HandshakePhase::Negotiated(_) => StdioDecision::Initialized,
                _ => StdioDecision::Ignore,
            },
            name => match phase.revision() {
                Some(revision)
                    if revision.has_method(MethodKind::Notification, name, MessageSender::Client) =>
                {
                    StdioDecision::Notification(revision)
                }
                _ => StdioDecision::Ignore,
            },
        },
    }
}

/// Decides about a request whose params were scanned already.
pub fn decide_request(
    phase: HandshakePhase,
    served: Revisions,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
) -> StdioDecision {
    let error_revision = phase.revision().unwrap_or_else(|| served.error_fallback());
    match meta.claimed_version() {
        ClaimedVersion::Malformed => return StdioDecision::Reject(meta_error(meta), Revision::NEWEST),
        ClaimedVersion::Version(version) => match version.parse::<Revision>() {
            // A claim of an older revision does not make the request stateless.
            Ok(revision) if !revision.is_stateless() => {}
            Ok(revision) if served.contains(revision) => return decide_stateless(revision, meta, request),
            _ => {
                let requested = version.into_owned();
                return StdioDecision::Reject(
                    RpcError::UnsupportedVersion { requested, supported: served },
                    Revision::NEWEST,
                );
            }
        },
        ClaimedVersion::None => {}
    }
    // Served at any time, since the result is the same for every client.
    if meta.is_bare_discover(request) && served.contains(Revision::NEWEST) {
        return StdioDecision::Serve(Revision::NEWEST);
    }
    match (canonical_method(&request.method), phase) {
        (Initialize::NAME, _) => match meta.offered_version() {
            None => StdioDecision::Reject(
                RpcError::InvalidParams("Invalid params: `initialize` needs `protocolVersion`".into())
                    .with("path", "protocolVersion")
                    .with("supported", served.names()),
                error_revision,
            ),
            Some(offered) => match served.negotiate(offered) {
                Some(revision) => StdioDecision::Initialize(revision),
                None => {
                    let requested = offered.to_owned();
                    StdioDecision::Reject(
                        RpcError::UnsupportedVersion { requested, supported: served },
                        Revision::NEWEST,
                    )
                }
            },
        },
        // `ping` belongs to the handshake era, so only a server of that era has it.
        (Ping::NAME, HandshakePhase::Uninitialized) if !served.handshake().is_empty() => StdioDecision::Pong,
        (_, HandshakePhase::Uninitialized) => {
            let error =
                RpcError::InvalidParams(not_initialized_message().into()).with("supported", served.names());
            StdioDecision::Reject(error, error_revision)
        }
        (_, HandshakePhase::Negotiated(revision) | HandshakePhase::Ready(revision)) => {
            StdioDecision::Serve(revision)
        }
    }
}

fn decide_stateless(revision: Revision, meta: &RequestMeta<'_>, request: &Request<'_>) -> StdioDecision {
    let method = canonical_method(&request.method);
    if revision.is_unavailable_method(method) {
        return StdioDecision::Reject(RpcError::MethodNotFound { method: method.to_owned() }, revision);
    }
    match meta.check_client_meta() {
        Ok(()) => StdioDecision::Serve(revision),
        Err(error) => StdioDecision::Reject(error, revision),
    }
}

fn meta_error(meta: &RequestMeta<'_>) -> RpcError {
    meta.check_client_meta().err().unwrap_or(RpcError::Internal)
}

fn no_batch_message() -> &'static str {
    "Invalid request: this revision has no batches"
}

fn not_initialized_message() -> &'static str {
    "Open the session with `initialize`, or put `io.modelcontextprotocol/protocolVersion` and \
     `io.modelcontextprotocol/clientCapabilities` into `_meta`"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::jsonrpc::{MessageLimits, parse};
    use crate::revision::Revision::*;

    #[test]
    fn bare_discover_is_served_in_every_phase() {
        let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "mcp/discover"});
        for phase in [UNINITIALIZED, READY] {
            assert_eq!(decide_value(phase, &bare), StdioDecision::Serve(V2026_07_28));
        }
        let mut real = bare;
        real["method"] = json!("server/discover");
        assert!(matches!(decide_value(UNINITIALIZED, &real), StdioDecision::Reject(..)));
    }

    const UNINITIALIZED: HandshakePhase = HandshakePhase::Uninitialized;
    const READY: HandshakePhase = HandshakePhase::Ready(V2025_11_25);

    fn decide_value(phase: HandshakePhase, body: &Value) -> StdioDecision {
        decide_text(phase, &body.to_string())
    }

    fn decide_text(phase: HandshakePhase, text: &str) -> StdioDecision {
        decide(phase, Revisions::ALL, &parse(text.as_bytes(), &MessageLimits::default()))
    }

    fn stateless_request(version: &str, method: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }}})
    }

    fn request(method: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method})
    }

    fn initialize(offered: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": offered}})
    }

    fn rejection_code(line: StdioDecision) -> i64 {
        match line {
            StdioDecision::Reject(error, revision) => error.code(revision),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn stateless_claim_is_served_at_any_time() {
        // VER-026, VER-027, LIFE-028
        for phase in [UNINITIALIZED, HandshakePhase::Negotiated(V2025_06_18), READY] {
            assert_eq!(
                decide_value(phase, &stateless_request("2026-07-28", "tools/list")),
                StdioDecision::Serve(V2026_07_28)
            );
            assert_eq!(
                decide_value(phase, &stateless_request("2026-07-28", "server/discover")),
                StdioDecision::Serve(V2026_07_28)
            );
        }
    }

    #[test]
    fn initialize_on_a_fresh_process_opens_a_session() {
        // VER-028
        assert_eq!(
            decide_value(UNINITIALIZED, &initialize("2025-06-18")),
            StdioDecision::Initialize(V2025_06_18)
        );
        assert_eq!(
            decide_value(UNINITIALIZED, &initialize("2026-07-28")),
            StdioDecision::Initialize(V2025_11_25)
        );
        assert_eq!(rejection_code(decide_value(UNINITIALIZED, &request("initialize"))), -32602);
        let mut alias = initialize("2024-11-05");
        alias["method"] = json!("mcp/initialize");
        assert_eq!(decide_value(UNINITIALIZED, &alias), StdioDecision::Initialize(V2024_11_05));
    }

    #[test]
    fn initialize_again_begins_a_new_session() {
        // LIFE-033
        assert_eq!(decide_value(READY, &initialize("2024-11-05")), StdioDecision::Initialize(V2024_11_05));
    }

    #[test]
    fn only_ping_is_served_before_initialize() {
        // PING-001, LIFE-003
        assert_eq!(decide_value(UNINITIALIZED, &request("ping")), StdioDecision::Pong);
        let StdioDecision::Reject(error, revision) = decide_value(UNINITIALIZED, &request("tools/list"))
        else {
            panic!()
        };
        assert_eq!(error.code(revision), -32602);
        assert!(error.to_string().contains("initialize"));
        assert!(error.to_string().contains("io.modelcontextprotocol/protocolVersion"));
    }

    #[test]
    fn request_without_a_claim_belongs_to_the_session() {
        // VER-028
        assert_eq!(decide_value(READY, &request("tools/list")), StdioDecision::Serve(V2025_11_25));
        assert_eq!(
            decide_value(HandshakePhase::Negotiated(V2024_11_05), &request("tools/list")),
            StdioDecision::Serve(V2024_11_05)
        );
        assert_eq!(decide_value(READY, &request("ping")), StdioDecision::Serve(V2025_11_25));
    }

    #[test]
    fn array_is_a_batch_only_on_2025_03_26() {
        // STDIO-010, STDIO-009, JRPC-028, JRPC-030
        let batch = json!([request("tools/list")]);
        assert_eq!(
            decide_value(HandshakePhase::Ready(V2025_03_26), &batch),
            StdioDecision::Batch(V2025_03_26)
        );
        for phase in
            [UNINITIALIZED, READY, HandshakePhase::Ready(V2024_11_05), HandshakePhase::Ready(V2025_06_18)]
        {
            assert_eq!(rejection_code(decide_value(phase, &batch)), -32600);
        }
        assert_eq!(
            rejection_code(decide_value(
                HandshakePhase::Ready(V2025_03_26),
                &json!([initialize("2025-03-26")])
            )),
            -32600
        );
        let claims = json!([stateless_request("2026-07-28", "tools/list")]);
        assert_eq!(rejection_code(decide_value(HandshakePhase::Ready(V2025_03_26), &claims)), -32600);
    }

    #[test]
    fn response_is_delivered_only_in_a_session() {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        assert_eq!(decide_value(READY, &answer), StdioDecision::DeliverResponse);
        assert_eq!(decide_value(UNINITIALIZED, &answer), StdioDecision::Ignore);
    }

    #[test]
    fn cancellation_works_in_both_eras() {
        // CANC-013: a malformed one is ignored.
        let cancelled =
            |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        for phase in [UNINITIALIZED, READY] {
            assert_eq!(
                decide_value(phase, &cancelled(json!({"requestId": "a"}))),
                StdioDecision::Cancel(Id::from("a"))
            );
            assert_eq!(decide_value(phase, &cancelled(json!({}))), StdioDecision::Ignore);
            assert_eq!(decide_value(phase, &cancelled(json!({"requestId": 1.5}))), StdioDecision::Ignore);
        }
    }

    #[test]
    fn claim_of_an_unsupported_version_names_the_served_ones() {
        // VER-009
        assert_eq!(
            rejection_code(decide_value(READY, &stateless_request("2030-01-01", "tools/list"))),
            -32022
        );
        let legacy = Revisions::ALL.handshake();
        let text = stateless_request("2026-07-28", "tools/list").to_string();
        let decision = decide(UNINITIALIZED, legacy, &parse(text.as_bytes(), &MessageLimits::default()));
        assert_eq!(rejection_code(decision), -32022);
    }

    #[test]
    fn claim_of_an_older_version_is_ignored() {
        assert_eq!(
            decide_value(READY, &stateless_request("2025-06-18", "tools/list")),
            StdioDecision::Serve(V2025_11_25)
        );
        assert_eq!(
            rejection_code(decide_value(UNINITIALIZED, &stateless_request("2025-06-18", "tools/list"))),
            -32602
        );
    }

    #[test]
    fn initialize_with_a_stateless_claim_is_not_found() {
        // VER-034, PING-005
        for method in ["initialize", "ping", "logging/setLevel", "rpc.x"] {
            assert_eq!(
                rejection_code(decide_value(UNINITIALIZED, &stateless_request("2026-07-28", method))),
                -32601
            );
        }
        // A server's own method is not checked.
        assert_eq!(
            decide_value(UNINITIALIZED, &stateless_request("2026-07-28", "acme/do")),
            StdioDecision::Serve(V2026_07_28)
        );
    }

    #[test]
    fn stateless_claim_without_capabilities_is_rejected() {
        // VER-004
        let mut body = stateless_request("2026-07-28", "tools/list");
        body["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
        assert_eq!(rejection_code(decide_value(READY, &body)), -32602);
        body["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": null});
        assert_eq!(rejection_code(decide_value(UNINITIALIZED, &body)), -32602);
        body["params"]["_meta"] = json!("x");
        assert_eq!(rejection_code(decide_value(READY, &body)), -32602);
    }

    #[test]
    fn parse_error_is_encoded_for_the_session() {
        // JRPC-012 null up to 2025-06-18 and before anything was agreed, JRPC-013 absent later.
        assert_eq!(decide_text(UNINITIALIZED, "{oops"), StdioDecision::ParseError(V2024_11_05));
        assert!(V2024_11_05.writes_null_id());
        assert_eq!(decide_text(READY, "{oops"), StdioDecision::ParseError(V2025_11_25));
        assert!(!V2025_11_25.writes_null_id());
    }

    #[test]
    fn initialized_is_handled_once() {
        // JRPC-015: an unknown notification gets no answer.
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(decide_value(HandshakePhase::Negotiated(V2025_11_25), &ready), StdioDecision::Initialized);
        assert_eq!(decide_value(READY, &ready), StdioDecision::Ignore);
        assert_eq!(decide_value(UNINITIALIZED, &ready), StdioDecision::Ignore);
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
        assert_eq!(decide_value(READY, &changed), StdioDecision::Notification(V2025_11_25));
        let unknown = json!({"jsonrpc": "2.0", "method": "notifications/what"});
        assert_eq!(decide_value(READY, &unknown), StdioDecision::Ignore);
    }
}
