//! `file:` URIs on Windows: `file:///C:/folder`, and `file://server/share` for a share.
//!
//! Paths are handled as text, so that other systems can test this too.

use std::path::{Path, PathBuf};

use super::FileUriError;
use super::encoding::{decode_segment, encode, split};
use crate::shared::windows_names::is_plain_name;

pub(super) fn from_path(path: &Path) -> Result<String, FileUriError> {
    let text = path.to_str().ok_or(FileUriError::new("the path is not Unicode"))?.replace('\\', "/");
    // The prefix of a canonical path is no part of the URI.
    let canonical = text.strip_prefix("//?/");
    let plain = canonical.unwrap_or(&text);
    let share = plain.strip_prefix(if canonical.is_some() { "UNC/" } else { "//" });
    let (root, rest) = match (share, plain.split_once('/')) {
        (Some(share), _) => ("", share),
        (None, Some((drive, rest))) if is_drive(drive) => (drive, rest),
        _ => return Err(FileUriError::new("the path is not absolute: it begins with no drive and no share")),
    };
    if rest.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(FileUriError::new("a segment is `.` or `..`"));
    }
    // The first one of a share is its server.
    let names = rest.split('/').skip(usize::from(share.is_some())).filter(|segment| !segment.is_empty());
    check_names(names)?;
    Ok(match share {
        Some(_) => format!("file://{}", encode(rest.as_bytes())),
        None => format!("file:///{root}/{}", encode(rest.as_bytes())),
    })
}

pub(super) fn to_path(uri: &str) -> Result<PathBuf, FileUriError> {
    let (host, path) = split(uri)?;
    let mut segments = Vec::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let decoded = decode_segment(segment, br"/\")?;
        segments.push(String::from_utf8(decoded).map_err(|_| FileUriError::new("a segment is not UTF-8"))?);
    }
    let (root, rest) = match (host, segments.split_first()) {
        ("", Some((drive, rest))) if is_drive(drive) => (drive.clone(), rest),
        ("", _) => return Err(FileUriError::new("the path of the URI does not begin with a drive")),
        (_, Some(_)) if is_host(host) => (format!(r"\\{host}"), &*segments),
        _ => return Err(FileUriError::new("the URI names no share of its server")),
    };
    check_names(rest.iter().map(String::as_str))?;
    Ok(PathBuf::from(format!(r"{root}\{}", rest.join(r"\"))))
}

/// Fails if the system would open something else than a file or a folder of such names: a device (`NUL`), a stream of a file
/// (`a:b`), or a name without the dot or the blank at its end.
fn check_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), FileUriError> {
    match names.all(is_plain_name) {
        true => Ok(()),
        false => Err(FileUriError::new("a segment is not the name of a file or a folder on Windows")),
    }
}

/// Whether text is a drive, such as `C:`.
fn is_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

/// Whether a host is the name of a server. `.` and `?` would name devices.
fn is_host(host: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    host.chars().all(is_plain) && host.contains(|letter: char| letter.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_names_the_drive_or_the_share() {
        for (path, uri) in [
            (r"C:\a b\ä", "file:///C:/a%20b/%C3%A4"),
            (r"C:\", "file:///C:/"),
            (r"\\server\share\a", "file://server/share/a"),
        ] {
            assert_eq!(from_path(Path::new(path)).unwrap(), uri);
            assert_eq!(to_path(uri).unwrap(), Path::new(path));
        }
        assert_eq!(from_path(Path::new(r"\\?\C:\a")).unwrap(), "file:///C:/a");
        assert_eq!(from_path(Path::new(r"\\?\UNC\server\share")).unwrap(), "file://server/share");
        assert_eq!(to_path("file:///C:").unwrap(), Path::new(r"C:\"));
        // As editors write it.
        assert_eq!(to_path("file:///c%3A/a//b/").unwrap(), Path::new(r"c:\a\b"));
    }

    #[test]
    fn uri_without_a_path_here_is_refused() {
        for uri in [
            "file:///",
            "file:///a",
            "file:///C:/a/../b",
            "file:///C:/a%5Cb",
            "file:///C:/a:b",
            "file:///C:/a%3a$DATA",
            "file:///C:/NUL",
            "file:///C:/a/com1.txt",
            "file:///C:/secret.%20",
            "file:///C:/a./b",
            "file:///C:/a%0Ab",
            "file://server/share/CON",
            "file:///C:/%ff",
            "file://./C:/a",
            "file://%3F/C:/a",
            "file://server",
        ] {
            assert!(to_path(uri).is_err(), "{uri}");
        }
        for path in [
            r"a\b",
            r"\a",
            "C:a",
            r"C:\a\..\b",
            r"C:\a:b",
            r"C:\NUL",
            r"\\?\C:\a.",
            r"UNC\server\share",
            r"\\?\\server\share",
            "",
        ] {
            assert!(from_path(Path::new(path)).is_err(), "{path}");
        }
    }
}
