//! `cargo xtask peers servers`: tests servers of other projects with our client, over stdio, HTTP and HTTP+SSE.
//!
//! The servers are in `crates/testkit/peers` and offer the same, except `server-everything`, which is used as it
//! is. `peers-client`, a binary of the testkit, runs our client:
//!
//! ```text
//! peers-client --peer PACKAGE --transport http|sse --rev REVISION --features A,B,C URL
//! peers-client --peer PACKAGE --transport stdio --rev REVISION --features A,B,C -- COMMAND…
//! ```
//!
//! It tests one feature after the other, each with its own time limit, writes a line of JSON for each as the scripts
//! for clients do, `{"peer": PACKAGE, "revision": …, "feature": …, "ok": …, "note": …}`, and exits with success even if
//! a feature does not work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::table::{Row, Table};
use super::{PeerPackages, REVISIONS, report};
use crate::binary;
use crate::count::Count;
use crate::process::{self, ChildProcess};
use crate::server::ListeningServer;

/// Runs our client against every server, over every transport and on every revision, and adds every cell to `count`.
///
/// `driver` is a program that replaces `peers-client`: with the client of another project, it shows
/// whether a server is to blame.
pub(crate) fn run(driver: Option<&str>, count: &mut Count) -> Result<(), String> {
    let driver = match driver {
        Some(driver) => Some(fs::canonicalize(driver).map_err(|error| format!("{driver}: {error}"))?),
        None if has_driver()? => None,
        None => {
            return Err(format!(
                "there is no driver: crates/testkit has no binary {DRIVER}\n  try: write it; \
                 xtask/src/peers/servers.rs says what it must do. `--driver PROGRAM` takes another"
            ));
        }
    };
    let installed = PeerPackages::new()?;
    let folder = installed.output_dir.join("servers");
    process::create_dir(&folder)?;
    let driver = match driver {
        Some(driver) => driver,
        None => binary::build(DRIVER, &folder)?,
    };
    let table = ServerRuns { driver, installed, output_dir: &folder }.run_all();
    report(&table, &folder.join("table.md"), count)
}

/// Whether the testkit has the driver.
fn has_driver() -> Result<bool, String> {
    let metadata = process::metadata(&["--no-deps"])?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let mut targets = packages.filter_map(|package| package.get("targets")?.as_array()).flatten();
    Ok(targets.any(|target| target.get("name").is_some_and(|name| name == DRIVER)))
}

struct ServerRuns<'a> {
    driver: PathBuf,
    installed: PeerPackages,
    /// The folder for logs.
    output_dir: &'a Path,
}

impl ServerRuns<'_> {
    fn run_all(&self) -> Table {
        let mut table = Table::new("server", rows());
        let start = Instant::now();
        for (number, (peer, transport, revision)) in cases().enumerate() {
            let row = row(peer, transport, revision);
            if row.features().is_empty() {
                continue;
            }
            println!("-- {}", row.name());
            let file = self.output_dir.join(row.file());
            let left = TOTAL_TIMEOUT.saturating_sub(start.elapsed());
            let ended = self.run_server(peer, &row, left.min(REVISION_TIMEOUT), &file);
            // Reports before a timeout count, too.
            table.read_report(number, &fs::read_to_string(&file).unwrap_or_default());
            if let Err(failure) = ended {
                table.add_row_failure(number, &failure);
            }
        }
        table
    }

    fn run_server(&self, peer: ServerPeer, row: &Row, limit: Duration, file: &Path) -> Result<(), String> {
        // Reports of an earlier run must not count.
        let _ = fs::remove_file(file);
        let mut driver = process::program(&self.driver, []);
        driver.args(["--peer", row.package, "--transport", row.transport, "--rev", row.revision]);
        driver.args(["--features", &row.features().join(",")]);
        let mut server = peer.server(&self.installed);
        if row.transport == "stdio" {
            server.arg("--stdio");
            driver.arg("--").arg(server.get_program()).args(server.get_args());
            return run_driver(limit, driver, file);
        }
        server.args([&format!("--{}", row.transport), "0"]);
        let mut server = ListeningServer::start(server, &file.with_extension("server.txt"), parse_ready)?;
        let path = if row.transport == "sse" { "sse" } else { "mcp" };
        driver.arg(format!("http://127.0.0.1:{}/{path}", server.endpoint));
        run_driver(limit, driver, file)?;
        match server.process.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the server exited with {status} during the run")),
        }
    }
}

/// The port, if the line is complete.
pub(super) fn parse_ready(line: &str) -> Option<u16> {
    line.strip_prefix("ready ")?.parse().ok()
}

fn run_driver(limit: Duration, mut driver: Command, file: &Path) -> Result<(), String> {
    driver.stdout(process::create_log(file)?);
    let status = ChildProcess::start_group(driver)?.wait_with_timeout(limit)?;
    if status.success() { Ok(()) } else { Err(format!("the driver exited with {status}")) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerPeer {
    TypeScript2,
    TypeScript1,
    Python,
    Everything,
}

impl ServerPeer {
    pub(super) const ALL: [Self; 4] = [Self::TypeScript2, Self::TypeScript1, Self::Python, Self::Everything];

    pub(super) fn package(self) -> &'static str {
        match self {
            Self::TypeScript2 => "@modelcontextprotocol/server",
            Self::TypeScript1 => "@modelcontextprotocol/sdk",
            Self::Python => "mcp",
            Self::Everything => "@modelcontextprotocol/server-everything",
        }
    }

    pub(super) fn server(self, installed: &PeerPackages) -> Command {
        match self {
            Self::TypeScript2 => installed.typescript("server-v2.mjs"),
            Self::TypeScript1 => installed.typescript("server-v1.mjs"),
            Self::Python => installed.python("server.py"),
            Self::Everything => installed.typescript("everything.mjs"),
        }
    }
}

/// One row for each server, transport, and revision that has the transport.
pub(super) fn rows() -> Vec<Row> {
    cases().map(|(peer, transport, revision)| row(peer, transport, revision)).collect()
}

pub(super) fn cases() -> impl Iterator<Item = (ServerPeer, &'static str, &'static str)> {
    let transports = |revision| match revision {
        "2024-11-05" => ["stdio", "sse"],
        _ => ["stdio", "http"],
    };
    ServerPeer::ALL.into_iter().flat_map(move |peer| {
        REVISIONS.into_iter().flat_map(move |revision| {
            transports(revision).into_iter().map(move |transport| (peer, transport, revision))
        })
    })
}

fn row(peer: ServerPeer, transport: &'static str, revision: &'static str) -> Row {
    let cell = |feature| (feature, expected(peer, transport, revision, feature));
    Row { package: peer.package(), transport, revision, bridged_to: None, cells: FEATURES.map(cell).into() }
}

/// `Ok` if a cell must work, or the reason why it cannot. Cells that must work do so with clients of other projects.
fn expected(peer: ServerPeer, transport: &str, revision: &str, feature: &str) -> Result<(), &'static str> {
    match (peer, transport, revision, feature) {
        (ServerPeer::TypeScript1 | ServerPeer::Everything, _, "2026-07-28", _) => {
            Err("1.x does not speak 2026-07-28")
        }
        (_, _, "2025-03-26", "elicitation") => Err("2025-03-26 has no elicitation"),
        (_, _, "2024-11-05", "elicitation") => Err("2024-11-05 has no elicitation"),
        (_, "stdio", _, "resumption") => Err("stdio has no resumption: a pipe is not lost"),
        (_, "sse", _, "resumption") => Err("2024-11-05 has no resumption: HTTP+SSE ends with its stream"),
        (_, _, "2026-07-28", "resumption") => {
            Err("2026-07-28 has no resumption: a lost stream is a cancelled call")
        }
        (ServerPeer::Everything, _, _, "resumption") => Err("server-everything loses no stream"),
        (ServerPeer::Everything, _, _, "cancellation") => {
            Err("server-everything does not report whether it was cancelled")
        }
        (ServerPeer::Everything, _, _, "pages") => Err("server-everything has one page of each list"),
        _ => Ok(()),
    }
}

const FEATURES: [&str; 14] = [
    "list",
    "call",
    "progress",
    "elicitation",
    "sampling",
    "roots",
    "cancellation",
    "resumption",
    "changes",
    "logging",
    "resources",
    "subscription",
    "prompts",
    "pages",
];

const DRIVER: &str = "peers-client";

/// The time limit of a driver; each feature has its own limit in it.
const REVISION_TIMEOUT: Duration = Duration::from_secs(300);

/// The limit of all 36 runs together; a client that hangs must not take an hour.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(1200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_covers_all_its_features() {
        let asked = |peer: ServerPeer, transport| {
            let wanted = move |place: &(ServerPeer, &str, &str)| (place.0, place.1) == (peer, transport);
            let rows =
                cases().filter(wanted).map(|(peer, transport, revision)| row(peer, transport, revision));
            rows.map(|row| row.features().len()).collect::<Vec<_>>()
        };
        for peer in [ServerPeer::TypeScript2, ServerPeer::Python] {
            assert_eq!(asked(peer, "stdio"), [13, 13, 13, 12, 12]);
            assert_eq!(asked(peer, "http"), [13, 14, 14, 13]);
            assert_eq!(asked(peer, "sse"), [12]);
        }
        assert_eq!(asked(ServerPeer::TypeScript1, "stdio"), [0, 13, 13, 12, 12]);
        assert_eq!(asked(ServerPeer::TypeScript1, "http"), [0, 14, 14, 13]);
        assert_eq!(asked(ServerPeer::TypeScript1, "sse"), [12]);
        assert_eq!(asked(ServerPeer::Everything, "stdio"), [0, 11, 11, 10, 10]);
        assert_eq!(asked(ServerPeer::Everything, "http"), [0, 11, 11, 10]);
        assert_eq!(asked(ServerPeer::Everything, "sse"), [10]);
        assert_eq!(Table::new("server", rows()).count(), Count { passed: 0, failed: 445, skipped: 0 });
    }

    #[test]
    fn each_row_has_its_own_log_file() {
        let mut files: Vec<_> = rows().iter().map(Row::file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), rows().len());
    }
}
