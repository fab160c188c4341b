//! Canonical paths as people write them.

use std::path::{Path, PathBuf};

/// Removes the prefix `\\?\`, which Windows puts before canonical paths, and few programs know.
pub(crate) fn readable(path: PathBuf) -> PathBuf {
    without_prefix(&path).unwrap_or(path)
}

fn without_prefix(path: &Path) -> Option<PathBuf> {
    let plain = path.to_str()?.strip_prefix(r"\\?\")?;
    // Longer paths, and those of a network, need it.
    let has_drive = plain.as_bytes().get(1) == Some(&b':');
    (has_drive && plain.len() < MAX_LENGTH).then(|| plain.into())
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
        for path in [r"\\?\UNC\server\share", "/home/a", r"C:\a", &long] {
            assert_eq!(readable(path.into()), Path::new(path));
        }
    }
}
