//! The manifests of the crates that are published.

use crate::{assert_none, tree};

/// The folders of the published crates.
const PUBLISHED: [&str; 7] = ["auth", "cli", "core", "macros", "redis", "store", "tsugite"];

/// Fields of the section `package` that are the same for all crates, and stand in the workspace.
const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];

/// The section `package` of a manifest.
fn package(path: &str) -> String {
    let text = tree::text(path).unwrap();
    let (_, rest) = text.split_once("[package]\n").unwrap();
    rest.split("\n[").next().unwrap().to_owned()
}

#[test]
fn every_other_crate_is_marked_as_unpublished() {
    let manifests = tree::files("").into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    let others =
        manifests.filter(|path| !PUBLISHED.iter().any(|name| *path == format!("crates/{name}/Cargo.toml")));
    assert_none(others.filter(|path| !package(path).contains("\npublish = false\n")).collect());
}

#[test]
fn published_crates_describe_themselves() {
    let mut found = Vec::new();
    for name in PUBLISHED {
        let path = format!("crates/{name}/Cargo.toml");
        let package = package(&path);
        let lines: Vec<&str> = package.lines().collect();
        let value = |field: &str| lines.iter().find_map(|line| line.strip_prefix(&format!("{field} = ")));
        let list = |field| value(field).unwrap_or_default().matches('"').count() / 2;
        let mut expect = |holds: bool, fault: &str| {
            if !holds {
                found.push(format!("{path}: {fault}"));
            }
        };
        for field in INHERITED {
            expect(lines.contains(&&*format!("{field}.workspace = true")), field);
        }
        expect(value("description").is_some_and(|text| text.ends_with(".\"")), "description");
        expect((1..=5).contains(&list("keywords")), "1 to 5 keywords");
        expect((1..=5).contains(&list("categories")), "1 to 5 categories");
        let readme = value("readme").unwrap_or_default().trim_matches('"');
        expect(readme == "README.md" || readme == "../../README.md", "readme");
        expect(tree::root().join(format!("crates/{name}/{readme}")).is_file(), "its README does not exist");
        let include = value("include").unwrap_or_default();
        expect(["\"/LICENSE-*\"", "\"/src\""].iter().all(|part| include.contains(part)), "include");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            expect(tree::text(&format!("crates/{name}/{licence}")) == tree::text(licence), licence);
        }
        let all_features = "[package.metadata.docs.rs]\nall-features = true\n";
        expect(name == "cli" || tree::text(&path).unwrap().contains(all_features), "all features on docs.rs");
    }
    assert_none(found);
}

#[test]
fn packages_name_no_registry() {
    let folders = ["packaging", ".github", "xtask/src/package"].into_iter().flat_map(tree::files);
    let mut found = Vec::new();
    for path in folders {
        let text = tree::text(&path).unwrap_or_default();
        found.extend(HOSTS.iter().filter(|host| text.contains(**host)).map(|host| format!("{path}: {host}")));
    }
    assert_none(found);
}

/// Hosts of registries. They differ between machines, and each tool knows its own.
const HOSTS: [&str; 6] =
    ["npmjs.org", "npmjs.com", "ghcr.io", "docker.io", "index.crates.io", "static.crates.io"];
