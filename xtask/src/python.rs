//! Python, and what pip installs, in the versions that a `requirements.txt` writes down. It lies below the target
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{process, setup};

/// A Python that finds exactly what `requirements` lists, in a virtual environment that is made unless it is there
/// already.
pub(crate) fn with_packages(requirements: &Path, folder: &Path) -> Result<PathBuf, String> {
    setup::python()?;
    let version = process::output(process::program("python3", ["--version"]), "look at python3")?;
    let listed = fs::read_to_string(requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    let python = folder.join("bin/python");
    // Written last, so that what was broken off is not taken for installed.
    let installed = folder.join("installed.txt");
    let wanted = format!("# {version}{listed}");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) && python.exists() {
        return Ok(python);
    }
    println!("installing {} with pip", requirements.display());
    let mut make = process::program("python3", ["-m", "venv", "--clear"]);
    make.arg(folder);
    run_step(make, "see above; it was to make a virtual environment")?;
    let quietly = ["-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"];
    let pip = || process::program(&python, quietly);
    let mut install = pip();
    // Nothing that is not listed, and none of its code is run to install it.
    install.args(["install", "--no-deps", "--only-binary", ":all:", "--requirement"]).arg(requirements);
    run_step(install, "see above; it needs a package index to install from")?;
    let mut check = pip();
    check.arg("check");
    run_step(check, &format!("list what is missing in {}", requirements.display()))?;
    fs::write(&installed, wanted)
        .map_err(|error| format!("cannot write {}: {error}", installed.display()))?;
    Ok(python)
}

fn run_step(command: Command, advice: &str) -> Result<(), String> {
    let status = process::run_with_timeout(INSTALL_TIMEOUT, command)?;
    if status.success() { Ok(()) } else { Err(format!("Python ended with {status}\n  try: {advice}")) }
}

/// For a download over a slow line.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);
