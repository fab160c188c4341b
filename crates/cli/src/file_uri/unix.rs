//! `file:` URIs on Unix.

use std::path::Path;

use super::encode;

/// The URI of an absolute path.
pub(crate) fn file_uri(path: &Path) -> String {
    format!("file://{}", encode(path.as_os_str().as_encoded_bytes()))
}
