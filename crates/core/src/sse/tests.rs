//! Tests of the event stream reader, among them against a slow reference implementation with random chunks.

use proptest::prelude::*;

use super::*;

/// An owned event: id, name, data.
type OwnedEvent = (Option<String>, String, String);

/// The output of a stream: its events, then the last event id and the retry time.
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

/// Events with this data and no id.
fn messages(data: &[&str]) -> Vec<Result<OwnedEvent, EventTooLongError>> {
    data.iter().map(|data| Ok((None, "message".to_owned(), (*data).to_owned()))).collect()
}

#[test]
fn line_ends_with_newline_carriage_return_or_both() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = "data: a|data: b||data: c||".replace('|', end);
        assert_eq!(read_all(&stream).events, messages(&["a\nb", "c"]), "{stream:?}");
    }
    assert_eq!(read_all("data: a\n\rdata: b\r\r\ndata: c\r\n\n").events, messages(&["a", "b", "c"]));
    // No other character ends a line.
    assert_eq!(read_all("data: \u{2028}\u{85}\u{b}\n\n").events, messages(&["\u{2028}\u{85}\u{b}"]));
}

#[test]
fn carriage_return_ends_a_line_at_once() {
    let mut reader = SseReader::new(100);
    reader.push(b"data: a\r\r");
    assert_eq!(drain(&mut reader), messages(&["a"]));
    // The newline belongs to the carriage return and is not a blank line.
    for part in [&b"\n"[..], b"data: b\r", b"\ndata: c\r", b"\n", b"\r"] {
        assert_eq!(drain(&mut reader), []);
        reader.push(part);
    }
    assert_eq!(drain(&mut reader), messages(&["b\nc"]));
}

#[test]
fn byte_order_mark_is_skipped_only_at_the_start() {
    assert_eq!(read_all("\u{feff}data: a\n\n").events, messages(&["a"]));
    assert_eq!(read_all("data: a\n\n\u{feff}data: b\n\n").events, messages(&["a"]));
    assert_eq!(read_all("\u{feff}\u{feff}data: a\n\n").events, []);
    // Half a mark is not skipped.
    assert_eq!(read_all(b"\xEF\xBBdata: a\n\ndata: b\n\n").events, messages(&["b"]));
}

#[test]
fn data_lines_are_joined_by_newlines() {
    let stream = "data: a\nevent: x\nwhat: ever\n: so\ndata:  b\nid: 1\ndata:\ndata\ndata:c:d\n\n";
    let told = (Some("1".to_owned()), "x".to_owned(), "a\n b\n\n\nc:d".to_owned());
    assert_eq!(read_all(stream).events, [Ok(told)]);
    assert_eq!(read_all("data:\ndata:\n\n").events, messages(&["\n"]));
}

#[test]
fn comments_and_unknown_fields_are_ignored() {
    // HTTP-088
    let stream = ": hi\n\n:\n\n:data: a\n:x\ndata: b\nDATA: c\n data: d\ndata : e\nwhat\n:\n\n: bye\n\n";
    assert_eq!(read_all(stream).events, messages(&["b"]));
}

#[test]
fn event_without_a_name_is_a_message() {
    let names = |stream: &str| -> Vec<String> {
        read_all(stream).events.into_iter().map(|event| event.unwrap().1).collect()
    };
    let stream = "event: endpoint\ndata: a\n\ndata: b\n\nevent: x\nevent:\ndata: c\n\n";
    assert_eq!(names(stream), ["endpoint", "message", "message"]);
    // A name without data is not an event, and does not apply to the next one.
    assert_eq!(names("event: ping\n\ndata: a\n\n"), ["message"]);
}

#[test]
fn event_without_data_is_reported_if_it_has_an_id() {
    let told = |id: Option<&str>| Ok((id.map(str::to_owned), "message".to_owned(), String::new()));
    for stream in ["id: 7\ndata:\n\n", "id: 7\n\n", "data\nretry: 1\nid:7\n\n"] {
        let heard = read_all(stream);
        assert_eq!((heard.events, heard.last_id.as_deref()), (vec![told(Some("7"))], Some("7")));
    }
    assert_eq!(read_all("data:\n\n").events, [told(None)]);
    assert_eq!(read_all("retry: 1\n\n\n\n").events, []);
}

#[test]
fn last_event_id_skips_events_without_an_id() {
    let last = |stream: &str| read_all(stream).last_id;
    assert_eq!(last("data: a\n\n"), None);
    assert_eq!(last("id: 1\ndata: a\n\ndata: b\n\n").as_deref(), Some("1"));
    assert_eq!(last("id: 1\nid: 2\ndata: a\n\n").as_deref(), Some("2"));
    // An empty id resets it; an id with NUL is ignored.
    assert_eq!(last("id: 1\n\nid\n\n"), None);
    assert_eq!(last("id: 1\n\nid: 2\0\n\n").as_deref(), Some("1"));
    assert_eq!(read_all("id: 2\0\n\n").events, []);
    // The event must be complete.
    assert_eq!(last("id: 1\n\nid: 2\ndata: a\n").as_deref(), Some("1"));
}

#[test]
fn retry_consists_of_digits_only() {
    let waits = |stream: &str| read_all(stream).retry;
    assert_eq!(waits("data: a\n\n"), None);
    assert_eq!(waits("retry: 10\n"), Some(10));
    assert_eq!(waits("retry:0010\n\nretry: 0\n\n"), Some(0));
    for not in ["-1", "+1", "1.5", " 1", "1 ", "1s", "", "\u{0661}", "99999999999999999999"] {
        assert_eq!(waits(&format!("retry: 10\n\nretry: {not}\n\n")), Some(10), "{not:?}");
    }
}

#[test]
fn unfinished_event_at_the_end_is_dropped() {
    for stream in ["data: a\n\ndata: b", "data: a\n\ndata: b\n", "data: a\n\ndata: b\r\n"] {
        assert_eq!(read_all(stream).events, messages(&["a"]));
    }
}

#[test]
fn reopened_stream_keeps_only_the_last_event_id() {
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
fn data_that_is_not_utf8_is_returned_as_it_is() {
    let mut reader = SseReader::new(100);
    reader.push(b"event: \xff\nid: \xff\ndata: \xff\xfe\n\n");
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!(event, Event { id: Some("\u{fffd}"), name: "\u{fffd}", data: b"\xff\xfe" });
}

#[test]
fn event_over_the_limit_ends_the_stream() {
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
    // Data lines add up, with the newlines between them.
    assert_eq!(ends("data: 12\ndata: 45\n\n", 5), messages(&["12\n45"]));
    assert_eq!(ends("data: 12\ndata: 456\n\n", 5), [Err(EventTooLongError)]);
    // An endless line of any kind exceeds the limit.
    assert_eq!(ends(": 234567890", 5), []);
    assert_eq!(ends(": 2345678901", 5), [Err(EventTooLongError)]);
    assert_eq!(ends("id: 456789012\n\n", 5), [Err(EventTooLongError)]);
    // The number of short lines is not limited.
    assert_eq!(ends(&format!("{}data: a\n\n", ": there\n".repeat(9)), 5), messages(&["a"]));
    // The byte order mark does not count.
    assert_eq!(ends("\u{feff}data: 12345\n\n", 5), messages(&["12345"]));
    assert_eq!(ends("data:\n\n", 0), messages(&[""]));
}

#[test]
fn endless_stream_stays_within_limit_and_one_read() {
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

/// A reference implementation by the letter of the standard: the whole text first, then its lines.
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

/// Splits the stream into reads of these sizes, in turn.
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
    fn events_match_the_standard_for_any_reads(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
        sizes in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let stream = pieces.concat();
        let book = parse_by_standard(&stream);
        prop_assert_eq!(&read_chunks([stream.as_bytes()], 1000), &book);
        prop_assert_eq!(&read_chunks(split(stream.as_bytes(), &sizes), 1000), &book);
    }

    #[test]
    fn limit_does_not_depend_on_the_reads(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
        max in 0_usize..12,
        sizes in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let stream = pieces.concat();
        let reads = split(stream.as_bytes(), &sizes);
        prop_assert_eq!(read_chunks(reads, max), read_chunks([stream.as_bytes()], max));
    }
}
