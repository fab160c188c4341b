//! The `file:` URI of a path, by platform.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::file_uri;
#[cfg(windows)]
pub(crate) use windows::file_uri;

/// Encodes a path for a URI: everything but letters, digits, `-._~` and `/` is percent-encoded.
fn encode(path: &[u8]) -> String {
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
