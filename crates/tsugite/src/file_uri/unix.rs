//! `file:` URIs on Unix.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::FileUriError;
use super::encoding::{decode_segment, encode, split};

pub(super) fn from_path(path: &Path) -> Result<String, FileUriError> {
    if !path.is_absolute() {
        return Err(FileUriError::new("the path is not absolute"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(FileUriError::new("a segment is `..`"));
    }
    Ok(format!("file://{}", encode(path.as_os_str().as_encoded_bytes())))
}

pub(super) fn to_path(uri: &str) -> Result<PathBuf, FileUriError> {
    let (host, path) = split(uri)?;
    if !host.is_empty() {
        return Err(FileUriError::new("the URI names another host"));
    }
    let mut decoded = PathBuf::from("/");
    for segment in path.split('/') {
        decoded.push(OsString::from_vec(decode_segment(segment, b"/")?));
    }
    // An empty last segment would leave a slash at the end.
    Ok(decoded.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_and_path_name_the_same_file() {
        for (path, uri) in
            [("/", "file:///"), ("/a b/ä", "file:///a%20b/%C3%A4"), ("/a%2F?#", "file:///a%252F%3F%23")]
        {
            assert_eq!(from_path(Path::new(path)).unwrap(), uri);
            assert_eq!(to_path(uri).unwrap(), Path::new(path));
        }
        assert_eq!(to_path("FILE://localhost/a//b/").unwrap(), Path::new("/a/b"));
        let bytes = PathBuf::from(OsString::from_vec(b"/\xff".to_vec()));
        assert_eq!(to_path(&from_path(&bytes).unwrap()).unwrap(), bytes);
    }

    #[test]
    fn uri_without_a_path_here_is_refused() {
        for uri in [
            "http://a/b",
            "file:/a",
            "file://server/share",
            "file:///a/../b",
            "file:///a/%2e%2E/b",
            "file:///a%2Fb",
            "file:///a%00",
            "file:///a%2",
            "file:///a%zz",
            "file:///a?b",
            "file:///a#b",
        ] {
            assert!(to_path(uri).is_err(), "{uri}");
        }
        for path in ["a", "", "/a/../b"] {
            assert!(from_path(Path::new(path)).is_err(), "{path}");
        }
    }
}
