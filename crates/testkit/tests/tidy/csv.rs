//! Tables of comma-separated values.

use std::mem::take;

/// The records of a table: fields with commas, quotes or newlines in them are quoted, and a quote in them is doubled.
///
/// An error names the line that is malformed.
pub(crate) fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut closed, mut line) = (false, false, 1);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' if quoted => (quoted, closed) = (false, true),
            _ if quoted => field.push(letter),
            ',' | '\n' => {
                record.push(take(&mut field));
                closed = false;
                if letter == '\n' {
                    records.push(take(&mut record));
                }
            }
            _ if closed => return Err(format!("line {line}: text after a closing quote")),
            '"' if field.is_empty() => quoted = true,
            '"' => return Err(format!("line {line}: a quote in an unquoted field")),
            _ => field.push(letter),
        }
        line += usize::from(letter == '\n');
    }
    if quoted || !record.is_empty() || !field.is_empty() {
        return Err(format!("line {line}: the last record is not terminated"));
    }
    Ok(records)
}

#[test]
fn fields_may_be_quoted_and_empty() {
    assert_eq!(records("a,b\nc,\n").unwrap(), [["a", "b"], ["c", ""]]);
    assert_eq!(records("\"a,\"\"b\"\"\nc\",\"\"\n,,\n").unwrap(), [vec!["a,\"b\"\nc", ""], vec!["", "", ""]]);
    for bad in ["a", "\"a\n", "a\"b\n", "\"a\"b\n", "\"a\"\"\n"] {
        assert!(records(bad).is_err(), "{bad}");
    }
}
