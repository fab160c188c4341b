//! Executable files on Windows: the ending of a name decides.
//!
//! `npx` is a file without an ending for other shells, and `npx.cmd` beside it. Only names with an ending are candidates.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Whether a program is named by a path, which is not searched in `PATH`.
pub(in crate::transport::child) fn is_path(program: &OsStr) -> bool {
    program.as_encoded_bytes().iter().any(|byte| matches!(byte, b'/' | b'\\' | b':'))
}

/// The folder that an entry of `PATH` means. `PATH` often ends in a separator there, which means no folder, and a relative
/// entry would start a program of the folder that we happen to be in.
pub(in crate::transport::child) fn search_folder(entry: PathBuf) -> Option<PathBuf> {
    entry.is_absolute().then_some(entry)
}

/// The files that a path may mean: itself if it has an ending of a program, otherwise with each ending of `PATHEXT`.
pub(in crate::transport::child) fn candidates(path: &Path, endings: Option<&OsStr>) -> Vec<PathBuf> {
    if is_executable(path) {
        return vec![path.into()];
    }
    let listed = endings.unwrap_or(OsStr::new(DEFAULT_ENDINGS)).to_string_lossy().to_ascii_lowercase();
    let startable = listed.split(';').map(str::trim).filter(|ending| is_program_ending(ending));
    let with_ending = |ending: &str| {
        let mut name = OsString::from(path);
        name.push(ending);
        PathBuf::from(name)
    };
    startable.map(with_ending).collect()
}

/// Whether a file has the ending of a program that can be started without a shell.
pub(in crate::transport::child) fn is_executable(file: &Path) -> bool {
    let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    is_program_ending(&format!(".{}", ending.to_ascii_lowercase()))
}

/// Whether we may enter a folder; the system says so when the program starts.
pub(in crate::transport::child) fn can_enter(_: &Path) -> bool {
    true
}

/// Explains why an executable file could not be started.
pub(in crate::transport::child) fn start_error(_: &Path, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(ERROR_BAD_EXE_FORMAT) => "it is not a program for this machine".into(),
        Some(ERROR_FILENAME_EXCED_RANGE) => "its arguments and its environment are too long".into(),
        Some(ERROR_ELEVATION_REQUIRED) => "it asks for the rights of an administrator".into(),
        None if error.kind() == io::ErrorKind::InvalidInput => {
            format!("an argument cannot be passed to a batch file: {error}")
        }
        _ => error.to_string(),
    }
}

fn is_program_ending(ending: &str) -> bool {
    matches!(ending, ".com" | ".exe" | ".bat" | ".cmd")
}

const DEFAULT_ENDINGS: &str = ".com;.exe;.bat;.cmd";

const ERROR_BAD_EXE_FORMAT: i32 = 193;
const ERROR_FILENAME_EXCED_RANGE: i32 = 206;
const ERROR_ELEVATION_REQUIRED: i32 = 740;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_without_ending_means_programs_with_one() {
        let endings = Some(OsStr::new(".JS;.CMD; .exe;.PS1"));
        assert_eq!(
            candidates(Path::new(r"C:\n\npx"), endings),
            [r"C:\n\npx.cmd", r"C:\n\npx.exe"].map(PathBuf::from)
        );
        assert_eq!(candidates(Path::new("a.EXE"), endings), [PathBuf::from("a.EXE")]);
        assert_eq!(candidates(Path::new("python3.11"), None).len(), 4);
    }

    #[test]
    fn only_absolute_folders_are_searched() {
        for entry in ["", ".", "bin", r"\bin", "C:bin"] {
            assert_eq!(search_folder(entry.into()), None, "{entry}");
        }
        assert_eq!(search_folder(r"C:\bin".into()), Some(r"C:\bin".into()));
    }

    #[test]
    fn drive_or_separator_makes_a_path() {
        for path in [r"a\b", "a/b", "C:b"] {
            assert!(is_path(OsStr::new(path)), "{path}");
        }
        assert!(!is_path(OsStr::new("npx")));
    }
}
