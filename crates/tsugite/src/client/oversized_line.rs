//! Finds the request that a line over the size limit responds to.

/// The id of the response that begins with `bytes`; `None` if the id is not among them, or if it is another message.
///
/// Reads top-level members up to `result` or `error`, which servers write after the id.
pub(super) fn response_id(bytes: &[u8]) -> Option<i64> {
    let mut rest = after(bytes, b'{')?;
    let mut id = None;
    loop {
        let (key, value) = string(rest)?;
        let value = after(value, b':')?;
        rest = match key {
            b"result" | b"error" => return id,
            b"id" => {
                let (number, next) = integer(value)?;
                id = Some(number);
                next
            }
            b"jsonrpc" => string(value)?.1,
            _ => return None,
        };
        rest = after(rest, b',')?;
    }
}

/// The id of a response that begins with `beginning` and ends with `end`: servers may write the id after the result.
///
/// The last member, or the last but one before `jsonrpc`, is at the top level, since the brace behind it ends the message.
pub(super) fn response_id_at_end(beginning: &[u8], end: &[u8]) -> Option<i64> {
    if !begins_with_result(beginning) {
        return None;
    }
    let members = end.trim_ascii_end().strip_suffix(b"}")?;
    let members = match split_last_member(members)? {
        (_, b"id", value) => return parse_integer(value),
        (before, b"jsonrpc", _) => before,
        _ => return None,
    };
    match split_last_member(members)? {
        (_, b"id", value) => parse_integer(value),
        _ => None,
    }
}

/// Whether a message is a response: `result` or `error` is its first member, or the second after `jsonrpc`.
fn begins_with_result(bytes: &[u8]) -> bool {
    let first_name = |rest: &[u8]| string(rest).map(|(name, _)| name == b"result" || name == b"error");
    let Some(rest) = after(bytes, b'{') else { return false };
    let after_version = || {
        let (name, value) = string(rest)?;
        let (_, next) = string(after(value, b':')?)?;
        (name == b"jsonrpc").then(|| after(next, b','))?
    };
    first_name(rest) == Some(true) || after_version().and_then(first_name) == Some(true)
}

/// Splits off a last member with a short value: what precedes it, its name and its value.
fn split_last_member(members: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let comma = members.iter().rposition(|byte| *byte == b',')?;
    let (before, member) = members.split_at_checked(comma)?;
    let (name, value) = string(member.get(1..)?)?;
    Some((before, name, after(value, b':')?.trim_ascii()))
}

fn parse_integer(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// The bytes after whitespace and `expected`.
fn after(bytes: &[u8], expected: u8) -> Option<&[u8]> {
    let (first, rest) = bytes.trim_ascii_start().split_first()?;
    (*first == expected).then_some(rest)
}

/// A string without escapes, and the bytes after it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = after(bytes, b'"')?;
    let end = text.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    let (text, rest) = text.split_at_checked(end)?;
    Some((text, after(rest, b'"')?))
}

/// An integer, and the bytes after it.
fn integer(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'-')?;
    let (digits, rest) = bytes.split_at_checked(end)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::{response_id, response_id_at_end};

    #[test]
    fn id_of_a_response_is_found_after_its_result() {
        for (beginning, end) in [
            (r#"{"result":{"con"#, r#"xxx"}]},"jsonrpc":"2.0","id":7}"#),
            (r#"{"jsonrpc":"2.0","result":{"con"#, r#"x"}]} , "id" : 7 } "#),
            (r#"{"error":{"con"#, r#"xxx"},"id":7,"jsonrpc":"2.0"}"#),
        ] {
            assert_eq!(response_id_at_end(beginning.as_bytes(), end.as_bytes()), Some(7), "{end}");
        }
        for (beginning, end) in [
            (r#"{"method":"x","params":{"#, r#"},"id":7}"#),
            (r#"{"result":{"#, r#"xx,\"id\":7}"#),
            (r#"{"result":{"#, r#","id":"7"}"#),
            (r#"{"result":{"#, r#","id":7"#),
            (r#"{"result":{"#, r#"}"#),
            (r#"{"result":{"#, r#","x":1,"id":7,"y":2}"#),
        ] {
            assert_eq!(response_id_at_end(beginning.as_bytes(), end.as_bytes()), None, "{end}");
        }
    }

    #[test]
    fn id_of_a_response_is_found_before_its_result() {
        for line in
            [r#"{"jsonrpc":"2.0","id":7,"result":{"con"#, r#" { "id" : 7 , "jsonrpc" : "2.0" , "error" : {"#]
        {
            assert_eq!(response_id(line.as_bytes()), Some(7), "{line}");
        }
    }

    #[test]
    fn other_messages_have_no_response_id() {
        for line in [
            "",
            "{",
            r#"{"id":7"#,
            r#"{"id":7,"jsonrpc":"2.0","#,
            r#"{"id":"7","result":{"#,
            r#"{"id":7.5,"result":{"#,
            r#"{"result":{"id":7,"#,
            r#"{"id":7,"method":"roots/list","params":{"#,
            r#"{"method":"x","id":7,"result":{"#,
            r#"[{"id":7,"result":{"#,
            r#"{"jsonrpc":"\"","id":7,"result":{"#,
        ] {
            assert_eq!(response_id(line.as_bytes()), None, "{line}");
        }
    }
}
