//! Output of servers that is not a message.

use std::net::TcpListener;

use crate::support::{Place, Running, TSUGITE, helper};

#[test]
fn partial_line_is_shown_once_and_traced_in_full() {
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gate.local_addr().unwrap().port();
    let script = format!("print Wel; wait_for {port}; send_line come; run '{TSUGITE}' serve --stdio");
    let place = Place::new();
    let words = ["call", "add", "a=1", "b=2", "--trace", "wire.jsonl", "--", helper(), "script", &script];
    let running = Running::start(place.command(words));
    let shown = running.wait_for_stderr("that is not a message");
    assert!(shown.ends_with(": Wel\n"), "{shown}");
    // The script waits until its connection ends.
    drop(gate.accept().unwrap());
    let ran = running.end();
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "3\n", ""));
    assert_eq!(place.text("wire.jsonl").matches("Welcome").count(), 1);
}
