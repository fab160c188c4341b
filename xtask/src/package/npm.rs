//! The packages for npm: one with the program of each platform, and `tsugite`, which depends on all of them optionally and
//! starts the one that npm has installed.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::target::{self, Target};
use super::{Dist, copy, read, write};
use crate::process::{self, npm};

/// Packs the program of a platform from its unpacked archive.
pub(super) fn pack_program(dist: &Dist, target: &Target, unpacked: &Path) -> Result<(), String> {
    let folder = dist.empty("npm-program")?;
    process::create_dir(&folder.join("bin"))?;
    copy(&unpacked.join(target.program()), &folder.join("bin").join(target.program()))?;
    copy_licenses(&folder)?;
    let name = target.npm_package();
    write(
        &folder.join("README.md"),
        &format!("# {name}\n\nThe program of the package `tsugite`, for {}.\n", target.triple),
    )?;
    let mut manifest = Map::new();
    manifest.insert("name".to_owned(), json!(name));
    manifest
        .insert("description".to_owned(), json!(format!("The program of tsugite for {}.", target.triple)));
    manifest.insert("license".to_owned(), json!(LICENSE));
    manifest.insert("os".to_owned(), json!([target.npm.0]));
    manifest.insert("cpu".to_owned(), json!([target.npm.1]));
    manifest.insert("files".to_owned(), json!(["bin"]));
    // A package manager that keeps packages in archives must unpack this one.
    manifest.insert("preferUnplugged".to_owned(), json!(true));
    pack(dist, &folder, manifest)
}

/// Packs `tsugite`. It names all platforms, also those that are not packed yet.
pub(super) fn pack_launcher(dist: &Dist) -> Result<(), String> {
    let source = process::root().join("packaging/npm");
    let folder = dist.empty("npm-launcher")?;
    process::create_dir(&folder.join("bin"))?;
    for file in ["README.md", "bin/tsugite.js"] {
        copy(&source.join(file), &folder.join(file))?;
    }
    copy_licenses(&folder)?;
    let mut manifest: Map<String, Value> = serde_json::from_str(&read(&source.join("package.json"))?)
        .map_err(|error| format!("packaging/npm/package.json: {error}"))?;
    let programs = target::ALL.iter().map(|target| (target.npm_package(), json!(dist.version)));
    manifest.insert("optionalDependencies".to_owned(), Value::Object(programs.collect()));
    pack(dist, &folder, manifest)
}

/// The archive of a package.
pub(super) fn archive(dist: &Dist, package: &str) -> PathBuf {
    dist.npm.join(format!("{package}-{}.tgz", dist.version))
}

fn pack(dist: &Dist, folder: &Path, mut manifest: Map<String, Value>) -> Result<(), String> {
    manifest.insert("version".to_owned(), json!(dist.version));
    if let Some(repository) = &dist.repository {
        // The provenance of a package is accepted only with the repository that it was built in.
        manifest.insert(
            "repository".to_owned(),
            json!({ "type": "git", "url": format!("git+{repository}.git") }),
        );
    }
    let manifest = serde_json::to_string_pretty(&manifest).map_err(|error| error.to_string())?;
    write(&folder.join("package.json"), &format!("{manifest}\n"))?;
    let mut command = npm(["pack", "--silent", "--pack-destination"]);
    command.arg(&dist.npm).current_dir(folder);
    process::output(command, "see above").map(drop)
}

fn copy_licenses(folder: &Path) -> Result<(), String> {
    let mut names = ["LICENSE-APACHE", "LICENSE-MIT"].into_iter();
    names.try_for_each(|name| copy(&process::root().join(name), &folder.join(name)))
}

const LICENSE: &str = "(Apache-2.0 OR MIT)";
