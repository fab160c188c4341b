//! Node and npm packages, in the versions pinned in `xtask/npm`. Everything is installed below the target folder.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{process, setup};

/// Finds Node 22 or newer: the machine's own, or one from npm, since Debian's is older.
pub(crate) fn find() -> Result<PathBuf, String> {
    let own = PathBuf::from("node");
    if is_recent(&own) {
        return Ok(own);
    }
    let cpu = match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let node = install_packages("node")?.join(format!("node_modules/node-{OS}-{cpu}/bin/node"));
    if is_recent(&node) {
        return Ok(node);
    }
    Err(format!("npm has no Node {MIN_VERSION} for this machine\n  try: install Node {MIN_VERSION} or newer"))
}

/// Installs the packages of `xtask/npm/<name>` unless they are installed. Returns the folder that holds `node_modules`.
pub(crate) fn install_packages(name: &str) -> Result<PathBuf, String> {
    let wanted = process::root().join("xtask/npm").join(name);
    let folder = process::target_dir()?.join("npm").join(name);
    let lock = read(&wanted.join(LOCK_FILE))?;
    // Written last, so that an interrupted installation does not count.
    let installed = folder.join("installed.json");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == lock) {
        return Ok(folder);
    }
    setup::npm()?;
    println!("installing {name} with npm");
    process::create_dir(&folder)?;
    let _ = fs::remove_file(&installed);
    write(&folder.join(LOCK_FILE), &lock)?;
    write(&folder.join("package.json"), &read(&wanted.join("package.json"))?)?;
    let quietly = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm = process::npm(quietly);
    npm.current_dir(&folder);
    let status = process::run_with_timeout(INSTALL_TIMEOUT, npm)?;
    if !status.success() {
        return Err(format!(
            "`npm ci` ended with {status}\n  try: see above; it ran in {}, and needs a registry to install from",
            folder.display()
        ));
    }
    write(&installed, &lock)?;
    Ok(folder)
}

fn is_recent(node: &Path) -> bool {
    let test = format!("process.exit(parseInt(process.versions.node) >= {MIN_VERSION} ? 0 : 1)");
    process::succeeds(process::program(node, ["--eval", &test]))
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The conformance suite uses functions of `fs` that older versions lack.
const MIN_VERSION: u32 = 22;

const LOCK_FILE: &str = "package-lock.json";

/// The time limit of a download over a slow line: Node alone has 40 MB.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);
