//! Listing a folder.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{is_safe_path, may_be_reached};

/// Lists the files below `root`, at most `max_files` of them.
pub(super) fn list(root: &Path, max_files: usize) -> io::Result<DirectoryListing> {
    let (visited_links, listing) = (HashSet::new(), DirectoryListing::default());
    let mut walk = DirectoryWalker { root, max_files, visited_links, listing };
    walk.walk(root, "", 1)?;
    Ok(walk.listing)
}

/// The files of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DirectoryListing {
    pub(crate) files: Vec<FileEntry>,
    /// Whether there are more files than were asked for.
    pub(crate) truncated: bool,
}

/// A file in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEntry {
    /// From the folder, with `/` between its segments.
    pub(crate) path: String,
    /// In bytes.
    pub(crate) size: u64,
}

/// A walk through a folder in the order of the bytes of the paths, so that it can stop early.
struct DirectoryWalker<'a> {
    root: &'a Path,
    max_files: usize,
    /// Folders that were entered through a link.
    visited_links: HashSet<PathBuf>,
    listing: DirectoryListing,
}

/// An entry of a folder.
enum WalkEntry {
    File {
        size: u64,
    },
    Directory,
    /// A link to a folder that has no name of its own to be listed under.
    Symlink {
        target: PathBuf,
    },
}

impl DirectoryWalker<'_> {
    fn walk(&mut self, folder: &Path, prefix: &str, depth: usize) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let Some(path) = name.to_str().map(|name| format!("{prefix}{name}")) else { continue };
            if !is_safe_path(&path) {
                continue;
            }
            match self.classify(&entry) {
                Some(file @ WalkEntry::File { .. }) => entries.push((path, file)),
                // With its slash, because the paths below it are sorted with one.
                Some(folder) => entries.push((format!("{path}/"), folder)),
                None => {}
            }
        }
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (path, entry) in entries {
            if self.listing.truncated {
                break;
            }
            let enter = match entry {
                WalkEntry::File { size } => {
                    if self.listing.files.len() >= self.max_files {
                        self.listing.truncated = true;
                    } else {
                        self.listing.files.push(FileEntry { path, size });
                    }
                    continue;
                }
                WalkEntry::Directory => true,
                // Entered once, so that links cannot form a loop or multiply.
                WalkEntry::Symlink { target } => self.visited_links.insert(target),
            };
            if enter && depth < MAX_DEPTH {
                // A folder that cannot be read is left out.
                let _ = self.walk(&self.root.join(&path), &path, depth + 1);
            }
        }
        Ok(())
    }

    fn classify(&self, entry: &fs::DirEntry) -> Option<WalkEntry> {
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            return Some(WalkEntry::Directory);
        }
        if !kind.is_symlink() {
            return kind.is_file().then_some(WalkEntry::File { size: entry.metadata().ok()?.len() });
        }
        let real = entry.path().canonicalize().ok()?;
        let inside = real.strip_prefix(self.root).ok().filter(|inside| may_be_reached(inside))?;
        let metadata = real.metadata().ok()?;
        if metadata.is_file() {
            return Some(WalkEntry::File { size: metadata.len() });
        }
        // Other folders are listed under their own names.
        let hidden = inside.iter().any(|name| name.as_encoded_bytes().starts_with(b"."));
        (metadata.is_dir() && hidden).then_some(WalkEntry::Symlink { target: real })
    }
}

/// Folders deeper than this are not listed.
const MAX_DEPTH: usize = 32;
