//! Messages and invalid messages, and the errors their senders get.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};
use tsugite_core::jsonrpc::{Id, InvalidMessage, ParseError, ParseErrorKind, Raw, RawJson, code};

use super::{accepted, answer_to, batch, notification, refused, request, response, response_to};

#[test]
fn message_kinds_are_distinguished() {
    // JRPC-001, JRPC-014
    let call = request(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#);
    assert_eq!((call.id, &*call.method), (Id::from(7), "tools/call"));
    assert_eq!(call.params.unwrap().text(), r#"{"name":"add"}"#);

    let note = notification(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#);
    assert_eq!(note.method, "notifications/progress");
    assert_eq!(note.params.unwrap().text(), r#"{"progress":1}"#);

    let result = response(r#"{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}"#);
    assert_eq!(result.id, Some(Id::from("a")));
    assert_eq!(result.outcome.unwrap().text(), r#"{"tools":[]}"#);

    let refusal =
        response(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"No such method","data":[1]}}"#);
    assert_eq!(refusal.id, Some(Id::from(7)));
    let error = refusal.outcome.unwrap_err();
    assert_eq!((error.code, &*error.message), (-32601, "No such method"));
    assert_eq!(error.data.unwrap().text(), "[1]");
}

#[test]
fn member_order_and_whitespace_do_not_matter() {
    let call = request(
        " \t\r\n{ \"params\" : { \"a\" : 1 } ,\n\"method\":\t\"ping\"\r\n, \"id\" : 1 , \"jsonrpc\" : \"2.0\" } \r\n\t ",
    );
    assert_eq!((call.id, &*call.method), (Id::from(1), "ping"));
    assert_eq!(call.params.unwrap().read::<Value>().unwrap(), json!({"a": 1}));
}

#[test]
fn unknown_members_are_tolerated_in_every_kind() {
    // SCHM-008
    for (wire, without) in [
        (
            r#"{"x":[{"id":null}],"jsonrpc":"2.0","id":1,"method":"a","X":"\ud800"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#,
        ),
        (r#"{"jsonrpc":"2.0","method":"a","Id":1,"":0}"#, r#"{"jsonrpc":"2.0","method":"a"}"#),
        (r#"{"jsonrpc":"2.0","id":1,"x":null,"result":{}}"#, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","x":{}},"x":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
        ),
    ] {
        assert_eq!(accepted(wire), accepted(without), "{wire}");
    }
}

#[test]
fn absent_params_stand_for_an_empty_object() {
    let call = request(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(call.params, None);
    assert_eq!(call.params().text(), "{}");
    let note = notification(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(note.params, None);
    assert_eq!(note.params().text(), "{}");

    let call = request(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1}}"#);
    assert_eq!(call.params().text(), r#"{"a":1}"#);
    let note = notification(r#"{"jsonrpc":"2.0","method":"ping","params":{"a":1}}"#);
    assert_eq!(note.params().text(), r#"{"a":1}"#);
}

#[test]
fn method_names_keep_their_case() {
    // JRPC-017
    assert_eq!(request(r#"{"jsonrpc":"2.0","id":1,"method":"Tools/Call"}"#).method, "Tools/Call");
    let batch = batch(r#"[{"jsonrpc":"2.0","id":1,"method":"Tools/Call"}]"#);
    assert_eq!(batch.request_methods().collect::<Vec<_>>(), ["Tools/Call"]);
}

#[test]
fn escapes_in_the_envelope_are_decoded() {
    let call = request(
        r#"{"\u006asonrpc":"2\u002E0","i\u0064":"\u0031\n\ud83d\ude00","\u006dethod":"tools\/c\u0061ll","p\u0061rams":{}}"#,
    );
    assert_eq!(call.id, Id::from("1\n😀"));
    assert_eq!(call.method, "tools/call");
    assert_eq!(call.params.unwrap().text(), "{}");
}

#[test]
fn message_without_version_2_0_is_rejected_or_dropped() {
    // JRPC-001, JRPC-021
    for version in [
        "",
        r#""jsonrpc":"1.0","#,
        r#""jsonrpc":"2","#,
        r#""jsonrpc":"2.00","#,
        r#""jsonrpc":" 2.0","#,
        r#""jsonrpc":2.0,"#,
        r#""jsonrpc":2,"#,
        r#""jsonrpc":null,"#,
        r#""jsonrpc":["2.0"],"#,
        r#""JSONRPC":"2.0","#,
    ] {
        assert_eq!(
            response_to(format!(r#"{{{version}"id":1,"method":"ping"}}"#)),
            "-32600 for 1",
            "{version}"
        );
        assert_eq!(response_to(format!(r#"{{{version}"method":"ping"}}"#)), "nothing", "{version}");
        for answer in [r#""result":{}"#, r#""error":{"code":1,"message":"m"}"#] {
            let fault = refused(format!(r#"{{{version}"id":1,{answer}}}"#));
            assert_eq!(answer_to(&fault), "nothing", "{version}");
            assert_eq!(fault.received, InvalidMessage::Response(Some(Id::from(1))), "{version}");
        }
    }
}

#[test]
fn other_json_is_an_invalid_request() {
    // JRPC-021
    for (wire, answer) in [
        ("1", "-32600 without id"),
        ("-1.5e3", "-32600 without id"),
        ("null", "-32600 without id"),
        ("true", "-32600 without id"),
        (r#""{\"jsonrpc\":\"2.0\"}""#, "-32600 without id"),
        ("{}", "-32600 without id"),
        (r#"{"jsonrpc":"2.0"}"#, "-32600 without id"),
        (r#"{"jsonrpc":"2.0","params":{}}"#, "-32600 without id"),
        // An example of JSON-RPC 2.0, section 7, and similar ones: without a method it is not a notification.
        (r#"{"jsonrpc":"2.0","method":1,"params":"bar"}"#, "-32600 without id"),
        (r#"{"jsonrpc":"2.0","method":null}"#, "-32600 without id"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 for 1"),
        (r#"{"jsonrpc":"2.0","id":"a","params":{}}"#, r#"-32600 for "a""#),
        (r#"{"jsonrpc":"2.0","id":1,"Method":"ping"}"#, "-32600 for 1"),
    ] {
        assert_eq!(response_to(wire), answer, "{wire}");
    }
}

#[test]
fn malformed_request_gets_an_error_with_its_id() {
    // JRPC-013, JRPC-021
    for wrong in [
        r#""method":1"#,
        r#""method":null"#,
        r#""method":["ping"]"#,
        r#""method":{}"#,
        r#""method":"ping","result":{}"#,
        r#""method":"ping","result":null"#,
        r#""method":"ping","error":{"code":1,"message":"m"}"#,
        r#""method":"ping","result":{},"error":null"#,
    ] {
        let wire = format!(r#"{{"jsonrpc":"2.0",{wrong},"id":12345678901234567890}}"#);
        assert_eq!(response_to(&wire), "-32600 for 12345678901234567890", "{wire}");
    }
}

#[test]
fn malformed_notification_gets_no_response() {
    // JRPC-015
    for wire in [
        r#"{"method":"a"}"#,
        r#"{"jsonrpc":"1.0","method":"a"}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":null}"#,
        r#"{"jsonrpc":"2.0","method":"a","result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"a","error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","method":"a","method":"b"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"a"}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":{},"params":{}}"#,
    ] {
        let fault = refused(wire);
        assert_eq!(fault.received, InvalidMessage::Notification, "{wire}");
        assert_eq!(answer_to(&fault), "nothing", "{wire}");
    }
}

#[test]
fn params_must_be_an_object() {
    // JRPC-016, JRPC-015
    for params in ["[]", r#"[{"a":1}]"#, "null", "true", "0", r#""{}""#] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{params}}}"#);
        assert_eq!(response_to(&call), "-32602 for 1", "{call}");
        let note = format!(r#"{{"jsonrpc":"2.0","method":"a","params":{params}}}"#);
        assert_eq!(response_to(&note), "nothing", "{note}");
    }
}

#[test]
fn params_of_the_wrong_shape_fail_when_they_are_read() {
    // JRPC-024
    #[derive(Debug, Deserialize)]
    struct Call<'a> {
        name: &'a str,
        times: u32,
    }
    let read = |params: &str| {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        request(&wire).params().read::<Call<'_>>().map(|call| (call.name.to_owned(), call.times))
    };
    assert_eq!(read(r#"{"name":"add","times":2,"x":0}"#), Ok(("add".to_owned(), 2)));
    for bad in [r#"{"name":"add"}"#, "{}", r#"{"name":1,"times":2}"#, r#"{"name":"add","times":-2}"#] {
        assert!(read(bad).is_err(), "{bad}");
    }

    // An array of the members' values, which some deserializers accept for the object.
    let positions = RawJson::parse(r#"["add",2]"#).unwrap();
    assert!(Raw::from(&positions).read_object::<Call<'_>>().is_err());
    let named = RawJson::parse(r#"{"name":"add","times":2}"#).unwrap();
    assert_eq!(Raw::from(&named).read_object::<Call<'_>>().unwrap().times, 2);
}

#[test]
fn duplicate_envelope_member_is_invalid() {
    // JRPC-021
    for (wire, answer) in [
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}"#, "-32600 for 1"),
        (r#"{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"a"}"#, "-32600 for 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"a"}"#, "-32600 for 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}"#, "-32600 for 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"a"}"#, "-32600 for 1"),
        // Which of two ids is meant is unknown.
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, "-32600 without id"),
        (r#"{"jsonrpc":"2.0","id":1,"id":null,"method":"a"}"#, "-32600 without id"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","\u0069d":2}"#, "-32600 without id"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#, "nothing"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"},"error":{}}"#, "nothing"),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#, "nothing"),
    ] {
        assert_eq!(refused(wire).kind, ParseErrorKind::DuplicateMember, "{wire}");
        assert_eq!(response_to(wire), answer, "{wire}");
    }
}

#[test]
fn every_parse_error_has_a_short_message() {
    // JRPC-011
    for fault in some_of_every_fault() {
        let Some((_, error)) = fault.error_response() else { continue };
        assert!((1..=100).contains(&error.message.chars().count()), "{:?}: {}", fault.kind, error.message);
        assert!(!error.message.contains(char::is_control), "{:?}", fault.kind);
        assert!(!error.message.contains(".rs"), "{:?}", fault.kind);
        assert!(!fault.to_string().is_empty());
    }
}

#[test]
fn parse_errors_use_only_their_own_codes() {
    // JRPC-033, JRPC-034, JRPC-037
    let emitted: HashSet<i64> = some_of_every_fault()
        .iter()
        .filter_map(ParseError::error_response)
        .map(|(_, error)| error.code)
        .collect();
    assert_eq!(emitted, HashSet::from([-32700, -32600, -32602, -32801]));
    assert!(!(-32768..=-32000).contains(&code::CONTENT_TOO_LARGE), "ours, so outside the reserved block");

    assert_eq!(code::PARSE_ERROR, -32700);
    assert_eq!(code::INVALID_REQUEST, -32600);
    assert_eq!(code::METHOD_NOT_FOUND, -32601);
    assert_eq!(code::INVALID_PARAMS, -32602);
    assert_eq!(code::INTERNAL_ERROR, -32603);
    assert_eq!(code::CONTENT_TOO_LARGE, -32801);
}

fn some_of_every_fault() -> Vec<ParseError> {
    let mut faults = vec![ParseError::too_long(7), refused(b"\xff"), refused("[".repeat(1000))];
    faults.push(refused(format!("[{}1]", "1,".repeat(2000))));
    faults.push(refused(format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"a"}}"#, "x".repeat(5000))));
    faults.extend(
        [
            "{",
            "1",
            "{}",
            r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        ]
        .map(refused),
    );
    faults
}
