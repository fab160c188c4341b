//! Newline framing: one message a line, as stdio has it.
//!
//! Only `\n` ends a line (a `\r` before it is dropped, U+2028 is text). Empty lines are passed over. A line over
//! the limit is reported once and skipped to its end without being kept, so memory stays bounded.

use std::fmt;

/// Cuts a stream of bytes into lines, however the reads were split.
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
    /// Where the line being read begins.
    start: usize,
    /// Up to where no newline was found, so that a long line is searched once.
    searched: usize,
    /// Inside a line that was already reported as too long.
    skipping: bool,
    max_bytes: usize,
}

/// A line was longer than allowed. It is gone; the next one is read as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLongError;

impl LineReader {
    /// `max_bytes` limits one line, its end not counted.
    pub fn new(max_bytes: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, skipping: false, max_bytes }
    }

    /// Adds bytes as they were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer_mut().extend_from_slice(bytes);
    }

    /// The buffer to append to, for readers that can read straight into it.
    ///
    /// Ask for every line with [`next_line`](Self::next_line) between two reads; only then is what was
    /// consumed forgotten, and the buffer never grows past one line and one read.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        &mut self.buffer
    }

    /// The next whole line, without its end; `None` until more bytes come.
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
            if std::mem::take(&mut self.skipping) || self.is_blank(start, end) {
                continue;
            }
            return self.line(start, end);
        }
    }

    /// What has come of a line whose end has not.
    pub fn partial_line(&self) -> &[u8] {
        if self.skipping { &[] } else { self.buffer.get(self.start..).unwrap_or_default() }
    }

    /// What was left without a newline when the stream ended.
    pub fn finish(&mut self) -> Option<Result<&[u8], LineTooLongError>> {
        let (start, end) = (self.start, self.buffer.len());
        self.start = end;
        self.searched = end;
        if std::mem::take(&mut self.skipping) || self.is_blank(start, end) {
            return None;
        }
        self.line(start, end)
    }

    fn line(&self, start: usize, end: usize) -> Option<Result<&[u8], LineTooLongError>> {
        let line = self.buffer.get(start..end)?;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(if line.len() > self.max_bytes { Err(LineTooLongError) } else { Ok(line) })
    }

    /// A blank line over the limit is too long first: read in pieces, it was reported before its end came.
    fn is_blank(&self, start: usize, end: usize) -> bool {
        let line = self.buffer.get(start..end).unwrap_or_default();
        line.len() <= self.max_bytes.saturating_add(1)
            && line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
    }

    /// Forgets an unfinished line that can no longer be short enough; true when that is news.
    fn discard_too_long(&mut self) -> bool {
        // One byte more is allowed for the `\r` that may stand before the newline.
        let over = self.buffer.len() - self.start > self.max_bytes.saturating_add(1);
        if over || self.skipping {
            self.buffer.clear();
            self.start = 0;
            self.searched = 0;
        }
        over && !std::mem::replace(&mut self.skipping, true)
    }
}

/// Ends the message that begins at `start` as one line.
///
/// A newline in it can only be white space between tokens, from JSON passed on as it came; it becomes a space.
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
        f.write_str("the line is longer than allowed")
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
    fn lines_are_the_same_however_the_reads_are_split() {
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
    fn a_line_over_the_limit_is_reported_once_and_the_next_is_read() {
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
    fn a_blank_line_over_the_limit_is_the_same_however_the_reads_are_split() {
        for size in 1..4 {
            assert_eq!(
                read(&b"\r\r\n".chunks(size).collect::<Vec<_>>(), 0),
                [Err(LineTooLongError)],
                "{size}"
            );
        }
    }

    #[test]
    fn an_endless_line_takes_no_more_memory_than_its_limit_and_one_read() {
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
    fn a_message_with_newlines_between_its_tokens_leaves_as_one_line() {
        let mut out = b"before\n".to_vec();
        out.extend_from_slice(b"{\r\n  \"a\": \"x\\n\"\n}");
        end_line(&mut out, 7);
        assert_eq!(out, b"before\n{    \"a\": \"x\\n\" }\n");
    }
}
