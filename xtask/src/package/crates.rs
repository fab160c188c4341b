//! The crates: what each contains, and whether it builds from its package alone.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::checks::Checks;
use crate::count::Count;
use crate::process;

/// A crate that is published.
pub(super) struct Package {
    pub(super) name: String,
    /// Relative to the root.
    pub(super) manifest: PathBuf,
}

/// The crates that may be published, in the order of the workspace.
pub(super) fn published() -> Result<Vec<Package>, String> {
    let metadata = process::metadata(&["--no-deps"])?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    // `publish = false` is an empty list of registries.
    let published = packages.filter(|package| package.get("publish").is_some_and(Value::is_null));
    let found = published.map(|package| {
        let text = |name: &str| package.get(name)?.as_str();
        let manifest = PathBuf::from(text("manifest_path")?);
        let manifest = manifest.strip_prefix(process::root()).ok()?.to_owned();
        Some(Package { name: text("name")?.to_owned(), manifest })
    });
    found.collect::<Option<Vec<_>>>().ok_or_else(|| "cargo metadata names no manifest".to_owned())
}

/// Makes the package of each crate in the order of their dependencies, and builds it from that package, with those of ours it
/// depends on instead of the folders of this repository. The packages are in `target/package`.
pub(super) fn package() -> Result<(), String> {
    let names = published()?;
    let args = ["package", "--locked", "--allow-dirty"];
    let selected = names.iter().flat_map(|package| ["--package", package.name.as_str()]);
    process::run_or_fail(
        process::cargo(args.into_iter().chain(selected)),
        "see above; a file that a crate needs may be missing in the `include` of its manifest",
    )
}

/// Checks that each package has its licences and its README, the guides, and no file of tests.
pub(super) fn check_lists(count: &mut Count) -> Result<(), String> {
    let mut checks = Checks::new("crates");
    for package in published()? {
        checks.run(&package.name, || check_list(&package.name));
    }
    checks.finish(count)
}

fn check_list(name: &str) -> Result<(), String> {
    let list = ["package", "--list", "--allow-dirty", "--offline", "--quiet", "--package", name];
    let said = process::output(process::cargo(list), "see above")?;
    let files: BTreeSet<&str> = said.lines().collect();
    let mut wanted = vec!["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
    wanted.push(if name == "tsugite-cli" { "src/main.rs" } else { "src/lib.rs" });
    if name == "tsugite" {
        wanted.push("guide/installing.md");
    }
    if let Some(missing) = wanted.into_iter().find(|file| !files.contains(file)) {
        return Err(format!("its package does not contain {missing}"));
    }
    match files
        .iter()
        .find(|file| ["tests/", "benches/", "target/"].iter().any(|folder| file.starts_with(folder)))
    {
        Some(file) => Err(format!("its package contains {file}")),
        None => Ok(()),
    }
}
