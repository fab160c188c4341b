//! Lines that were typed, kept in a file of the user's alone from one shell to the next.
//!
//! A line is appended when it was typed, so that shells beside each other lose nothing. What has grown too long is cut
//! when a shell begins.

use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file.
pub(super) struct History {
    path: PathBuf,
}

/// `tsugite/history` in the folder for state; `None` for users without a home.
pub(super) fn usual_place() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("tsugite").join("history"))
}

impl History {
    /// Opens the file, or makes it, and gives the lines in it, the oldest first.
    pub(super) fn open(path: PathBuf) -> io::Result<(Self, Vec<String>)> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file = opened(&path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        // Somebody may have made it readable for others.
        file.set_permissions(Permissions::from_mode(MODE))?;
        let (lines, is_long) = last_lines(&mut file)?;
        if is_long {
            shorten(&path, &lines)?;
        }
        Ok((Self { path }, lines))
    }

    /// Adds a line. Several shells may do so at once.
    pub(super) fn add(&self, line: &str) -> io::Result<()> {
        opened(&self.path)?.write_all(format!("{line}\n").as_bytes())
    }
}

/// Whether a line is kept: not if it begins with a blank, says nothing, or was said just before.
pub(super) fn is_kept(line: &str, before: Option<&str>) -> bool {
    !line.starts_with(char::is_whitespace) && !line.is_empty() && before != Some(line)
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(MODE).open(path)
}

/// The last lines, and whether there were more than need be.
fn last_lines(file: &mut File) -> io::Result<(Vec<String>, bool)> {
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(MOST_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first may be half a line.
    let lines = text.lines().skip(usize::from(skipped > 0)).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let surplus = lines.len().saturating_sub(MOST);
    Ok((lines.into_iter().skip(surplus).collect(), skipped > 0 || surplus > MOST))
}

/// Another file takes its place, so that it is never half there.
fn shorten(path: &Path, lines: &[String]) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut text = lines.join("\n");
    text.push('\n');
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)
}

/// Lines that are remembered. Twice as many may stand in the file.
pub(super) const MOST: usize = 1_000;
/// What is read of it.
const MOST_BYTES: u64 = 1 << 20;
/// For its owner alone.
const MODE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("tsugite-history-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder.join("state/tsugite/history")
    }

    fn gone(path: &Path) {
        let _ = fs::remove_dir_all(path.ancestors().nth(3).unwrap());
    }

    #[test]
    fn lines_are_kept_for_their_owner_alone() {
        let path = place("kept");
        let (history, lines) = History::open(path.clone()).unwrap();
        assert_eq!(lines, [""; 0]);
        history.add("list").unwrap();
        history.add("call add a=1 b=2").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let (_, lines) = History::open(path.clone()).unwrap();
        assert_eq!(lines, ["list", "call add a=1 b=2"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        gone(&path);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let path = place("long");
        let (history, _) = History::open(path.clone()).unwrap();
        let all: Vec<String> = (0..=2 * MOST).map(|number| number.to_string()).collect();
        history.add(&all.join("\n")).unwrap();
        let (_, lines) = History::open(path.clone()).unwrap();
        assert_eq!((lines.len(), lines[0].as_str(), lines[MOST - 1].as_str()), (MOST, "1001", "2000"));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), MOST);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // One line may be longer than all there shall be, and no text at all.
        fs::write(&path, vec![0xff; 3 << 20]).unwrap();
        let (history, lines) = History::open(path.clone()).unwrap();
        assert!(lines.is_empty(), "{}", lines.len());
        history.add("list").unwrap();
        assert_eq!(History::open(path.clone()).unwrap().1, ["list"]);
        gone(&path);
    }

    #[test]
    fn a_blank_before_it_keeps_a_line_out() {
        assert!(is_kept("list", None) && is_kept("list", Some("ping")));
        assert!(!is_kept(" call login key=x", None) && !is_kept("", None) && !is_kept("list", Some("list")));
    }
}
