//! JSON that is kept as text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use tsugite_core::jsonrpc::{Raw, RawJson};

use super::request;

#[test]
fn raw_json_is_kept_as_its_text() {
    for text in [r#"{ "a" : 1.0 }"#, "123456789012345678901234567890", "1e999", r#""\u0061""#, "null"] {
        let json = RawJson::parse(text).unwrap();
        assert_eq!(json.text(), text);
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
        assert_eq!(serde_json::from_str::<RawJson>(text).unwrap().text(), text);
        assert_eq!(Raw::from(&json).text(), text);
        assert_eq!(Raw::from(&json).to_owned(), json);
        assert_eq!(json.is_object(), text.starts_with('{'));
        assert_eq!(Raw::from(&json).is_null(), text == "null");
    }
    for bad in ["", "{", "{} {}", "nul", "01", "\"\n\""] {
        assert!(RawJson::parse(bad).is_err(), "{bad:?}");
    }
    assert_eq!(RawJson::empty_object().text(), "{}");
    assert_eq!(Raw::empty_object().text(), "{}");
    assert_eq!(RawJson::from_value(&[1, 2]).unwrap().read::<Vec<u8>>().unwrap(), [1, 2]);
    assert!(RawJson::from_value(&BTreeMap::from([(vec![1], 1)])).is_err());
}

#[test]
fn raw_json_is_equal_when_it_says_the_same() {
    let equal = |a: &str, b: &str| RawJson::parse(a).unwrap() == RawJson::parse(b).unwrap();
    assert!(equal(r#"{"a":[1,2]}"#, "{ \"a\" : [ 1,\n2 ] }"));
    assert!(!equal(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#));
    assert!(!equal("null", "{}"));
    assert!(!equal("1", r#""1""#));
    for same in ["1e999", r#""\ud800""#, r#"{"a":1,"a":2}"#] {
        assert!(equal(same, same), "{same}");
    }
}

#[test]
fn raw_json_with_different_large_numbers_is_different() {
    let equal = |a: &str, b: &str| RawJson::parse(a).unwrap() == RawJson::parse(b).unwrap();
    assert!(!equal("9007199254740992", "9007199254740993"));
    assert!(!equal("123456789012345678901234567890", "123456789012345678901234567891"));
}

#[test]
fn reading_params_can_borrow_from_the_message() {
    #[derive(Deserialize)]
    struct Call<'a> {
        name: &'a str,
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    let wire =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a": 1}}}"#;
    let call: Call<'_> = request(wire).params().read().unwrap();
    assert_eq!((call.name, call.arguments.get()), ("add", r#"{"a": 1}"#));
    assert!(wire.as_bytes().as_ptr_range().contains(&call.name.as_ptr()));
}
