//! Params, results and answers, one rule at a time.

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Implementation;
use tsugite_core::revision::Revision::*;
use tsugite_core::revision::{Revision, Unsayable, carry_answer, carry_notice, carry_params, carry_result};

type Carried = Result<String, Unsayable>;

fn params(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    carry_params(method, Raw::from(&json), from, to).map(|json| json.text().to_owned())
}

fn notice(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    carry_notice(method, Raw::from(&json), from, to).map(|json| json.text().to_owned())
}

fn result(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    carry_result(method, Raw::from(&json), from, to, None).map(|json| json.text().to_owned())
}

fn stamped(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    let server = Implementation::new("s", "1");
    carry_result(method, Raw::from(&json), from, to, Some(&server)).map(|json| json.text().to_owned())
}

fn answer(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    carry_answer(method, Raw::from(&json), from, to).map(|json| json.text().to_owned())
}

fn same(text: &str) -> Carried {
    Ok(text.to_owned())
}

/// Every ordered pair of two different revisions.
fn pairs() -> impl Iterator<Item = (Revision, Revision)> {
    Revision::ALL
        .into_iter()
        .flat_map(|from| Revision::ALL.into_iter().filter(move |to| *to != from).map(move |to| (from, to)))
}

#[test]
fn one_revision_to_itself_is_the_same_to_the_byte() {
    let text = "{ \"tools\" : 1.0e2,\n\"resultType\":\"later\", \"_meta\":{\"io.modelcontextprotocol/serverInfo\": 1}}";
    for revision in Revision::ALL {
        for method in ["tools/list", "initialize", "server/discover", "no/such", "sampling/createMessage"] {
            assert_eq!(params(method, text, revision, revision), same(text));
            assert_eq!(notice(method, text, revision, revision), same(text));
            assert_eq!(stamped(method, text, revision, revision), same(text));
            assert_eq!(answer(method, text, revision, revision), same(text));
        }
    }
}

#[test]
fn numbers_keep_their_spelling_and_members_their_order() {
    let tool = r#"{"zebra":12345678901234567890123,"title":"T","inputSchema":{"b":1.0,"type":"object","a":-0.0,"properties":{"x":true,"y":{"maximum":1.50,"default":12345678901234567890123}}},"name":"n","annotations":{"readOnlyHint":true,"n":1E2},"alpha":[1e1,{"deep":1e400}]}"#;
    let list = format!(r#"{{"later":1e400,"tools":[{tool}],"first":0.10}}"#);
    let older = tool
        .replace(r#""title":"T","#, "")
        .replace(r#","annotations":{"readOnlyHint":true,"n":1E2}"#, "")
        .replace(r#""x":true"#, r#""x":{}"#);
    assert_eq!(
        result("tools/list", &list, V2025_11_25, V2024_11_05),
        Ok(format!(r#"{{"later":1e400,"tools":[{older}],"first":0.10}}"#))
    );
}

#[test]
fn what_only_2026_07_28_has_comes_and_goes_with_it() {
    let old = r#"{"resources":[],"x":1.0}"#;
    let new = r#"{"resultType":"complete","resources":[],"x":1.0,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;
    for older in Revision::ALL.into_iter().filter(|revision| !revision.is_stateless()) {
        assert_eq!(stamped("resources/list", old, older, V2026_07_28), same(new));
        assert_eq!(result("resources/list", new, V2026_07_28, older), same(old));
        // What tasks call `ttlMs` is no cache hint, and an unknown method may mean anything by it.
        let text = r#"{"ttlMs":1,"resultType":"complete"}"#;
        assert_eq!(result("no/such", text, V2026_07_28, older), same(r#"{"ttlMs":1}"#));
    }
    let said = r#"{"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"other"}},"resultType":"complete","resources":[],"cacheScope":"public","ttlMs":5.0}"#;
    assert_eq!(stamped("resources/list", said, V2025_11_25, V2026_07_28), same(said));
    assert_eq!(
        result("resources/list", said, V2026_07_28, V2025_11_25),
        same(r#"{"_meta":{"a":1},"resources":[]}"#)
    );
}

#[test]
fn claims_are_left_behind_and_nothing_else_of_meta_is() {
    let text = r#"{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1.0,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":1,"x/y":[ 1 ],"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/related-task":{}},"arguments":{"a": 1.0}}"#;
    let left = r#"{"name":"n","_meta":{"progressToken":1.0,"x/y":[ 1 ],"io.modelcontextprotocol/related-task":{}},"arguments":{"a": 1.0}}"#;
    assert_eq!(params("tools/call", text, V2026_07_28, V2025_06_18), same(left));
    assert_eq!(params("no/such", text, V2026_07_28, V2025_06_18), same(left));
    assert_eq!(params("tools/call", left, V2025_06_18, V2026_07_28), same(left));
    let only = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"uri":"a:b"}"#;
    assert_eq!(
        notice("notifications/resources/updated", only, V2026_07_28, V2025_11_25),
        same(r#"{"uri":"a:b"}"#)
    );
    // What was empty before is nobody's to clear away.
    let empty = r#"{"_meta":{},"uri":"a:b"}"#;
    assert_eq!(notice("notifications/resources/updated", empty, V2026_07_28, V2025_11_25), same(empty));
}
