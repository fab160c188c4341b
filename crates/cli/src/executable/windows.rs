//! Programs on Windows: the ending of a name decides.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// Whether a program is named by a path, which is not searched in `PATH`.
pub(crate) fn is_path(program: &str) -> bool {
    program.contains(['/', '\\', ':'])
}

/// The folder that an entry of `PATH` means; a relative one means none.
pub(crate) fn search_folder(entry: PathBuf) -> Option<PathBuf> {
    entry.is_absolute().then_some(entry)
}

/// The files that the path of a program may mean: itself if it has an ending of a program, otherwise with each of them.
pub(crate) fn candidates(path: &Path) -> Vec<PathBuf> {
    if has_program_ending(path) {
        return vec![path.to_owned()];
    }
    let with_ending = |ending: &str| {
        let mut name = OsString::from(path);
        name.push(format!(".{ending}"));
        PathBuf::from(name)
    };
    ENDINGS.into_iter().map(with_ending).collect()
}

/// Whether a file may be executed.
pub(crate) fn is_executable(path: &Path, _: &Metadata) -> bool {
    has_program_ending(path)
}

fn has_program_ending(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

const ENDINGS: [&str; 4] = ["com", "exe", "bat", "cmd"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_or_separator_makes_a_path() {
        for path in [r".\tool.cmd", "bin/x", r"bin\x", "C:x"] {
            assert!(is_path(path), "{path}");
        }
        assert!(!is_path("npx"));
    }

    #[test]
    fn only_absolute_folders_are_searched() {
        for entry in ["", ".", "bin", "C:bin"] {
            assert_eq!(search_folder(entry.into()), None, "{entry}");
        }
        assert_eq!(search_folder(r"C:\bin".into()), Some(r"C:\bin".into()));
    }
}
