//! What a child wrote to stderr last.
//!
//! It is read all the time, so that a child that logs much is never held up, and little of it is kept. Whoever asks
//! gets what has been written by then: a child that says why it fails and ends has said it before its end is known.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use tokio::net::unix::pipe;

use crate::lock::lock;

/// The end of what a child wrote to stderr.
pub(super) struct StderrCapture {
    pipe: pipe::Receiver,
    tail: Mutex<Tail>,
}

impl StderrCapture {
    /// Keeps what comes through a pipe from the child of that number.
    pub(super) fn new(pipe: OwnedFd, child: u32) -> io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(pipe)?;
        Ok(Self { pipe, tail: Mutex::new(Tail { child, ..Tail::default() }) })
    }

    /// Reads until everybody who could write has ended.
    pub(super) async fn read(self: Arc<Self>) {
        while self.pipe.readable().await.is_ok() {
            if !self.drain_pipe(|chunk| self.pipe.try_read(chunk)) {
                return;
            }
            // Others have work to do too, even if this child never stops writing.
            tokio::task::yield_now().await;
        }
    }

    /// What is kept of all that was written until now.
    pub(super) fn text(&self) -> String {
        // Past tokio, which may not have been told yet that there is something to read.
        self.drain_pipe(|chunk| Ok(rustix::io::read(&self.pipe, chunk)?));
        lock(&self.tail).text()
    }

    /// Takes what is in the pipe, at most as much as fits into one; false if nothing will come any more.
    fn drain_pipe(&self, read: impl Fn(&mut [u8]) -> io::Result<usize>) -> bool {
        let mut tail = lock(&self.tail);
        let mut chunk = [0; CHUNK];
        for _ in 0..MAX_CHUNKS_PER_READ {
            match read(&mut chunk) {
                Ok(0) => {
                    tail.end_line();
                    return false;
                }
                Ok(length) => tail.push(chunk.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

#[derive(Default)]
struct Tail {
    child: u32,
    bytes: VecDeque<u8>,
    /// How many bytes came before those that are kept.
    omitted_bytes: u64,
    /// A line that has not ended, for the log.
    line: Vec<u8>,
}

impl Tail {
    fn push(&mut self, chunk: &[u8]) {
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

    fn end_line(&mut self) {
        let line = self.line.trim_ascii_end();
        if !line.is_empty() {
            // As a field, not as the message: subscribers escape what could move the cursor of a terminal.
            tracing::debug!(child = self.child, line = &*String::from_utf8_lossy(line), "written to stderr");
        }
        self.line.clear();
    }

    fn text(&self) -> String {
        let (mut left_out, mut kept) = (self.omitted_bytes, self.bytes.iter().copied().collect::<Vec<_>>());
        if left_out == 0 {
            return String::from_utf8_lossy(&kept).into_owned();
        }
        // A letter whose beginning is left out is left out.
        let rest_of_letter = kept.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        kept.drain(..rest_of_letter);
        left_out += rest_of_letter as u64;
        format!("[{left_out} bytes before this are not kept]\n{}", String::from_utf8_lossy(&kept))
    }
}

/// How much is kept.
const MAX_CAPTURED_BYTES: usize = 64 << 10;

/// How much is read at once, and how often without a pause: together one mebibyte, the most a pipe can hold unless an
/// administrator says otherwise.
const CHUNK: usize = 8 << 10;
const MAX_CHUNKS_PER_READ: usize = 128;

/// How long a line in the log becomes before it is taken apart.
const MAX_LINE_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    #[test]
    fn only_truncated_stderr_is_marked() {
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
    fn cut_and_invalid_characters_are_handled() {
        let mut tail = Tail::default();
        tail.push("継".as_bytes());
        tail.push(&[b'a'; MAX_CAPTURED_BYTES - 2]);
        tail.push(b"\xff");
        let expected =
            format!("[3 bytes before this are not kept]\n{}\u{fffd}", "a".repeat(MAX_CAPTURED_BYTES - 2));
        assert_eq!(tail.text(), expected);
    }

    #[test]
    fn each_line_goes_to_the_log() {
        let heard = RecordingSubscriber::default();
        tracing::subscriber::with_default(heard.clone(), || {
            let mut tail = Tail { child: 7, ..Tail::default() };
            tail.push(b"one\r\n\ntw");
            tail.push(b"o\nthree");
            tail.end_line();
        });
        assert_eq!(*lock(&heard.0), ["7: one", "7: two", "7: three"]);
    }

    #[test]
    fn endless_stderr_line_has_limited_memory() {
        let mut tail = Tail::default();
        for _ in 0..1000 {
            tail.push(&[b'a'; CHUNK]);
            assert!(tail.line.is_empty());
        }
        tail.push(b"b");
        assert_eq!(tail.line, b"b");
    }

    /// Who listens to the log.
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
