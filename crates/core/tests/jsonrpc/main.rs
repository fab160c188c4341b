//! JSON-RPC 2.0 as MCP restricts it, tested from outside: bytes in, bytes out.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod answer;
mod batch;
mod id;
mod line;
mod message;
mod property;
mod raw;
mod text;
mod writing;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tsugite_core::jsonrpc::{
    Batch, Incoming, LineReader, LineTooLongError, Message, MessageLimits, Notification, ParseError, Request,
    Response, parse, write,
};

/// A response as a peer would see it, with its id as text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

fn accepted(wire: &str) -> Incoming<'_> {
    parse(wire.as_bytes(), &MessageLimits::default()).unwrap_or_else(|fault| panic!("{fault:?}: {wire}"))
}

fn request(wire: &str) -> Request<'_> {
    let Incoming::Single(Message::Request(request)) = accepted(wire) else { panic!("not a request: {wire}") };
    request
}

fn notification(wire: &str) -> Notification<'_> {
    let Incoming::Single(Message::Notification(note)) = accepted(wire) else {
        panic!("not a notification: {wire}")
    };
    note
}

fn response(wire: &str) -> Response<'_> {
    let Incoming::Single(Message::Response(response)) = accepted(wire) else {
        panic!("not an answer: {wire}")
    };
    response
}

fn batch(wire: &str) -> Batch<'_> {
    let Incoming::Batch(batch) = accepted(wire) else { panic!("not a batch: {wire}") };
    batch
}

fn response_of<'b, 'a>(message: &'b Result<Message<'a>, ParseError>) -> &'b Response<'a> {
    let Ok(Message::Response(response)) = message else { panic!("not an answer: {message:?}") };
    response
}

fn refused(wire: impl AsRef<[u8]>) -> ParseError {
    let wire = wire.as_ref();
    match parse(wire, &MessageLimits::default()) {
        Err(fault) => fault,
        Ok(message) => panic!("accepted {message:?}: {}", wire.escape_ascii()),
    }
}

fn code_of(wire: impl AsRef<[u8]>) -> i64 {
    refused(wire).kind.code()
}

/// The response to `wire`: `-32600 for 1`, `-32600 without id`, `nothing`; or `accepted`.
fn response_to(wire: impl AsRef<[u8]>) -> String {
    parse(wire.as_ref(), &MessageLimits::default())
        .map_or_else(|fault| answer_to(&fault), |_| "accepted".to_owned())
}

/// The response to a parse error, as text.
fn answer_to(fault: &ParseError) -> String {
    let Some((id, error)) = fault.error_response() else { return "nothing".to_owned() };
    assert_eq!(error.code, fault.kind.code());
    let mut out = Vec::new();
    write::error(&mut out, id, false, &error);
    let answer: Answer<'_> = serde_json::from_slice(&out).unwrap();
    assert_eq!((answer.jsonrpc, &answer.result), ("2.0", &None));
    let error = answer.error.unwrap();
    assert!(error["message"].is_string());
    let code = error["code"].as_i64().unwrap();
    answer.id.map_or_else(|| format!("{code} without id"), |id| format!("{code} for {id}"))
}

fn drain(reader: &mut LineReader) -> Vec<Result<String, LineTooLongError>> {
    let mut lines = Vec::new();
    while let Some(line) = reader.next_line() {
        lines.push(line.map(|line| String::from_utf8(line.to_vec()).unwrap()));
    }
    lines
}
