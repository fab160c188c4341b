//! Errors of reading a file.

use std::fmt;
use std::io;

/// The reason why a file was not read.
#[derive(Debug)]
pub(crate) enum FileError {
    NotFound,
    NotAFile,
    /// The file may be larger than `size`, the part of it that is known.
    TooLarge {
        size: u64,
        max: u64,
    },
    Io(io::Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::NotFound => f.write_str("there is no such file"),
            FileError::NotAFile => f.write_str("it is not a regular file"),
            FileError::TooLarge { size, max } => {
                write!(f, "the file is too large: {size} bytes, the limit is {max}")
            }
            FileError::Io(error) => write!(f, "the file cannot be read: {error}"),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileError::Io(error) => Some(error),
            _ => None,
        }
    }
}
