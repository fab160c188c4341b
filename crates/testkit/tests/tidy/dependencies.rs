//! Rules for dependencies, as far as they can be checked without network: those of `deny.toml`, and that each is used.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::{assert_none, tree};

/// Dependencies that only generated code names: `derive(JsonSchema)` writes `schemars::…`.
const USED_BY_MACROS: [(&str, &str); 1] = [("examples/notes", "schemars")];

/// Crates with two versions in `Cargo.lock`, of which the graph of `cargo deny` has one. Both of r-efi are for UEFI, where
/// nothing of ours runs.
const DUPLICATES_ONLY_IN_LOCK_FILE: [&str; 1] = ["r-efi"];

/// `deny.toml`, of which only strings in lists are read.
struct DenyFile(String);

impl DenyFile {
    fn read() -> Self {
        Self(tree::text("deny.toml").expect("deny.toml"))
    }

    /// The lines of a list, such as `allow` in `[licenses]`, without comments.
    fn list(&self, section: &str, name: &str) -> Vec<&str> {
        let (_, section) = self.0.split_once(&format!("\n[{section}]\n")).expect(section);
        let section = section.split("\n[").next().unwrap_or_default();
        let (_, list) = section.split_once(&format!("\n{name} = [\n")).expect(name);
        let lines = list.lines().take_while(|line| *line != "]").map(str::trim);
        lines.filter(|line| !line.starts_with('#')).collect()
    }

    /// The crates of a list, with their reasons.
    fn crates(&self, name: &str) -> Vec<(&str, &str)> {
        let quoted = |line, key: &str| {
            let (_, rest) = str::split_once(line, &format!("{key} = \"")).unwrap_or_default();
            rest.split('"').next().unwrap_or_default()
        };
        let lines = self.list("bans", name).into_iter();
        lines.map(|line| (quoted(line, "crate"), quoted(line, "reason"))).collect()
    }
}

/// The packages of `Cargo.lock`: name, version and source.
fn locked() -> Vec<[String; 3]> {
    let lock = tree::text("Cargo.lock").unwrap();
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
        line.unwrap_or_default().trim_end_matches('"').to_owned()
    };
    let packages = lock.split("[[package]]\n").skip(1);
    packages.map(|package| ["name", "version", "source"].map(|name| field(package, name))).collect()
}

/// What cargo says about the workspace and the dependencies that this machine has built.
fn metadata() -> Value {
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(tree::root()).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let about = run("rustc", &["-vV"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let args = ["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host];
    serde_json::from_str(&run(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), &args)).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[test]
fn licences_of_dependencies_are_allowed() {
    let file = DenyFile::read();
    let allowed: Vec<&str> =
        file.list("licenses", "allow").iter().map(|line| line.trim_matches([',', '"'])).collect();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let found = packages.filter(|package| !is_allowed(text(package, "license"), &allowed));
    let show = |package: &Value| format!("{}: {:?}", text(package, "name"), text(package, "license"));
    assert_none(found.map(show).collect());
}

#[test]
fn banned_crates_are_absent() {
    let file = DenyFile::read();
    let banned = file.crates("deny");
    for provider in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls"] {
        assert!(banned.iter().any(|(name, _)| *name == provider), "{provider} is not banned");
    }
    let found = locked().into_iter().filter(|[name, ..]| banned.iter().any(|(banned, _)| banned == name));
    assert_none(found.map(|[name, version, _]| format!("{name} {version}")).collect());
}

#[test]
fn duplicate_versions_have_a_reason() {
    let file = DenyFile::read();
    let allowed = file.crates("skip");
    assert_none(
        allowed.iter().filter(|(_, reason)| reason.is_empty()).map(|(name, _)| (*name).to_owned()).collect(),
    );
    let mut versions = BTreeMap::<String, Vec<String>>::new();
    for [name, version, _] in locked() {
        versions.entry(name).or_default().push(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    for name in DUPLICATES_ONLY_IN_LOCK_FILE {
        assert!(versions.remove(name).is_some(), "{name} is no duplicate");
    }
    // One version needs no reason: the one that is left when those with a reason are gone.
    let is_allowed = |name: &str, version: &str| {
        let exact = format!("{name}@{version}");
        allowed.iter().any(|(allowed, _)| *allowed == exact)
    };
    let unexplained = versions.iter().filter_map(|(name, versions)| {
        let left: Vec<&String> = versions.iter().filter(|version| !is_allowed(name, version)).collect();
        (left.len() > 1).then(|| format!("{name}: {left:?}"))
    });
    assert_none(unexplained.collect());
    let outdated = allowed.iter().filter(|(allowed, _)| {
        let (name, version) = allowed.split_once('@').unwrap_or((allowed, ""));
        !versions.get(name).is_some_and(|versions| versions.iter().any(|known| known == version))
    });
    assert_none(outdated.map(|(name, _)| format!("{name} is no duplicate")).collect());
}

#[test]
fn dependencies_come_from_crates_io() {
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    let foreign = locked().into_iter().filter(|[_, _, source]| !source.is_empty() && source != registry);
    assert_none(foreign.map(|[name, _, source]| format!("{name}: {source}")).collect());
}

#[test]
fn every_dependency_is_used() {
    let metadata = metadata();
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let mut found = Vec::new();
    for package in packages.filter(|package| members.contains(text(package, "id"))) {
        let root = format!("{}/", tree::root().display());
        let manifest = text(package, "manifest_path").strip_prefix(&root).unwrap().to_owned();
        let folder = manifest.trim_end_matches("/Cargo.toml");
        // Code in documents is part of the tests of the testkit.
        let code: String = tree::files(folder)
            .into_iter()
            .chain(tree::files("docs"))
            .filter(|path| path.ends_with(".rs") || (folder == "crates/testkit" && path.ends_with(".md")))
            .filter_map(|path| tree::text(&path))
            .collect();
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["rename"].as_str().unwrap_or(text(dependency, "name")).replace('-', "_");
            let uses = [format!("{name}::"), format!("use {name};"), format!("use {name} as ")];
            let is_generated = USED_BY_MACROS.contains(&(folder, &name));
            if !is_generated && !uses.iter().any(|form| code.contains(form)) {
                found.push(format!("{manifest}: {name}"));
            }
        }
    }
    assert_none(found);
}

/// Whether a licence expression of SPDX can be met by the allowed licences. `/` is an older way to write `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let met = any_of(&mut rest, allowed);
    met && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = all_of(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        met |= all_of(rest, allowed);
    }
    met
}

fn all_of(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = licence(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        met &= licence(rest, allowed);
    }
    met
}

fn licence(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let met = any_of(rest, allowed);
            *rest = rest.strip_prefix(&[")"]).unwrap_or(&["unclosed"]);
            met
        }
        [name, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, after @ ..] => {
            *rest = after;
            allowed.contains(name)
        }
        [] => false,
    }
}

#[test]
fn licence_expressions_are_evaluated() {
    let allowed = ["MIT", "ISC", "Unicode-3.0"];
    for expression in
        ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT AND ISC"]
    {
        assert!(is_allowed(expression, &allowed), "{expression}");
    }
    for expression in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT WITH x", "Apache-2.0 AND (MIT OR ISC)"]
    {
        assert!(!is_allowed(expression, &allowed), "{expression}");
    }
}
