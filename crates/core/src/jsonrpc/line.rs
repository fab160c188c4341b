//! Newline framing: one message per line, as on stdio.
//!
//! Only `\n` ends a line (a `\r` before it is dropped, U+2028 is text). Blank lines are skipped. A line over the limit
//! is reported once and skipped without being buffered, so memory stays bounded.

use std::fmt;

/// Splits a stream of bytes into lines, independent of how the reads were split.
///
/// ```
/// use tsugite_core::jsonrpc::LineReader;
///
/// let mut lines = LineReader::new(100);
/// lines.push(b"{\"a\":1}\r\n{\"b\"");
/// assert_eq!(lines.next_line(), Some(Ok(&b"{\"a\":1}"[..])));
/// assert_eq!(lines.next_line(), None);
/// lines.push(b":2}\n");
/// assert_eq!(lines.next_line(), Some(Ok(&b"{\"b\":2}"[..])));
/// ```
#[derive(Debug)]
pub struct LineReader {
    buffer: Vec<u8>,
    /// Where the current line begins.
    start: usize,
    /// The end of the part without a newline, so that a long line is searched once.
    searched: usize,
    /// Whether the rest of a line that was reported as too long is being skipped.
    skipping: bool,
    /// The beginning of the last line that was too long.
    skipped: Vec<u8>,
    /// The last bytes so far of a line that is too long.
    skipped_tail: Vec<u8>,
    /// Whether a line that was too long has ended since its end was last taken.
    skipped_has_ended: bool,
    max_bytes: usize,
}

/// A line exceeded the limit. It is dropped; the next one is read as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLongError;

impl LineReader {
    /// Creates a reader. `max_bytes` limits one line, without its end.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            skipping: false,
            skipped: Vec::new(),
            skipped_tail: Vec::new(),
            skipped_has_ended: false,
            max_bytes,
        }
    }

    /// Appends bytes as they were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer_mut().extend_from_slice(bytes);
    }

    /// The buffer to append to, for readers that can read straight into it.
    ///
    /// Call [`next_line`](Self::next_line) until it returns `None` between two reads: only then are consumed bytes
    /// dropped, so that the buffer holds at most one line and one read.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        &mut self.buffer
    }

    /// The next complete line, without its end; `None` until more bytes come.
    pub fn next_line(&mut self) -> Option<Result<&[u8], LineTooLongError>> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(length) = memchr::memchr(b'\n', rest) else {
                self.searched = self.buffer.len();
                return self.discard_too_long().then_some(Err(LineTooLongError));
            };
            let (start, end) = (self.start, self.searched + length);
            self.start = end + 1;
            self.searched = end + 1;
            if std::mem::take(&mut self.skipping) {
                self.keep_tail(start, end);
                self.skipped_has_ended = true;
                continue;
            }
            if self.is_blank(start, end) {
                continue;
            }
            return self.line(start, end);
        }
    }

    /// The received part of a line that is not complete.
    pub fn partial_line(&self) -> &[u8] {
        if self.skipping { &[] } else { self.buffer.get(self.start..).unwrap_or_default() }
    }

    /// The last line if the stream ended without a newline.
    pub fn finish(&mut self) -> Option<Result<&[u8], LineTooLongError>> {
        let (start, end) = (self.start, self.buffer.len());
        self.start = end;
        self.searched = end;
        if std::mem::take(&mut self.skipping) {
            self.keep_tail(start, end);
            self.skipped_has_ended = true;
            return None;
        }
        if self.is_blank(start, end) {
            return None;
        }
        self.line(start, end)
    }

    /// The first bytes of the last line that was too long, at most 4 KiB.
    pub fn skipped_line(&self) -> &[u8] {
        &self.skipped
    }

    /// The last bytes of a line that was too long, at most 256, once after it has ended. A line is reported as too long
    /// before its end arrives.
    pub fn take_skipped_end(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.skipped_has_ended).then(|| std::mem::take(&mut self.skipped_tail))
    }

    fn line(&mut self, start: usize, end: usize) -> Option<Result<&[u8], LineTooLongError>> {
        let length = {
            let line = self.buffer.get(start..end)?;
            line.strip_suffix(b"\r").unwrap_or(line).len()
        };
        if length > self.max_bytes {
            self.keep_beginning(start, end);
            self.skipped_tail.clear();
            self.keep_tail(start, end);
            self.skipped_has_ended = true;
            return Some(Err(LineTooLongError));
        }
        self.buffer.get(start..start + length).map(Ok)
    }

    fn keep_beginning(&mut self, start: usize, end: usize) {
        let line = self.buffer.get(start..end.min(start + MAX_SKIPPED_BYTES)).unwrap_or_default();
        self.skipped.clear();
        self.skipped.extend_from_slice(line);
    }

    /// Keeps the last bytes of a line of which another part is in the buffer.
    fn keep_tail(&mut self, start: usize, end: usize) {
        let part = self.buffer.get(start..end).unwrap_or_default();
        self.skipped_tail
            .extend_from_slice(part.get(part.len().saturating_sub(MAX_TAIL_BYTES)..).unwrap_or_default());
        let extra = self.skipped_tail.len().saturating_sub(MAX_TAIL_BYTES);
        self.skipped_tail.drain(..extra);
    }

    /// Whether the line is blank. A blank line over the limit counts as too long: read in pieces, it was reported
    /// before its end came.
    fn is_blank(&self, start: usize, end: usize) -> bool {
        let line = self.buffer.get(start..end).unwrap_or_default();
        line.len() <= self.max_bytes.saturating_add(1)
            && line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
    }

    /// Drops an unfinished line that is already too long; true if it was not reported before.
    fn discard_too_long(&mut self) -> bool {
        // One byte more for the `\r` that may precede the newline.
        let over = self.buffer.len() - self.start > self.max_bytes.saturating_add(1);
        if over && !self.skipping {
            self.keep_beginning(self.start, self.buffer.len());
            self.skipped_tail.clear();
            self.skipped_has_ended = false;
        }
        if over || self.skipping {
            self.keep_tail(self.start, self.buffer.len());
            self.buffer.clear();
            self.start = 0;
            self.searched = 0;
        }
        over && !std::mem::replace(&mut self.skipping, true)
    }
}

/// Bytes of a line that was too long that are kept.
const MAX_SKIPPED_BYTES: usize = 4 << 10;
const MAX_TAIL_BYTES: usize = 256;

/// Ends the message that begins at `start` as one line.
///
/// A newline inside can only be whitespace between tokens of forwarded JSON; it becomes a space.
pub fn end_line(out: &mut Vec<u8>, start: usize) {
    let mut message = out.get_mut(start..).unwrap_or_default();
    while let Some(at) = memchr::memchr2(b'\n', b'\r', message) {
        let (_, rest) = message.split_at_mut(at);
        if let Some((newline, rest)) = rest.split_first_mut() {
            *newline = b' ';
            message = rest;
        } else {
            break;
        }
    }
    out.push(b'\n');
}

impl fmt::Display for LineTooLongError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the line exceeds the size limit")
    }
}

impl std::error::Error for LineTooLongError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&[u8]], max: usize) -> Vec<Result<String, LineTooLongError>> {
        let mut reader = LineReader::new(max);
        let mut lines = Vec::new();
        let text = |line: Result<&[u8], LineTooLongError>| {
            line.map(|line| String::from_utf8(line.to_vec()).unwrap())
        };
        for chunk in chunks {
            reader.push(chunk);
            while let Some(line) = reader.next_line() {
                lines.push(text(line));
            }
        }
        lines.extend(reader.finish().map(text));
        lines
    }

    #[test]
    fn lines_do_not_depend_on_the_reads() {
        // STDIO-003: one message a line, and only a newline ends it.
        let stream = "{\"a\":1}\n\r\n  \n{\"b\":\"\u{2028}\u{85}\"}\r\n{}\nlast".as_bytes();
        let whole = read(&[stream], 100);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[1], Ok("{\"b\":\"\u{2028}\u{85}\"}".to_owned()));
        for size in 1..stream.len() {
            assert_eq!(read(&stream.chunks(size).collect::<Vec<_>>(), 100), whole, "chunks of {size}");
        }
    }

    #[test]
    fn line_over_the_limit_is_reported_once() {
        let stream = b"12345\r\n123456\n12345678901234567890\nok\n";
        for size in 1..stream.len() {
            let lines = read(&stream.chunks(size).collect::<Vec<_>>(), 5);
            assert_eq!(
                lines,
                [Ok("12345".to_owned()), Err(LineTooLongError), Err(LineTooLongError), Ok("ok".to_owned())]
            );
        }
    }

    #[test]
    fn long_blank_line_is_an_error_for_all_read_sizes() {
        for size in 1..4 {
            assert_eq!(
                read(&b"\r\r\n".chunks(size).collect::<Vec<_>>(), 0),
                [Err(LineTooLongError)],
                "{size}"
            );
        }
    }

    #[test]
    fn endless_line_stays_within_limit_and_one_read() {
        let mut reader = LineReader::new(64);
        let mut reports = 0;
        for _ in 0..10_000 {
            reader.push(&[b'x'; 32]);
            reports += usize::from(reader.next_line().is_some());
        }
        assert_eq!(reports, 1);
        assert!(reader.buffer.capacity() <= 256, "{}", reader.buffer.capacity());
    }

    #[test]
    fn newlines_between_tokens_become_spaces() {
        let mut out = b"before\n".to_vec();
        out.extend_from_slice(b"{\r\n  \"a\": \"x\\n\"\n}");
        end_line(&mut out, 7);
        assert_eq!(out, b"before\n{    \"a\": \"x\\n\" }\n");
    }
}
