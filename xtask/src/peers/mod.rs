//! `cargo xtask peers`: tests clients and servers of other projects with ours, over real sockets and pipes.
//!
//! `clients.rs` runs their clients against our server, `tasks.rs` a client that follows tasks, `servers.rs` our client
//! against their servers, and `cli/` both with the binary `tsugite`. Each fills a table whose cells are all expected in advance.

pub(crate) mod cli;
pub(crate) mod clients;
pub(crate) mod servers;
mod table;
pub(crate) mod tasks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::count::Count;
use crate::{node, process, python};
use table::Table;

/// Runs everything, also after a failure.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    combine_results([
        clients::run(clients::Target::OurServer, count),
        tasks::run(count),
        servers::run(None, count),
        cli::run(count),
    ])
}

/// Joins the failures.
fn combine_results<const N: usize>(outcomes: [Result<(), String>; N]) -> Result<(), String> {
    let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n  and ")) }
}

/// The installed packages of other projects.
pub(crate) struct PeerPackages {
    node: PathBuf,
    python: PathBuf,
    /// The folder where the Node scripts find their packages.
    script_dir: PathBuf,
    /// The folder for logs.
    pub(crate) output_dir: PathBuf,
}

impl PeerPackages {
    pub(crate) fn new() -> Result<Self, String> {
        let folder = process::target_dir()?.join("peers");
        process::create_dir(&folder)?;
        let scripts = node::install_packages("peers")?;
        let from = source_dir().join("typescript");
        let wrong = |error| format!("cannot copy {}: {error}", from.display());
        for script in fs::read_dir(&from).map_err(wrong)? {
            let script = script.map_err(wrong)?;
            fs::copy(script.path(), scripts.join(script.file_name())).map_err(wrong)?;
        }
        let offers = source_dir().join("offers.json");
        fs::copy(&offers, scripts.join("offers.json"))
            .map_err(|error| format!("cannot copy {}: {error}", offers.display()))?;
        let python =
            python::with_packages(&source_dir().join("python/requirements.txt"), &folder.join("python"))?;
        Ok(Self { node: node::find()?, python, script_dir: scripts, output_dir: folder })
    }

    /// Runs a script for Node.
    pub(crate) fn typescript(&self, script: &str) -> Command {
        let mut command = process::program(&self.node, []);
        command.arg(self.script_dir.join(script));
        command
    }

    /// Runs a script for Python.
    pub(crate) fn python(&self, script: &str) -> Command {
        let mut command = process::program(&self.python, []);
        command.arg(source_dir().join("python").join(script));
        command
    }
}

/// Prints a table, writes it to a file, and adds it to `count`.
fn report(table: &Table, file: &Path, count: &mut Count) -> Result<(), String> {
    let shown = table.to_markdown(version);
    print!("{shown}");
    fs::write(file, shown).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let found = table.count();
    *count += found;
    match found.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} cells failed\n  try: see above, and {}", file.display())),
    }
}

/// The pinned version of a package.
fn version(package: &str) -> String {
    npm_version(package).or_else(|| pip_version(package)).unwrap_or_else(|| "?".to_owned())
}

fn npm_version(package: &str) -> Option<String> {
    let text = fs::read_to_string(process::root().join("xtask/npm/peers/package.json")).ok()?;
    let wanted: Value = serde_json::from_str(&text).ok()?;
    Some(wanted.get("dependencies")?.get(package)?.as_str()?.to_owned())
}

fn pip_version(package: &str) -> Option<String> {
    let text = fs::read_to_string(source_dir().join("python/requirements.txt")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix("==")).map(str::to_owned)
}

fn source_dir() -> PathBuf {
    process::root().join("crates/testkit/peers")
}

const REVISIONS: [&str; 5] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_each_peer_is_pinned() {
        let rows = clients::rows().into_iter().chain(tasks::rows()).chain(servers::rows());
        let rows = rows.chain(cli::serve::rows()).chain(cli::verbs::rows());
        let rows = rows.chain(cli::bridge::rows());
        let packages = rows.flat_map(|row| [Some(row.package), row.bridged_to.map(|behind| behind.package)]);
        for package in packages.flatten() {
            let version = version(package);
            let numbers: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
            assert!(numbers.len() == 3 && numbers.iter().all(Result::is_ok), "{package}: {version}");
        }
    }

    #[test]
    fn python_requirements_are_exact_versions() {
        let requirements = fs::read_to_string(source_dir().join("python/requirements.txt")).unwrap();
        for line in requirements.lines().filter(|line| !line.starts_with('#')) {
            let (name, version) = line.split_once("==").unwrap_or_else(|| panic!("{line}"));
            assert!(
                !name.is_empty() && version.chars().all(|letter| letter.is_ascii_digit() || letter == '.'),
                "{line}"
            );
        }
    }
}
