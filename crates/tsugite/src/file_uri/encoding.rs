//! Percent-encoding, and the parts of a `file:` URI.

use super::FileUriError;

/// Encodes everything but letters, digits, `-._~` and `/`.
pub(super) fn encode(path: &[u8]) -> String {
    let mut uri = String::new();
    for byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// Splits a URI into its host and its path, both still encoded. The path begins with `/`.
pub(super) fn split(uri: &str) -> Result<(&str, &str), FileUriError> {
    let scheme = uri.get(..SCHEME.len()).filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    let rest = scheme.and(uri.get(SCHEME.len()..));
    let rest = rest.ok_or(FileUriError::new("the URI does not begin with `file://`"))?;
    if rest.contains(['?', '#']) {
        return Err(FileUriError::new("the URI of a file has no query and no fragment"));
    }
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = if host.eq_ignore_ascii_case("localhost") { "" } else { host };
    Ok((host, if path.is_empty() { "/" } else { path }))
}

/// Decodes one segment of a path. `separators` may not be in it.
pub(super) fn decode_segment(segment: &str, separators: &[u8]) -> Result<Vec<u8>, FileUriError> {
    let mut decoded = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let mut digit =
            || rest.next().and_then(|digit| char::from(digit).to_digit(16)).map(|digit| digit as u8);
        match byte {
            b'%' => {
                let (high, low) = (digit(), digit());
                let (high, low) =
                    high.zip(low).ok_or(FileUriError::new("a `%` has no two hex digits after it"))?;
                decoded.push(high << 4 | low);
            }
            byte => decoded.push(byte),
        }
    }
    match () {
        () if decoded == b"." || decoded == b".." => Err(FileUriError::new("a segment is `.` or `..`")),
        () if decoded.contains(&0) => Err(FileUriError::new("a segment has a NUL byte in it")),
        () if decoded.iter().any(|byte| separators.contains(byte)) => {
            Err(FileUriError::new("a segment has a separator in it"))
        }
        () => Ok(decoded),
    }
}

const SCHEME: &str = "file://";
