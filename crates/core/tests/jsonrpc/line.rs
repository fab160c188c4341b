//! One message per line.

use serde_json::{Value, json};
use tsugite_core::jsonrpc::{Id, LineReader, LineTooLongError, RawJson, end_line, write};

use super::drain;

#[test]
fn lines_end_with_a_newline_for_any_reads() {
    let stream = "{\"a\":1}\n{\"b\":2}\r\n\n\r\n{\"c\":\"\u{2028}\u{85}\"}\n";
    for size in 1..=stream.len() {
        let mut reader = LineReader::new(100);
        let mut lines = Vec::new();
        for read in stream.as_bytes().chunks(size) {
            reader.push(read);
            lines.extend(drain(&mut reader));
        }
        let expected =
            ["{\"a\":1}", "{\"b\":2}", "{\"c\":\"\u{2028}\u{85}\"}"].map(|line| Ok(line.to_owned()));
        assert_eq!(lines, expected, "{size} bytes a read");
        assert_eq!(reader.finish(), None);
    }
}

#[test]
fn a_line_waits_for_its_end() {
    let mut reader = LineReader::new(100);
    assert_eq!(reader.next_line(), None);
    reader.push(b"{\"a\"");
    assert_eq!(reader.next_line(), None);
    reader.push(b"");
    assert_eq!(reader.next_line(), None);
    reader.buffer_mut().extend_from_slice(b":1}\r");
    assert_eq!(reader.next_line(), None);
    reader.push(b"\n{}");
    assert_eq!(drain(&mut reader), [Ok("{\"a\":1}".to_owned())]);
    assert_eq!(reader.finish(), Some(Ok(&b"{}"[..])));
    assert_eq!(reader.finish(), None);
}

#[test]
fn the_limit_counts_a_line_without_its_end() {
    for end in ["\n", "\r\n"] {
        for split in [false, true] {
            let feed = |line: &str| {
                let mut reader = LineReader::new(5);
                let mut lines = Vec::new();
                let stream = format!("{line}{end}");
                for read in stream.as_bytes().chunks(if split { 1 } else { stream.len() }) {
                    reader.push(read);
                    lines.extend(drain(&mut reader));
                }
                lines
            };
            assert_eq!(feed("12345"), [Ok("12345".to_owned())], "{end:?} {split}");
            assert_eq!(feed("123456"), [Err(LineTooLongError)], "{end:?} {split}");
        }
    }
    let mut reader = LineReader::new(5);
    reader.push(b"12345");
    assert_eq!(reader.next_line(), None);
    assert_eq!(reader.finish(), Some(Ok(&b"12345"[..])));
}

#[test]
fn line_over_the_limit_is_reported_once_and_discarded() {
    let mut reader = LineReader::new(100);
    let mut lines = Vec::new();
    for _ in 0..1000 {
        reader.push(&[b'x'; 1000]);
        lines.extend(drain(&mut reader));
        assert!(reader.buffer_mut().len() <= 1100, "{}", reader.buffer_mut().len());
    }
    assert!(reader.buffer_mut().capacity() <= 8 * 1100, "{}", reader.buffer_mut().capacity());
    assert_eq!(lines, [Err(LineTooLongError)]);

    reader.push(b"xx\r\nnext\n");
    assert_eq!(drain(&mut reader), [Ok("next".to_owned())]);
    reader.push(&[b'y'; 200]);
    assert_eq!(drain(&mut reader), [Err(LineTooLongError)]);
    assert_eq!(reader.finish(), None, "it was reported already");

    let mut reader = LineReader::new(100);
    reader.push(&[b'z'; 101]);
    let mut lines = drain(&mut reader);
    lines.extend(reader.finish().map(|line| line.map(|line| String::from_utf8(line.to_vec()).unwrap())));
    assert_eq!(lines, [Err(LineTooLongError)], "as early as it is known, at the latest when the stream ends");
}

#[test]
fn consumed_lines_are_dropped() {
    let mut reader = LineReader::new(100);
    for _ in 0..10_000 {
        reader.push(b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n{\"json");
        assert_eq!(drain(&mut reader).len(), 1);
        reader.push(b"rpc\"}\n");
        assert_eq!(drain(&mut reader), [Ok("{\"jsonrpc\"}".to_owned())]);
    }
    assert!(reader.buffer_mut().capacity() <= 1000, "{}", reader.buffer_mut().capacity());
}

#[test]
fn multi_line_message_is_written_on_one_line() {
    // STDIO-003
    let params = RawJson::parse("{\n  \"a\": \"\\n\",\r\n  \"b\": 1\n}").unwrap();
    let mut out = b"first\nsecond\n".to_vec();
    let start = out.len();
    write::request(&mut out, &Id::from(1), "a", Some(&params)).unwrap();
    end_line(&mut out, start);

    let mut reader = LineReader::new(1000);
    reader.push(&out);
    let lines = drain(&mut reader);
    assert_eq!(lines.len(), 3);
    assert_eq!(&lines[..2], ["first", "second"].map(|line| Ok(line.to_owned())));
    let message: Value = serde_json::from_str(lines[2].as_ref().unwrap()).unwrap();
    assert_eq!(message["params"], json!({"a": "\n", "b": 1}));
    assert_eq!(reader.finish(), None);
}
