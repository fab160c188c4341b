//! The table of methods against the schemas.

use std::collections::BTreeSet;

use serde_json::Value;
use tsugite_core::revision::{MessageSender, MethodKind, Revision, canonical_method, methods};

use crate::official::Official;

/// The method names the union `name` of a schema lists.
fn union(revision: Revision, name: &str) -> BTreeSet<String> {
    let official = Official::of(revision);
    let Some(definition) = official.defs().get(name) else { return BTreeSet::new() };
    let options = definition["anyOf"].as_array().cloned().unwrap_or_else(|| vec![definition.clone()]);
    let resolve = |option: Value| match option.get("$ref").and_then(Value::as_str) {
        Some(reference) => official.defs()[reference.rsplit('/').next().unwrap()].clone(),
        None => option,
    };
    options
        .into_iter()
        .map(|option| resolve(option)["properties"]["method"]["const"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_revision_has_exactly_the_methods_of_its_schema() {
    // SCHM-001. The tasks extension is not in the schema.
    for revision in Revision::ALL {
        for (definition, kind, sender) in [
            ("ClientRequest", MethodKind::Request, MessageSender::Client),
            ("ServerRequest", MethodKind::Request, MessageSender::Server),
            ("ClientNotification", MethodKind::Notification, MessageSender::Client),
            ("ServerNotification", MethodKind::Notification, MessageSender::Server),
        ] {
            let ours: BTreeSet<String> = methods()
                .iter()
                .filter(|row| {
                    revision.has_method(kind, row.name, sender)
                        && !(revision.is_stateless() && row.in_tasks_extension)
                })
                .map(|row| row.name.to_owned())
                .collect();
            assert_eq!(ours, union(revision, definition), "{revision} {definition}");
        }
    }
}

#[test]
fn method_names_are_unique() {
    let names: BTreeSet<_> = methods().iter().map(|row| row.name).collect();
    assert_eq!(names.len(), methods().len());
    // JRPC-018: names of JSON-RPC itself are not methods. JRPC-017: names are case-sensitive.
    assert!(names.iter().all(|name| !name.starts_with("rpc.")));
    assert!(!Revision::NEWEST.has_method(MethodKind::Request, "Tools/Call", MessageSender::Client));
}

#[test]
fn two_wrong_names_are_mapped() {
    assert_eq!(canonical_method("mcp/initialize"), "initialize");
    assert_eq!(canonical_method("mcp/discover"), "server/discover");
    assert_eq!(canonical_method("tools/call"), "tools/call");
}
