//! Replaces files atomically and keeps backups.
//!
//! The new text is written to a temporary file that is renamed over the original, so that no reader sees a partial
//! file. A file that another program has changed in the meantime is not overwritten. Several files are replaced
//! together: if one fails, those before it are restored.
//!
//! The original is kept as `FILE.bak`, which is never overwritten: it is the file before the first change. Later backups
//! are `FILE.bak.1` to `FILE.bak.9`; the tenth replaces the oldest.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{CliError, Result};
use crate::file_mode::{open_private, replace, writable_command};
use crate::readable_path::readable;

/// A file as it was read; `contents` is `None` if it does not exist.
pub(crate) struct OriginalFile {
    /// The path as given.
    path: PathBuf,
    /// The path with symbolic links resolved, so that links are kept.
    real_path: PathBuf,
    contents: Option<FileContents>,
}

struct FileContents {
    text: String,
    permissions: Permissions,
}

/// A file and its new text.
pub(crate) struct FileChange<'a> {
    pub(crate) original: &'a OriginalFile,
    pub(crate) text: &'a str,
    /// Whether a new file is readable only by its owner.
    pub(crate) private: bool,
}

impl OriginalFile {
    /// Reads a file. A missing file is not an error.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let (path, failed) = (path.to_owned(), |detail: String| read_error(path, detail));
        let real = match fs::canonicalize(&path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match fs::read_link(&path) {
                    Ok(to) => Err(failed(format!(
                        "it is a symbolic link to {}, which does not exist",
                        to.display()
                    ))),
                    Err(_) => Ok(Self { real_path: path.clone(), path, contents: None }),
                };
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let found = read_contents(&real).map_err(failed)?;
        Ok(Self { path, real_path: real, contents: Some(found) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path with symbolic links resolved.
    pub(crate) fn real_path(&self) -> &Path {
        &self.real_path
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.contents.as_ref().map(|found| found.text.as_str())
    }

    /// Fails if the file has changed since it was read.
    fn ensure_unchanged(&self) -> Result<()> {
        let same = match (&self.contents, fs::read(&self.real_path)) {
            (Some(found), Ok(bytes)) => found.text.as_bytes() == bytes,
            (None, Err(error)) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        };
        match same {
            true => Ok(()),
            false => Err(CliError::usage(format!(
                "{} was changed by another program in the meantime",
                self.path.display()
            ))
            .at_step("write")
            .detail("nothing was written")
            .hint("run the command again")),
        }
    }
}

/// Replaces all files, or none. Returns the path of each backup.
pub(crate) fn replace_all(changes: &[FileChange<'_>]) -> Result<Vec<Option<PathBuf>>> {
    // Do everything that can fail before the first file is replaced.
    let temp_files = changes.iter().map(write_temp_file).collect::<Result<Vec<_>>>()?;
    for change in changes {
        change.original.ensure_unchanged()?;
    }
    let mut backups = Vec::new();
    for change in changes {
        backups.push(back_up(change.original)?.map(readable));
    }
    for (done, (change, temp_file)) in changes.iter().zip(temp_files).enumerate() {
        let replaced = change.original.ensure_unchanged().and_then(|()| {
            temp_file
                .persist(&change.original.real_path)
                .map_err(|error| write_error(&change.original.path, &error))
        });
        if let Err(failure) = replaced {
            return Err(changes.iter().take(done).fold(failure, restore));
        }
    }
    Ok(backups)
}

fn read_contents(real: &Path) -> std::result::Result<FileContents, String> {
    let open = || {
        let metadata = fs::metadata(real)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(real)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Ok((bytes, metadata.permissions()))
    };
    let (bytes, permissions) = open().map_err(|error: io::Error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than the limit of {} MiB", MAX_BYTES >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: invalid UTF-8")
    })?;
    Ok(FileContents { text, permissions })
}

/// Writes the new text to a temporary file in the same folder.
fn write_temp_file(change: &FileChange<'_>) -> Result<TempFile> {
    let original = change.original;
    let failed = |error: &io::Error| write_error(&original.path, error);
    let permissions = original.contents.as_ref().map(|found| &found.permissions);
    if permissions.is_some_and(Permissions::readonly) {
        let failure = failed(&io::Error::other("the file is read-only"));
        return Err(failure.hint(format!("`{}` makes it writable", writable_command(&original.path))));
    }
    if let (None, Some(folder)) = (permissions, original.real_path.parent()) {
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    TempFile::write(&original.real_path, change.text, permissions, change.private)
        .map_err(|error| failed(&error))
}

/// Backs up the old text, if the file exists.
fn back_up(original: &OriginalFile) -> Result<Option<PathBuf>> {
    let Some(found) = &original.contents else { return Ok(None) };
    let failed =
        |error: &io::Error| write_error(&original.path, error).hint("the backup could not be written");
    let first = with_suffix(&original.real_path, ".bak");
    let later =
        (1..=MAX_NUMBERED_BACKUPS).map(|number| with_suffix(&original.real_path, &format!(".bak.{number}")));
    let all: Vec<PathBuf> = std::iter::once(first).chain(later).collect();
    let mut free = None;
    let mut oldest = None;
    for (number, path) in all.iter().enumerate() {
        match fs::read(path) {
            // The same text is already backed up.
            Ok(bytes) if bytes == found.text.as_bytes() => return Ok(Some(path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                free = free.or(Some(path));
            }
            _ if number > 0 => {
                let when = fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
                oldest = match oldest {
                    Some((best, _)) if best <= when => oldest,
                    _ => Some((when, path)),
                };
            }
            _ => {}
        }
    }
    let Some(path) = free.or(oldest.map(|(_, path)| path)) else { return Ok(None) };
    TempFile::write(path, &found.text, Some(&found.permissions), true)
        .and_then(|temp_file| temp_file.persist(path))
        .map_err(|error| failed(&error))?;
    Ok(Some(path.clone()))
}

/// Restores the old text of a file, because another one could not be replaced.
fn restore(failure: CliError, change: &FileChange<'_>) -> CliError {
    let OriginalFile { path, real_path: real, contents: found } = change.original;
    let restored = match found {
        Some(found) => TempFile::write(real, &found.text, Some(&found.permissions), true)
            .and_then(|temp_file| temp_file.persist(real)),
        None => fs::remove_file(real),
    };
    match restored {
        Ok(()) => failure,
        Err(error) => failure.hint(format!("{} could not be restored: {error}", path.display())),
    }
}

/// A temporary file in the folder of the file that it replaces. It is deleted on drop unless it was persisted.
struct TempFile {
    path: PathBuf,
    persisted: bool,
}

impl TempFile {
    fn write(target: &Path, text: &str, like: Option<&Permissions>, private: bool) -> io::Result<Self> {
        let path = with_suffix(target, &format!(".{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // It may contain secrets: only the owner can read it until it gets the permissions of the original.
        if private || like.is_some() {
            open_private(&mut options);
        }
        let mut file = options.open(&path)?;
        let temp_file = Self { path, persisted: false };
        file.write_all(text.as_bytes())?;
        if let Some(permissions) = like {
            file.set_permissions(permissions.clone())?;
        }
        file.sync_all()?;
        Ok(temp_file)
    }

    fn persist(mut self, path: &Path) -> io::Result<()> {
        replace(&self.path, path)?;
        self.persisted = true;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.persisted {
            // A destructor cannot report the error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn read_error(path: &Path, detail: impl Into<String>) -> CliError {
    CliError::usage(format!("cannot read {}", path.display())).at_step("read").detail(detail)
}

fn write_error(path: &Path, error: &io::Error) -> CliError {
    CliError::usage(format!("cannot write {}", path.display())).at_step("write").detail(error.to_string())
}

/// The size limit of a file. The largest files of hosts have tens of megabytes.
const MAX_BYTES: u64 = 256 << 20;
/// The number of backups in addition to the first.
const MAX_NUMBERED_BACKUPS: usize = 9;

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A temporary folder that is deleted on drop.
    struct TempDir(PathBuf);

    impl TempDir {
        fn new() -> Self {
            static LAST: AtomicU32 = AtomicU32::new(0);
            let name =
                format!("tsugite-save-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn file_names(&self) -> Vec<String> {
            let names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(path: &Path, text: &str) -> Result<Option<PathBuf>> {
        let original = OriginalFile::read(path)?;
        Ok(replace_all(&[FileChange { original: &original, text, private: true }])?.remove(0))
    }

    #[test]
    fn first_backup_and_last_nine_are_kept() {
        let folder = TempDir::new();
        let path = folder.join("a.json");
        assert_eq!(write(&path, "0").unwrap(), None);
        for number in 1..=12 {
            let kept = write(&path, &number.to_string()).unwrap().unwrap();
            assert_eq!(fs::read_to_string(kept).unwrap(), (number - 1).to_string());
        }
        assert_eq!(fs::read_to_string(folder.join("a.json.bak")).unwrap(), "0");
        let mut kept: Vec<u32> = (1..=9)
            .map(|number| {
                fs::read_to_string(folder.join(&format!("a.json.bak.{number}"))).unwrap().parse().unwrap()
            })
            .collect();
        kept.sort_unstable();
        assert_eq!(kept.last(), Some(&11));
        // A text that is already backed up is not backed up again.
        let names = folder.file_names();
        fs::write(&path, "0").unwrap();
        assert_eq!(write(&path, "1"), Ok(Some(folder.join("a.json.bak"))));
        assert_eq!(folder.file_names(), names);
    }

    #[test]
    fn permissions_and_links_are_kept() {
        let folder = TempDir::new();
        let (path, link) = (folder.join("real.json"), folder.join("link.json"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink("real.json", &link).unwrap();
        let real = fs::canonicalize(&path).unwrap();
        let kept = write(&link, "new").unwrap().unwrap();
        assert_eq!(kept, with_suffix(&real, ".bak"));
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.json"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        for path in [&path, &kept] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o640);
        }
        let new = folder.join("deep/er/new.json");
        assert_eq!(write(&new, "x"), Ok(None));
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
        symlink("nowhere.json", folder.join("lost.json")).unwrap();
        let failure = write(&folder.join("lost.json"), "x").unwrap_err();
        assert_eq!(
            failure.detail.as_deref(),
            Some("it is a symbolic link to nowhere.json, which does not exist")
        );
    }

    #[test]
    fn concurrent_change_is_not_overwritten() {
        let folder = TempDir::new();
        let (one, other) = (folder.join("one.json"), folder.join("other.json"));
        fs::write(&one, "1").unwrap();
        let originals = [OriginalFile::read(&one).unwrap(), OriginalFile::read(&other).unwrap()];
        fs::write(&other, "theirs").unwrap();
        let changes: Vec<FileChange<'_>> =
            originals.iter().map(|original| FileChange { original, text: "ours", private: true }).collect();
        let failure = replace_all(&changes).unwrap_err();
        assert!(
            failure.message.ends_with("other.json was changed by another program in the meantime"),
            "{failure:?}"
        );
        assert_eq!((fs::read(&one).unwrap(), fs::read(&other).unwrap()), (b"1".into(), b"theirs".into()));
        assert_eq!(folder.file_names(), ["one.json", "other.json"]);
    }

    #[test]
    fn replaced_files_are_restored_if_another_fails() {
        let folder = TempDir::new();
        let (one, other, third) =
            (folder.join("one.json"), folder.join("other.json"), folder.join("third.json"));
        fs::write(&one, "1").unwrap();
        fs::write(&third, "3").unwrap();
        let mut originals = [&one, &other, &third].map(|path| OriginalFile::read(path).unwrap());
        // Renaming a file over a folder fails.
        fs::create_dir(folder.join("in the way")).unwrap();
        fs::write(folder.join("in the way/x"), "").unwrap();
        originals[2].real_path = folder.join("in the way");
        let found = originals[2].contents.take();
        let changes: Vec<FileChange<'_>> =
            originals.iter().map(|original| FileChange { original, text: "ours", private: true }).collect();
        assert!(replace_all(&changes).is_err());
        assert!(found.is_some());
        assert_eq!(fs::read_to_string(&one).unwrap(), "1");
        assert!(!other.exists());
    }

    #[test]
    fn invalid_and_read_only_files_are_not_changed() {
        let folder = TempDir::new();
        let path = folder.join("a.json");
        fs::write(&path, b"{\n\xff}").unwrap();
        assert_eq!(write(&path, "x").unwrap_err().detail.as_deref(), Some("line 2: invalid UTF-8"));
        assert_eq!(write(&folder.0, "x").unwrap_err().detail.as_deref(), Some("it is not a regular file"));
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        assert_eq!(write(&path, "x").unwrap_err().detail.as_deref(), Some("the file is read-only"));
        assert_eq!(folder.file_names(), ["a.json"]);
    }
}
