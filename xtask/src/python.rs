//! Python and pip packages, in the versions pinned in a `requirements.txt`. Everything is installed below the target
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{process, setup};

/// Returns a Python with exactly the packages of `requirements`, in a virtual environment that is created unless it
/// exists.
pub(crate) fn with_packages(requirements: &Path, folder: &Path) -> Result<PathBuf, String> {
    setup::python()?;
    let version = process::output(process::program("python3", ["--version"]), "check python3")?;
    let listed = fs::read_to_string(requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    let python = folder.join("bin/python");
    // Written last, so that an interrupted installation does not count.
    let installed = folder.join("installed.txt");
    let wanted = format!("# {version}{listed}");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) && python.exists() {
        return Ok(python);
    }
    println!("installing {} with pip", requirements.display());
    let mut make = process::program("python3", ["-m", "venv", "--clear"]);
    make.arg(folder);
    run_step(make, "see above; creating the virtual environment failed")?;
    let quietly = ["-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"];
    let pip = || process::program(&python, quietly);
    let mut install = pip();
    // Only listed packages, and no code of theirs runs during the installation.
    install.args(["install", "--no-deps", "--only-binary", ":all:", "--requirement"]).arg(requirements);
    run_step(install, "see above; the installation needs a package index")?;
    let mut check = pip();
    check.arg("check");
    run_step(check, &format!("add the missing packages to {}", requirements.display()))?;
    fs::write(&installed, wanted)
        .map_err(|error| format!("cannot write {}: {error}", installed.display()))?;
    Ok(python)
}

fn run_step(command: Command, advice: &str) -> Result<(), String> {
    let status = process::run_with_timeout(INSTALL_TIMEOUT, command)?;
    if status.success() { Ok(()) } else { Err(format!("Python exited with {status}\n  try: {advice}")) }
}

/// The time limit of a download over a slow line.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);
