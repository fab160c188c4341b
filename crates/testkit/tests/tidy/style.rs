//! Style rules of the whole tree.

use crate::{assert_none, tree};

/// A longer file gives its reason in its header, on a line that begins with `//! Long because`.
const MAX_LINES: usize = 600;

#[test]
fn features_gate_only_whole_modules() {
    let mut found = Vec::new();
    for source in tree::sources("crates") {
        for at in source.words("feature") {
            if !source.code[at + "feature".len()..].trim_start().starts_with('=') {
                continue;
            }
            // Skip this attribute and those that follow it, up to the item.
            let mut rest = source.code[at..].split_once(']').map_or("", |(_, rest)| rest).trim_start();
            while let Some(attribute) = rest.strip_prefix("#[") {
                rest = attribute.split_once(']').map_or("", |(_, rest)| rest).trim_start();
            }
            let item = match rest.strip_prefix("pub") {
                Some(public) if public.starts_with('(') => {
                    public.split_once(')').map_or("", |(_, rest)| rest)
                }
                Some(public) => public,
                None => rest,
            };
            let item = item.trim_start();
            let line = &source.code[..at];
            let opens = line.rfind("#[").is_some_and(|attribute| !line[attribute..].contains(']'));
            if !opens || !(item.starts_with("mod ") || item.starts_with("use ")) {
                found.push(source.place(at));
            }
        }
    }
    assert_none(found);
}

#[test]
fn no_untagged_messages() {
    let mut found = Vec::new();
    // Types of users may have any shape, and so may test types that represent them.
    for source in tree::live_sources() {
        found.extend(source.words("untagged").into_iter().map(|at| source.place(at)));
    }
    assert_none(found);
}

#[test]
fn warnings_reach_stderr_without_a_subscriber() {
    let mut found = Vec::new();
    for source in tree::sources("crates/tsugite/src") {
        for word in ["tracing::error!", "tracing::warn!"] {
            let used = source.words(word).into_iter();
            found.extend(used.map(|at| format!("{}: use `shared::log`", source.place(at))));
        }
    }
    assert_none(found);
}

#[test]
fn no_todos_and_no_skipped_tests() {
    let mut found = Vec::new();
    for source in ["crates", "examples", "xtask", "bench", "fuzz"].into_iter().flat_map(tree::sources) {
        for word in ["todo!", "unimplemented!", "#[ignore"] {
            found.extend(source.words(word).into_iter().map(|at| format!("{}: {word}", source.place(at))));
        }
    }
    assert_none(found);
}

#[test]
fn every_file_opens_with_a_module_comment() {
    let sources = ["crates", "examples", "xtask", "bench"].into_iter().flat_map(tree::sources);
    let bare = sources.filter(|source| !source.text.starts_with("//! "));
    assert_none(bare.map(|source| source.path).collect());
}

#[test]
fn long_source_files_give_their_reason() {
    let sources = tree::sources("crates").into_iter().filter(|source| source.path.contains("/src/"));
    let bare = sources.filter(|source| !source.text.contains("\n//! Long because "));
    let long =
        bare.map(|source| (source.text.lines().count(), source.path)).filter(|(lines, _)| *lines > MAX_LINES);
    assert_none(long.map(|(lines, path)| format!("{path}: {lines} lines")).collect());
}

#[test]
fn no_file_contains_a_local_path() {
    let homes = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    // The path of a URL is not a local path.
    let in_url = |before: Option<char>| {
        before.is_some_and(|letter| letter.is_alphanumeric() || "/.-_~}".contains(letter))
    };
    let files = tree::files("");
    assert!(files.iter().any(|path| path == "Cargo.toml"));
    let mut found = Vec::new();
    for path in files {
        let Some(text) = tree::text(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            let named = |home: &String| {
                line.match_indices(home).any(|(at, _)| !in_url(line[..at].chars().next_back()))
            };
            if homes.iter().any(named) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none(found);
}

#[test]
fn lock_files_contain_no_local_paths() {
    // Registries differ between machines; the digests identify the packages.
    let locks: Vec<_> =
        tree::files("xtask/npm").into_iter().filter(|path| path.ends_with("package-lock.json")).collect();
    assert!(!locks.is_empty());
    assert_none(
        locks.into_iter().filter(|path| tree::text(path).unwrap().contains("\"resolved\"")).collect(),
    );
}
