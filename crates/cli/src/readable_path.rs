//! Paths as people write them.

use std::path::{MAIN_SEPARATOR, Path, PathBuf};

/// Removes the prefix `\\?\`, which Windows puts before canonical paths, and few programs know.
pub(crate) fn readable(path: PathBuf) -> PathBuf {
    without_prefix(&path).unwrap_or(path)
}

fn without_prefix(path: &Path) -> Option<PathBuf> {
    let plain = path.to_str()?.strip_prefix(r"\\?\")?;
    // Longer paths, those of a network, and names that Windows would change without it need it.
    let has_drive = plain.as_bytes().get(1) == Some(&b':');
    let is_kept = |name: &str| !name.ends_with(['.', ' ']);
    (has_drive && plain.len() < MAX_LENGTH && plain.split('\\').all(is_kept)).then(|| plain.into())
}

/// Whether a word with this letter is shown without quotes. `\` is a part of paths on Windows, and an escape elsewhere.
pub(crate) fn is_plain(letter: char) -> bool {
    letter == MAIN_SEPARATOR || !(letter.is_whitespace() || "'\"\\".contains(letter))
}

/// The length that a path of Windows without the prefix does not reach.
const MAX_LENGTH: usize = 260;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_removed_from_short_paths_with_a_drive() {
        assert_eq!(readable(r"\\?\C:\a b".into()), Path::new(r"C:\a b"));
        let long = format!(r"\\?\C:\{}", "a".repeat(MAX_LENGTH));
        for path in [r"\\?\UNC\server\share", r"\\?\C:\a.", r"\\?\C:\a \b", "/srv/a", r"C:\a", &long] {
            assert_eq!(readable(path.into()), Path::new(path));
        }
    }

    #[test]
    fn backslash_is_plain_only_as_a_separator() {
        assert_eq!(is_plain('\\'), cfg!(windows));
        assert!(is_plain('/') && is_plain('é') && !is_plain(' ') && !is_plain('"'));
    }
}
