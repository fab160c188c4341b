//! Params, results and input responses, one rule at a time.

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Implementation;
use tsugite_core::revision::Revision::*;
use tsugite_core::revision::{
    MethodKind, Revision, UnsupportedByRevisionError, methods, translate_raw_input_response,
    translate_raw_notification, translate_raw_params, translate_raw_result,
};

type Carried = Result<String, UnsupportedByRevisionError>;

fn params(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    translate_raw_params(method, Raw::from(&json), from, to).map(|json| json.text().to_owned())
}

fn notice(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    translate_raw_notification(method, Raw::from(&json), from, to).map(|json| json.text().to_owned())
}

fn result(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    translate_raw_result(method, Raw::from(&json), from, to, None).map(|json| json.text().to_owned())
}

fn stamped(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    let server = Implementation::new("s", "1");
    translate_raw_result(method, Raw::from(&json), from, to, Some(&server)).map(|json| json.text().to_owned())
}

fn answer(method: &str, text: &str, from: Revision, to: Revision) -> Carried {
    let json = RawJson::parse(text).unwrap();
    translate_raw_input_response(method, Raw::from(&json), from, to).map(|json| json.text().to_owned())
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
fn input_response_passes_without_the_method() {
    let text = r#"{"action":"accept","content":{"name":"Kiku"},"x":1.0}"#;
    for (from, to) in pairs().filter(|(from, _)| *from >= Revision::V2025_06_18) {
        assert_eq!(answer("elicitation/create", text, from, to), same(text), "{from} {to}");
    }
    assert!(params("elicitation/create", "{}", Revision::V2025_06_18, Revision::V2025_03_26).is_err());
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
fn members_of_2026_07_28_are_added_and_removed() {
    let old = r#"{"resources":[],"x":1.0}"#;
    let new = r#"{"resultType":"complete","resources":[],"x":1.0,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;
    for older in Revision::ALL.into_iter().filter(|revision| !revision.is_stateless()) {
        assert_eq!(stamped("resources/list", old, older, V2026_07_28), same(new));
        assert_eq!(result("resources/list", new, V2026_07_28, older), same(old));
        // The `ttlMs` of a task is not a cache hint, and an unknown method may mean anything by it.
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
    // A `_meta` that was empty before is kept.
    let empty = r#"{"_meta":{},"uri":"a:b"}"#;
    assert_eq!(notice("notifications/resources/updated", empty, V2026_07_28, V2025_11_25), same(empty));
    let result_of = |text: &str| result("completion/complete", text, V2026_07_28, V2025_11_25);
    assert_eq!(result_of(r#"{"_meta":{},"resultType":"complete"}"#), same(r#"{"_meta":{}}"#));
}

#[test]
fn missing_method_fails_and_unknown_method_passes() {
    let text = r#"{"a" : 1.0,"task":{},"title":"t"}"#;
    for (from, to) in pairs() {
        for row in methods() {
            let lacks = to < row.since || to > row.until;
            let carried = match row.kind {
                MethodKind::Request => params(row.name, text, from, to),
                MethodKind::Notification => notice(row.name, text, from, to),
            };
            assert_eq!(
                carried == Err(UnsupportedByRevisionError::Method(row.name)),
                lacks,
                "{} {from} {to}",
                row.name
            );
            if row.kind == MethodKind::Request && lacks {
                assert_eq!(
                    result(row.name, text, from, to),
                    Err(UnsupportedByRevisionError::Method(row.name))
                );
                // The side that requested the input knows what it is for.
                assert_eq!(answer(row.name, text, from, to), same(text), "{} {from} {to}", row.name);
            }
        }
        assert_eq!(params("no/such", text, from, to), same(text));
        assert_eq!(notice("no/such", text, from, to), same(text));
        assert_eq!(answer("no/such", text, from, to), same(text));
        if from.era() == to.era() {
            assert_eq!(stamped("no/such", text, from, to), same(text));
        }
        // The name of a request is no notification of ours, and the other way round.
        assert_eq!(notice("tools/call", text, from, to), same(text));
        assert_eq!(params("notifications/progress", text, from, to), same(text));
        assert_eq!(notice("ping", text, from, to), same(text));
        assert_eq!(params("notifications/initialized", text, from, to), same(text));
    }
    assert_eq!(
        result("no/such", text, V2025_11_25, V2026_07_28),
        same(r#"{"resultType":"complete","a":1.0,"task":{},"title":"t"}"#)
    );
}

#[test]
fn malformed_messages_are_forwarded() {
    let strange = r#"{"content":[{"type":"video","data":1e400},{"type":"text","text":"t","_meta":{"a":1}}],"isError":"no"}"#;
    assert_eq!(result("tools/call", strange, V2025_11_25, V2024_11_05), same(strange));
    let new = format!(r#"{{"resultType":"complete",{}"#, &strange[1..]);
    assert_eq!(result("tools/call", strange, V2024_11_05, V2026_07_28), same(&new));
    assert_eq!(result("tools/call", &new, V2026_07_28, V2024_11_05), same(strange));
    let list = r#"{"tools":{},"ttlMs":null}"#;
    let new = r#"{"resultType":"complete","tools":{},"ttlMs":0,"cacheScope":"private"}"#;
    assert_eq!(result("tools/list", list, V2024_11_05, V2026_07_28), same(new));
    assert_eq!(result("tools/list", new, V2026_07_28, V2024_11_05), same(r#"{"tools":{}}"#));
    for text in ["null", "[]", "[{}]", "1.0", "\"resultType\"", "true"] {
        for (from, to) in pairs() {
            assert_eq!(stamped("tools/call", text, from, to), same(text));
            assert_eq!(stamped("tools/list", text, from, to), same(text));
            assert_eq!(params("tools/call", text, from, to), same(text));
            assert_eq!(notice("notifications/progress", text, from, to), same(text));
            assert_eq!(answer("roots/list", text, from, to), same(text));
        }
    }
    // A duplicate known member, a lone surrogate, a `_meta` that is not an object.
    for text in [
        r#"{"name":"a","name":"b","task":{}}"#,
        r#"{"name":"\ud800","task":{}}"#,
        r#"{"\ud800":1,"name":1,"task":{}}"#,
        r#"{"_meta":[{"io.modelcontextprotocol/protocolVersion":1}],"name":"a","task":{}}"#,
    ] {
        assert_eq!(params("tools/call", text, V2025_11_25, V2024_11_05), same(text));
        assert_eq!(params("tools/call", text, V2026_07_28, V2024_11_05), same(text));
    }
    let meta = r#"{"resultType":"complete","_meta":[],"content":[]}"#;
    assert_eq!(stamped("tools/call", meta, V2025_11_25, V2026_07_28), same(meta));
}

#[test]
fn only_a_complete_result_can_lose_its_kind() {
    let task = r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":5.0,"x":1.0}"#;
    for to in Revision::ALL.into_iter().filter(|to| !to.is_stateless()) {
        for text in [
            r#"{"resultType":"input_required","requestState":"s"}"#,
            r#"{"resultType":"input_required"}"#,
            r#"{"content":[],"resultType":"input_required"}"#,
        ] {
            for method in ["tools/call", "tools/list", "prompts/get", "resources/read", "no/such"] {
                assert_eq!(
                    result(method, text, V2026_07_28, to),
                    Err(UnsupportedByRevisionError::InputRequired),
                    "{method}"
                );
            }
        }
        if !to.has_core_tasks() {
            assert_eq!(result("tools/call", task, V2026_07_28, to), Err(UnsupportedByRevisionError::Tasks));
            let broken = r#"{"resultType":"task"}"#;
            assert_eq!(result("tools/call", broken, V2026_07_28, to), Err(UnsupportedByRevisionError::Tasks));
            assert_eq!(
                result("resources/list", broken, V2026_07_28, to),
                Err(UnsupportedByRevisionError::Tasks)
            );
        }
        for kind in ["\"later\"", "1", "null", "\"Complete\""] {
            let text = format!(r#"{{"resultType":{kind},"content":[],"resources":[]}}"#);
            for method in ["tools/call", "resources/list"] {
                assert!(
                    matches!(
                        result(method, &text, V2026_07_28, to),
                        Err(UnsupportedByRevisionError::Json(_))
                    ),
                    "{kind}"
                );
            }
            // Only client and server know the meaning.
            assert_eq!(result("no/such", &text, V2026_07_28, to), same(&text));
        }
        assert_eq!(
            result("no/such", r#"{"resultType":"task"}"#, V2026_07_28, to),
            Err(UnsupportedByRevisionError::Tasks)
        );
    }
    assert_eq!(
        result("tools/call", task, V2026_07_28, V2025_11_25),
        same(
            r#"{"x":1.0,"task":{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":5}}"#
        )
    );
    assert!(matches!(
        result("tools/call", r#"{"resultType":"task"}"#, V2026_07_28, V2025_11_25),
        Err(UnsupportedByRevisionError::Json(_))
    ));
}

#[test]
fn members_unknown_to_the_sender_are_ignored() {
    let asks = r#"{"content":[],"resultType":"input_required","requestState":"s"}"#;
    assert_eq!(
        result("tools/call", asks, V2025_11_25, V2026_07_28),
        same(r#"{"resultType":"complete","content":[],"requestState":"s"}"#)
    );
    let again = r#"{"name":"n","requestState":"s","inputResponses":{},"x":1,"task":{}}"#;
    assert_eq!(params("tools/call", again, V2025_06_18, V2026_07_28), same(r#"{"name":"n","x":1}"#));
    assert_eq!(params("tools/call", again, V2025_06_18, V2025_11_25), same(r#"{"name":"n","x":1}"#));
}

#[test]
fn input_response_is_bare() {
    let old = r#"{"action":"accept","content":{"n":1.0,"m":[ "a" ]},"x":1e1}"#;
    assert_eq!(answer("elicitation/create", old, V2025_11_25, V2026_07_28), same(old));
    assert_eq!(answer("elicitation/create", old, V2026_07_28, V2025_11_25), same(old));
    assert_eq!(
        answer("elicitation/create", old, V2026_07_28, V2025_06_18),
        Err(UnsupportedByRevisionError::MultipleChoice)
    );
    let said =
        r#"{"resultType":"complete","action":"decline","_meta":{"io.modelcontextprotocol/clientInfo":{}}}"#;
    assert_eq!(answer("elicitation/create", said, V2026_07_28, V2025_11_25), same(r#"{"action":"decline"}"#));
    let promise =
        r#"{"task":{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":null}}"#;
    for method in ["elicitation/create", "sampling/createMessage"] {
        assert_eq!(answer(method, promise, V2025_11_25, V2026_07_28), Err(UnsupportedByRevisionError::Tasks));
    }
    // As a result it has a type; it comes from the client.
    let roots = r#"{"roots":[]}"#;
    assert_eq!(
        stamped("roots/list", roots, V2025_11_25, V2026_07_28),
        same(r#"{"resultType":"complete","roots":[]}"#)
    );
}

#[test]
fn replaced_block_keeps_unknown_members() {
    let content = r#"{"content":[{"type":"audio","x":1.0,"data":"AA==","mimeType":"audio/wav"},{"uri":"a:b","type":"resource_link","name":"n","y":{"z":1.0},"text":"not ours","size":1}],"w":1.0}"#;
    assert_eq!(
        result("tools/call", content, V2025_11_25, V2024_11_05),
        same(
            r#"{"content":[{"type":"resource","x":1.0,"resource":{"uri":"attachment:audio","mimeType":"audio/wav","blob":"AA=="}},{"type":"text","y":{"z":1.0},"text":"n: a:b"}],"w":1.0}"#
        )
    );
}

#[test]
fn split_messages_keep_their_other_members() {
    let text = |more: &str| format!(r#"{{"type":"text","text":"t"{more}}}"#);
    let message = |content: &str, more: &str| format!(r#"{{"role":"user","content":{content}{more}}}"#);
    let cut =
        |messages: &[String]| format!(r#"{{"messages":[{}],"maxTokens":1.0,"z":1}}"#, messages.join(","));
    let (odd, many) = (text(r#","x":1.0"#), format!("[{},{}]", text(r#","x":1"#), text("")));
    let (first, last) = (message(&odd, r#","y":1.0"#), message(&odd, r#","w":1e1"#));
    let whole = cut(&[first.clone(), message(&many, r#","v":1"#), last.clone()]);
    let one = message(&text(""), "");
    let expected = cut(&[first, one.clone(), one, last]);
    assert_eq!(params("sampling/createMessage", &whole, V2025_11_25, V2025_06_18), Ok(expected));
    // A single block leaves its array with all members.
    let listed = cut(&[message(&format!("[{odd}]"), r#","y":1.0"#)]);
    let alone = cut(&[message(&odd, r#","y":1.0"#)]);
    assert_eq!(params("sampling/createMessage", &listed, V2026_07_28, V2025_03_26), Ok(alone));
}

#[test]
fn moved_members_are_found_by_value() {
    let old = r#"{"tools":[{"name":"n","annotations":{"x":1.0,"title":"T","readOnlyHint":true},"inputSchema":{"type":"object"},"y":1}]}"#;
    let new = r#"{"tools":[{"name":"n","annotations":{"x":1.0,"readOnlyHint":true},"inputSchema":{"type":"object"},"y":1,"title":"T"}]}"#;
    assert_eq!(result("tools/list", old, V2025_03_26, V2025_11_25), same(new));
    let back = r#"{"tools":[{"name":"n","annotations":{"x":1.0,"readOnlyHint":true,"title":"T"},"inputSchema":{"type":"object"},"y":1}]}"#;
    assert_eq!(result("tools/list", new, V2025_11_25, V2025_03_26), same(back));
    // An escaped name is recognized, and an unknown member may be duplicated.
    let escaped =
        r#"{"tools":[{"name":"n","\u0074itle":"T","\u0078":1,"x":2,"x":2,"inputSchema":{"type":"object"}}]}"#;
    let without = r#"{"tools":[{"name":"n","\u0078":1,"x":2,"x":2,"inputSchema":{"type":"object"}}]}"#;
    assert_eq!(result("tools/list", escaped, V2025_11_25, V2024_11_05), same(without));
    let twice = |more: &str| {
        format!(
            r#"{{"tools":[{{"name":"n"{more},"inputSchema":{{"x":1,"type":"object","x":2.0,"properties":{{"p":{}}}}}}}]}}"#,
            if more.is_empty() { "{}" } else { "true" }
        )
    };
    assert_eq!(result("tools/list", &twice(r#","title":"T""#), V2025_11_25, V2024_11_05), Ok(twice("")));
    let form = r#"{"message":"m","requestedSchema":{"type":"object","properties":{"f":{"oneOf":[{"const":"a","title":"A","x":1}],"type":"string","y":1.0}}},"mode":"form"}"#;
    let older = r#"{"message":"m","requestedSchema":{"type":"object","properties":{"f":{"type":"string","y":1.0,"enum":["a"],"enumNames":["A"]}}}}"#;
    assert_eq!(params("elicitation/create", form, V2026_07_28, V2025_06_18), same(older));
}

#[test]
fn deep_or_large_messages_are_translated_in_linear_time() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for deep in [&deep, &deep_objects] {
        // Beside a change, in text that is kept, and where it cannot be deserialized.
        let list = |title: &str| {
            format!(r#"{{"tools":[{{"name":"n",{title}"x":{deep},"inputSchema":{{"type":"object"}}}}]}}"#)
        };
        assert_eq!(result("tools/list", &list(r#""title":"T","#), V2025_11_25, V2024_11_05), Ok(list("")));
        let call = |more: &str| format!(r#"{{"name":"n","arguments":{{"a":{deep}}}{more}}}"#);
        assert_eq!(params("tools/call", &call(r#","task":{}"#), V2025_11_25, V2024_11_05), Ok(call("")));
        for text in [
            format!(r#"{{"tools":[{{"name":"n","title":"T","inputSchema":{deep}}}]}}"#),
            format!(r#"{{"tools":{deep}}}"#),
        ] {
            assert_eq!(result("tools/list", &text, V2025_11_25, V2024_11_05), same(&text));
        }
        let content = format!(r#"{{"content":{deep}}}"#);
        assert_eq!(result("tools/call", &content, V2025_11_25, V2024_11_05), same(&content));
    }
    let many =
        |value: &str| (0..50_000).map(|at| format!(r#""m{at}":{value}"#)).collect::<Vec<_>>().join(",");
    let list = |value: &str| {
        let (meta, properties) = (many("1.0"), many(value));
        format!(
            r#"{{"_meta":{{{meta}}},{meta},"tools":[{{"name":"n","inputSchema":{{"type":"object","properties":{{{properties}}}}},{meta}}}]}}"#
        )
    };
    assert_eq!(result("tools/list", &list("true"), V2026_07_28, V2025_11_25), Ok(list("{}")));
}
