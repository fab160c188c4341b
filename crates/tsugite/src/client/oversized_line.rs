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
    use super::response_id;

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
