//! Tests of form values: accepted and rejected values for each kind of field.

use serde_json::{Value, json};

use super::*;

fn form(properties: Value, required: Value) -> FormSchema {
    let form = json!({"type": "object", "properties": properties, "required": required});
    serde_json::from_value(form).unwrap()
}

/// The error about `value` in the only field, named `it`.
fn check_message(field: Value, value: Value) -> String {
    let content = serde_json::from_value(json!({"it": value})).unwrap();
    match form(json!({"it": field}), json!(["it"])).check(&content) {
        Ok(()) => "fits".to_owned(),
        Err(error) => error.to_string().strip_prefix("`it`: ").unwrap().to_owned(),
    }
}

fn content(content: Value) -> OrderedMap<FieldValue> {
    serde_json::from_value(content).unwrap()
}

#[test]
fn required_fields_must_be_present() {
    let form = form(json!({"a": {"type": "string"}, "b": {"type": "boolean"}}), json!(["a"]));
    form.check(&content(json!({"a": ""}))).unwrap();
    form.check(&content(json!({"b": true, "a": "x"}))).unwrap();
    let error = form.check(&content(json!({"b": true}))).unwrap_err();
    assert_eq!(error.to_string(), "`a`: expected a value, got none");
    FormSchema::new().check(&OrderedMap::new()).unwrap();
}

#[test]
fn unknown_field_is_ignored() {
    let form = form(json!({"a": {"type": "string"}}), json!([]));
    assert!(form.check(&content(json!({"a": "x", "b": 1}))).is_ok());
}

#[test]
fn field_accepts_only_its_own_type() {
    let of = |kind: &str| json!({"type": kind});
    let choices = json!({"type": "array", "items": {"type": "string", "enum": ["a"]}});
    for (field, value, expected) in [
        (of("string"), json!("x"), "fits"),
        (of("string"), json!(1), "expected a string, got 1"),
        (of("number"), json!(1.5), "fits"),
        (of("number"), json!("1.5"), "expected a number, got \"1.5\""),
        (of("integer"), json!(42), "fits"),
        (of("integer"), json!(42.0), "fits"),
        (of("integer"), json!(42.5), "expected a whole number, got 42.5"),
        (of("integer"), json!(true), "expected a whole number, got true"),
        (of("boolean"), json!(false), "fits"),
        (of("boolean"), json!("false"), "expected true or false, got \"false\""),
        (json!({"type": "string", "enum": ["a"]}), json!(["a"]), "expected one choice, got an array"),
        (choices.clone(), json!(["a"]), "fits"),
        (choices, json!("a"), "expected an array of choices, got \"a\""),
    ] {
        assert_eq!(check_message(field.clone(), value.clone()), expected, "{field} {value}");
    }
}

#[test]
fn lengths_are_counted_in_characters() {
    let field = json!({"type": "string", "minLength": 2, "maxLength": 3});
    assert_eq!(check_message(field.clone(), json!("継手")), "fits");
    assert_eq!(check_message(field.clone(), json!("継手継")), "fits");
    assert_eq!(check_message(field.clone(), json!("継")), "expected at least 2 characters, got 1");
    assert_eq!(check_message(field, json!("four")), "expected at most 3 characters, got 4");
    let one = json!({"type": "string", "minLength": 1});
    assert_eq!(check_message(one, json!("")), "expected at least 1 character, got 0");
}

#[test]
fn number_bounds_are_exact() {
    let field = json!({"type": "number", "minimum": 0.5, "maximum": 9_007_199_254_740_992_u64});
    assert_eq!(check_message(field.clone(), json!(0.5)), "fits");
    assert_eq!(check_message(field.clone(), json!(0)), "expected at least 0.5, got 0");
    assert_eq!(check_message(field.clone(), json!(9_007_199_254_740_992_u64)), "fits");
    let beyond = "expected at most 9007199254740992, got 9007199254740993";
    assert_eq!(check_message(field, json!(9_007_199_254_740_993_u64)), beyond);
    let age = json!({"type": "integer", "minimum": 18});
    assert_eq!(check_message(age.clone(), json!(7)), "expected at least 18, got 7");
    assert_eq!(check_message(age.clone(), json!(-1e300)), "expected at least 18, got -1e+300");
    assert_eq!(check_message(age, json!(u64::MAX)), "fits");
}

#[test]
fn choice_must_be_one_of_its_options() {
    let titled = json!([{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]);
    for field in [
        json!({"type": "string", "enum": ["r", "g"]}),
        json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}),
        json!({"type": "string", "oneOf": titled}),
    ] {
        assert_eq!(check_message(field.clone(), json!("g")), "fits");
        assert_eq!(check_message(field, json!("Red")), "expected one of \"r\", \"g\", got \"Red\"");
    }
    for items in [json!({"type": "string", "enum": ["r", "g"]}), json!({"anyOf": titled})] {
        let field = json!({"type": "array", "items": items, "minItems": 1, "maxItems": 2});
        assert_eq!(check_message(field.clone(), json!(["g", "r"])), "fits");
        assert_eq!(check_message(field.clone(), json!([])), "expected at least 1 choice, got 0");
        assert_eq!(check_message(field.clone(), json!(["r", "g", "r"])), "expected at most 2 choices, got 3");
        assert_eq!(check_message(field, json!(["r", "b"])), "expected one of \"r\", \"g\", got \"b\"");
    }
}

#[test]
fn long_option_lists_are_truncated() {
    let options: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
    let said = check_message(json!({"type": "string", "enum": options}), json!("x"));
    assert!(said.ends_with("\"9\", …, got \"x\""), "{said}");
}

#[test]
fn format_rejects_only_clearly_wrong_values() {
    let fits = |format: &str, text: &str| {
        check_message(json!({"type": "string", "format": format}), json!(text)) == "fits"
    };
    for (format, good, bad) in [
        (
            "email",
            &["a@b", "a.b+c@example.com", "\"a b\"@example.com", "ü@例え.jp", "a@[127.0.0.1]"][..],
            &["", "a", "@b", "a@", "a b@c", "a@b c", "a@@b", "a@b..c", "a@.b", "a\n@b"][..],
        ),
        (
            "uri",
            &["https://example.com/a?b#c", "mailto:a@b", "urn:x", "a+b-c.d:e", "https://例え.jp/"],
            &["", "example.com", "/a/b", "://x", "1a:b", "a b:c", "https://a b", "C:\\x", "a:<b>"],
        ),
        (
            "date",
            &["2024-02-29", "2000-02-29", "2023-12-31", "0001-01-01"],
            &[
                "",
                "2023-02-29",
                "1900-02-29",
                "2023-13-01",
                "2023-00-01",
                "2023-04-31",
                "2023-01-00",
                "2023-1-1",
                "23-01-01",
                "2023-01-01T00:00:00Z",
                "2023/01/01",
                "+023-01-01",
                "2023-01-01-",
            ],
        ),
        (
            "date-time",
            &[
                "2023-01-01T00:00:00Z",
                "2023-01-01t23:59:60z",
                "2023-01-01T12:30:00.123456+05:30",
                "2023-01-01T12:30:00-00:00",
            ],
            &[
                "",
                "2023-01-01",
                "2023-01-01T00:00:00",
                "2023-01-01 00:00:00Z",
                "2023-01-01T24:00:00Z",
                "2023-01-01T00:60:00Z",
                "2023-01-01T00:00:61Z",
                "2023-01-01T00:00Z",
                "2023-02-30T00:00:00Z",
                "2023-01-01T00:00:00.Z",
                "2023-01-01T00:00:00+24:00",
                "2023-01-01T00:00:00+0530",
                "2023-01-01T00:00:00+",
            ],
        ),
    ] {
        for text in good {
            assert!(fits(format, text), "{format}: {text}");
        }
        for text in bad {
            assert!(!fits(format, text), "{format}: {text}");
        }
    }
    let date = check_message(json!({"type": "string", "format": "date"}), json!("tomorrow"));
    assert_eq!(date, "expected a date such as 2030-12-31, got \"tomorrow\"");
}

#[test]
fn echoed_value_is_truncated() {
    let long = "x".repeat(10_000);
    assert!(check_message(json!({"type": "boolean"}), json!(long)).chars().count() < 100);
    assert!(check_message(json!({"type": "string", "enum": ["a"]}), json!(long)).chars().count() < 100);
    let form = FormSchema::new().field(long.clone(), Field::text());
    let error = form.check(&OrderedMap::from_iter([(long, FieldValue::Boolean(true))])).unwrap_err();
    assert!(error.to_string().chars().count() < 120, "{error}");
}

#[test]
fn defaults_replace_missing_values() {
    let form = form(
        json!({
            "a": {"type": "string", "default": "x"},
            "b": {"type": "integer", "default": 3},
            "c": {"type": "boolean", "default": false},
            "d": {"type": "string", "enum": ["p", "q"], "default": "q"},
            "e": {"type": "array", "items": {"type": "string", "enum": ["p"]}, "default": ["p"]},
            "f": {"type": "string"},
        }),
        json!(["a"]),
    );
    let filled = form.with_defaults(content(json!({"c": true, "z": 1})));
    let expected = json!({"c": true, "z": 1, "a": "x", "b": 3, "d": "q", "e": ["p"]});
    assert_eq!(serde_json::to_string(&filled).unwrap(), expected.to_string());
    let all = form.with_defaults(OrderedMap::new());
    form.check(&all).unwrap();
    assert_eq!(form.with_defaults(all.clone()), all);
}

#[test]
fn secret_field_is_found_by_its_name() {
    for name in [
        "password",
        "userPassword",
        "user_passwd",
        "PASSPHRASE",
        "client-secret",
        "apikey",
        "api key",
        "API_KEY",
        "APIKey",
        "apiKey2",
        "access_token",
        "refreshToken",
        "auth-token",
        "ssh private key",
        "creditCard",
        "card_number",
        "CVV2",
        "cvc",
        "SSN",
        "SSNField",
        "privatekey",
    ] {
        let form = FormSchema::new().field("name", Field::text()).field(name, Field::text());
        assert_eq!(form.secret_field(), Some(name));
    }
}

#[test]
fn similar_names_are_not_secret() {
    for name in [
        "",
        "max_tokens",
        "token_count",
        "secretary",
        "passwordless",
        "key",
        "card",
        "tokens",
        "number_of_cards",
        "session",
        "classname",
        "public_key",
    ] {
        assert_eq!(FormSchema::new().field(name, Field::text()).secret_field(), None, "{name}");
    }
}

#[test]
fn boolean_field_is_never_secret() {
    assert_eq!(FormSchema::new().field("reset_password", Field::boolean()).secret_field(), None);
    assert!(FormSchema::new().field("cvv", Field::integer()).secret_field().is_some());
}
