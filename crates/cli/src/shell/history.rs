//! The history file of the shell, readable only by its owner.
//!
//! Each line is appended as it is entered, so that concurrent shells lose nothing. A file that has grown too long is
//! truncated when a shell starts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::file_mode::{create_private_dir, make_private, open_private, replace};
use crate::state_dir::state_dir;

/// The history file.
pub(super) struct History {
    path: PathBuf,
}

/// Returns the path of `tsugite/history` in the state folder; `None` without a home folder.
pub(super) fn default_path() -> Option<PathBuf> {
    Some(state_dir()?.join("history"))
}

impl History {
    /// Opens or creates the file, and returns its lines, the oldest first.
    pub(super) fn open(path: PathBuf) -> io::Result<(Self, Vec<String>)> {
        if let Some(folder) = path.parent() {
            create_private_dir(folder)?;
        }
        let mut file = open_file(&path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        // It may have been made readable for others.
        make_private(&file)?;
        let (lines, is_long) = last_lines(&mut file)?;
        if is_long {
            rewrite(&path, &lines)?;
        }
        Ok((Self { path }, lines))
    }

    /// Appends a line. Several shells may do so at once.
    pub(super) fn append(&self, line: &str) -> io::Result<()> {
        open_file(&self.path)?.write_all(format!("{line}\n").as_bytes())
    }
}

/// Whether a line is kept: not if it begins with a space, is empty, or repeats the line before.
pub(super) fn should_keep(line: &str, before: Option<&str>) -> bool {
    !line.starts_with(char::is_whitespace) && !line.is_empty() && before != Some(line)
}

fn open_file(path: &Path) -> io::Result<File> {
    open_private(OpenOptions::new().read(true).append(true).create(true)).open(path)
}

/// Returns the last lines, and whether the file should be truncated.
fn last_lines(file: &mut File) -> io::Result<(Vec<String>, bool)> {
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(MAX_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may be incomplete.
    let lines = text.lines().skip(usize::from(skipped > 0)).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let surplus = lines.len().saturating_sub(MAX_LINES);
    Ok((lines.into_iter().skip(surplus).collect(), skipped > 0 || surplus > MAX_LINES))
}

/// Replaces the file atomically.
fn rewrite(path: &Path, lines: &[String]) -> io::Result<()> {
    let temp_path = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut text = lines.join("\n");
    text.push('\n');
    let mut file =
        open_private(OpenOptions::new().write(true).create(true).truncate(true)).open(&temp_path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    replace(&temp_path, path)
}

/// Lines to keep. The file may grow to twice as many.
pub(super) const MAX_LINES: usize = 1_000;
/// Bytes to read from the end of the file.
const MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::env;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn temp_path(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("tsugite-history-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder.join("state/tsugite/history")
    }

    fn clean_up(path: &Path) {
        let _ = fs::remove_dir_all(path.ancestors().nth(3).unwrap());
    }

    #[test]
    fn history_is_private() {
        let path = temp_path("kept");
        let (history, lines) = History::open(path.clone()).unwrap();
        assert_eq!(lines, [""; 0]);
        history.append("list").unwrap();
        history.append("call add a=1 b=2").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let (_, lines) = History::open(path.clone()).unwrap();
        assert_eq!(lines, ["list", "call add a=1 b=2"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        clean_up(&path);
    }

    #[test]
    fn history_is_truncated() {
        let path = temp_path("long");
        let (history, _) = History::open(path.clone()).unwrap();
        let all: Vec<String> = (0..=2 * MAX_LINES).map(|number| number.to_string()).collect();
        history.append(&all.join("\n")).unwrap();
        let (_, lines) = History::open(path.clone()).unwrap();
        assert_eq!(
            (lines.len(), lines[0].as_str(), lines[MAX_LINES - 1].as_str()),
            (MAX_LINES, "1001", "2000")
        );
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), MAX_LINES);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // A single line longer than the limit, and not UTF-8.
        fs::write(&path, vec![0xff; 3 << 20]).unwrap();
        let (history, lines) = History::open(path.clone()).unwrap();
        assert!(lines.is_empty(), "{}", lines.len());
        history.append("list").unwrap();
        assert_eq!(History::open(path.clone()).unwrap().1, ["list"]);
        clean_up(&path);
    }

    #[test]
    fn line_with_leading_space_is_not_kept() {
        assert!(should_keep("list", None) && should_keep("list", Some("ping")));
        assert!(
            !should_keep(" call login key=x", None)
                && !should_keep("", None)
                && !should_keep("list", Some("list"))
        );
    }
}
