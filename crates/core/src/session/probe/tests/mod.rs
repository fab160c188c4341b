//! Tests of the two probes, row by row. Each test is named after its row.

mod http_tests;
mod stdio_tests;

use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::ErrorObject;
use crate::revision::Revision::*;

const DISCOVER: ProbeRequest = ProbeRequest::Discover(V2026_07_28);
const INITIALIZE: ProbeRequest = ProbeRequest::Initialize(V2025_11_25);

fn auto_policy() -> ProbePolicy {
    ProbePolicy::new(Revisions::ALL)
}

/// The result of `server/discover`.
fn discover_result(versions: &[&str]) -> Value {
    json!({"resultType": "complete", "supportedVersions": versions, "capabilities": {"tools": {}}})
}

/// The result of `initialize`.
fn initialize_result(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}})
}

fn error(code: i64) -> ErrorObject {
    ErrorObject::new(code, "no")
}

/// -32022 with this list.
fn unsupported(versions: &[&str]) -> ErrorObject {
    error(-32022).data(&json!({"supported": versions, "requested": "2026-07-28"}))
}

/// -32022 whose list cannot be read.
fn unsupported_without_list() -> Vec<ErrorObject> {
    let data = [
        json!(null),
        json!("2026-07-28"),
        json!(["2026-07-28"]),
        json!([["2026-07-28"]]),
        json!({}),
        json!({"supported": null}),
        json!({"supported": "2026-07-28"}),
        json!({"supported": {"2026-07-28": true}}),
        json!({"supported": ["2026-07-28", 1]}),
        json!({"requested": "2026-07-28"}),
    ];
    data.iter().map(|data| error(-32022).data(data)).chain([error(-32022)]).collect()
}

fn no_common(theirs: &[&str], ours: Revisions) -> ProbeError {
    ProbeError::NoCommonRevision { theirs: theirs.iter().map(|name| (*name).to_owned()).collect(), ours }
}

/// The negotiated revision, and whether there is a discover result.
fn stateless_outcome(settled: &ProbeOutcome) -> Option<(Revision, bool)> {
    match settled {
        ProbeOutcome::Stateless { revision, discover_result: discovered } => {
            Some((*revision, discovered.is_some()))
        }
        ProbeOutcome::Handshake { .. } => None,
    }
}

fn handshake_outcome(settled: &ProbeOutcome) -> Option<Revision> {
    match settled {
        ProbeOutcome::Handshake { revision, initialize_result: answer } => {
            assert_eq!(answer.server_info.name, "s");
            Some(*revision)
        }
        ProbeOutcome::Stateless { .. } => None,
    }
}
