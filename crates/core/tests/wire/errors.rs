//! Errors as every revision writes them.

use serde_json::{Value, json};
use tsugite_core::jsonrpc::{ErrorObject, Id, Incoming, Message, MessageLimits, parse, write};
use tsugite_core::protocol::ClientCapabilities;
use tsugite_core::protocol::elicitation::UrlParams;
use tsugite_core::revision::{InsufficientScope, Revision, Revisions, RpcError};

use crate::official::Official;

fn refusals() -> Vec<RpcError> {
    let name = || "\u{7d99}\u{624b}".to_owned();
    vec![
        RpcError::Parse("Parse error".into()),
        RpcError::InvalidRequest("Invalid request".into()),
        RpcError::MethodNotFound { method: name() },
        RpcError::InvalidParams("Invalid params".into()),
        RpcError::Internal,
        RpcError::TooLarge("Too large".into()),
        RpcError::UnknownTool { name: name() },
        RpcError::UnknownPrompt { name: name() },
        RpcError::ResourceNotFound { uri: "file:///x".to_owned() },
        RpcError::MissingCapability { required: Box::new(ClientCapabilities::new()) },
        RpcError::UnsupportedVersion { requested: "1".to_owned(), supported: Revisions::ALL },
        RpcError::HeaderMismatch("Header mismatch".into()),
        RpcError::UrlElicitationRequired {
            elicitations: vec![UrlParams::new("m", "https://example.com").elicitation_id("e")],
        },
        RpcError::TaskRequired { name: name() },
        RpcError::TaskForbidden { name: name() },
        RpcError::InsufficientScope(Box::new(InsufficientScope {
            required: vec!["notes:write".to_owned()],
            granted: Vec::new(),
        })),
        RpcError::UserRejected,
        RpcError::Other(ErrorObject::new(-32001, "own").data(&json!(null))),
    ]
}

#[test]
fn every_error_fits_every_schema_with_and_without_an_id() {
    // JRPC-012 null up to 2025-06-18, JRPC-013 absent from 2025-11-25 on.
    for revision in Revision::ALL {
        let official = Official::of(revision);
        let definition = if official.has("JSONRPCError") { "JSONRPCError" } else { "JSONRPCErrorResponse" };
        for refusal in refusals() {
            for id in [Some(Id::from(7)), Some(Id::from("")), None] {
                let mut out = Vec::new();
                write::error(
                    &mut out,
                    id.as_ref(),
                    revision.writes_null_id(),
                    &refusal.to_error_object(revision),
                );
                let message: Value = serde_json::from_slice(&out).unwrap();
                official.accept(definition, &message);
                assert_eq!(message.get("id").is_some(), id.is_some() || revision.writes_null_id());
                let Ok(Incoming::Single(Message::Response(back))) = parse(&out, &MessageLimits::default())
                else {
                    panic!()
                };
                assert_eq!((back.id, back.outcome), (id, Err(refusal.to_error_object(revision))));
            }
        }
    }
}

#[test]
fn errors_have_the_shapes_of_their_schema() {
    // VER-009, VER-018, ELIC-030
    let written = |refusal: &RpcError, revision| {
        let mut out = Vec::new();
        write::error(&mut out, Some(&Id::from(1)), false, &refusal.to_error_object(revision));
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let newest = Official::of(Revision::V2026_07_28);
    for refusal in refusals() {
        let definition = match &refusal {
            RpcError::HeaderMismatch(_) => "HeaderMismatchError",
            RpcError::UnsupportedVersion { .. } => "UnsupportedProtocolVersionError",
            RpcError::MissingCapability { .. }
            | RpcError::TaskRequired { .. }
            | RpcError::UrlElicitationRequired { .. } => "MissingRequiredClientCapabilityError",
            _ => continue,
        };
        newest.accept(definition, &written(&refusal, Revision::V2026_07_28));
    }
    let pages =
        refusals().into_iter().find(|it| matches!(it, RpcError::UrlElicitationRequired { .. })).unwrap();
    let message = written(&pages, Revision::V2025_11_25);
    Official::of(Revision::V2025_11_25).accept("URLElicitationRequiredError", &message);
}

#[test]
fn batches_of_2025_03_26_fit_its_schema() {
    // JRPC-029
    let mut answers = tsugite_core::jsonrpc::BatchResponse::default();
    let mut one = Vec::new();
    write::result(&mut one, &Id::from(1), &json!({})).unwrap();
    answers.push(&one);
    let mut other = Vec::new();
    write::error(
        &mut other,
        Some(&Id::from(2)),
        true,
        &RpcError::Internal.to_error_object(Revision::V2025_03_26),
    );
    answers.push(&other);
    let array: Value = serde_json::from_slice(&answers.finish().unwrap()).unwrap();
    Official::of(Revision::V2025_03_26).accept("JSONRPCBatchResponse", &array);
}

#[test]
fn both_codes_of_a_missing_resource_are_understood() {
    // RSRC-019
    let read = |code: i64, data: serde_json::Value| {
        let error = ErrorObject::new(code, "m").data(&data);
        RpcError::from_error_object(error, "resources/read", Revision::V2026_07_28)
    };
    let missing = RpcError::ResourceNotFound { uri: "x:y".to_owned() };
    assert_eq!(read(-32602, serde_json::json!({"uri": "x:y"})), missing);
    assert_eq!(read(-32002, serde_json::json!({"uri": "x:y"})), missing);
    assert!(matches!(read(-32602, serde_json::json!({"path": "uri"})), RpcError::Other(_)));
}
