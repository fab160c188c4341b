//! The cost of parsing and writing an envelope.
//!
//! `limit` is the cost of a hand-written borrowed struct with the same checks of length, UTF-8 and depth; `parse` must
//! stay within 1.3 times of it. `value` is `serde_json::Value`, for comparison. Run with `cargo bench -p tsugite-core`.

use std::borrow::Cow;

use divan::{Bencher, black_box};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tsugite_core::jsonrpc::{Id, Incoming, MessageLimits, parse, write};
use tsugite_core::protocol::tools::{Call, CallResult, List, ListResult};
use tsugite_core::revision::{Revision, write_result};

fn main() {
    divan::main();
}

const MESSAGES: [&str; 3] = ["call_200_bytes", "call_100_kib", "list_60_tools"];

fn message(name: &str) -> Vec<u8> {
    match name {
        "call_200_bytes" => call(100),
        "call_100_kib" => call(100 << 10),
        _ => json!({"jsonrpc": "2.0", "id": 7, "result": {"tools": tools(60)}}).to_string().into_bytes(),
    }
}

fn call(text: usize) -> Vec<u8> {
    let text = "lorem ipsum ".repeat(text / 12);
    let params = json!({"name": "echo", "arguments": {"text": text}, "_meta": {"progressToken": 1}});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string().into_bytes()
}

fn tools(count: usize) -> Vec<Value> {
    let tool = |number| {
        json!({
            "name": format!("tool_{number}"),
            "description": "Does one thing, does it well, and says \"done\" when it is done.",
            "inputSchema": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "Where."}, "depth": {"type": "integer"}},
                "required": ["path"],
            },
            "annotations": {"readOnlyHint": true},
        })
    };
    (0..count).map(tool).collect()
}

#[divan::bench(args = MESSAGES)]
fn read_parse(bencher: Bencher<'_, '_>, name: &str) {
    let (bytes, limits) = (message(name), MessageLimits::default());
    bencher.bench_local(|| matches!(parse(black_box(&bytes), &limits), Ok(Incoming::Single(_))));
}

#[divan::bench(args = MESSAGES)]
fn read_limit(bencher: Bencher<'_, '_>, name: &str) {
    let bytes = message(name);
    bencher.bench_local(|| hand_written(black_box(&bytes)).is_some());
}

#[divan::bench(args = MESSAGES)]
fn read_value(bencher: Bencher<'_, '_>, name: &str) {
    let bytes = message(name);
    bencher.bench_local(|| serde_json::from_slice::<Value>(black_box(&bytes)).is_ok());
}

/// The least that must be looked at, by the usual means.
fn hand_written(bytes: &[u8]) -> Option<Envelope<'_>> {
    if bytes.len() > 4 << 20 || depth(bytes) > 128 {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read to be measured")]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: &'a str,
    id: Option<i64>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// One scan for depth, strings stepped over as fast as there is a library for.
fn depth(bytes: &[u8]) -> usize {
    let (mut open, mut deepest, mut at) = (0usize, 0usize, 0usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' => open = open.saturating_sub(1),
            b'"' => {
                while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
                    let escape = bytes.get(at + found) == Some(&b'\\');
                    at += found + if escape { 2 } else { 1 };
                    if !escape {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[divan::bench(args = [100, 100 << 10])]
fn write_call_answer(bencher: Bencher<'_, '_>, length: usize) {
    let result = CallResult::from_text("lorem ipsum ".repeat(length / 12));
    let mut out = Vec::with_capacity(256 << 10);
    bencher.with_inputs(|| result.clone()).bench_local_values(|result| {
        out.clear();
        write_result::<Call>(&mut out, &Id::from(7), result.into(), Revision::NEWEST, None).is_ok()
    });
}

#[divan::bench(args = [100, 100 << 10])]
fn write_call_limit(bencher: Bencher<'_, '_>, length: usize) {
    #[derive(serde::Serialize)]
    struct Message<'a> {
        jsonrpc: &'a str,
        id: i64,
        result: Answer<'a>,
    }
    #[derive(serde::Serialize)]
    struct Answer<'a> {
        #[serde(rename = "resultType")]
        result_type: &'a str,
        content: [Block<'a>; 1],
    }
    #[derive(serde::Serialize)]
    struct Block<'a> {
        r#type: &'a str,
        text: &'a str,
    }
    let text = "lorem ipsum ".repeat(length / 12);
    let mut out = Vec::with_capacity(256 << 10);
    bencher.bench_local(|| {
        out.clear();
        let content = [Block { r#type: "text", text: black_box(&text) }];
        let result = Answer { result_type: "complete", content };
        serde_json::to_writer(&mut out, &Message { jsonrpc: "2.0", id: 7, result }).is_ok()
    });
}

#[divan::bench]
fn write_list_of_60(bencher: Bencher<'_, '_>) {
    let list = serde_json::from_value::<ListResult>(json!({"tools": tools(60)}));
    let list = list.unwrap_or_else(|_| ListResult::new([]));
    let mut out = Vec::with_capacity(64 << 10);
    bencher.with_inputs(|| list.clone()).bench_local_values(|list| {
        out.clear();
        write_result::<List>(&mut out, &Id::from(7), list, Revision::NEWEST, None).is_ok()
    });
}

#[divan::bench]
fn write_list_of_60_as_value(bencher: Bencher<'_, '_>) {
    let list = json!({"tools": tools(60)});
    let mut out = Vec::with_capacity(64 << 10);
    bencher.bench_local(|| {
        out.clear();
        write::result(&mut out, &Id::from(7), black_box(&list)).is_ok()
    });
}
