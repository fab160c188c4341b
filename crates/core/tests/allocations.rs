//! Parsing the envelope of a message allocates nothing, for any length; nor does the next event of a stream.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::System;
use std::hint::black_box;

use alloc_tracker::{Allocator, Session};
use tsugite_core::jsonrpc::{Incoming, Message, MessageLimits, parse, write};
use tsugite_core::sse::SseReader;

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

#[test]
fn the_counter_sees_allocations() {
    assert_eq!(cost(|| drop(black_box(Box::new(1)))), Cost { count: 1, bytes: 4 });
    assert_eq!(cost(|| _ = black_box(1)), Cost { count: 0, bytes: 0 });
}

#[test]
fn reading_a_request_a_notification_or_a_result_allocates_nothing() {
    for length in [0, 100 << 10] {
        for wire in [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#, body(length)),
            format!(r#"{{"jsonrpc":"2.0","id":"a-7","method":"tools/call","params":{}}}"#, body(length)),
            format!(r#"{{"params":{},"method":"notifications/progress","jsonrpc":"2.0"}}"#, body(length)),
            format!(r#"{{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":{}}}"#, body(length)),
        ] {
            let limits = MessageLimits::default();
            let spent = cost(|| drop(black_box(parse(black_box(wire.as_bytes()), &limits).unwrap())));
            assert_eq!(spent, Cost { count: 0, bytes: 0 }, "{} bytes: {:.80}", wire.len(), wire);
        }
    }
}

#[test]
fn error_round_trip_allocates_little() {
    let wire =
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"No such tool","data":{"name":"add"}}}"#;
    let mut out = Vec::with_capacity(1024);
    let spent = cost(|| parse(wire, &MessageLimits::default()).unwrap().write(&mut out).unwrap());
    assert_eq!(out, wire);
    assert!(spent.count <= 4 && spent.bytes <= 256, "{spent:?}");
}

#[test]
fn rejecting_a_message_allocates_little_for_any_length() {
    for wire in [
        format!(r#"{{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{}}}"#, body(100 << 10)),
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":[{}]}}"#, body(100 << 10)),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}"#, body(100 << 10)),
    ] {
        let mut out = Vec::with_capacity(1024);
        let spent = cost(|| {
            let fault = parse(wire.as_bytes(), &MessageLimits::default()).unwrap_err();
            let (id, error) = fault.error_response().unwrap();
            write::error(&mut out, id, false, &error);
        });
        assert!(out.starts_with(b"{"));
        assert!(spent.count <= 4 && spent.bytes <= 256, "{spent:?}");
    }
}

#[test]
fn writing_into_a_large_enough_buffer_copies_nothing_twice() {
    let wire = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#, body(100 << 10));
    let Incoming::Single(Message::Request(call)) = parse(wire.as_bytes(), &MessageLimits::default()).unwrap()
    else {
        panic!("not a request")
    };
    let mut out = Vec::with_capacity(2 * wire.len());
    let spent = cost(|| {
        write::request(&mut out, &call.id, &call.method, call.params.as_ref()).unwrap();
    });
    assert_eq!(out, wire.as_bytes());
    assert!(spent.count <= 2 && spent.bytes <= 64, "{spent:?}");
}

#[test]
fn reading_events_reuses_the_buffer() {
    let event = format!("event: message\nid: 1-7\ndata: {}\r\ndata: and more\n\n", body(10 << 10));
    let mut events = SseReader::new(1 << 20);
    let mut read = |size| {
        let mut count = 0;
        for chunk in event.as_bytes().chunks(size) {
            events.push(chunk);
            while events.next_event().is_some_and(|event| event.is_ok()) {
                count += 1;
            }
        }
        assert_eq!(count, 1);
    };
    // Names and ids have two places each, and take turns.
    read(event.len());
    read(event.len());
    for size in [event.len(), 1000, 7] {
        assert_eq!(cost(|| read(size)), Cost { count: 0, bytes: 0 }, "reads of {size}");
    }
}

/// An object of some `max_length` bytes with all that JSON has.
fn body(length: usize) -> String {
    let item = r#"{"text":"a \"quoted\" \ud83d\ude00 é","n":[-1.5e3,0,true,false,null,{}]}"#;
    format!(r#"{{"name":"add","items":[{}]}}"#, vec![item; 1 + length / item.len()].join(","))
}

#[derive(Debug, PartialEq)]
struct Cost {
    count: u64,
    bytes: u64,
}

/// What `work` allocates on this thread.
fn cost(work: impl FnOnce()) -> Cost {
    let session = Session::new();
    let operation = session.operation("work");
    {
        let _span = operation.measure_thread();
        work();
    }
    let report = session.to_report();
    let (_, total) = report.operations().next().unwrap();
    Cost { count: total.total_allocations_count(), bytes: total.total_bytes_allocated() }
}
