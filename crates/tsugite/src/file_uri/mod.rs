//! The `file:` URI of a path, and the path of a `file:` URI.
//!
//! Roots and many resources are named by such URIs. On Windows they are `file:///C:/folder`, and `file://server/share` for a
//! share.
//!
//! ```
//! use tsugite::file_uri;
//!
//! # fn main() -> Result<(), file_uri::FileUriError> {
//! let here = std::env::temp_dir().join("a b");
//! let uri = file_uri::from_path(&here)?;
//! assert!(uri.starts_with("file:///") && uri.ends_with("/a%20b"));
//! assert_eq!(file_uri::to_path(&uri)?, here);
//! # Ok(())
//! # }
//! ```

mod encoding;
#[cfg(unix)]
mod unix;
#[cfg_attr(not(windows), cfg(test))]
mod windows;

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;

/// Encodes an absolute path as a URI. The file need not exist.
///
/// Fails if the path is relative, has a segment `..`, or, on Windows, is not Unicode or has a segment that is not the plain name
/// of a file or a folder.
pub fn from_path(path: &Path) -> Result<String, FileUriError> {
    platform::from_path(path)
}

/// Decodes a URI to an absolute path. The file need not exist.
///
/// The URI is often chosen by a peer: check that the path is one that it may use. The decoded path has no segment `.` or `..`,
/// and no separator that was percent-encoded. Symbolic links are not looked at. On Windows no segment is the name of a device
/// (`NUL`, `com1.txt`) or of a stream (`a.txt:b`), has a control character, or ends in a dot or a blank; but `file://server/share`
/// names a share, and Windows sends the credentials of the user to that server when the path is opened.
///
/// Fails if the URI has another scheme, a query, a fragment, or a host other than `localhost`; on Windows a host is the server
/// of a share, and a path begins with a drive.
pub fn to_path(uri: &str) -> Result<PathBuf, FileUriError> {
    platform::to_path(uri)
}

/// An error that a path has no `file:` URI, or a URI no path on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUriError {
    reason: &'static str,
}

impl FileUriError {
    fn new(reason: &'static str) -> Self {
        Self { reason }
    }
}

impl fmt::Display for FileUriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for FileUriError {}
