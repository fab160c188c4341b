//! Errors as every revision writes them.

use serde_json::{Value, json};
use tsugite_core::jsonrpc::{ErrorObject, Id, Incoming, Limits, Message, parse, write};
use tsugite_core::protocol::ClientCapabilities;
use tsugite_core::protocol::elicitation::UrlParams;
use tsugite_core::revision::{Refusal, Revision, Revisions};

use crate::official::Official;

fn refusals() -> Vec<Refusal> {
    let name = || "\u{7d99}\u{624b}".to_owned();
    vec![
        Refusal::Parse("Parse error".into()),
        Refusal::InvalidRequest("Invalid request".into()),
        Refusal::MethodNotFound { method: name() },
        Refusal::InvalidParams("Invalid params".into()),
        Refusal::Internal,
        Refusal::TooLarge("Too large".into()),
        Refusal::UnknownTool { name: name() },
        Refusal::UnknownPrompt { name: name() },
        Refusal::ResourceNotFound { uri: "file:///x".to_owned() },
        Refusal::MissingCapability { required: Box::new(ClientCapabilities::new()) },
        Refusal::UnsupportedVersion { requested: "1".to_owned(), supported: Revisions::ALL },
        Refusal::HeaderMismatch("Header mismatch".into()),
        Refusal::UrlElicitationRequired {
            elicitations: vec![UrlParams::new("m", "https://example.com").elicitation_id("e")],
        },
        Refusal::TaskRequired { name: name() },
        Refusal::TaskForbidden { name: name() },
        Refusal::UserRejected,
        Refusal::Other(ErrorObject::new(-32001, "own").data(&json!(null))),
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
                write::error(&mut out, id.as_ref(), revision.writes_null_id(), &refusal.error(revision));
                let message: Value = serde_json::from_slice(&out).unwrap();
                official.accept(definition, &message);
                assert_eq!(message.get("id").is_some(), id.is_some() || revision.writes_null_id());
                let Ok(Incoming::Single(Message::Response(back))) = parse(&out, &Limits::default()) else {
                    panic!()
                };
                assert_eq!((back.id, back.outcome), (id, Err(refusal.error(revision))));
            }
        }
    }
}

#[test]
fn the_errors_of_2026_07_28_and_2025_11_25_have_the_shapes_the_schema_gives_them() {
    // VER-009, VER-018, ELIC-030
    let written = |refusal: &Refusal, revision| {
        let mut out = Vec::new();
        write::error(&mut out, Some(&Id::from(1)), false, &refusal.error(revision));
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let newest = Official::of(Revision::V2026_07_28);
    for refusal in refusals() {
        let definition = match &refusal {
            Refusal::HeaderMismatch(_) => "HeaderMismatchError",
            Refusal::UnsupportedVersion { .. } => "UnsupportedProtocolVersionError",
            Refusal::MissingCapability { .. }
            | Refusal::TaskRequired { .. }
            | Refusal::UrlElicitationRequired { .. } => "MissingRequiredClientCapabilityError",
            _ => continue,
        };
        newest.accept(definition, &written(&refusal, Revision::V2026_07_28));
    }
    let pages =
        refusals().into_iter().find(|it| matches!(it, Refusal::UrlElicitationRequired { .. })).unwrap();
    let message = written(&pages, Revision::V2025_11_25);
    Official::of(Revision::V2025_11_25).accept("URLElicitationRequiredError", &message);
}

#[test]
fn batches_of_2025_03_26_fit_its_schema() {
    // JRPC-029
    let mut answers = tsugite_core::jsonrpc::BatchAnswers::default();
    let mut one = Vec::new();
    write::result(&mut one, &Id::from(1), &json!({})).unwrap();
    answers.push(&one);
    let mut other = Vec::new();
    write::error(&mut other, Some(&Id::from(2)), true, &Refusal::Internal.error(Revision::V2025_03_26));
    answers.push(&other);
    let array: Value = serde_json::from_slice(&answers.finish().unwrap()).unwrap();
    Official::of(Revision::V2025_03_26).accept("JSONRPCBatchResponse", &array);
}
