//! The end of a child's output on stderr, and its lines for the log.

use std::collections::VecDeque;

/// The last part of a child's output on stderr.
#[derive(Default)]
pub(super) struct Tail {
    child: u32,
    bytes: VecDeque<u8>,
    /// How many bytes were dropped before those in `bytes`.
    omitted_bytes: u64,
    /// The line that is not complete yet, for the log.
    line: Vec<u8>,
}

impl Tail {
    /// Creates an empty tail of the child with the process id `child`.
    pub(super) fn new(child: u32) -> Self {
        Self { child, ..Self::default() }
    }

    /// Appends output.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend(chunk);
        let excess = self.bytes.len().saturating_sub(MAX_CAPTURED_BYTES);
        self.bytes.drain(..excess);
        self.omitted_bytes += excess as u64;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= MAX_LINE_BYTES {
                self.end_line();
            }
        }
    }

    /// Logs the line that is not complete, at the end of the output.
    pub(super) fn end_line(&mut self) {
        let line = self.line.trim_ascii_end();
        if !line.is_empty() {
            // A field, not the message: subscribers escape control characters in fields.
            tracing::debug!(child = self.child, line = &*String::from_utf8_lossy(line), "written to stderr");
        }
        self.line.clear();
    }

    /// Returns the part that is kept, and a note if there was more.
    pub(super) fn text(&self) -> String {
        let (mut omitted, mut kept) = (self.omitted_bytes, self.bytes.iter().copied().collect::<Vec<_>>());
        if omitted == 0 {
            return String::from_utf8_lossy(&kept).into_owned();
        }
        // Drops the rest of a UTF-8 character whose start was dropped.
        let continuation_bytes = kept.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        kept.drain(..continuation_bytes);
        omitted += continuation_bytes as u64;
        format!("[{omitted} bytes before this are not kept]\n{}", String::from_utf8_lossy(&kept))
    }
}

/// How many bytes are kept.
const MAX_CAPTURED_BYTES: usize = 64 << 10;

/// The length at which a line is split in the log.
const MAX_LINE_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;
    use crate::lock::lock;

    #[test]
    fn output_beyond_the_limit_is_marked_as_omitted() {
        let mut tail = Tail::default();
        tail.push(&[b'a'; MAX_CAPTURED_BYTES]);
        assert_eq!(tail.text(), "a".repeat(MAX_CAPTURED_BYTES));
        tail.push(b"b");
        assert_eq!(
            tail.text(),
            format!("[1 bytes before this are not kept]\n{}b", "a".repeat(MAX_CAPTURED_BYTES - 1))
        );
    }

    #[test]
    fn cut_character_is_dropped_and_invalid_bytes_are_replaced() {
        let mut tail = Tail::default();
        tail.push("継".as_bytes());
        tail.push(&[b'a'; MAX_CAPTURED_BYTES - 2]);
        tail.push(b"\xff");
        let expected =
            format!("[3 bytes before this are not kept]\n{}\u{fffd}", "a".repeat(MAX_CAPTURED_BYTES - 2));
        assert_eq!(tail.text(), expected);
    }

    #[test]
    fn each_line_is_logged() {
        let recorder = RecordingSubscriber::default();
        tracing::subscriber::with_default(recorder.clone(), || {
            let mut tail = Tail { child: 7, ..Tail::default() };
            tail.push(b"one\r\n\ntw");
            tail.push(b"o\nthree");
            tail.end_line();
        });
        assert_eq!(*lock(&recorder.0), ["7: one", "7: two", "7: three"]);
    }

    #[test]
    fn endless_line_takes_bounded_memory_in_the_log() {
        let mut tail = Tail::default();
        for _ in 0..1000 {
            tail.push(&[b'a'; 2 * MAX_LINE_BYTES]);
            assert!(tail.line.is_empty());
        }
        tail.push(b"b");
        assert_eq!(tail.line, b"b");
    }

    /// Records the log.
    #[derive(Clone, Default)]
    struct RecordingSubscriber(Arc<Mutex<Vec<String>>>);

    impl Subscriber for RecordingSubscriber {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::DEBUG
        }

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            lock(&self.0).push(format!("{}: {}", fields.child, fields.line));
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[derive(Default)]
    struct Fields {
        child: u64,
        line: String,
    }

    impl Visit for Fields {
        fn record_u64(&mut self, _: &Field, value: u64) {
            self.child = value;
        }

        fn record_str(&mut self, _: &Field, value: &str) {
            self.line = value.into();
        }

        fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
    }
}
