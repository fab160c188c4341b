//! `text/event-stream` as a client reads it, by the rules of the HTML standard ("Server-sent events").
//!
//! Bytes go in as they were read, events come out, however the reads were split. One buffer holds what is not yet an
//! event; data of several lines is joined in it, in place, so an event costs no allocation of its own. An event that was
//! not ended by a blank line when the stream ended never happened.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An event that borrows nothing: id, name, data.
    type OwnedEvent = (Option<String>, String, String);

    /// What is heard of a stream: its events, then the last id and the time to wait.
    #[derive(Debug, Clone, PartialEq)]
    struct StreamOutput {
        events: Vec<Result<OwnedEvent, EventTooLongError>>,
        last_id: Option<String>,
        retry: Option<u128>,
    }

    fn drain(reader: &mut SseReader) -> Vec<Result<OwnedEvent, EventTooLongError>> {
        let mut events = Vec::new();
        while let Some(event) = reader.next_event() {
            events.push(event.map(|event| {
                let data = String::from_utf8_lossy(event.data).into_owned();
                (event.id.map(str::to_owned), event.name.to_owned(), data)
            }));
        }
        events
    }

    fn read_chunks<'a>(reads: impl IntoIterator<Item = &'a [u8]>, max: usize) -> StreamOutput {
        let mut reader = SseReader::new(max);
        let mut events = Vec::new();
        for read in reads {
            reader.push(read);
            events.extend(drain(&mut reader));
        }
        let last_id = reader.last_event_id().map(str::to_owned);
        StreamOutput { events, last_id, retry: reader.retry().map(|wait| wait.as_millis()) }
    }

    fn read_all(stream: impl AsRef<[u8]>) -> StreamOutput {
        read_chunks([stream.as_ref()], 100)
    }

    /// The data of messages that have no id.
    fn messages(data: &[&str]) -> Vec<Result<OwnedEvent, EventTooLongError>> {
        data.iter().map(|data| Ok((None, "message".to_owned(), (*data).to_owned()))).collect()
    }

    #[test]
    fn a_line_ends_with_a_newline_a_carriage_return_or_both() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = "data: a|data: b||data: c||".replace('|', end);
            assert_eq!(read_all(&stream).events, messages(&["a\nb", "c"]), "{stream:?}");
        }
        assert_eq!(read_all("data: a\n\rdata: b\r\r\ndata: c\r\n\n").events, messages(&["a", "b", "c"]));
        // Nothing else ends one.
        assert_eq!(read_all("data: \u{2028}\u{85}\u{b}\n\n").events, messages(&["\u{2028}\u{85}\u{b}"]));
    }

    #[test]
    fn a_carriage_return_ends_a_line_before_the_next_byte_has_come() {
        let mut reader = SseReader::new(100);
        reader.push(b"data: a\r\r");
        assert_eq!(drain(&mut reader), messages(&["a"]));
        // The newline belongs to it and is no blank line of its own.
        for part in [&b"\n"[..], b"data: b\r", b"\ndata: c\r", b"\n", b"\r"] {
            assert_eq!(drain(&mut reader), []);
            reader.push(part);
        }
        assert_eq!(drain(&mut reader), messages(&["b\nc"]));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_at_the_beginning_alone() {
        assert_eq!(read_all("\u{feff}data: a\n\n").events, messages(&["a"]));
        assert_eq!(read_all("data: a\n\n\u{feff}data: b\n\n").events, messages(&["a"]));
        assert_eq!(read_all("\u{feff}\u{feff}data: a\n\n").events, []);
        // Half of one is none.
        assert_eq!(read_all(b"\xEF\xBBdata: a\n\ndata: b\n\n").events, messages(&["b"]));
    }

    #[test]
    fn lines_of_data_are_joined_by_newlines_whatever_stands_between_them() {
        let stream = "data: a\nevent: x\nwhat: ever\n: so\ndata:  b\nid: 1\ndata:\ndata\ndata:c:d\n\n";
        let told = (Some("1".to_owned()), "x".to_owned(), "a\n b\n\n\nc:d".to_owned());
        assert_eq!(read_all(stream).events, [Ok(told)]);
        assert_eq!(read_all("data:\ndata:\n\n").events, messages(&["\n"]));
    }

    #[test]
    fn comments_and_unknown_fields_say_nothing() {
        // HTTP-088
        let stream = ": hi\n\n:\n\n:data: a\n:x\ndata: b\nDATA: c\n data: d\ndata : e\nwhat\n:\n\n: bye\n\n";
        assert_eq!(read_all(stream).events, messages(&["b"]));
    }

    #[test]
    fn an_event_is_a_message_unless_it_has_a_name() {
        let names = |stream: &str| -> Vec<String> {
            read_all(stream).events.into_iter().map(|event| event.unwrap().1).collect()
        };
        let stream = "event: endpoint\ndata: a\n\ndata: b\n\nevent: x\nevent:\ndata: c\n\n";
        assert_eq!(names(stream), ["endpoint", "message", "message"]);
        // A name without data is no event, and is not the name of the next one.
        assert_eq!(names("event: ping\n\ndata: a\n\n"), ["message"]);
    }

    #[test]
    fn an_event_without_data_is_reported_if_it_has_an_id() {
        let told = |id: Option<&str>| Ok((id.map(str::to_owned), "message".to_owned(), String::new()));
        for stream in ["id: 7\ndata:\n\n", "id: 7\n\n", "data\nretry: 1\nid:7\n\n"] {
            let heard = read_all(stream);
            assert_eq!((heard.events, heard.last_id.as_deref()), (vec![told(Some("7"))], Some("7")));
        }
        assert_eq!(read_all("data:\n\n").events, [told(None)]);
        assert_eq!(read_all("retry: 1\n\n\n\n").events, []);
    }

    #[test]
    fn the_last_id_is_that_of_the_last_event_that_had_one() {
        let last = |stream: &str| read_all(stream).last_id;
        assert_eq!(last("data: a\n\n"), None);
        assert_eq!(last("id: 1\ndata: a\n\ndata: b\n\n").as_deref(), Some("1"));
        assert_eq!(last("id: 1\nid: 2\ndata: a\n\n").as_deref(), Some("2"));
        // An empty one takes it back, one with a NUL is none.
        assert_eq!(last("id: 1\n\nid\n\n"), None);
        assert_eq!(last("id: 1\n\nid: 2\0\n\n").as_deref(), Some("1"));
        assert_eq!(read_all("id: 2\0\n\n").events, []);
        // The event must have come to its end.
        assert_eq!(last("id: 1\n\nid: 2\ndata: a\n").as_deref(), Some("1"));
    }

    #[test]
    fn a_time_to_wait_has_nothing_but_digits() {
        let waits = |stream: &str| read_all(stream).retry;
        assert_eq!(waits("data: a\n\n"), None);
        assert_eq!(waits("retry: 10\n"), Some(10));
        assert_eq!(waits("retry:0010\n\nretry: 0\n\n"), Some(0));
        for not in ["-1", "+1", "1.5", " 1", "1 ", "1s", "", "\u{0661}", "99999999999999999999"] {
            assert_eq!(waits(&format!("retry: 10\n\nretry: {not}\n\n")), Some(10), "{not:?}");
        }
    }

    #[test]
    fn an_event_that_is_unfinished_at_the_end_never_happened() {
        for stream in ["data: a\n\ndata: b", "data: a\n\ndata: b\n", "data: a\n\ndata: b\r\n"] {
            assert_eq!(read_all(stream).events, messages(&["a"]));
        }
    }

    #[test]
    fn a_stream_that_is_opened_anew_keeps_the_last_id_and_nothing_unfinished() {
        for unfinished in ["data: b\nevent: x\nid: 2\n", "data: b", "data: b\r", "\r"] {
            let mut reader = SseReader::new(100);
            reader.push(b"retry: 5\nid: 1\ndata: a\n\n");
            assert_eq!(drain(&mut reader).len(), 1);
            reader.push(unfinished.as_bytes());
            assert_eq!(drain(&mut reader), []);
            reader.reopen();
            assert_eq!((reader.last_event_id(), reader.retry()), (Some("1"), Some(Duration::from_millis(5))));
            reader.push("\u{feff}data: c\n\n".as_bytes());
            assert_eq!(drain(&mut reader), messages(&["c"]), "{unfinished:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_left_to_whoever_reads_the_data() {
        let mut reader = SseReader::new(100);
        reader.push(b"event: \xff\nid: \xff\ndata: \xff\xfe\n\n");
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!(event, Event { id: Some("\u{fffd}"), name: "\u{fffd}", data: b"\xff\xfe" });
    }

    #[test]
    fn an_event_over_the_limit_ends_the_stream() {
        let ends = |stream: &str, max: usize| {
            let stream = stream.as_bytes();
            let whole = read_chunks([stream], max);
            for size in 1..stream.len() {
                assert_eq!(read_chunks(stream.chunks(size), max), whole, "{size}");
            }
            whole.events
        };
        assert_eq!(
            ends("data: 12345\n\ndata:123456\n\ndata: ok\n\n", 5),
            [messages(&["12345"]).remove(0), Err(EventTooLongError)]
        );
        // Lines count together, with the newlines between them.
        assert_eq!(ends("data: 12\ndata: 45\n\n", 5), messages(&["12\n45"]));
        assert_eq!(ends("data: 12\ndata: 456\n\n", 5), [Err(EventTooLongError)]);
        // So does a line that never ends, whatever it is about.
        assert_eq!(ends(": 234567890", 5), []);
        assert_eq!(ends(": 2345678901", 5), [Err(EventTooLongError)]);
        assert_eq!(ends("id: 456789012\n\n", 5), [Err(EventTooLongError)]);
        // Any number of short ones may come.
        assert_eq!(ends(&format!("{}data: a\n\n", ": there\n".repeat(9)), 5), messages(&["a"]));
        // The mark at the beginning does not count.
        assert_eq!(ends("\u{feff}data: 12345\n\n", 5), messages(&["12345"]));
        assert_eq!(ends("data:\n\n", 0), messages(&[""]));
    }

    #[test]
    fn an_endless_stream_takes_no_more_memory_than_its_limit_and_one_read() {
        for read in [&b"xxxxxxxx"[..], b": still there\n", b"data: a\ndata: b\n", b"data\n"] {
            let mut reader = SseReader::new(64);
            let mut reports = 0;
            for _ in 0..10_000 {
                reader.push(read);
                reports += drain(&mut reader).len();
            }
            assert_eq!(reports, usize::from(!read.starts_with(b":")));
            assert!(reader.buffer.capacity() <= 256, "{}", reader.buffer.capacity());
        }
    }

    /// The same by the letter of the standard: the whole text first, then its lines.
    fn parse_by_standard(stream: &str) -> StreamOutput {
        let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
        let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
        let mut lines: Vec<&str> = stream.split('\n').collect();
        lines.pop();
        let mut book = StreamOutput { events: Vec::new(), last_id: None, retry: None };
        let (mut data, mut name, mut id) = (String::new(), String::new(), None);
        for line in lines {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                _ if line.is_empty() => {
                    if !data.is_empty() || id.is_some() {
                        data.pop();
                        let name = if name.is_empty() { "message" } else { &name };
                        book.events.push(Ok((id.clone(), name.to_owned(), data.clone())));
                    }
                    if let Some(id) = id.take() {
                        book.last_id = Some(id).filter(|id: &String| !id.is_empty());
                    }
                    data.clear();
                    name.clear();
                }
                "data" => data.extend([value, "\n"]),
                "event" => name = value.to_owned(),
                "id" if !value.contains('\0') => id = Some(value.to_owned()),
                "retry" if !value.is_empty() && value.chars().all(|digit| digit.is_ascii_digit()) => {
                    book.retry = value.parse().ok().or(book.retry);
                }
                _ => {}
            }
        }
        book
    }

    const PIECES: &[&str] = &[
        "\n",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "data",
        "data:",
        "data: ",
        "data: a\n",
        "event: ",
        "id: ",
        "id",
        "retry:",
        ":",
        " ",
        "7",
        "42",
        "a",
        "é",
        "\0",
        "\u{feff}",
        "what",
    ];

    /// The stream in reads of these sizes, in turn.
    fn split<'a>(mut stream: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
        let mut reads = Vec::new();
        for size in sizes.iter().cycle() {
            if stream.is_empty() {
                break;
            }
            let (read, rest) = stream.split_at((*size).min(stream.len()));
            reads.push(read);
            stream = rest;
        }
        reads
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn events_are_those_of_the_standard_however_the_reads_are_split(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
            sizes in prop::collection::vec(1_usize..9, 1..6),
        ) {
            let stream = pieces.concat();
            let book = parse_by_standard(&stream);
            prop_assert_eq!(&read_chunks([stream.as_bytes()], 1000), &book);
            prop_assert_eq!(&read_chunks(split(stream.as_bytes(), &sizes), 1000), &book);
        }

        #[test]
        fn the_limit_strikes_at_the_same_place_however_the_reads_are_split(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
            max in 0_usize..12,
            sizes in prop::collection::vec(1_usize..9, 1..6),
        ) {
            let stream = pieces.concat();
            let reads = split(stream.as_bytes(), &sizes);
            prop_assert_eq!(read_chunks(reads, max), read_chunks([stream.as_bytes()], max));
        }
    }
}
