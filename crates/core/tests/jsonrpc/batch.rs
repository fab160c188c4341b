//! Batches: each element is parsed on its own.

use serde_json::{Value, json};
use tsugite_core::jsonrpc::{
    BatchResponse, Id, Incoming, Message, MessageLimits, ParseErrorKind, parse, write,
};

use super::{answer_to, batch, refused, response_of, response_to};

#[test]
fn batch_of_requests_and_notifications_keeps_its_order() {
    // JRPC-026, JRPC-029
    let batch = batch(
        r#" [ {"jsonrpc":"2.0","id":1,"method":"a"} , {"jsonrpc":"2.0","method":"b"},
            {"jsonrpc":"2.0","id":"1","method":"c","params":{}} ] "#,
    );
    let methods: Vec<_> = batch
        .into_messages()
        .into_iter()
        .map(|message| match message.unwrap() {
            Message::Request(call) => call.method,
            Message::Notification(note) => note.method,
            Message::Response(answer) => panic!("{answer:?}"),
        })
        .collect();
    assert_eq!(methods, ["a", "b", "c"]);
}

#[test]
fn batch_of_responses_keeps_its_ids() {
    // JRPC-026
    let batch = batch(
        r#"[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}},
            {"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}},{"jsonrpc":"2.0","id":3,"result":null}]"#,
    );
    let ids: Vec<_> = batch.messages().iter().map(|message| response_of(message).id.clone()).collect();
    assert_eq!(ids, [Some(Id::from(2)), Some(Id::from(1)), None, Some(Id::from(3))]);
}

#[test]
fn batch_without_requests_has_no_response() {
    // JRPC-029, JRPC-015
    let batch = batch(
        r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b","params":[]},{"jsonrpc":"2.0","method":"c"}]"#,
    );
    assert_eq!(batch.messages().len(), 3);
    assert_eq!(BatchResponse::default().finish(), None);
}

#[test]
fn single_batch_response_is_an_array() {
    // JRPC-029
    let mut answers = BatchResponse::default();
    answers.push(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(answers.finish().unwrap(), br#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#);

    let mut answers = BatchResponse::default();
    for id in [3, 1, 2] {
        let mut message = Vec::new();
        write::result(&mut message, &Id::from(id), &json!({})).unwrap();
        answers.push(&message);
    }
    let array: Vec<Value> = serde_json::from_slice(&answers.finish().unwrap()).unwrap();
    assert_eq!(array.iter().map(|answer| answer["id"].as_i64().unwrap()).collect::<Vec<_>>(), [3, 1, 2]);
}

#[test]
fn an_empty_batch_is_one_invalid_request() {
    // JRPC-029
    for wire in ["[]", " [ \n ] "] {
        assert_eq!(refused(wire).kind, ParseErrorKind::EmptyBatch);
        assert_eq!(response_to(wire), "-32600 without id");
    }
}

#[test]
fn bad_element_fails_only_itself() {
    // JRPC-029, JRPC-015
    let batch = batch(
        r#"[1,{},[],null,{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"1.0","id":2,"method":"a"},
            {"jsonrpc":"2.0","id":3,"method":"a","params":[]},{"jsonrpc":"2.0","method":"a","params":[]},
            {"jsonrpc":"2.0","id":"\ud800","method":"a"},{"jsonrpc":"2.0","method":"b"},[{"jsonrpc":"2.0"}]]"#,
    );
    let answers: Vec<_> = batch
        .messages()
        .iter()
        .map(|message| message.as_ref().map_or_else(answer_to, |_| "accepted".into()))
        .collect();
    assert_eq!(
        answers,
        [
            "-32600 without id",
            "-32600 without id",
            "-32600 without id",
            "-32600 without id",
            "accepted",
            "-32600 for 2",
            "-32602 for 3",
            "nothing",
            "-32700 without id",
            "accepted",
            "-32600 without id",
        ]
    );
}

#[test]
fn mixed_batch_is_rejected() {
    // JRPC-026
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
    let note = r#"{"jsonrpc":"2.0","method":"a"}"#;
    let result = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let error = r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#;
    for (asks, answers) in [(call, result), (call, error), (note, result), (note, error)] {
        for wire in [format!("[{asks},{answers}]"), format!("[{answers},{answers},{asks}]")] {
            assert_eq!(refused(&wire).kind, ParseErrorKind::MixedBatch, "{wire}");
            assert_eq!(response_to(&wire), "-32600 without id", "{wire}");
        }
    }
}

#[test]
fn invalid_element_does_not_affect_responses() {
    // JRPC-026
    for wire in [
        r#"[{"jsonrpc":"2.0","id":1,"result":{}},1]"#,
        r#"[{"jsonrpc":"2.0"},{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{},"error":{}}]"#,
    ] {
        let read = parse(wire.as_bytes(), &MessageLimits::default());
        let Ok(Incoming::Batch(batch)) = read else { panic!("{wire}: {read:?}") };
        let answers: Vec<_> =
            batch.messages().iter().filter(|message| message.is_ok()).map(response_of).collect();
        assert_eq!(answers.len(), 1, "{wire}");
        assert_eq!(answers[0].id, Some(Id::from(1)));
    }
}

#[test]
fn initialize_is_found_in_a_batch() {
    // JRPC-028
    let asks = |wire| batch(wire).request_methods().any(|method| method == "initialize");
    assert!(asks(
        r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]"#
    ));
    assert!(asks(r#"[{"jsonrpc":"2.0","id":1,"method":"initiali\u007ae"}]"#));
    assert!(!asks(r#"[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"method":"initialize"}}]"#));
    assert!(!asks(r#"[{"jsonrpc":"2.0","id":1,"method":"Initialize"},{"jsonrpc":"2.0","method":"b"}]"#));
}

#[test]
fn a_batch_that_is_not_json_has_no_elements() {
    // JRPC-020
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
    for wire in [
        format!("[{call}"),
        format!("[{call},]"),
        format!("[,{call}]"),
        format!("[{call} {call}]"),
        format!("[{call}]]"),
        format!("[{call}}}"),
        format!("[{call},{{]"),
        format!("[{call}][{call}]"),
        "[nul]".to_owned(),
    ] {
        assert_eq!(response_to(&wire), "-32700 without id", "{wire}");
    }
}

#[test]
fn a_batch_over_the_limit_is_too_large() {
    let wire =
        |length: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#; length].join(","));
    assert_eq!(batch(&wire(1024)).messages().len(), 1024);
    assert_eq!(refused(wire(1025)).kind, ParseErrorKind::BatchTooLong);
    assert_eq!(response_to(wire(1025)), "-32801 without id");

    let mut limits = MessageLimits::default();
    limits.max_batch_messages = 2;
    assert!(parse(wire(2).as_bytes(), &limits).is_ok());
    assert!(parse(wire(3).as_bytes(), &limits).is_err());
}
