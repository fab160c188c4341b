//! However a stream was cut into reads, the same events come out of it.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tsugite_core::sse::{EventTooLongError, SseReader};

fuzz_target!(|input: &[u8]| {
    // The limit of an event, the sizes of the reads in turn, the stream.
    let Some(([limit, sizes @ ..], stream)) = input.split_first_chunk::<5>() else { return };
    assert_eq!(read_events(*limit, reads(stream, sizes)), read_events(*limit, vec![stream]));
});

fn reads<'a>(mut stream: &'a [u8], sizes: &[u8; 4]) -> Vec<&'a [u8]> {
    let mut reads = Vec::new();
    for size in sizes.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (read, rest) = stream.split_at(usize::from(*size).clamp(1, stream.len()));
        reads.push(read);
        stream = rest;
    }
    reads
}

/// Id, name and data.
type EventParts = (Option<String>, String, Vec<u8>);

fn read_events(
    limit: u8,
    reads: Vec<&[u8]>,
) -> (Vec<Result<EventParts, EventTooLongError>>, Option<String>, Option<Duration>) {
    let mut reader = SseReader::new(limit.into());
    let mut events = Vec::new();
    for read in reads {
        reader.push(read);
        while let Some(event) = reader.next_event() {
            events.push(event.map(|event| {
                assert!(event.data.len() <= limit.into());
                (event.id.map(str::to_owned), event.name.to_owned(), event.data.to_vec())
            }));
        }
    }
    (events, reader.last_event_id().map(str::to_owned), reader.retry())
}
