//! The files of the tree.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&here).ancestors().nth(2).unwrap().to_owned()
}

/// The paths of all files under `folder`, relative to the root, with `/` as separator.
///
/// Files that git ignores, git itself, and third-party test data are excluded.
pub(crate) fn files(folder: &str) -> Vec<String> {
    let root = root();
    let ignored = fs::read_to_string(root.join(".gitignore")).unwrap();
    let ignored: Vec<_> =
        ignored.lines().map(|line| line.trim_matches('/')).filter(|line| !line.is_empty()).collect();
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let left_out = name == ".git" || name == "target" || path.ends_with("tests/data");
            if left_out || ignored.contains(&path.as_str()) {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The content of a file, if it is text.
pub(crate) fn text(path: &str) -> Option<String> {
    String::from_utf8(fs::read(root().join(path)).ok()?).ok()
}

/// The Rust files under `folder`.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let rust = files(folder).into_iter().filter(|path| path.ends_with(".rs"));
    let sources: Vec<_> = rust.map(|path| Source::read(&text(&path).unwrap(), path)).collect();
    assert!(!sources.is_empty(), "nothing under {folder}");
    sources
}

/// The Rust files of the crates that are not tests, without their test modules.
pub(crate) fn live_sources() -> Vec<Source> {
    let live = sources("crates").into_iter().filter(|source| source.is_live());
    live.map(Source::without_tests).collect()
}
