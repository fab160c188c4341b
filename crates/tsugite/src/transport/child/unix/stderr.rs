//! Captures the end of a child's output on stderr.
//!
//! The pipe is read all the time, so that a child that logs much never blocks; only the last part is kept. A reader gets
//! everything written so far, so that the last message of a child that has ended is included.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use tokio::net::unix::pipe;

use crate::lock::lock;

/// The last part of a child's output on stderr.
pub(super) struct StderrCapture {
    pipe: pipe::Receiver,
    tail: Mutex<Tail>,
}

impl StderrCapture {
    /// Captures the output of the child with the process id `child` from `pipe`.
    pub(super) fn new(pipe: OwnedFd, child: u32) -> io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(pipe)?;
        Ok(Self { pipe, tail: Mutex::new(Tail { child, ..Tail::default() }) })
    }

    /// Reads until all processes that hold the other end have closed it.
    pub(super) async fn read(self: Arc<Self>) {
        while self.pipe.readable().await.is_ok() {
            if !self.drain_pipe(|chunk| self.pipe.try_read(chunk)) {
                return;
            }
            // Lets other tasks run, even if this child never stops writing.
            tokio::task::yield_now().await;
        }
    }

    /// Returns the captured part of everything written so far.
    pub(super) fn text(&self) -> String {
        // Reads without tokio, which may not know yet that the pipe is readable.
        self.drain_pipe(|chunk| Ok(rustix::io::read(&self.pipe, chunk)?));
        lock(&self.tail).text()
    }

    /// Reads what is in the pipe, at most as much as a pipe can hold. Returns false at the end of the stream.
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
    /// How many bytes were dropped before those in `bytes`.
    omitted_bytes: u64,
    /// The line that is not complete yet, for the log.
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
            // A field, not the message: subscribers escape control characters in fields.
            tracing::debug!(child = self.child, line = &*String::from_utf8_lossy(line), "written to stderr");
        }
        self.line.clear();
    }

    fn text(&self) -> String {
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

/// The bytes of one read, and the number of reads before other tasks run: together 1 MiB, the default limit of a pipe
/// (`/proc/sys/fs/pipe-max-size`).
const CHUNK: usize = 8 << 10;
const MAX_CHUNKS_PER_READ: usize = 128;

/// The length at which a line is split in the log.
const MAX_LINE_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

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
            tail.push(&[b'a'; CHUNK]);
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
