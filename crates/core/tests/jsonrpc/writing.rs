//! Writing messages.

use std::collections::BTreeMap;

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tsugite_core::jsonrpc::{ErrorObject, Id, MessageLimits, Raw, RawJson, parse, write};

use super::{accepted, request};

#[test]
fn writing_appends_one_message() {
    // JRPC-001, JRPC-014
    let none = None::<&Value>;
    let params = json!({"name": "add", "arguments": {"a": 1}});
    let error = ErrorObject::new(-32602, "No such tool").data(&json!({"name": "add"}));
    let expect = |wire: Value, written: &dyn Fn(&mut Vec<u8>)| {
        let mut out = b"before".to_vec();
        written(&mut out);
        let message = out.strip_prefix(b"before").unwrap();
        assert_eq!(serde_json::from_slice::<Value>(message).unwrap(), wire);
        assert!(!message.contains(&b'\n'));
    };
    expect(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), &|out| {
        write::request(out, &Id::from(1), "ping", none).unwrap();
    });
    expect(json!({"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": params}), &|out| {
        write::request(out, &Id::from("1"), "tools/call", Some(&params)).unwrap();
    });
    expect(json!({"jsonrpc": "2.0", "method": "a"}), &|out| write::notification(out, "a", none).unwrap());
    expect(json!({"jsonrpc": "2.0", "method": "a", "params": {}}), &|out| {
        write::notification(out, "a", Some(&json!({}))).unwrap();
    });
    expect(json!({"jsonrpc": "2.0", "id": 1, "result": params}), &|out| {
        write::result(out, &Id::from(1), &params).unwrap();
    });
    expect(
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "No such tool", "data": {"name": "add"}}}),
        &|out| write::error(out, Some(&Id::from(1)), true, &error),
    );
}

#[test]
fn an_error_without_an_id_says_null_or_says_nothing() {
    // JRPC-012, JRPC-013
    let error = ErrorObject::new(-32700, "Not JSON");
    let written = |id: Option<&Id<'_>>, null_if_unknown| {
        let mut out = Vec::new();
        write::error(&mut out, id, null_if_unknown, &error);
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    let without_id = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "Not JSON"}});
    assert_eq!(written(None, false), without_id);
    let mut with_null = without_id.clone();
    with_null["id"] = Value::Null;
    assert_eq!(written(None, true), with_null);
    for null_if_unknown in [false, true] {
        assert_eq!(written(Some(&Id::from("a")), null_if_unknown)["id"], "a");
    }
}

#[test]
fn params_and_results_must_be_objects() {
    // JRPC-008, JRPC-016
    for value in [json!(null), json!([]), json!([{}]), json!("{}"), json!(1), json!(true)] {
        assert_refused(|out| write::request(out, &Id::from(1), "a", Some(&value)));
        assert_refused(|out| write::notification(out, "a", Some(&value)));
        assert_refused(|out| write::result(out, &Id::from(1), &value));
        assert_refused(|out| write::result_with_members(out, &Id::from(1), &[r#""a":1"#], &value));
        let raw = RawJson::from(value);
        assert_refused(|out| write::result(out, &Id::from(1), &raw));
        assert_refused(|out| write::result(out, &Id::from(1), &Raw::from(&raw)));
    }
    assert_refused(|out| write::request(out, &Id::from(1), "a", Some(&())));
    assert_refused(|out| write::result(out, &Id::from(1), "text"));
}

#[test]
fn failed_serialization_leaves_the_buffer_unchanged() {
    struct Halfway;
    impl Serialize for Halfway {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("first", &"x".repeat(10_000))?;
            Err(S::Error::custom("no further"))
        }
    }
    assert_refused(|out| write::request(out, &Id::from(1), "a", Some(&Halfway)));
    assert_refused(|out| write::notification(out, "a", Some(&Halfway)));
    assert_refused(|out| write::result(out, &Id::from(1), &Halfway));
    assert_refused(|out| write::result_with_members(out, &Id::from(1), &[r#""a":1"#], &Halfway));
    let keys_that_are_no_strings = BTreeMap::from([(vec![1], 1)]);
    assert_refused(|out| write::result(out, &Id::from(1), &keys_that_are_no_strings));

    let error = ErrorObject::new(1, "m").data(&keys_that_are_no_strings);
    assert_eq!(error, ErrorObject::new(1, "m"), "data that cannot be written is left out");
}

#[test]
fn members_put_before_a_result_leave_it_one_object() {
    let written = |members: &[&str], result: &Value| {
        let mut out = b"before".to_vec();
        write::result_with_members(&mut out, &Id::from(1), members, result).unwrap();
        let message = out.strip_prefix(b"before").unwrap();
        serde_json::from_slice::<Value>(message).unwrap()["result"].take()
    };
    let complete = r#""resultType":"complete""#;
    assert_eq!(written(&[complete], &json!({})), json!({"resultType": "complete"}));
    assert_eq!(written(&[complete], &json!({"a": {}})), json!({"resultType": "complete", "a": {}}));
    assert_eq!(written(&[], &json!({"a": 1})), json!({"a": 1}));
    assert_eq!(written(&[], &json!({})), json!({}));
    assert_eq!(written(&[r#""a":1"#, r#""b":[2]"#], &json!({"c": 3})), json!({"a": 1, "b": [2], "c": 3}));
}

#[test]
fn members_added_before_a_spaced_result_give_valid_json() {
    for text in ["{ }", "{\n\t}", "{ \"a\" : 1 }"] {
        let mut out = Vec::new();
        let result = RawJson::parse(text).unwrap();
        write::result_with_members(&mut out, &Id::from(1), &[r#""resultType":"complete""#], &result).unwrap();
        let wire = String::from_utf8(out).unwrap();
        assert!(serde_json::from_str::<Value>(&wire).is_ok(), "{wire}");
    }
}

#[test]
fn strings_are_escaped() {
    let odd = "\"\\\u{0}\n\r\t\u{1f}\u{7f}\u{2028}😀\",\"id\":2";
    let mut out = Vec::new();
    write::request(&mut out, &Id::from(odd), odd, Some(&json!({ odd: odd }))).unwrap();
    assert!(out.iter().all(|byte| *byte >= b' '), "{}", out.escape_ascii());
    let wire = String::from_utf8(out).unwrap();
    let value: Value = serde_json::from_str(&wire).unwrap();
    assert_eq!(value, json!({"jsonrpc": "2.0", "id": odd, "method": odd, "params": { odd: odd }}));
    let call = request(&wire);
    assert_eq!((call.id, &*call.method), (Id::from(odd), odd));
}

#[test]
fn a_message_that_was_read_can_be_written_again() {
    for wire in [
        r#"{"jsonrpc":"2.0","id":"a\nb","method":"a\nb","params":{ "a" : [1,1e999,"\ud800"] }}"#,
        r#"{"jsonrpc":"2.0","method":"a"}"#,
        r#"{"jsonrpc":"2.0","id":12345678901234567890,"result":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\u0000","data":null}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m","data":"\ud800"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"a","params":{}}]"#,
    ] {
        let read = accepted(wire);
        let mut out = Vec::new();
        read.write(&mut out).unwrap();
        assert_eq!(parse(&out, &MessageLimits::default()).as_ref(), Ok(&read), "{wire}");
    }
}

/// Asserts that writing fails and leaves the buffer unchanged.
fn assert_refused<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) {
    let mut out = b"before".to_vec();
    assert!(write(&mut out).is_err(), "{}", out.escape_ascii());
    assert_eq!(out, b"before");
}
