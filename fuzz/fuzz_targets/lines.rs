//! However a stream was cut into reads, the same lines come out of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugite_core::jsonrpc::{LineReader, LineTooLongError};

fuzz_target!(|input: &[u8]| {
    // The limit of a line, the sizes of the reads in turn, the stream.
    let Some(([limit, sizes @ ..], stream)) = input.split_first_chunk::<5>() else { return };
    assert_eq!(lines(*limit, reads(stream, sizes)), lines(*limit, vec![stream]));
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

fn lines(limit: u8, reads: Vec<&[u8]>) -> Vec<Result<Vec<u8>, LineTooLongError>> {
    let mut reader = LineReader::new(limit.into());
    let mut lines = Vec::new();
    for read in reads {
        reader.push(read);
        while let Some(line) = reader.next_line() {
            lines.push(line.map(<[u8]>::to_vec));
        }
    }
    lines.extend(reader.finish().map(|line| line.map(<[u8]>::to_vec)));
    lines
}
