//! Detects changed files by polling the times and sizes of all files below some folders.
//!
//! Polling needs no support of the system and works on every file system. [`Snapshot`] reads the files,
//! [`ChangeDetector`] decides, and [`FileWatcher`] runs both with a clock.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Reports changes of files, one after the other.
pub(crate) struct FileWatcher {
    roots: Arc<[PathBuf]>,
    detector: ChangeDetector,
}

impl FileWatcher {
    /// Watches files and folders from now on.
    pub(crate) fn new(roots: Vec<PathBuf>) -> Self {
        let detector = ChangeDetector::new(Snapshot::take(&roots));
        Self { roots: roots.into(), detector }
    }

    /// Whether there are too many files to watch all of them.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.detector.last.is_incomplete()
    }

    /// Waits for a change, and returns the path of one changed file. Dropping the future loses no change.
    pub(crate) async fn next(&mut self) -> PathBuf {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let roots = Arc::clone(&self.roots);
            let snapshot = tokio::task::spawn_blocking(move || Snapshot::take(&roots)).await;
            if let Ok(snapshot) = snapshot
                && let Some(path) = self.detector.observe(Instant::now(), snapshot)
            {
                return path;
            }
        }
    }
}

/// Decides from snapshots when files have changed. Editors and build tools write several files in a row, so a change is
/// reported when there was no other for a moment.
struct ChangeDetector {
    last: Snapshot,
    /// The first file of an unreported change, and the time of the last one.
    pending: Option<(PathBuf, Instant)>,
}

impl ChangeDetector {
    fn new(snapshot: Snapshot) -> Self {
        Self { last: snapshot, pending: None }
    }

    /// Takes the snapshot of this instant. Returns a changed file once all is quiet.
    fn observe(&mut self, now: Instant, snapshot: Snapshot) -> Option<PathBuf> {
        if let Some(changed) = self.last.first_difference(&snapshot) {
            let first = self.pending.take().map(|(first, _)| first);
            self.pending = Some((first.unwrap_or_else(|| changed.to_owned()), now));
            self.last = snapshot;
            return None;
        }
        let is_quiet = |(_, since): &mut (PathBuf, Instant)| now.duration_since(*since) >= QUIET_TIME;
        self.pending.take_if(is_quiet).map(|(path, _)| path)
    }
}

/// The files below some folders, each with its time and size.
#[derive(Default)]
struct Snapshot {
    files: BTreeMap<PathBuf, FileStamp>,
    /// The number of files and folders that were read.
    entries: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Snapshot {
    fn take(roots: &[PathBuf]) -> Self {
        let mut snapshot = Self::default();
        for root in roots {
            // A file that is gone is a change, not an error.
            let Ok(metadata) = fs::metadata(root) else { continue };
            match metadata.is_dir() {
                true => snapshot.add_folder(root),
                false => snapshot.add_file(root.clone(), &metadata),
            }
        }
        snapshot
    }

    fn is_incomplete(&self) -> bool {
        self.entries >= MAX_ENTRIES
    }

    fn add_folder(&mut self, folder: &Path) {
        let Ok(listed) = fs::read_dir(folder) else { return };
        let mut entries: Vec<_> = listed.filter_map(|entry| entry.ok()).collect();
        // Always the same files, if there are too many.
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            if self.is_incomplete() {
                return;
            }
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if is_ignored(&name.to_string_lossy(), kind.is_dir()) {
                continue;
            }
            self.entries += 1;
            match kind.is_dir() {
                true => self.add_folder(&entry.path()),
                // Follows a link to a file, but not to a folder: it may lead back here.
                false => {
                    if let Ok(metadata) = fs::metadata(entry.path())
                        && metadata.is_file()
                    {
                        self.add_file(entry.path(), &metadata);
                    }
                }
            }
        }
    }

    fn add_file(&mut self, path: PathBuf, metadata: &Metadata) {
        self.files.insert(path, FileStamp { modified: metadata.modified().ok(), bytes: metadata.len() });
    }

    /// Returns a file that was added, changed or removed.
    fn first_difference<'a>(&'a self, other: &'a Self) -> Option<&'a Path> {
        let changed = other.files.iter().find(|(path, stamp)| self.files.get(*path) != Some(stamp));
        let removed = || self.files.iter().find(|(path, _)| !other.files.contains_key(*path));
        changed.or_else(removed).map(|(path, _)| path.as_path())
    }
}

/// Whether a file or folder is skipped: hidden ones, results of builds, and files that programs write while they run.
fn is_ignored(name: &str, is_folder: bool) -> bool {
    if name.starts_with('.') || (is_folder && IGNORED_FOLDERS.contains(&name)) {
        return true;
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    !is_folder && (name.ends_with('~') || IGNORED_ENDINGS.contains(&ending))
}

const IGNORED_FOLDERS: [&str; 4] = ["target", "node_modules", "__pycache__", "venv"];
const IGNORED_ENDINGS: [&str; 9] =
    ["log", "tmp", "swp", "pyc", "db", "sqlite", "sqlite3", "db-wal", "db-journal"];
/// How often the files are read.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long files must be unchanged before a change is reported.
const QUIET_TIME: Duration = Duration::from_millis(200);
/// Files and folders to watch.
const MAX_ENTRIES: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(files: &[(&str, u64)]) -> Snapshot {
        let stamp = |bytes| FileStamp { modified: None, bytes };
        let files = files.iter().map(|(path, bytes)| (PathBuf::from(path), stamp(*bytes))).collect();
        Snapshot { files, entries: 0 }
    }

    #[test]
    fn change_is_reported_once_and_when_all_is_quiet() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut detector = ChangeDetector::new(snapshot(&[("a", 1), ("b", 1)]));
        assert_eq!(detector.observe(at(0), snapshot(&[("a", 1), ("b", 1)])), None);
        assert_eq!(detector.observe(at(100), snapshot(&[("a", 1), ("b", 2)])), None);
        // Another change begins the wait again.
        assert_eq!(detector.observe(at(250), snapshot(&[("a", 2), ("b", 2)])), None);
        assert_eq!(detector.observe(at(400), snapshot(&[("a", 2), ("b", 2)])), None);
        assert_eq!(detector.observe(at(450), snapshot(&[("a", 2), ("b", 2)])), Some(PathBuf::from("b")));
        assert_eq!(detector.observe(at(900), snapshot(&[("a", 2), ("b", 2)])), None);
        assert_eq!(detector.observe(at(1000), snapshot(&[("a", 2)])), None);
        assert_eq!(detector.observe(at(1200), snapshot(&[("a", 2)])), Some(PathBuf::from("b")));
        assert_eq!(detector.observe(at(1300), snapshot(&[("a", 2), ("c", 1)])), None);
        assert_eq!(detector.observe(at(1500), snapshot(&[("a", 2), ("c", 1)])), Some(PathBuf::from("c")));
    }

    #[test]
    fn builds_and_hidden_files_are_ignored() {
        for folder in ["target", "node_modules", ".git", "__pycache__", ".venv"] {
            assert!(is_ignored(folder, true), "{folder}");
        }
        for file in [".env", "main.rs~", "main.rs.swp", "server.log", "notes.db"] {
            assert!(is_ignored(file, false), "{file}");
        }
        for (name, is_folder) in [("src", true), ("main.rs", false), ("target", false), ("Makefile", false)] {
            assert!(!is_ignored(name, is_folder), "{name}");
        }
    }

    #[test]
    fn snapshot_reads_files_below_folders() {
        let root = std::env::temp_dir().join(format!("tsugite-watch-{}", std::process::id()));
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::create_dir_all(root.join("target")).unwrap();
        for file in ["src/deep/a.rs", "target/b", ".hidden", "Cargo.toml"] {
            fs::write(root.join(file), "x").unwrap();
        }
        let found = Snapshot::take(&[root.clone(), root.join("target/b"), root.join("missing")]);
        let found: Vec<_> =
            found.files.keys().map(|path| path.strip_prefix(&root).unwrap().to_owned()).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, ["Cargo.toml", "src/deep/a.rs", "target/b"].map(PathBuf::from));
    }
}
