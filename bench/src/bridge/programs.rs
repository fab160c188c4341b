//! The programs that are measured: built as they are released, or installed with npm from the lock file in `bench/npm`.
//! All of them are below the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::BoxError;

pub(super) struct Programs {
    /// The binary.
    pub(super) tsugite: PathBuf,
    /// A program that exits at once.
    pub(super) noop: PathBuf,
    /// This program, which is also the server.
    pub(super) bench: PathBuf,
    /// A folder that the other programs may write to.
    pub(super) folder: PathBuf,
}

impl Programs {
    pub(super) fn new() -> Result<Self, BoxError> {
        let bench = std::env::current_exe()?;
        let target = bench.ancestors().nth(2).ok_or("this program lies nowhere")?;
        let folder = target.join("bridge");
        fs::create_dir_all(&folder)?;
        let nothing = build_noop(&folder)?;
        Ok(Self { tsugite: build_tsugite()?, noop: nothing, bench, folder })
    }

    /// A command for `script` of a `package` that npm installed.
    pub(super) fn node_command(&self, package: &str, script: &str) -> Result<Command, BoxError> {
        let mut command = Command::new("node");
        command.arg(install_packages(&self.folder)?.join("node_modules").join(package).join(script));
        Ok(command)
    }
}

/// Builds the binary with the profile of the workspace.
fn build_tsugite() -> Result<PathBuf, BoxError> {
    #[derive(Deserialize)]
    struct CargoMessage {
        executable: Option<PathBuf>,
    }
    let manifest = manifest_dir().join("../Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--package", "tsugite-cli", "--bin", "tsugite"]);
    cargo.arg("--message-format=json-render-diagnostics").arg("--manifest-path").arg(manifest);
    cargo.stderr(std::process::Stdio::inherit());
    // The variables that `cargo run` sets for this package do not concern that one, and would rebuild some crates.
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| PACKAGE_ENV_PREFIXES.iter().any(|of_this| name.starts_with(of_this)))
        {
            cargo.env_remove(name);
        }
    }
    let said = run_to_end(cargo)?;
    let mut executables =
        said.lines().filter_map(|line| serde_json::from_str::<CargoMessage>(line).ok()?.executable);
    Ok(executables.next_back().ok_or("cargo has built no executable")?)
}

fn build_noop(folder: &Path) -> Result<PathBuf, BoxError> {
    let (source, program) = (folder.join("nothing.rs"), folder.join("nothing"));
    fs::write(&source, "fn main() {}\n")?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "-Copt-level=3", "-Cstrip=symbols", "-o"]).arg(&program).arg(source);
    run_to_end(rustc)?;
    Ok(program)
}

/// Installs the npm packages, unless they are installed. Returns the folder that holds `node_modules`.
fn install_packages(folder: &Path) -> Result<PathBuf, BoxError> {
    let (wanted, folder) = (manifest_dir().join("npm"), folder.join("npm"));
    fs::create_dir_all(&folder)?;
    let lock = fs::read_to_string(wanted.join(LOCK_FILE))?;
    // Written last, so that an interrupted installation does not count.
    let installed = folder.join("installed.json");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == lock) {
        return Ok(folder);
    }
    for file in [LOCK_FILE, "package.json"] {
        fs::copy(wanted.join(file), folder.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&folder);
    npm.stderr(std::process::Stdio::inherit());
    run_to_end(npm)?;
    fs::write(installed, lock)?;
    Ok(folder)
}

/// Runs a program to its end and returns its output.
fn run_to_end(mut command: Command) -> Result<String, BoxError> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!(
            "{command:?} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

fn manifest_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

const PACKAGE_ENV_PREFIXES: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];
const LOCK_FILE: &str = "package-lock.json";
