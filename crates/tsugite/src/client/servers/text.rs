//! A file as text: bounded, in UTF-8, and without a mark of the byte order in front.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads whatever can be read, a pipe too: `<(…)` of a shell is one.
pub(super) fn read(path: &Path) -> Result<String, BadText> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MOST {
        return Err(BadText::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| BadText::NotUtf8)?;
    check(&text)?;
    Ok(text)
}

pub(super) fn check(text: &str) -> Result<(), BadText> {
    if text.len() > MOST {
        return Err(BadText::TooLarge);
    }
    // Some hosts read past it and some do not (RFC 8259, section 8.1, forbids to write it).
    if text.starts_with('\u{feff}') {
        return Err(BadText::Mark);
    }
    Ok(())
}

/// Why a file is no text for us.
pub(super) enum BadText {
    Io(io::Error),
    TooLarge,
    NotUtf8,
    Mark,
}

impl From<io::Error> for BadText {
    fn from(error: io::Error) -> Self {
        BadText::Io(error)
    }
}

/// Continues "the file".
impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadText::Io(error) => write!(f, "cannot be read: {error}"),
            BadText::TooLarge => write!(f, "is larger than {} MiB", MOST >> 20),
            BadText::NotUtf8 => f.write_str("is not in UTF-8"),
            BadText::Mark => f.write_str("begins with a byte order mark; it must be UTF-8 without one"),
        }
    }
}

/// In bytes.
pub(super) const MOST: usize = 4 << 20;
