//! What the release workflow does before and after everything is made: the tag, the URL of the repository, and publishing.

use super::target;
use super::{Dist, crates, npm, read, write};
use crate::process;

/// Fails unless a tag is `v` and the version.
pub(super) fn check_tag(tag: &str) -> Result<(), String> {
    let version = Dist::new()?.version;
    match tag.strip_prefix('v') == Some(version.as_str()) {
        true => Ok(()),
        false => Err(format!(
            "the tag {tag} is not that of version {version}\n  try: set `version` in Cargo.toml, or tag v{version}"
        )),
    }
}

/// Publishes the crates in the order of their dependencies. Each is built from its package first.
pub(super) fn crates() -> Result<(), String> {
    let published = crates::published()?;
    let args = ["publish", "--locked", "--allow-dirty"];
    let selected = published.iter().flat_map(|package| ["--package", package.name.as_str()]);
    process::run_or_fail(
        process::cargo(args.into_iter().chain(selected)),
        "see above; what is published stays published",
    )
}

/// Publishes the packages for npm, `tsugite` last, since it depends on the others.
pub(super) fn npm(dist: &Dist) -> Result<(), String> {
    let programs = target::ALL.into_iter().map(|target| target.npm_package());
    for package in programs.chain(["tsugite".to_owned()]) {
        let mut command = process::npm(["publish", "--provenance", "--access", "public"]);
        command.arg(npm::archive(dist, &package));
        process::run_or_fail(command, "see above; what is published stays published")?;
    }
    Ok(())
}

/// Writes the URL of the repository into the manifest of each published crate. The sources do not contain it, since a clone
/// may be anywhere.
pub(super) fn set_repository(url: &str) -> Result<(), String> {
    if !url.starts_with("https://") || url.contains(['"', '\\', '\n']) || url.ends_with(".git") {
        return Err(format!("{url:?} is not the https URL of a repository, without `.git`"));
    }
    for package in crates::published()? {
        let manifest = process::root().join(&package.manifest);
        write(
            &manifest,
            &with_repository(&read(&manifest)?, url)
                .ok_or_else(|| format!("{} has no line {LICENSE}", manifest.display()))?,
        )?;
        println!("{}", manifest.display());
    }
    Ok(())
}

/// The manifest with the URL after its licence, in place of an earlier one.
fn with_repository(manifest: &str, url: &str) -> Option<String> {
    let lines = manifest.lines().filter(|line| !line.starts_with("repository = "));
    let mut changed: Vec<String> = lines.map(str::to_owned).collect();
    let at = changed.iter().position(|line| line == LICENSE)?;
    changed.insert(at + 1, format!("repository = \"{url}\""));
    Some(changed.join("\n") + "\n")
}

const LICENSE: &str = "license.workspace = true";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_follows_the_licence_once() {
        let first =
            with_repository("[package]\nlicense.workspace = true\n\n[lib]\n", "https://a.example/b").unwrap();
        assert_eq!(
            first,
            "[package]\nlicense.workspace = true\nrepository = \"https://a.example/b\"\n\n[lib]\n"
        );
        let second = with_repository(&first, "https://c.example/d").unwrap();
        assert_eq!(second, first.replace("a.example/b", "c.example/d"));
        assert_eq!(with_repository("[package]\n", "https://a.example/b"), None);
    }
}
