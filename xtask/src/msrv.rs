//! `cargo xtask msrv`: checks that `rust-version` is exactly the highest one of the dependencies.
//!
//! A lower one would not build; a higher one would exclude users for no reason. The dependencies of all features count.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::process;

pub(crate) fn check() -> Result<(), String> {
    println!("{}", check_metadata(&process::metadata(&["--all-features"])?)?);
    Ok(())
}

fn check_metadata(metadata: &Value) -> Result<String, String> {
    let members: BTreeSet<&str> = list(metadata, "workspace_members").filter_map(Value::as_str).collect();
    let (ours, theirs): (Vec<&Value>, Vec<&Value>) =
        list(metadata, "packages").partition(|package| members.contains(text(package, "id")));

    let stated = workspace_rust_version(&ours)?;
    let mut needed = (EDITION_2024, "edition 2024".to_owned());
    for package in theirs {
        match rust_version(package)? {
            Some(version) if version > needed.0 => {
                needed = (version, format!("{} {}", text(package, "name"), text(package, "version")));
            }
            _ => {}
        }
    }

    let (version, asker) = needed;
    let (stated, needed) = (format_version(stated), format_version(version));
    if stated == needed {
        return Ok(format!("rust-version {stated}, as required by {asker}"));
    }
    Err(format!(
        "rust-version is {stated}, but the highest that anything asks for is {needed} ({asker})\n  \
         try: write `rust-version = \"{needed}\"` under [workspace.package] in Cargo.toml"
    ))
}

/// Major, minor, patch.
type Version = (u64, u64, u64);

/// The first version that supports our edition.
const EDITION_2024: Version = (1, 85, 0);

fn workspace_rust_version(ours: &[&Value]) -> Result<Version, String> {
    let mut first: Option<(Version, &str)> = None;
    for package in ours {
        let name = text(package, "name");
        let advice = "try: `rust-version.workspace = true` in the Cargo.toml of each member";
        let Some(version) = rust_version(package)? else {
            return Err(format!("{name} has no rust-version\n  {advice}"));
        };
        match first {
            None => first = Some((version, name)),
            Some((other, _)) if other == version => {}
            Some((other, other_name)) => {
                return Err(format!(
                    "{name} has rust-version {}, but {other_name} has {}\n  {advice}",
                    format_version(version),
                    format_version(other)
                ));
            }
        }
    }
    first.map(|(version, _)| version).ok_or_else(|| "cargo metadata names no member".to_owned())
}

fn rust_version(package: &Value) -> Result<Option<Version>, String> {
    let Some(stated) = package.get("rust_version").and_then(Value::as_str) else { return Ok(None) };
    let mut numbers = stated.split('.').map(str::parse::<u64>);
    match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor)), None, None) => Ok(Some((major, minor, 0))),
        (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Ok(Some((major, minor, patch))),
        _ => Err(format!("{} has an invalid rust-version `{stated}`", text(package, "name"))),
    }
}

/// Formats a version without a patch number of zero: `1.88`, but `1.56.1`.
fn format_version((major, minor, patch): Version) -> String {
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workspace(ours: &[Option<&str>], theirs: &[Option<&str>]) -> Value {
        let package = |id: String, stated: &Option<&str>| {
            let version = "1.0.0";
            json!({ "id": id, "name": id, "version": version, "rust_version": stated })
        };
        let members: Vec<String> = (0..ours.len()).map(|n| format!("ours{n}")).collect();
        let packages = ours.iter().enumerate().map(|(n, stated)| package(format!("ours{n}"), stated));
        let others = theirs.iter().enumerate().map(|(n, stated)| package(format!("theirs{n}"), stated));
        json!({ "workspace_members": members, "packages": packages.chain(others).collect::<Vec<_>>() })
    }

    #[test]
    fn msrv_is_the_highest_of_the_dependencies() {
        let both = [Some("1.88"), Some("1.88.0")];
        let good = workspace(&both, &[Some("1.56.1"), None, Some("1.88"), Some("1.9")]);
        assert_eq!(check_metadata(&good), Ok("rust-version 1.88, as required by theirs2 1.0.0".to_owned()));
    }

    #[test]
    fn wrong_msrv_error_names_the_right_one() {
        for stated in ["1.86", "1.90"] {
            let failure = check_metadata(&workspace(&[Some(stated)], &[Some("1.88.2")])).unwrap_err();
            assert!(failure.contains("(theirs0 1.0.0)"), "{failure}");
            assert!(failure.contains("`rust-version = \"1.88.2\"`"), "{failure}");
        }
    }

    #[test]
    fn edition_limits_the_msrv() {
        assert!(check_metadata(&workspace(&[Some("1.85")], &[Some("1.60"), None])).is_ok());
        assert!(check_metadata(&workspace(&[Some("1.60")], &[Some("1.60")])).is_err());
    }

    #[test]
    fn every_member_inherits_the_msrv() {
        assert!(check_metadata(&workspace(&[Some("1.88"), Some("1.87")], &[Some("1.88")])).is_err());
        assert!(check_metadata(&workspace(&[Some("1.88"), None], &[Some("1.88")])).is_err());
        assert!(check_metadata(&workspace(&[], &[Some("1.88")])).is_err());
    }
}
