//! Ids, which are returned exactly as they were written.

use std::collections::HashSet;

use serde_json::json;
use tsugite_core::jsonrpc::{ErrorObject, Id, write};

use super::{Answer, request, response_to};

#[test]
fn id_round_trips_exactly() {
    // JRPC-002, JRPC-006
    let ids = [
        "0",
        "-0",
        "1",
        "-1",
        "9007199254740993",
        "-9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "123456789012345678901234567890",
        r#""""#,
        r#""1""#,
        r#""01""#,
        r#""null""#,
        r#""a b""#,
        r#""quote \" and backslash \\""#,
        r#""日本語 😀""#,
    ];
    let mut seen = HashSet::new();
    for id in ids {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let call = request(&wire);
        let mut out = Vec::new();
        write::result(&mut out, &call.id, &json!({})).unwrap();
        write::error(&mut out, Some(&call.id), false, &ErrorObject::new(1, "m"));
        let answers: Vec<Answer<'_>> =
            serde_json::Deserializer::from_slice(&out).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(answers.len(), 2);
        assert!(answers.iter().all(|answer| answer.id.unwrap().get() == id), "{id}");

        let owned = call.id.clone().into_owned();
        assert_eq!(owned, call.id);
        assert!(seen.insert(owned), "{id} equals another id");
    }
}

#[test]
fn the_number_one_and_the_string_one_are_different_ids() {
    // JRPC-006
    let number = request(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#).id;
    let string = request(r#"{"jsonrpc":"2.0","id":"1","method":"a"}"#).id;
    assert_ne!(number, string);
    assert_eq!((number.as_i64(), number.as_str()), (Some(1), None));
    assert_eq!((string.as_i64(), string.as_str()), (None, Some("1")));
    assert_eq!((number, string), (Id::from(1), Id::from("1")));
}

#[test]
fn id_of_another_type_is_rejected() {
    // JRPC-002, JRPC-021
    for id in
        ["true", "false", "{}", "[]", "[1]", r#"{"id":1}"#, "1.5", "1.0", "-0.0", "1e2", "1E+2", "-1e-1"]
    {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!(response_to(&wire), "-32600 without id", "{wire}");
    }
}

#[test]
fn null_id_is_rejected_and_not_a_notification() {
    // JRPC-003, JRPC-014
    assert_eq!(response_to(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), "-32600 without id");
    assert_eq!(
        response_to(r#"{"id":null,"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        "-32600 without id"
    );
}

#[test]
fn an_id_on_its_own_follows_the_same_rule() {
    // JRPC-002, JRPC-003
    for id in ["7", "-0", "123456789012345678901234567890", r#""a\"b""#] {
        let read: Id<'_> = serde_json::from_str(id).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), id);
    }
    for bad in ["null", "true", "1.5", "1.0", "1e2", "[]", "{}", r#""\ud800""#] {
        assert!(serde_json::from_str::<Id<'_>>(bad).is_err(), "{bad}");
    }
}

#[test]
fn id_displays_as_json() {
    for (id, shown) in [
        (Id::from(1), "1"),
        (Id::from("1"), r#""1""#),
        (Id::from("a\"b"), r#""a\"b""#),
        (serde_json::from_str("123456789012345678901234567890").unwrap(), "123456789012345678901234567890"),
    ] {
        assert_eq!(id.to_string(), shown);
    }
}

#[test]
fn unusual_id_displays_as_json() {
    for text in ["\u{0}", "\u{7f}", "'", "\u{301}", "\u{a51}", "\u{2028}"] {
        let id = Id::from(text);
        assert_eq!(id.to_string(), serde_json::to_string(text).unwrap());
    }
}
