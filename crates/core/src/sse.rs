//! `text/event-stream` as a client reads it, by the rules of the HTML standard ("Server-sent events").
//!
//! Bytes go in as they were read, events come out, however the reads were split. One buffer holds what is not yet an
//! event; data of several lines is joined in it, in place, so an event costs no allocation of its own. An event that was
//! not ended by a blank line when the stream ended never happened.

#[cfg(test)]
mod tests;

use std::fmt;
use std::mem::{swap, take};
use std::ops::Range;
use std::time::Duration;

/// Cuts a stream of bytes into events.
///
/// ```
/// use tsugite_core::sse::SseReader;
///
/// let mut events = SseReader::new(100);
/// events.push(b"id: 7\ndata: {\"a\":\r\ndata: 1}\n\nretry: 500\n: still th");
/// let Some(Ok(event)) = events.next_event() else { return Err("no event") };
/// assert_eq!((event.id, event.mcp_name, event.data), (Some("7"), "message", &b"{\"a\":\n1}"[..]));
/// assert!(events.next_event().is_none());
/// assert_eq!(events.last_event_id(), Some("7"));
/// assert_eq!(events.retry().map(|wait| wait.as_millis()), Some(500));
/// # Ok(())
/// ```
#[derive(Debug)]
pub struct SseReader {
    buffer: Vec<u8>,
    /// Where in the buffer the data of the event being read lies; `None` if no line of it has come.
    data: Option<Range<usize>>,
    /// Where the line being read begins. Between the data and this there is nothing of use.
    line: usize,
    /// Up to where no line end was found, so that a long line is searched once.
    searched: usize,
    /// The last line ended with a carriage return: a newline that follows belongs to it.
    after_cr: bool,
    /// The name of the event being read; empty if it has none.
    name: String,
    /// The id of the event being read, if `has_id`.
    id: String,
    has_id: bool,
    /// The name of the event given out last, which the caller may still hold.
    last_name: String,
    last_id: String,
    retry: Option<Duration>,
    max_bytes: usize,
    state: StreamState,
}

/// Something the server said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The id that stood in it. An empty one takes back the one before it.
    pub id: Option<&'a str>,
    /// What kind of event it is: `message` unless it says otherwise.
    pub name: &'a str,
    /// What it says, in the bytes that came; whoever reads it finds out whether they are text.
    ///
    /// Empty if the event only brings an id to come back with. That is no message.
    pub data: &'a [u8],
}

/// An event was longer than allowed. The stream is to be given up: nothing more is read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLongError;

#[derive(Debug, PartialEq, Eq)]
enum StreamState {
    /// The byte order mark that may open a stream can still come.
    Start,
    Open,
    Failed,
}

impl SseReader {
    /// `max_event_bytes` limits the data of one event. No line may be longer than it takes to say that much, be it a
    /// comment, an id or a name.
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

    /// Adds bytes as they were read.
    ///
    /// Ask for every event with [`next_event`](Self::next_event) between two reads; only then is what was consumed
    /// forgotten, and the buffer never grows past one event and one read.
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
    /// An event that has neither data nor an id is passed over, as browsers do. They pass over one with an id alone as
    /// well; here it is reported, so that no id is missed that a stream could be taken up again with.
    ///
    /// Fails once if an event is too long, and then gives nothing more.
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

    /// The id to come back with after the stream broke, in `Last-Event-ID`; `None` if no event had one, or the last that
    /// had one took it back.
    ///
    /// It is the server's text: anything but a NUL or a line end may stand in it.
    pub fn last_event_id(&self) -> Option<&str> {
        Some(self.last_id.as_str()).filter(|id| !id.is_empty())
    }

    /// How long the server would like us to wait before we come back, if it said so. It may be absurdly long.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The stream was opened anew: what was unfinished is gone, the last id and the time to wait stay.
    pub fn reopen(&mut self) {
        let mut buffer = take(&mut self.buffer);
        buffer.clear();
        let last_id = take(&mut self.last_id);
        *self = Self { buffer, last_id, retry: self.retry, ..Self::new(self.max_bytes) };
    }

    /// Passes over a byte order mark. False while it may still come, and after the stream was given up.
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

    /// The next whole line, without its end.
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
            // A comment has no name before its colon; what else there is has no meaning.
            _ => {}
        }
        Ok(())
    }

    fn append_data(&mut self, value: Range<usize>) -> Result<(), EventTooLongError> {
        let joined = match self.data.take() {
            None => value,
            Some(data) => {
                // There is room before the value: at least for the name of its field.
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

    /// A blank line has come. Gives the data of the event if there is one to report.
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

    /// Whether a line is so long that not even data within the limit could stand on it.
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
        f.write_str("the event is longer than allowed")
    }
}

impl std::error::Error for EventTooLongError {}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
