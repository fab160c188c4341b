//! Whatever bytes a peer sends, there is an answer and no panic; and a message that was accepted says the same
//! after it was written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugite_core::jsonrpc::{Incoming, MessageLimits, parse};

fuzz_target!(|bytes: &[u8]| {
    let limits = MessageLimits::default();
    let Ok(incoming) = parse(bytes, &limits) else { return };
    // The faulty elements of a batch keep no text that could be written back.
    if matches!(&incoming, Incoming::Batch(batch) if batch.messages().iter().any(Result::is_err)) {
        return;
    }
    let mut written = Vec::new();
    incoming.write(&mut written).expect("what was read can be written");
    let again = parse(&written, &limits).expect("what was written can be read");
    assert_eq!(again, incoming);
});
