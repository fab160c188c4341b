//! A reader for `text/event-stream`, by the rules of the HTML standard ("Server-sent events").
//!
//! Bytes go in as they were read and events come out, independent of how the reads were split. One buffer holds the
//! unfinished event; data of several lines is joined in place, so an event costs no allocation. An event without its
//! final blank line at the end of the stream is dropped.

#[cfg(test)]
mod tests;

use std::fmt;
use std::mem::{swap, take};
use std::ops::Range;
use std::time::Duration;

/// Splits a stream of bytes into events.
///
/// ```
/// use tsugite_core::sse::SseReader;
///
/// let mut events = SseReader::new(100);
/// events.push(b"id: 7\ndata: {\"a\":\r\ndata: 1}\n\nretry: 500\n: still th");
/// let Some(Ok(event)) = events.next_event() else { return Err("no event") };
/// assert_eq!((event.id, event.name, event.data), (Some("7"), "message", &b"{\"a\":\n1}"[..]));
/// assert!(events.next_event().is_none());
/// assert_eq!(events.last_event_id(), Some("7"));
/// assert_eq!(events.retry().map(|wait| wait.as_millis()), Some(500));
/// # Ok(())
/// ```
#[derive(Debug)]
pub struct SseReader {
    buffer: Vec<u8>,
    /// The range of the current event's data in the buffer; `None` before its first data line.
    data: Option<Range<usize>>,
    /// Where the current line begins. The bytes between the data and this are unused.
    line: usize,
    /// The end of the part without a line end, so that a long line is searched once.
    searched: usize,
    /// Whether the last line ended with a carriage return: a newline that follows belongs to it.
    after_cr: bool,
    /// The name of the current event; empty if it has none.
    name: String,
    /// The id of the current event, if `has_id`.
    id: String,
    has_id: bool,
    /// The name of the event returned last, which the caller may still borrow.
    last_name: String,
    last_id: String,
    retry: Option<Duration>,
    max_bytes: usize,
    state: StreamState,
}

/// One event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The id of this event. An empty one resets the last event id.
    pub id: Option<&'a str>,
    /// The event type: `message` unless the event names another.
    pub name: &'a str,
    /// The data, as bytes; not checked to be UTF-8.
    ///
    /// Empty if the event has only an id. Such an event is not a message.
    pub data: &'a [u8],
}

/// An event exceeded the limit. The stream must be closed: no more events are read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLongError;

#[derive(Debug, PartialEq, Eq)]
enum StreamState {
    /// The optional byte order mark at the start of the stream may still come.
    Start,
    Open,
    Failed,
}

impl SseReader {
    /// Creates a reader. `max_event_bytes` limits the data of one event; a line of any kind may be only as long as that
    /// much data needs.
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            data: None,
            line: 0,
            searched: 0,
            after_cr: false,
            name: String::new(),
            id: String::new(),
            has_id: false,
            last_name: String::new(),
            last_id: String::new(),
            retry: None,
            max_bytes: max_event_bytes,
            state: StreamState::Start,
        }
    }

    /// Appends bytes as they were read.
    ///
    /// Call [`next_event`](Self::next_event) until it returns `None` between two reads: only then are consumed bytes
    /// dropped, so that the buffer holds at most one event and one read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.state == StreamState::Failed {
            return;
        }
        let kept = match &mut self.data {
            Some(data) => {
                if data.start > 0 {
                    self.buffer.copy_within(data.clone(), 0);
                    *data = 0..data.len();
                }
                data.len()
            }
            None => 0,
        };
        self.buffer.drain(kept..self.line);
        self.searched -= self.line - kept;
        self.line = kept;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event; `None` until more bytes come.
    ///
    /// An event without data and without an id is skipped, as browsers do. Browsers also skip one with only an id; here
    /// it is returned, because a stream can be resumed from it.
    ///
    /// Returns an error once if an event is too long, and `None` after that.
    pub fn next_event(&mut self) -> Option<Result<Event<'_>, EventTooLongError>> {
        if !self.skip_byte_order_mark() {
            return None;
        }
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                if let Some(data) = self.end_event() {
                    return Some(Ok(self.event(data)));
                }
            } else if self.exceeds_limit(&line) || self.process_line(line).is_err() {
                return self.fail();
            }
        }
        if self.exceeds_limit(&(self.line..self.buffer.len())) { self.fail() } else { None }
    }

    /// The value for `Last-Event-ID` when the stream is resumed; `None` if no event had an id, or the last one was
    /// empty.
    ///
    /// The text is the server's: it may contain anything except NUL and line ends.
    pub fn last_event_id(&self) -> Option<&str> {
        Some(self.last_id.as_str()).filter(|id| !id.is_empty())
    }

    /// The reconnection time the server asked for, if any. Not limited: it may be absurdly long.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Resets the reader for a new connection: the unfinished event is dropped, the last event id and the retry time
    /// stay.
    pub fn reopen(&mut self) {
        let mut buffer = take(&mut self.buffer);
        buffer.clear();
        let last_id = take(&mut self.last_id);
        *self = Self { buffer, last_id, retry: self.retry, ..Self::new(self.max_bytes) };
    }

    /// Skips a byte order mark. False while it may still come, and after an error.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.state == StreamState::Start {
            if BYTE_ORDER_MARK.starts_with(&self.buffer) && self.buffer != BYTE_ORDER_MARK {
                return false;
            }
            if self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.line = BYTE_ORDER_MARK.len();
                self.searched = self.line;
            }
            self.state = StreamState::Open;
        }
        self.state == StreamState::Open
    }

    /// The next complete line, without its end.
    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.after_cr {
            let next = *self.buffer.get(self.line)?;
            self.after_cr = false;
            if next == b'\n' {
                self.line += 1;
                self.searched = self.line;
            }
        }
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(length) = memchr::memchr2(b'\n', b'\r', rest) else {
            self.searched = self.buffer.len();
            return None;
        };
        let (start, end) = (self.line, self.searched + length);
        self.after_cr = self.buffer.get(end) == Some(&b'\r');
        self.line = end + 1;
        self.searched = end + 1;
        Some(start..end)
    }

    fn process_line(&mut self, at: Range<usize>) -> Result<(), EventTooLongError> {
        let line = self.buffer.get(at.clone()).unwrap_or_default();
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let (field, rest) = line.split_at(colon);
                let value = rest.strip_prefix(b": ").or(rest.strip_prefix(b":"));
                (field, value.unwrap_or_default())
            }
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                let value = at.end - value.len()..at.end;
                return self.append_data(value);
            }
            b"event" => {
                self.name.clear();
                self.name.push_str(&String::from_utf8_lossy(value));
            }
            b"id" if memchr::memchr(0, value).is_none() => {
                self.id.clear();
                self.id.push_str(&String::from_utf8_lossy(value));
                self.has_id = true;
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let number = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.retry = number.map(Duration::from_millis).or(self.retry);
            }
            // A comment has an empty field name; unknown fields are ignored.
            _ => {}
        }
        Ok(())
    }

    fn append_data(&mut self, value: Range<usize>) -> Result<(), EventTooLongError> {
        let joined = match self.data.take() {
            None => value,
            Some(data) => {
                // There is enough space in front of the value: at least the length of its field name.
                let end = data.end + 1 + value.len();
                if let Some(newline) = self.buffer.get_mut(data.end) {
                    *newline = b'\n';
                }
                self.buffer.copy_within(value, data.end + 1);
                data.start..end
            }
        };
        let fits = joined.len() <= self.max_bytes;
        self.data = Some(joined);
        if fits { Ok(()) } else { Err(EventTooLongError) }
    }

    /// Handles a blank line. Returns the data of the event if there is one to report.
    fn end_event(&mut self) -> Option<Range<usize>> {
        swap(&mut self.name, &mut self.last_name);
        self.name.clear();
        if self.has_id {
            swap(&mut self.id, &mut self.last_id);
        }
        match self.data.take() {
            None if !self.has_id => None,
            data => Some(data.unwrap_or_default()),
        }
    }

    fn event(&mut self, data: Range<usize>) -> Event<'_> {
        let has_id = take(&mut self.has_id);
        Event {
            id: has_id.then_some(self.last_id.as_str()),
            name: if self.last_name.is_empty() { "message" } else { &self.last_name },
            data: self.buffer.get(data).unwrap_or_default(),
        }
    }

    /// Whether a line is longer than any line whose data is within the limit.
    fn exceeds_limit(&self, line: &Range<usize>) -> bool {
        line.len() > self.max_bytes.saturating_add(b"data: ".len())
    }

    fn fail(&mut self) -> Option<Result<Event<'_>, EventTooLongError>> {
        self.reopen();
        self.buffer = Vec::new();
        self.state = StreamState::Failed;
        Some(Err(EventTooLongError))
    }
}

impl fmt::Display for EventTooLongError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the event exceeds the size limit")
    }
}

impl std::error::Error for EventTooLongError {}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
