//! Syntax, UTF-8 and limits.

use serde::Deserialize;
use tsugite_core::jsonrpc::{
    Id, Incoming, InvalidMessage, MessageLimits, ParseError, ParseErrorDetail, ParseErrorKind, parse,
};

use super::{answer_to, batch, code_of, refused, request, response_to};

#[test]
fn invalid_json_is_a_parse_error_without_id() {
    // JRPC-020
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut wires: Vec<String> = [
        "",
        " \r\n\t",
        "{",
        "}",
        "[",
        "ping",
        "{oops}",
        "{'jsonrpc':'2.0','id':1,'method':'ping'}",
        "{jsonrpc:\"2.0\"}",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
        r#"{"jsonrpc":"2.0" "id":1}"#,
        r#"{"jsonrpc" "2.0"}"#,
        r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        r#"{,"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0",1:2}"#,
    ]
    .map(str::to_owned)
    .into();
    for garbage in ["}", "{}", "x", ",", "\0", " null", call, "\u{a0}", "\u{feff}", "//", "\u{b}"] {
        wires.push(format!("{call}{garbage}"));
    }
    wires.extend((1..call.len()).map(|end| call[..end].to_owned()));
    for wire in wires {
        assert_eq!(response_to(&wire), "-32700 without id", "{wire:?}");
    }
}

#[test]
fn grammar_is_checked_inside_raw_values() {
    // JRPC-020
    let numbers = ["01", "-01", "+1", ".5", "1.", "1.e1", "1e", "1e+", "-", "- 1", "0x1", "1_000", "1;"];
    let words = ["", "nul", "nullx", "True", "NaN", "Infinity", "'a'", "[/**/1]", "\u{a0}1"];
    let strings =
        ["\"", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12G4\"", "\"\n\"", "\"\t\"", "\"\0\"", "\"\x1f\""];
    let containers =
        ["[1,]", "[,1]", "[1 2]", "[1", "[1}", "{1:1}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}"];
    for value in numbers.iter().chain(&words).chain(&strings).chain(&containers) {
        for place in ["params", "result", "x"] {
            let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","{place}":{{"v":{value}}}}}"#);
            assert_eq!(response_to(&wire), "-32700 without id", "{wire:?}");
        }
    }
}

#[test]
fn valid_json_is_kept_unchanged() {
    let scalars = [
        "0", "-0", "-0.0", "0.5e-7", "1E+400", "1e999", "true", "false", "null", "\"\"", "[]", "[ ]", "{}",
        "{ }",
    ];
    let others = [
        "123456789012345678901234567890.123",
        r#""\"\\\/\b\f\n\r\t\u0000\uD83D\uDE00\ud800""#,
        "\"\u{7f}\u{2028}\u{2029}\u{feff}😀\"",
        "[[],{},[{}]]",
        r#"{"":{"":""}}"#,
        r#"{"a":1,"a":2}"#,
        "[\t1 ,\r\n2 ]",
    ];
    for value in scalars.iter().chain(&others) {
        let params = format!(r#"{{"v": {value} }}"#);
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params": {params} }}"#);
        assert_eq!(request(&wire).params().text(), params);
    }
    // Every length, for a scanner that reads several bytes at a time.
    for length in 0..70 {
        let text = "é".repeat(length);
        for end in ["\\\"", "\\n", "x", ""] {
            let wire = format!(
                r#"{{"jsonrpc":"2.0","id":"{text}{end}","method":"a","params":{{"{text}{end}":0}}}}"#
            );
            let params = format!(r#"{{"{text}{end}":0}}"#);
            assert_eq!(request(&wire).params().text(), params);
        }
        let wire =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{{\"{}\n\":0}}}}", "a".repeat(length));
        assert_eq!(response_to(wire), "-32700 without id");
    }
}

#[test]
fn invalid_utf8_is_a_parse_error() {
    // JRPC-019, JRPC-020
    let bad: [&[u8]; 9] = [
        b"\xff",
        b"\x80",
        b"\xc3",
        b"\xc0\xaf",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
    ];
    for bytes in bad {
        for (before, after) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"v":""#, r#""}}"#),
            (r#"{"jsonrpc":"2.0","id":1,"method":""#, r#""}"#),
            (r#"{"jsonrpc":"2.0","id":""#, r#"","method":"a"}"#),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a",""#, r#"":1}"#),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, ""),
            ("", r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#),
        ] {
            let wire = [before.as_bytes(), bytes, after.as_bytes()].concat();
            assert_eq!(response_to(&wire), "-32700 without id", "{}", wire.escape_ascii());
        }
    }
    let utf_16: Vec<u8> =
        r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(response_to(utf_16), "-32700 without id");
}

#[test]
fn lone_surrogate_in_id_or_key_is_a_parse_error() {
    // JRPC-019, JRPC-020
    for lone in [r"\ud800", r"\udfff", r"\udc00\ud800", r"a\ud83d", r"\ud83dx", r"\ud83d\u0041", r"\uDBFF\n"]
    {
        let id = format!(r#"{{"jsonrpc":"2.0","id":"{lone}","method":"a"}}"#);
        assert_eq!(response_to(&id), "-32700 without id", "{id}");
        let key = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","{lone}":1}}"#);
        assert_eq!(code_of(&key), -32700, "{key}");
        let answer = format!(r#"{{"jsonrpc":"2.0","id":"{lone}","result":{{}}}}"#);
        assert_eq!((code_of(&answer), response_to(&answer)), (-32700, "nothing".to_owned()), "{answer}");
    }
}

#[test]
fn a_lone_surrogate_in_a_method_is_a_parse_error() {
    // JRPC-019, JRPC-020
    for lone in [r"\ud800", r"tools/\udfff", r"\ud83d\u0041"] {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{lone}"}}"#);
        assert_eq!(code_of(&wire), -32700, "{wire}");
    }
}

#[test]
fn duplicates_and_lone_surrogates_fail_when_deserialized() {
    // JRPC-024
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Call {
        name: String,
    }
    for params in [r#"{"name":"a","name":"b"}"#, r#"{"name":"a","n\u0061me":"b"}"#, r#"{"name":"\ud800"}"#] {
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let call = request(&wire);
        assert_eq!(call.params().text(), params);
        assert!(call.params().read::<Call>().is_err(), "{params}");
    }
}

#[test]
fn a_message_over_the_byte_limit_is_too_large() {
    let wire = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let limits = |bytes| MessageLimits::default().max_message_bytes(bytes);
    assert!(parse(wire.as_bytes(), &limits(wire.len())).is_ok());
    let fault = parse(wire.as_bytes(), &limits(wire.len() - 1)).unwrap_err();
    assert_eq!(fault, ParseError::too_long(wire.len() - 1));
    assert_eq!(answer_to(&fault), "-32801 without id");
    assert_eq!(answer_to(&parse(b"\xff{{{", &limits(3)).unwrap_err()), "-32801 without id");

    let four_mib = |bytes: usize| {
        let wire = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"v":""}}"#;
        wire.replace(r#""""#, &format!(r#""{}""#, "x".repeat(bytes - wire.len())))
    };
    assert_eq!(response_to(four_mib(4 << 20)), "accepted");
    assert_eq!(response_to(four_mib((4 << 20) + 1)), "-32801 without id");
}

#[test]
fn nesting_over_the_limit_is_too_large() {
    let code = |wire: String| match parse(wire.as_bytes(), &MessageLimits::default()) {
        Ok(Incoming::Single(_)) => None,
        Ok(Incoming::Batch(batch)) => batch.messages()[0].as_ref().err().map(|fault| fault.kind.code()),
        Err(fault) => Some(fault.kind.code()),
    };
    // The envelope is the first of 128 levels.
    let arrays = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let objects = |depth: usize| r#"{"a":"#.repeat(depth - 1) + "{}" + &"}".repeat(depth - 1);
    for (before, after, around) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"v":"#, "}}", 2),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","x":"#, "}", 1),
        (r#"{"jsonrpc":"2.0","id":1,"result":"#, "}", 1),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":"#, "}}", 2),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"a","params":{"v":"#, "}}]", 3),
    ] {
        for nested in [arrays, objects] {
            let wire = |depth: usize| format!("{before}{}{after}", nested(depth - around));
            assert_eq!(code(wire(128)), None, "{before}");
            assert_eq!(code(wire(129)), Some(-32801), "{before}");
            assert_eq!(code(wire(100_000)), Some(-32801), "{before}");
        }
    }
    // Invalid JSON too: either error is correct.
    for opened in ["[", r#"{"a":"#, r#"[{"a":"#] {
        assert!([-32801, -32700].contains(&code_of(opened.repeat(100_000))), "{opened}");
    }
}

#[test]
fn nesting_error_carries_the_id() {
    // JRPC-013, JRPC-015
    let deep = "[".repeat(200) + r#"{"\"}]":"]]\\"}"# + &"]".repeat(200);
    let params = format!(r#""params":{{"v":{deep}}}"#);
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a",{params}}}"#);
    assert_eq!(response_to(&call), "-32801 for 1");
    assert_eq!(
        response_to(format!(r#"{{{params},"id":"a","method":"a","jsonrpc":"2.0"}}"#)),
        r#"-32801 for "a""#
    );
    assert_eq!(response_to(format!(r#"{{"jsonrpc":"2.0","method":"a",{params}}}"#)), "nothing");

    let fault = refused(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#));
    assert_eq!(
        fault,
        ParseError {
            kind: ParseErrorKind::TooDeep,
            received: InvalidMessage::Response(Some(Id::from(1))),
            detail: Some(ParseErrorDetail::Limit(128)),
        }
    );

    let wire = format!(r#"[{{"jsonrpc":"2.0","id":2,"method":"a"}},{call},{deep}]"#);
    let answers: Vec<_> = batch(&wire)
        .messages()
        .iter()
        .map(|message| message.as_ref().map_or_else(answer_to, |_| "accepted".into()))
        .collect();
    assert_eq!(answers[..2], ["accepted", "-32801 for 1"]);
    assert!(answers[2].ends_with("without id"), "{answers:?}");
}

#[test]
fn the_depth_can_be_lowered_but_not_raised_past_128() {
    let wire = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 2), "]".repeat(depth - 2));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"v":{open}{close}}}}}"#)
    };
    for (limit, deepest) in [(3, 3), (64, 64), (127, 127), (128, 128), (129, 128), (u32::MAX, 128)] {
        let limits = MessageLimits::default().max_depth(limit);
        assert!(parse(wire(deepest).as_bytes(), &limits).is_ok(), "{limit}");
        let fault = parse(wire(deepest + 1).as_bytes(), &limits).unwrap_err();
        assert_eq!((fault.kind, fault.kind.code()), (ParseErrorKind::TooDeep, -32801), "{limit}");
    }
    let flat = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
    assert!(parse(flat.as_bytes(), &MessageLimits::default().max_depth(1)).is_ok());
    let params = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{}}"#;
    assert!(parse(params.as_bytes(), &MessageLimits::default().max_depth(1)).is_err());
}

#[test]
fn id_over_the_limit_is_rejected_and_not_repeated() {
    let call = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
    // As written: the quotes count.
    assert_eq!(response_to(call(&format!("\"{}\"", "x".repeat(4094)))), "accepted");
    assert_eq!(response_to(call(&format!("\"{}\"", "x".repeat(4095)))), "-32801 without id");
    assert_eq!(response_to(call(&"9".repeat(4096))), "accepted");
    assert_eq!(response_to(call(&"9".repeat(4097))), "-32801 without id");

    let answer = format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#, "x".repeat(5000));
    assert_eq!((code_of(&answer), response_to(&answer)), (-32801, "nothing".to_owned()));
}

#[test]
fn unread_message_is_too_large() {
    assert_eq!(answer_to(&ParseError::too_long(7)), "-32801 without id");
}

#[test]
fn error_names_the_offset_or_the_limit() {
    let data = |wire: &[u8], limits: &MessageLimits| {
        let fault = parse(wire, limits).unwrap_err();
        fault.error_response().unwrap().1.data.map(|data| data.text().to_owned())
    };
    let limits = MessageLimits::default();
    for (wire, offset) in
        [(&b"{oops"[..], 1), (b"{\"a\":tru}", 5), (b"{} x", 3), (b"[{}, x]", 5), (b"{\"a\xff", 3), (b"", 0)]
    {
        assert_eq!(data(wire, &limits), Some(format!(r#"{{"offset":{offset}}}"#)), "{wire:?}");
    }
    let call = br#"{"jsonrpc":"2.0","id":"abc","method":"a","params":{"a":[]}}"#;
    let limited = [
        (limits.clone().max_message_bytes(9), 9),
        (limits.clone().max_depth(2), 2),
        (limits.clone().max_id_bytes(4), 4),
    ];
    for (limits, limit) in limited {
        assert_eq!(data(call, &limits), Some(format!(r#"{{"limit":{limit}}}"#)));
    }
    assert_eq!(data(b"[{},{}]", &limits.clone().max_batch_messages(1)), Some(r#"{"limit":1}"#.to_owned()));
    assert_eq!(data(b"7", &limits), None);
}
