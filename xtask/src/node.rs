//! Node and what npm installs, in the versions that `xtask/npm` writes down. It all lies below the target folder.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{run, setup};

/// A Node of at least version 22: the machine's own, or one from npm. Debian's is older.
pub(crate) fn find() -> Result<PathBuf, String> {
    let own = PathBuf::from("node");
    if is_new(&own) {
        return Ok(own);
    }
    let cpu = match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let node = packages("node")?.join(format!("node_modules/node-{OS}-{cpu}/bin/node"));
    if is_new(&node) {
        return Ok(node);
    }
    Err(format!("npm has no Node {LEAST} for this machine\n  try: install Node {LEAST} or newer"))
}

/// Installs what `xtask/npm/<name>` names, unless it is there already. Gives the folder that holds `node_modules`.
pub(crate) fn packages(name: &str) -> Result<PathBuf, String> {
    let wanted = run::root().join("xtask/npm").join(name);
    let folder = run::target_folder()?.join("npm").join(name);
    let lock = read(&wanted.join(LOCK))?;
    // Written last, so that what was broken off is not taken for installed.
    let installed = folder.join("installed.json");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == lock) {
        return Ok(folder);
    }
    setup::npm()?;
    println!("installing {name} with npm");
    run::make_folder(&folder)?;
    let _ = fs::remove_file(&installed);
    write(&folder.join(LOCK), &lock)?;
    write(&folder.join("package.json"), &read(&wanted.join("package.json"))?)?;
    let quietly = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm = run::program("npm", quietly);
    npm.current_dir(&folder);
    let status = run::within(PATIENCE, npm)?;
    if !status.success() {
        return Err(format!(
            "`npm ci` ended with {status}\n  try: see above; it ran in {}, and needs a registry to install from",
            folder.display()
        ));
    }
    write(&installed, &lock)?;
    Ok(folder)
}

fn is_new(node: &Path) -> bool {
    let test = format!("process.exit(parseInt(process.versions.node) >= {LEAST} ? 0 : 1)");
    run::works(run::program(node, ["--eval", &test]))
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The conformance suite takes from `fs` what older ones have not.
const LEAST: u32 = 22;

const LOCK: &str = "package-lock.json";

/// For a download over a slow line: Node alone has 40 MB.
const PATIENCE: Duration = Duration::from_secs(600);
