//! Arbitrary bytes, damaged messages, and objects checked a second time by plain rules.

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tsugite_core::jsonrpc::{
    Id, Incoming, InvalidMessage, LineReader, LineTooLongError, Message, MessageLimits, ParseError,
    ParseErrorDetail, ParseErrorKind, Raw, parse, write,
};

use super::{Answer, answer_to, drain, request, response_to};

proptest! {
    // A failing input is printed; it becomes a test of its own.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&bytes)?;
    }

    #[test]
    fn damaged_messages_do_not_panic(
        mut bytes in prop::sample::select(MESSAGES).prop_map(|wire| wire.as_bytes().to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..4),
    ) {
        for (place, byte, how) in damage {
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        survives(&bytes)?;
    }

    #[test]
    fn parser_agrees_with_serde_json(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..24),
    ) {
        let wire = tokens.concat();
        survives(wire.as_bytes())?;
        let is_json = serde_json::from_str::<&RawValue>(&wire).is_ok();
        let not_json = matches!(parse(wire.as_bytes(), &MessageLimits::default()), Err(fault) if fault.kind == ParseErrorKind::NotJson);
        prop_assert_eq!(not_json, !is_json, "{}", wire);
    }

    #[test]
    fn scalar_in_params_is_accepted_as_by_serde_json(value in r#"[-+0-9.eE]{1,8}|"[\\"/bfnrtu0-9a-fA-FxéZ \n]{0,8}""#) {
        let is_json = serde_json::from_str::<&RawValue>(&value).is_ok();
        let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"v":{value}}}}}"#);
        let expected = if is_json { "accepted" } else { "-32700 without id" };
        prop_assert_eq!(response_to(&wire), expected, "{}", wire);
    }

    #[test]
    fn the_elements_of_a_batch_are_judged_like_single_messages(objects in prop::collection::vec(members(), 1..5)) {
        // JRPC-026, JRPC-029
        let wires: Vec<_> = objects.iter().map(|members| object(members)).collect();
        let array = format!("[{}]", wires.join(","));
        survives(array.as_bytes())?;
        let judged: Vec<_> = wires.iter().map(|wire| judged(wire)).collect();
        let some = |kinds: &[&str]| judged.iter().any(|verdict| kinds.iter().any(|kind| verdict.starts_with(kind)));
        match parse(array.as_bytes(), &MessageLimits::default()) {
            Ok(Incoming::Batch(batch)) => {
                prop_assert!(!(some(&["request", "notification"]) && some(&["answer"])), "{}", array);
                for (element, wire) in batch.into_messages().into_iter().zip(&wires) {
                    let single = parse(wire.as_bytes(), &MessageLimits::default());
                    prop_assert_eq!(element.map(Incoming::Single), single, "{}", wire);
                }
            }
            other => {
                prop_assert_eq!(other.map_err(|fault| fault.kind), Err(ParseErrorKind::MixedBatch), "{}", array);
                prop_assert!(some(&["answer", "failed answer"]), "{}", array);
                // An element that could be either a request or a response does not make the batch mixed.
                let asks = |verdict: &String| !verdict.contains("answer") && !verdict.ends_with("without id");
                prop_assert!(judged.iter().any(asks), "{}", array);
            }
        }
    }

    #[test]
    fn every_id_comes_back_as_it_was_written(id in prop_oneof![
        any::<i64>().prop_map(|id| id.to_string()),
        "-?(0|[1-9][0-9]{0,60})",
        any::<String>().prop_map(|id| serde_json::to_string(&id).unwrap()),
    ]) {
        // JRPC-002, JRPC-006
        let wire = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let call = request(&wire);
        let mut out = Vec::new();
        write::result(&mut out, &call.id, &json!({})).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Answer<'_>>(&out).unwrap().id.unwrap().get(), id);
    }

    #[test]
    fn every_request_reads_back_as_it_was_written(id in any::<String>(), method in any::<String>(), key in any::<String>()) {
        let params = json!({ key: [method, null, 1.5] });
        let mut out = Vec::new();
        write::request(&mut out, &Id::from(&*id), &method, Some(&params)).unwrap();
        let wire = String::from_utf8(out).unwrap();
        let call = request(&wire);
        prop_assert_eq!((call.id.as_str(), &*call.method), (Some(&*id), &*method));
        prop_assert_eq!(call.params().read::<Value>().unwrap(), params);
    }

    #[test]
    fn a_stream_falls_into_its_lines(
        stream in r"(([ab\r]{0,7}[ab]\r{0,2}|\r?)\n){0,6}",
        sizes in prop::collection::vec(1_usize..9, 1..9),
        max_bytes in 1_usize..9,
    ) {
        let expected: Vec<_> = stream
            .split_terminator('\n')
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .filter(|line| !line.is_empty())
            .map(|line| if line.len() > max_bytes { Err(LineTooLongError) } else { Ok(line.to_owned()) })
            .collect();
        prop_assert_eq!(lines(&stream, &[stream.len() + 1], max_bytes), &*expected);
        prop_assert_eq!(lines(&stream, &sizes, max_bytes), expected);
    }

    #[test]
    fn lines_do_not_depend_on_the_reads(
        stream in r"[ab \t\r\n]{0,60}",
        sizes in prop::collection::vec(1_usize..9, 1..9),
        max_bytes in 1_usize..9,
    ) {
        let whole = lines(&stream, &[stream.len() + 1], max_bytes);
        prop_assert_eq!(lines(&stream, &sizes, max_bytes), whole);
    }
}

proptest! {
    // More cases: most objects are wrong in several ways, and only one that is wrong in one way is informative.
    #![proptest_config(ProptestConfig {
        cases: 16 * ProptestConfig::default().cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_object_is_judged_as_the_rules_say(members in members()) {
        // JRPC-001, JRPC-003, JRPC-007, JRPC-015, JRPC-016
        let wire = object(&members);
        survives(wire.as_bytes())?;
        prop_assert_eq!(judged(&wire), rules::judge(&members), "{}", wire);
    }
}

/// All lines of `stream`, the unfinished one included, in reads of these sizes over and over.
fn lines(stream: &str, sizes: &[usize], max_bytes: usize) -> Vec<Result<String, LineTooLongError>> {
    let mut reader = LineReader::new(max_bytes);
    let mut lines = Vec::new();
    let mut rest = stream.as_bytes();
    for size in sizes.iter().cycle() {
        let (read, later) = rest.split_at(rest.len().min(*size));
        reader.push(read);
        lines.extend(drain(&mut reader));
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    lines.extend(reader.finish().map(|line| line.map(|line| String::from_utf8(line.to_vec()).unwrap())));
    lines
}

/// Neither parsing nor responding panics. An accepted message is the same after writing and parsing it again, and a
/// lower depth limit makes it too deep or changes nothing.
fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
    let incoming = match parse(bytes, &MessageLimits::default()) {
        Ok(incoming) => incoming,
        Err(fault) => {
            answer_to(&fault);
            return Ok(());
        }
    };
    if let Incoming::Single(message) = &incoming {
        match parse(bytes, &MessageLimits::default().max_depth(2)) {
            Ok(shallow) => prop_assert_eq!(&shallow, &incoming),
            Err(fault) => prop_assert_eq!(
                fault,
                ParseError {
                    kind: ParseErrorKind::TooDeep,
                    received: origin(message),
                    detail: Some(ParseErrorDetail::Limit(2)),
                }
            ),
        }
    }
    // Invalid elements of a batch keep no text that could be written back.
    if matches!(&incoming, Incoming::Batch(batch) if batch.messages().iter().any(Result::is_err)) {
        return Ok(());
    }
    let mut out = b"before".to_vec();
    incoming.write(&mut out).unwrap();
    let again = parse(out.strip_prefix(b"before").unwrap(), &MessageLimits::default());
    prop_assert_eq!(again.as_ref(), Ok(&incoming));
    Ok(())
}

fn origin(message: &Message<'_>) -> InvalidMessage {
    match message.clone() {
        Message::Request(call) => InvalidMessage::Request(call.id.into_owned()),
        Message::Notification(_) => InvalidMessage::Notification,
        Message::Response(answer) => InvalidMessage::Response(answer.id.map(Id::into_owned)),
    }
}

/// The result of [`parse`] for one object, in the terms of [`rules::judge`].
fn judged(wire: &str) -> String {
    let params = |params: Option<Raw<'_>>| params.map_or("-".to_owned(), |params| params.text().to_owned());
    let id = |id: &Option<Id<'_>>| id.as_ref().map_or("-".to_owned(), Id::to_string);
    match parse(wire.as_bytes(), &MessageLimits::default()) {
        Ok(Incoming::Single(Message::Request(call))) => {
            format!("request {} {:?} {}", call.id, call.method, params(call.params))
        }
        Ok(Incoming::Single(Message::Notification(note))) => {
            format!("notification {:?} {}", note.method, params(note.params))
        }
        Ok(Incoming::Single(Message::Response(answer))) => match answer.outcome {
            Ok(result) => format!("answer {} result {}", id(&answer.id), result.text()),
            Err(error) => {
                let data = error.data.map_or("-".to_owned(), |data| data.text().to_owned());
                format!("answer {} error {} {:?} {data}", id(&answer.id), error.code, error.message)
            }
        },
        Ok(Incoming::Batch(batch)) => format!("{batch:?}"),
        Err(fault) => match &fault.received {
            InvalidMessage::Response(call) => format!("failed answer {} {}", id(call), fault.kind.code()),
            _ => format!("fault {}, heard {}", fault.kind.code(), answer_to(&fault)),
        },
    }
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> = members.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// Members of an object, keys and values as written; mostly right, some missing, some duplicated.
fn members() -> impl Strategy<Value = Vec<(String, String)>> {
    let member = |chance: f64, key: &'static str, good: &'static [&'static str]| {
        let value = prop_oneof![3 => prop::sample::select(good), 1 => prop::sample::select(VALUES)];
        prop::option::weighted(chance, value).prop_map(move |value| value.map(|value| (key, value)))
    };
    let error = &[r#"{"code":1,"message":"m"}"#, r#"{"message":"","x":0,"code":-32002,"data":null}"#];
    let known = (
        member(0.95, r#""jsonrpc""#, &[r#""2.0""#]),
        member(0.7, r#""id""#, &["1", r#""1""#, "-0", "12345678901234567890"]),
        member(0.5, r#""method""#, &[r#""a""#, r#""tools/call""#]),
        member(0.4, r#""params""#, &["{}", r#"{"a":[1,{}]}"#]),
        member(0.3, r#""result""#, &["{}", r#"{"a":1,"a":2}"#]),
        member(0.3, r#""error""#, error),
        member(0.2, r#""x""#, VALUES),
    );
    let twice = (prop::sample::select(KEYS), prop::sample::select(VALUES));
    (known, prop::option::weighted(0.15, twice))
        .prop_map(|((a, b, c, d, e, f, g), twice)| {
            let members = [a, b, c, d, e, f, g, twice].into_iter().flatten();
            members.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>()
        })
        .prop_shuffle()
}

/// The rules for one object, implemented a second time without regard to speed.
mod rules {
    use serde_json::Value;

    pub(super) fn judge(members: &[(String, String)]) -> String {
        let envelope = Envelope(members);
        let (asks, answers) = (envelope.has("method"), envelope.has("result") || envelope.has("error"));
        envelope.message().unwrap_or_else(|code| match (asks, answers, envelope.id()) {
            (false, true, Ok(Some(id))) => format!("failed answer {id} {code}"),
            (false, true, _) => format!("failed answer - {code}"),
            (_, _, Ok(Some(id))) => format!("fault {code}, heard {code} for {id}"),
            (true, _, Ok(None)) if envelope.names_a_method() => format!("fault {code}, heard nothing"),
            (_, _, _) => format!("fault {code}, heard {code} without id"),
        })
    }

    struct Envelope<'a>(&'a [(String, String)]);

    const INVALID: i64 = -32600;
    const INVALID_PARAMS: i64 = -32602;

    impl<'a> Envelope<'a> {
        fn message(&self) -> Result<String, i64> {
            let known = ["jsonrpc", "id", "method", "params", "result", "error"];
            ensure(known.iter().all(|key| self.all(key).count() <= 1))?;
            ensure(self.value("jsonrpc") == Some(Value::from("2.0")))?;
            match (self.has("method"), self.has("result"), self.has("error")) {
                (true, false, false) => self.question(),
                (false, true, false) => {
                    let id = self.id()?.ok_or(INVALID)?;
                    Ok(format!("answer {id} result {}", self.text("result").ok_or(INVALID)?))
                }
                (false, false, true) => self.error(),
                _ => Err(INVALID),
            }
        }

        fn question(&self) -> Result<String, i64> {
            let id = self.id()?;
            let method = self.value("method").ok_or(INVALID)?;
            let method = method.as_str().ok_or(INVALID)?;
            let params = self.text("params").unwrap_or("-");
            if self.value("params").is_some_and(|params| !params.is_object()) {
                return Err(INVALID_PARAMS);
            }
            Ok(match id {
                Some(id) => format!("request {id} {method:?} {params}"),
                None => format!("notification {method:?} {params}"),
            })
        }

        fn error(&self) -> Result<String, i64> {
            let id = if self.value("id") == Some(Value::Null) { None } else { self.id()? };
            let error = self.value("error").ok_or(INVALID)?;
            let code = error.get("code").and_then(Value::as_i64).ok_or(INVALID)?;
            let message = error.get("message").and_then(Value::as_str).ok_or(INVALID)?;
            let data = error.get("data").map_or("-".to_owned(), Value::to_string);
            Ok(format!("answer {} error {code} {message:?} {data}", id.unwrap_or("-".to_owned())))
        }

        /// Whether it has a method that is a string; of two, the later one counts.
        fn names_a_method(&self) -> bool {
            self.all("method").last().is_some_and(|method| method.starts_with('"'))
        }

        /// The id as written; an error if it cannot be an id.
        fn id(&self) -> Result<Option<String>, i64> {
            ensure(self.all("id").count() <= 1)?;
            let Some(text) = self.text("id") else { return Ok(None) };
            match self.value("id") {
                Some(Value::Number(_)) => ensure(!text.contains(['.', 'e', 'E']))?,
                value => ensure(value.is_some_and(|id| id.is_string()))?,
            }
            Ok(Some(text.to_owned()))
        }

        fn has(&self, key: &str) -> bool {
            self.all(key).next().is_some()
        }

        fn text(&self, key: &str) -> Option<&'a str> {
            self.all(key).next()
        }

        fn value(&self, key: &str) -> Option<Value> {
            self.text(key).map(|text| serde_json::from_str(text).unwrap())
        }

        fn all(&self, key: &str) -> impl Iterator<Item = &'a str> {
            let members =
                self.0.iter().filter(move |(k, _)| serde_json::from_str::<String>(k).unwrap() == key);
            members.map(|(_, value)| value.as_str())
        }
    }

    fn ensure(holds: bool) -> Result<(), i64> {
        if holds { Ok(()) } else { Err(INVALID) }
    }
}

const KEYS: &[&str] = &[
    r#""jsonrpc""#,
    r#""id""#,
    r#""\u0069d""#,
    r#""method""#,
    r#""params""#,
    r#""p\u0061rams""#,
    r#""result""#,
    r#""error""#,
    r#""x""#,
    r#""ID""#,
    r#""""#,
];

const VALUES: &[&str] = &[
    "null",
    "true",
    "0",
    "-0",
    "1",
    "1.5",
    "1.0",
    "1e2",
    "12345678901234567890",
    r#""""#,
    r#""2.0""#,
    r#""1.0""#,
    r#""a""#,
    "[]",
    "[1]",
    r#"[1,"m"]"#,
    "{}",
    r#"{"id":1}"#,
    r#"{"code":1,"message":"m"}"#,
    r#"{"code":1,"message":"m","data":{"a":[1]}}"#,
    r#"{"code":1.5,"message":"m"}"#,
    r#"{"code":"1","message":"m"}"#,
    r#"{"code":1,"message":2}"#,
    r#"{"code":1}"#,
    r#"{"message":"m"}"#,
];

const MESSAGES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":"\u0061\ud83d\ude00é","method":"tools/call","params":{"name":"a","v":[1.5e3,{"b":null}]}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","id":12345678901234567890,"result":{"content":[{"type":"text","text":"\n"}]}}"#,
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m","data":{"a":"\ud800"}}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]"#,
    r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}]"#,
];

/// Tokens to build messages, batches and garbage from; none of them a surrogate.
const TOKENS: &[&str] = &[
    "{",
    "{",
    "}",
    "}",
    "[",
    "]",
    ":",
    ":",
    ":",
    ",",
    ",",
    " ",
    "\n",
    "null",
    "true",
    "1",
    "-1.5e2",
    "01",
    "\"",
    "\\",
    r#""jsonrpc":"2.0""#,
    r#""id":1"#,
    r#""method":"a""#,
    r#""params":{}"#,
    r#""result":{}"#,
    r#""a""#,
    "\t",
    "\u{a0}",
];
