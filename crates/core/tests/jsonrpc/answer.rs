//! Results and errors: each ends a call, and none gets a response.

use serde::Deserialize;
use tsugite_core::jsonrpc::{
    ErrorObject, Id, InvalidMessage, MessageLimits, ParseError, ParseErrorKind, parse,
};

use super::{answer_to, refused, response, response_to};

#[test]
fn response_has_either_a_result_or_an_error() {
    // JRPC-007
    for both in [
        r#""result":{},"error":{"code":1,"message":"m"}"#,
        r#""error":{"code":1,"message":"m"},"result":null"#,
        r#""result":{},"error":null"#,
    ] {
        let fault = refused(format!(r#"{{"jsonrpc":"2.0","id":1,{both}}}"#));
        assert_eq!(fault.kind.code(), -32600);
        assert_eq!(
            fault.received,
            InvalidMessage::Response(Some(Id::from(1))),
            "the call has failed: {both}"
        );
        assert_eq!(answer_to(&fault), "nothing");
    }
    assert_eq!(response_to(r#"{"jsonrpc":"2.0","id":1}"#), "-32600 for 1");
}

#[test]
fn result_needs_an_id() {
    // JRPC-006
    for id in ["", r#""id":null,"#, r#""id":1.5,"#, r#""id":{},"#, r#""id":true,"#] {
        let fault = refused(format!(r#"{{"jsonrpc":"2.0",{id}"result":{{}}}}"#));
        assert_eq!(fault.received, InvalidMessage::Response(None), "{id}");
        assert_eq!(answer_to(&fault), "nothing", "{id}");
    }
}

#[test]
fn null_result_ends_the_call_and_fails_to_deserialize() {
    // JRPC-008
    #[derive(Debug, Deserialize)]
    struct Empty {}
    let answer = response(r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
    assert_eq!(answer.id, Some(Id::from(1)));
    let result = answer.outcome.unwrap();
    assert!(result.is_null() && !result.is_object());
    assert!(result.read::<Empty>().is_err());

    for (result, is_object) in [("3", false), ("[]", false), (r#""x""#, false), ("true", false), ("{}", true)]
    {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let raw = response(&wire).outcome.unwrap();
        assert_eq!((raw.text(), raw.is_object(), raw.is_null()), (result, is_object, false));
    }
}

#[test]
fn an_error_has_an_integer_code_and_a_string_message() {
    // JRPC-009
    for error in [
        "null",
        "true",
        r#""broken""#,
        "-32600",
        "[]",
        "{}",
        r#"{"code":1}"#,
        r#"{"message":"m"}"#,
        r#"{"code":1.5,"message":"m"}"#,
        r#"{"code":"1","message":"m"}"#,
        r#"{"code":null,"message":"m"}"#,
        r#"{"code":1,"message":null}"#,
        r#"{"code":1,"message":["m"]}"#,
        r#"{"code":1,"code":1,"message":"m"}"#,
    ] {
        let fault = refused(format!(r#"{{"jsonrpc":"2.0","id":"a","error":{error}}}"#));
        assert_eq!(fault.kind, ParseErrorKind::BadError, "{error}");
        assert_eq!(
            fault.received,
            InvalidMessage::Response(Some(Id::from("a"))),
            "the call has failed: {error}"
        );
        assert_eq!(answer_to(&fault), "nothing", "{error}");
    }
}

#[test]
fn error_must_be_an_object_not_an_array() {
    // JRPC-009
    for error in [r#"[1,"m"]"#, r#"[1,"m",{}]"#] {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        let read = parse(wire.as_bytes(), &MessageLimits::default());
        let expected = ParseError {
            kind: ParseErrorKind::BadError,
            received: InvalidMessage::Response(Some(Id::from(1))),
            detail: None,
        };
        assert_eq!(read, Err(expected), "{wire}");
    }
}

#[test]
fn every_integer_is_a_code_and_means_nothing_here() {
    // JRPC-009, JRPC-032
    for code in
        [0, 1, -32000, -32002, -32005, -32019, -32042, -32700, 9_007_199_254_740_993, i64::MIN, i64::MAX]
    {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":""}}}}"#);
        assert_eq!(response(&wire).outcome, Err(ErrorObject::new(code, "")));
    }
}

#[test]
fn the_data_of_an_error_may_be_anything_or_missing() {
    // JRPC-010
    let data = |member: &str| {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"m"{member}}}}}"#);
        response(&wire).outcome.unwrap_err().data.map(|data| data.text().to_owned())
    };
    assert_eq!(data(""), None);
    for any in ["null", "false", "0", "1e999", r#""text""#, r#""\ud800""#, "[1,[]]", r#"{"a":1,"a":2}"#] {
        assert_eq!(data(&format!(r#","data":{any}"#)).as_deref(), Some(any));
    }
}

#[test]
fn error_may_have_a_null_id_or_no_id() {
    // JRPC-012, JRPC-013
    for id in ["", r#""id":null,"#] {
        let wire = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"Not JSON"}}}}"#);
        let answer = response(&wire);
        assert_eq!(answer.id, None);
        assert_eq!(answer.outcome, Err(ErrorObject::new(-32700, "Not JSON")));
    }
    for id in ["true", "1.5", "[]", "{}"] {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"m"}}}}"#);
        assert_eq!(refused(&wire).received, InvalidMessage::Response(None), "{wire}");
        assert_eq!(response_to(&wire), "nothing", "{wire}");
    }
}
