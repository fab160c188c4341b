//! `cargo xtask peers clients`: tests clients of other projects with our server, over HTTP.
//!
//! Each client is driven by a script in `crates/testkit/peers`, once for each revision it can speak, and reports one
//! line for each feature.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::table::{Row, Table};
use super::{PeerPackages, REVISIONS, report};
use crate::count::Count;
use crate::process;
use crate::server::{ReplicatedServer, TestkitServer};

/// The server that the clients talk to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    OurServer,
    /// Three replicas of it behind nginx.
    OurReplicas,
    ServerAt(&'a str),
}

/// Runs every client on every revision, and adds every cell to `count`.
pub(crate) fn run(target: Target<'_>, count: &mut Count) -> Result<(), String> {
    let installed = PeerPackages::new()?;
    let folder = installed.output_dir.join(match target {
        Target::OurReplicas => "clients-replicas",
        Target::OurServer | Target::ServerAt(_) => "clients",
    });
    process::create_dir(&folder)?;
    let table = match target {
        Target::ServerAt(url) => run_clients(&installed, url, &folder),
        Target::OurReplicas => {
            let replicas = ReplicatedServer::start("peers-server", &folder)?;
            let mut table = run_clients(&installed, replicas.url(), &folder);
            if let Err(failure) = replicas.stop() {
                table.add_failure(failure);
            }
            table
        }
        Target::OurServer => {
            let mut server = TestkitServer::start("peers-server", &folder)?;
            let mut table = run_clients(&installed, &server.url(), &folder);
            if !server.is_running() {
                table.add_failure("the server exited during the run".to_owned());
            }
            table
        }
    };
    report(&table, &folder.join("table.md"), count)
}

fn run_clients(installed: &PeerPackages, url: &str, folder: &Path) -> Table {
    let mut table = Table::new("client", rows());
    let start = Instant::now();
    for (number, (peer, revision)) in cases().enumerate() {
        let row = row(peer, revision);
        let features = row.features();
        if features.is_empty() {
            continue;
        }
        println!("-- {}", row.name());
        let mut script = peer.script(installed);
        script.arg(url).arg(revision).args(features);
        let file = folder.join(row.file());
        let left = TOTAL_TIMEOUT.saturating_sub(start.elapsed());
        let ended = process::output_with_timeout(left.min(REVISION_TIMEOUT), script, &file);
        // Reports before a timeout count, too.
        table.read_report(number, &fs::read_to_string(&file).unwrap_or_default());
        match ended {
            Ok((status, _)) if status.success() => {}
            Ok((status, _)) => table.add_row_failure(number, &format!("the script exited with {status}")),
            Err(failure) => table.add_row_failure(number, &failure),
        }
    }
    table
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientPeer {
    TypeScript2,
    TypeScript1,
    Python,
}

impl ClientPeer {
    pub(super) const ALL: [Self; 3] = [Self::TypeScript2, Self::TypeScript1, Self::Python];

    pub(super) fn package(self) -> &'static str {
        match self {
            Self::TypeScript2 => "@modelcontextprotocol/client",
            Self::TypeScript1 => "@modelcontextprotocol/sdk",
            Self::Python => "mcp",
        }
    }

    pub(super) fn script(self, installed: &PeerPackages) -> Command {
        match self {
            Self::TypeScript2 => installed.typescript("client-v2.mjs"),
            Self::TypeScript1 => installed.typescript("client-v1.mjs"),
            Self::Python => installed.python("client.py"),
        }
    }
}

/// One row for each client and revision.
pub(super) fn rows() -> Vec<Row> {
    cases().map(|(peer, revision)| row(peer, revision)).collect()
}

fn cases() -> impl Iterator<Item = (ClientPeer, &'static str)> {
    ClientPeer::ALL.into_iter().flat_map(|peer| REVISIONS.into_iter().map(move |revision| (peer, revision)))
}

fn row(peer: ClientPeer, revision: &'static str) -> Row {
    let transport = if revision == "2024-11-05" { "sse" } else { "http" };
    let cells = FEATURES.into_iter().map(|feature| (feature, expected(peer, revision, feature)));
    Row { package: peer.package(), transport, revision, bridged_to: None, cells: cells.collect() }
}

/// `Ok` if a cell must work, or the reason why it cannot.
fn expected(peer: ClientPeer, revision: &str, feature: &str) -> Result<(), &'static str> {
    match (peer, revision, feature) {
        (_, "2024-11-05", "elicitation") => Err("2024-11-05 has no elicitation"),
        (_, "2024-11-05", "resumption") => Err("2024-11-05 has no resumption: HTTP+SSE ends with its stream"),
        (ClientPeer::TypeScript1, "2026-07-28", _) => Err("1.x does not speak 2026-07-28"),
        (_, "2025-03-26", "elicitation") => Err("2025-03-26 has no elicitation"),
        (_, "2026-07-28", "resumption") => {
            Err("2026-07-28 has no resumption: a lost stream is a cancelled call")
        }
        _ => Ok(()),
    }
}

const FEATURES: [&str; 7] = ["list", "call", "progress", "elicitation", "resources", "prompts", "resumption"];

/// The time limit of a script; each feature has its own limit in it.
const REVISION_TIMEOUT: Duration = Duration::from_secs(180);

/// The limit of all runs together. They take half a minute; a server that never responds must not take an hour.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_covers_all_its_features() {
        let asked = |peer: ClientPeer| REVISIONS.map(|revision| row(peer, revision).features().len());
        assert_eq!(asked(ClientPeer::TypeScript2), [6, 7, 7, 6, 5]);
        assert_eq!(asked(ClientPeer::TypeScript1), [0, 7, 7, 6, 5]);
        assert_eq!(asked(ClientPeer::Python), [6, 7, 7, 6, 5]);
        assert_eq!(Table::new("client", rows()).count(), Count { passed: 0, failed: 87, skipped: 0 });
    }
}
