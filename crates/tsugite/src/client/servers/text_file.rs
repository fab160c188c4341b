//! Reads a file as UTF-8 text of limited size without a byte order mark.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads any readable path, including a pipe such as `<(…)` of a shell.
pub(super) fn read(path: &Path) -> Result<String, TextFileError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(TextFileError::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| TextFileError::NotUtf8)?;
    check_text(&text)?;
    Ok(text)
}

pub(super) fn check_text(text: &str) -> Result<(), TextFileError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(TextFileError::TooLarge);
    }
    // Hosts disagree about a byte order mark; RFC 8259 §8.1 forbids writing one.
    if text.starts_with('\u{feff}') {
        return Err(TextFileError::ByteOrderMark);
    }
    Ok(())
}

/// The reason a file cannot be read as text.
pub(super) enum TextFileError {
    Io(io::Error),
    TooLarge,
    NotUtf8,
    ByteOrderMark,
}

impl From<io::Error> for TextFileError {
    fn from(error: io::Error) -> Self {
        TextFileError::Io(error)
    }
}

/// The message continues "the file".
impl fmt::Display for TextFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextFileError::Io(error) => write!(f, "cannot be read: {error}"),
            TextFileError::TooLarge => write!(f, "is larger than {} MiB", MAX_FILE_BYTES >> 20),
            TextFileError::NotUtf8 => f.write_str("is not in UTF-8"),
            TextFileError::ByteOrderMark => {
                f.write_str("begins with a byte order mark; it must be UTF-8 without one")
            }
        }
    }
}

/// The size limit in bytes.
pub(super) const MAX_FILE_BYTES: usize = 4 << 20;
