//! `cargo xtask peers`: clients of other projects against our server, over real sockets.
//!
//! Each client is driven by a script in `crates/testkit/peers`, once for each revision it can speak, and reports one
//! line for each feature. `table.rs` knows which must be there.

mod table;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::count::Count;
use crate::server::Server;
use crate::{node, python, run};
use table::{Peer, REVISIONS, Table};

/// Runs every client on every revision, against our server or one that runs already, and adds every cell to `count`.
pub(crate) fn run(url: Option<&str>, count: &mut Count) -> Result<(), String> {
    let clients = Clients::install()?;
    let table = match url {
        Some(url) => clients.visit(url),
        None => {
            let mut server = Server::start("peers-server", &clients.folder)?;
            let mut table = clients.visit(&server.url());
            if !server.runs() {
                table.complain("the server has ended while clients talked to it".to_owned());
            }
            table
        }
    };
    let shown = table.shown(version);
    print!("{shown}");
    let file = clients.folder.join("table.md");
    fs::write(&file, shown).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let found = table.count();
    *count += found;
    match found.failed {
        0 => Ok(()),
        failed => {
            Err(format!("{failed} of the cells failed\n  try: see above, and {}", clients.folder.display()))
        }
    }
}

/// The clients, installed.
struct Clients {
    node: PathBuf,
    python: PathBuf,
    /// Where the scripts for Node find their packages.
    scripts: PathBuf,
    /// For what they say, and for the log of our server.
    folder: PathBuf,
}

impl Clients {
    fn install() -> Result<Self, String> {
        let folder = run::target_folder()?.join("peers");
        run::make_folder(&folder)?;
        let scripts = node::packages("peers")?;
        for name in ["client-v1.mjs", "client-v2.mjs", "features.mjs", "wire.mjs"] {
            let copied = fs::copy(source().join("typescript").join(name), scripts.join(name));
            copied.map_err(|error| format!("cannot copy {name}: {error}"))?;
        }
        let python =
            python::with_packages(&source().join("python/requirements.txt"), &folder.join("python"))?;
        Ok(Self { node: node::find()?, python, scripts, folder })
    }

    fn visit(&self, url: &str) -> Table {
        let mut table = Table::default();
        let start = Instant::now();
        for peer in Peer::ALL {
            for revision in REVISIONS {
                let features = peer.features(revision);
                if features.is_empty() {
                    continue;
                }
                println!("-- {} on {revision}", peer.package());
                let mut script = self.script(peer);
                script.arg(url).arg(revision).args(features);
                let file = self.folder.join(format!("{}-{revision}.txt", peer.name()));
                let left = EVERYTHING.saturating_sub(start.elapsed());
                let ended = run::output_within(left.min(A_REVISION), script, &file);
                // What it said before it was stopped counts too.
                table.hear(peer, revision, &fs::read_to_string(&file).unwrap_or_default());
                let failure = match ended {
                    Ok((status, _)) if status.success() => continue,
                    Ok((status, _)) => format!("its script ended with {status}"),
                    Err(failure) => failure,
                };
                table.complain(format!("{} on {revision}: {failure}", peer.package()));
            }
        }
        table
    }

    fn script(&self, peer: Peer) -> Command {
        let (program, script) = match peer {
            Peer::TypeScript2 => (&self.node, self.scripts.join("client-v2.mjs")),
            Peer::TypeScript1 => (&self.node, self.scripts.join("client-v1.mjs")),
            Peer::Python => (&self.python, source().join("python/client.py")),
        };
        let mut command = run::program(program, []);
        command.arg(script);
        command
    }
}

/// The version that is pinned.
fn version(peer: Peer) -> String {
    let pinned = match peer {
        Peer::TypeScript2 | Peer::TypeScript1 => npm_version(peer.package()),
        Peer::Python => pip_version(peer.package()),
    };
    pinned.unwrap_or_else(|| "?".to_owned())
}

fn npm_version(package: &str) -> Option<String> {
    let text = fs::read_to_string(run::root().join("xtask/npm/peers/package.json")).ok()?;
    let wanted: Value = serde_json::from_str(&text).ok()?;
    Some(wanted.get("dependencies")?.get(package)?.as_str()?.to_owned())
}

fn pip_version(package: &str) -> Option<String> {
    let text = fs::read_to_string(source().join("python/requirements.txt")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix("==")).map(str::to_owned)
}

fn source() -> PathBuf {
    run::root().join("crates/testkit/peers")
}

/// Each feature has a limit of its own in the script.
const A_REVISION: Duration = Duration::from_secs(180);

/// It takes half a minute where all is well; a server that answers nobody shall not take an hour.
const EVERYTHING: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_each_client_is_pinned() {
        for peer in Peer::ALL {
            let version = version(peer);
            let numbers: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
            assert!(numbers.len() == 3 && numbers.iter().all(Result::is_ok), "{}: {version}", peer.package());
        }
    }

    #[test]
    fn every_requirement_is_one_version_and_no_place() {
        let requirements = fs::read_to_string(source().join("python/requirements.txt")).unwrap();
        for line in requirements.lines().filter(|line| !line.starts_with('#')) {
            let (name, version) = line.split_once("==").unwrap_or_else(|| panic!("{line}"));
            assert!(
                !name.is_empty() && version.chars().all(|letter| letter.is_ascii_digit() || letter == '.'),
                "{line}"
            );
        }
    }
}
