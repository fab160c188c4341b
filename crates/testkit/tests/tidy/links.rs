//! Links and pages of the documentation.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::{assert_none, tree};

/// Pages of `docs/` for contributors, which are not part of the API documentation.
const FOR_CONTRIBUTORS: [&str; 2] = ["proof", "xtask"];

#[test]
fn every_link_between_files_leads_somewhere() {
    let mut anchors: HashMap<String, HashSet<String>> = HashMap::new();
    let mut found = Vec::new();
    let files = tree::files("").into_iter();
    for page in files.filter(|path| path.ends_with(".md") && !path.contains("/guide/")) {
        let text = tree::text(&page).unwrap();
        for target in links(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { page.clone() } else { join(&page, path) };
            if !tree::root().join(&path).exists() {
                found.push(format!("{page}: {target}"));
            } else if !anchor.is_empty() {
                let known =
                    anchors.entry(path.clone()).or_insert_with(|| headings(&tree::text(&path).unwrap()));
                if !known.contains(anchor) {
                    found.push(format!("{page}: {target}"));
                }
            }
        }
    }
    found.sort();
    assert_none(found);
}

#[test]
fn every_file_of_a_walk_exists() {
    let page = tree::text("ARCHITECTURE.md").unwrap();
    let walks = page.split_once("\n## Five walks\n").unwrap().1.split_once("\n## ").unwrap().0;
    let mut found = Vec::new();
    // The file of the current step, which the other paths of the step are relative to.
    let mut step: Option<String> = None;
    let mut count = 0;
    for line in walks.lines() {
        // A step continues on lines that are indented.
        if !line.starts_with(' ') {
            step = None;
        }
        for path in line.split('`').skip(1).step_by(2).filter(|path| path.ends_with(".rs")) {
            count += 1;
            let exists = match &step {
                None => tree::root().join(source_path(path)).is_file(),
                Some(file) => {
                    let folders = Path::new(file).ancestors().skip(1);
                    folders.into_iter().any(|folder| tree::root().join(folder).join(path).is_file())
                }
            };
            if !exists {
                found.push(format!("ARCHITECTURE.md: {path}: {}", line.trim()));
            }
            step.get_or_insert_with(|| source_path(path));
        }
    }
    assert!(count > 50, "{count} paths in the walks");
    assert_none(found);
}

/// The path of a file as ARCHITECTURE.md shortens it.
fn source_path(path: &str) -> String {
    match path.split_once('/') {
        Some(("crates", _)) => path.to_owned(),
        Some(("core", rest)) => format!("crates/core/src/{rest}"),
        _ => format!("crates/tsugite/src/{path}"),
    }
}

#[test]
fn every_page_is_a_guide_and_a_doc_test() {
    let guides = tree::text("crates/tsugite/src/guide.rs").unwrap();
    let tests = tree::text("crates/testkit/src/lib.rs").unwrap();
    let mut found = Vec::new();
    for path in tree::files("docs") {
        let Some(page) = path.strip_prefix("docs/").and_then(|file| file.strip_suffix(".md")) else {
            continue;
        };
        if page.contains('/') {
            continue;
        }
        let text = tree::text(&path).unwrap();
        if text.contains("```rust") && !tests.contains(&format!("\"../../../{path}\"")) {
            found.push(format!("{path}: not in crates/testkit/src/lib.rs"));
        }
        if FOR_CONTRIBUTORS.contains(&page) {
            continue;
        }
        if !guides.contains(&format!("guide!(\"{page}\")")) {
            found.push(format!("{path}: not in crates/tsugite/src/guide.rs"));
        }
        if tree::text(&format!("crates/tsugite/guide/{page}.md")).as_ref() != Some(&text) {
            found.push(format!("{path}: no link crates/tsugite/guide/{page}.md"));
        }
    }
    assert_none(found);
}

/// The targets of the links outside of code, without those of other hosts.
fn links(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let lines = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    let targets =
        lines.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://")).collect()
}

/// The anchors of the headings of a page, as GitHub makes them.
fn headings(text: &str) -> HashSet<String> {
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchors = titles.map(|title| {
        let title = title.to_lowercase();
        let letters = title.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => Some(letter).filter(|letter| letter.is_alphanumeric()),
        });
        letters.collect()
    });
    anchors.collect()
}

/// The path of a target that a page names.
fn join(page: &str, target: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
