//! What to do with a line on stdin of a server: both eras share one process.
//!
//! A request that claims a version of the stateless era is served by that version whatever else goes on; anything else
//! belongs to the handshake, of which a process has one at a time.

use super::handshake::Phase;
use super::peek::{Claim, Peek};
use crate::jsonrpc::{Fault, Id, Incoming, Message, Request};
use crate::protocol::cancellation::{Cancelled, CancelledParams};
use crate::protocol::lifecycle::{Initialize, Initialized};
use crate::protocol::ping::Ping;
use crate::protocol::{Method, Notice};
use crate::revision::{Kind, Refusal, Revision, Revisions, Sender, canonical};

/// What to do with a line.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum Line {
    /// Serve the request by this revision.
    Serve(Revision),
    /// Answer the `initialize` with this revision and begin a new session.
    Open(Revision),
    /// Answer the `ping` that came before everything else.
    Pong,
    /// Take the notification by this revision.
    Notice(Revision),
    /// The client is ready.
    Ready,
    /// Stop the request with this id, whichever era it came from.
    Cancel(Id<'static>),
    /// Serve the messages of the batch, each by this revision.
    Batch(Revision),
    /// Hand the answer to the call that waits for it, if one does.
    Deliver,
    /// Nothing.
    Ignore,
    /// Refuse the request, in words of this revision. Reading goes on.
    Refuse(Refusal, Revision),
    /// Answer the fault, if it wants an answer, in words of this revision. Reading goes on.
    Fault(Revision),
}

/// The decision for one line. `phase` is how far the handshake of this process has come.
pub fn decide(phase: Phase, served: Revisions, line: &Result<Incoming<'_>, Fault>) -> Line {
    // Until something was agreed, errors are written the oldest way, with a null id.
    let spoken = phase.revision().unwrap_or_else(|| served.unspoken());
    match line {
        Err(_) => Line::Fault(spoken),
        Ok(Incoming::Batch(_)) if !spoken.has_batches() => {
            Line::Refuse(Refusal::InvalidRequest(no_batch().into()), spoken)
        }
        Ok(Incoming::Batch(batch))
            if batch.request_methods().any(|method| canonical(method) == Initialize::NAME) =>
        {
            Line::Refuse(Refusal::InvalidRequest("`initialize` cannot be part of a batch".into()), spoken)
        }
        Ok(Incoming::Batch(batch)) if batch.messages().iter().flatten().any(Claim::is_made_in) => {
            Line::Refuse(
                Refusal::InvalidRequest(
                    "Invalid request: what claims a version has no place in a batch".into(),
                ),
                spoken,
            )
        }
        Ok(Incoming::Batch(_)) => Line::Batch(spoken),
        Ok(Incoming::Single(Message::Response(_))) => match phase {
            Phase::Fresh => Line::Ignore,
            _ => Line::Deliver,
        },
        Ok(Incoming::Single(Message::Request(request))) => match Peek::at(request.params()) {
            Ok(peek) => decide_request(phase, served, request, &peek),
            Err(error) => Line::Refuse(Refusal::bad_params(&error), spoken),
        },
        Ok(Incoming::Single(Message::Notification(notice))) => match notice.method.as_ref() {
            Cancelled::NAME => {
                let params = notice.params().read::<CancelledParams>();
                params.ok().and_then(|params| params.request_id).map_or(Line::Ignore, Line::Cancel)
            }
            Initialized::NAME => match phase {
                Phase::Agreed(_) => Line::Ready,
                _ => Line::Ignore,
            },
            name => match phase.revision() {
                Some(revision) if revision.has(Kind::Notification, name, Sender::Client) => {
                    Line::Notice(revision)
                }
                _ => Line::Ignore,
            },
        },
    }
}

/// The decision for a request whose params were looked at already.
pub fn decide_request(phase: Phase, served: Revisions, request: &Request<'_>, peek: &Peek<'_>) -> Line {
    let spoken = phase.revision().unwrap_or_else(|| served.unspoken());
    match peek.claim() {
        Claim::Malformed => return Line::Refuse(peek_error(peek), Revision::NEWEST),
        Claim::Version(version) => match version.parse::<Revision>() {
            // A modern envelope does not make an older revision stateless.
            Ok(revision) if !revision.is_stateless() => {}
            Ok(revision) if served.contains(revision) => return decide_stateless(revision, peek, request),
            _ => {
                let requested = version.into_owned();
                return Line::Refuse(
                    Refusal::UnsupportedVersion { requested, supported: served },
                    Revision::NEWEST,
                );
            }
        },
        Claim::None => {}
    }
    match (canonical(&request.method), phase) {
        (Initialize::NAME, _) => match peek.offered_version() {
            None => Line::Refuse(
                Refusal::InvalidParams("Invalid params: `initialize` needs `protocolVersion`".into()),
                spoken,
            ),
            Some(offered) => match served.answer_to_initialize(offered) {
                Some(revision) => Line::Open(revision),
                None => {
                    let requested = offered.to_owned();
                    Line::Refuse(
                        Refusal::UnsupportedVersion { requested, supported: served },
                        Revision::NEWEST,
                    )
                }
            },
        },
        // It belongs to the handshake, so only a server that has one knows it.
        (Ping::NAME, Phase::Fresh) if !served.handshake().is_empty() => Line::Pong,
        (_, Phase::Fresh) => Line::Refuse(Refusal::InvalidParams(not_open().into()), spoken),
        (_, Phase::Agreed(revision) | Phase::Ready(revision)) => Line::Serve(revision),
    }
}

fn decide_stateless(revision: Revision, peek: &Peek<'_>, request: &Request<'_>) -> Line {
    let method = canonical(&request.method);
    if revision.is_foreign(method) {
        return Line::Refuse(Refusal::MethodNotFound { method: method.to_owned() }, revision);
    }
    match peek.check_sender() {
        Ok(()) => Line::Serve(revision),
        Err(refusal) => Line::Refuse(refusal, revision),
    }
}

fn peek_error(peek: &Peek<'_>) -> Refusal {
    peek.check_sender().err().unwrap_or(Refusal::Internal)
}

fn no_batch() -> &'static str {
    "Invalid request: this revision has no batches"
}

fn not_open() -> &'static str {
    "Open the session with `initialize`, or put `io.modelcontextprotocol/protocolVersion` and \
     `io.modelcontextprotocol/clientCapabilities` into `_meta`"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::jsonrpc::{Limits, parse};
    use crate::revision::Revision::*;

    const FRESH: Phase = Phase::Fresh;
    const READY: Phase = Phase::Ready(V2025_11_25);

    fn line(phase: Phase, body: &Value) -> Line {
        raw(phase, &body.to_string())
    }

    fn raw(phase: Phase, text: &str) -> Line {
        decide(phase, Revisions::ALL, &parse(text.as_bytes(), &Limits::default()))
    }

    fn claiming(version: &str, method: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }}})
    }

    fn plain(method: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method})
    }

    fn initialize(offered: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": offered}})
    }

    fn code(line: Line) -> i64 {
        match line {
            Line::Refuse(refusal, revision) => refusal.code(revision),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_with_a_stateless_claim_is_served_at_any_time() {
        // VER-026, VER-027, LIFE-028
        for phase in [FRESH, Phase::Agreed(V2025_06_18), READY] {
            assert_eq!(line(phase, &claiming("2026-07-28", "tools/list")), Line::Serve(V2026_07_28));
            assert_eq!(line(phase, &claiming("2026-07-28", "server/discover")), Line::Serve(V2026_07_28));
        }
    }

    #[test]
    fn initialize_on_a_fresh_process_opens_a_session() {
        // VER-028
        assert_eq!(line(FRESH, &initialize("2025-06-18")), Line::Open(V2025_06_18));
        assert_eq!(line(FRESH, &initialize("2026-07-28")), Line::Open(V2025_11_25));
        assert_eq!(code(line(FRESH, &plain("initialize"))), -32602);
        let mut alias = initialize("2024-11-05");
        alias["method"] = json!("mcp/initialize");
        assert_eq!(line(FRESH, &alias), Line::Open(V2024_11_05));
    }

    #[test]
    fn initialize_again_begins_a_new_session() {
        // LIFE-033
        assert_eq!(line(READY, &initialize("2024-11-05")), Line::Open(V2024_11_05));
    }

    #[test]
    fn before_initialize_ping_is_answered_and_anything_else_is_told_how_to_begin() {
        // PING-001, LIFE-003
        assert_eq!(line(FRESH, &plain("ping")), Line::Pong);
        let Line::Refuse(refusal, revision) = line(FRESH, &plain("tools/list")) else { panic!() };
        assert_eq!(refusal.code(revision), -32602);
        assert!(refusal.to_string().contains("initialize"));
        assert!(refusal.to_string().contains("io.modelcontextprotocol/protocolVersion"));
    }

    #[test]
    fn a_request_without_a_claim_belongs_to_the_session() {
        // VER-028
        assert_eq!(line(READY, &plain("tools/list")), Line::Serve(V2025_11_25));
        assert_eq!(line(Phase::Agreed(V2024_11_05), &plain("tools/list")), Line::Serve(V2024_11_05));
        assert_eq!(line(READY, &plain("ping")), Line::Serve(V2025_11_25));
    }

    #[test]
    fn an_array_is_a_batch_on_2025_03_26_alone() {
        // STDIO-010, STDIO-009, JRPC-028, JRPC-030
        let batch = json!([plain("tools/list")]);
        assert_eq!(line(Phase::Ready(V2025_03_26), &batch), Line::Batch(V2025_03_26));
        for phase in [FRESH, READY, Phase::Ready(V2024_11_05), Phase::Ready(V2025_06_18)] {
            assert_eq!(code(line(phase, &batch)), -32600);
        }
        assert_eq!(code(line(Phase::Ready(V2025_03_26), &json!([initialize("2025-03-26")]))), -32600);
        let claims = json!([claiming("2026-07-28", "tools/list")]);
        assert_eq!(code(line(Phase::Ready(V2025_03_26), &claims)), -32600);
    }

    #[test]
    fn an_answer_is_handed_on_in_a_session_and_dropped_without() {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        assert_eq!(line(READY, &answer), Line::Deliver);
        assert_eq!(line(FRESH, &answer), Line::Ignore);
    }

    #[test]
    fn a_cancellation_names_a_request_of_either_era() {
        // CANC-013: a malformed one is ignored.
        let cancelled =
            |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        for phase in [FRESH, READY] {
            assert_eq!(line(phase, &cancelled(json!({"requestId": "a"}))), Line::Cancel(Id::from("a")));
            assert_eq!(line(phase, &cancelled(json!({}))), Line::Ignore);
            assert_eq!(line(phase, &cancelled(json!({"requestId": 1.5}))), Line::Ignore);
        }
    }

    #[test]
    fn a_claim_of_a_version_nobody_serves_is_told_what_is_served() {
        // VER-009
        assert_eq!(code(line(READY, &claiming("2030-01-01", "tools/list"))), -32022);
        let legacy = Revisions::ALL.handshake();
        let text = claiming("2026-07-28", "tools/list").to_string();
        let decision = decide(FRESH, legacy, &parse(text.as_bytes(), &Limits::default()));
        assert_eq!(code(decision), -32022);
    }

    #[test]
    fn a_claim_of_an_older_version_is_ignored() {
        assert_eq!(line(READY, &claiming("2025-06-18", "tools/list")), Line::Serve(V2025_11_25));
        assert_eq!(code(line(FRESH, &claiming("2025-06-18", "tools/list"))), -32602);
    }

    #[test]
    fn initialize_with_a_stateless_claim_is_not_found() {
        // VER-034, PING-005
        for method in ["initialize", "ping", "logging/setLevel", "rpc.x"] {
            assert_eq!(code(line(FRESH, &claiming("2026-07-28", method))), -32601);
        }
        // A server's own method is its own affair.
        assert_eq!(line(FRESH, &claiming("2026-07-28", "acme/do")), Line::Serve(V2026_07_28));
    }

    #[test]
    fn a_stateless_claim_without_capabilities_is_refused() {
        // VER-004
        let mut body = claiming("2026-07-28", "tools/list");
        body["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
        assert_eq!(code(line(READY, &body)), -32602);
        body["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": null});
        assert_eq!(code(line(FRESH, &body)), -32602);
        body["params"]["_meta"] = json!("x");
        assert_eq!(code(line(READY, &body)), -32602);
    }

    #[test]
    fn garbage_is_answered_in_the_words_of_the_session() {
        // JRPC-012 null up to 2025-06-18 and before anything was agreed, JRPC-013 absent later.
        assert_eq!(raw(FRESH, "{oops"), Line::Fault(V2024_11_05));
        assert!(V2024_11_05.writes_null_id());
        assert_eq!(raw(READY, "{oops"), Line::Fault(V2025_11_25));
        assert!(!V2025_11_25.writes_null_id());
    }

    #[test]
    fn the_client_is_ready_once() {
        // JRPC-015: an unknown notification gets no answer.
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(line(Phase::Agreed(V2025_11_25), &ready), Line::Ready);
        assert_eq!(line(READY, &ready), Line::Ignore);
        assert_eq!(line(FRESH, &ready), Line::Ignore);
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
        assert_eq!(line(READY, &changed), Line::Notice(V2025_11_25));
        let unknown = json!({"jsonrpc": "2.0", "method": "notifications/what"});
        assert_eq!(line(READY, &unknown), Line::Ignore);
    }
}
