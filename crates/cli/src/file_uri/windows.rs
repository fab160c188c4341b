//! `file:` URIs on Windows: `file:///C:/folder`, and `file://server/share` for a share.

use std::path::Path;

use super::encode;

/// The URI of an absolute path. The prefix `\\?\` of a canonical path is no part of it.
pub(crate) fn file_uri(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let plain = text.strip_prefix("//?/").unwrap_or(&text);
    if let Some(share) = plain.strip_prefix("UNC/").or_else(|| plain.strip_prefix("//")) {
        return format!("file://{}", encode(share.as_bytes()));
    }
    match plain.split_once(':') {
        Some((drive, rest)) => format!("file:///{drive}:{}", encode(rest.as_bytes())),
        None => format!("file://{}", encode(plain.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_names_the_drive_or_the_share() {
        for (path, uri) in [
            (r"\\?\C:\a b\ä", "file:///C:/a%20b/%C3%A4"),
            (r"C:\a", "file:///C:/a"),
            (r"\\?\UNC\server\share\a", "file://server/share/a"),
            (r"\\server\share", "file://server/share"),
        ] {
            assert_eq!(file_uri(Path::new(path)), uri);
        }
    }
}
