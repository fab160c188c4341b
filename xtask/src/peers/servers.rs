//! `cargo xtask peers servers`: servers of other projects against our client, over stdio, HTTP and HTTP+SSE.
//!
//! The servers stand in `crates/testkit/peers` and offer the same, except for `server-everything`, which is taken as it
//! is. `peers-client`, a binary of the testkit, is what drives our client:
//!
//! ```text
//! peers-client --peer PACKAGE --transport http|sse --rev REVISION --features A,B,C URL
//! peers-client --peer PACKAGE --transport stdio --rev REVISION --features A,B,C -- COMMAND…
//! ```
//!
//! It tries one feature after the other, each within a time of its own, writes a line of JSON for each as the scripts
//! for clients do, `{"peer": PACKAGE, "revision": …, "feature": …, "ok": …, "note": …}`, and ends with success even if
//! a feature does not work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::table::{Row, Table};
use super::{Installed, REVISIONS, judge};
use crate::binary;
use crate::count::Count;
use crate::run::{self, Running};
use crate::server::Listening;

/// Runs our client against every server, over every transport and on every revision, and adds every cell to `count`.
///
/// `driver` is a program that takes the place of `peers-client`: with the client of somebody else in it, it shows
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
    let installed = Installed::new()?;
    let folder = installed.folder.join("servers");
    run::make_folder(&folder)?;
    let driver = match driver {
        Some(driver) => driver,
        None => binary::build(DRIVER, &folder)?,
    };
    let table = Visits { driver, installed, folder: &folder }.all();
    judge(&table, &folder.join("table.md"), count)
}

/// Whether the testkit has it.
fn has_driver() -> Result<bool, String> {
    let metadata = run::metadata(&["--no-deps"])?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let mut targets = packages.filter_map(|package| package.get("targets")?.as_array()).flatten();
    Ok(targets.any(|target| target.get("name").is_some_and(|name| name == DRIVER)))
}

struct Visits<'a> {
    driver: PathBuf,
    installed: Installed,
    /// For what is said.
    folder: &'a Path,
}

impl Visits<'_> {
    fn all(&self) -> Table {
        let mut table = Table::new("server", rows());
        let start = Instant::now();
        for (number, (peer, transport, revision)) in places().enumerate() {
            let row = row(peer, transport, revision);
            if row.features().is_empty() {
                continue;
            }
            println!("-- {}", row.name());
            let file = self.folder.join(row.file());
            let left = EVERYTHING.saturating_sub(start.elapsed());
            let ended = self.visit(peer, &row, left.min(A_REVISION), &file);
            // What was said before it was stopped counts too.
            table.hear(number, &fs::read_to_string(&file).unwrap_or_default());
            if let Err(failure) = ended {
                table.complain_of(number, &failure);
            }
        }
        table
    }

    fn visit(&self, peer: Peer, row: &Row, limit: Duration, file: &Path) -> Result<(), String> {
        // What was said another time is not to be heard if there is no server now.
        let _ = fs::remove_file(file);
        let mut driver = run::program(&self.driver, []);
        driver.args(["--peer", row.package, "--transport", row.transport, "--rev", row.revision]);
        driver.args(["--features", &row.features().join(",")]);
        let mut server = peer.server(&self.installed);
        if row.transport == "stdio" {
            server.arg("--stdio");
            driver.arg("--").arg(server.get_program()).args(server.get_args());
            return drive(limit, driver, file);
        }
        server.args([&format!("--{}", row.transport), "0"]);
        let mut server = Listening::start(server, &file.with_extension("server.txt"), ready)?;
        let path = if row.transport == "sse" { "sse" } else { "mcp" };
        driver.arg(format!("http://127.0.0.1:{}/{path}", server.place));
        drive(limit, driver, file)?;
        match server.running.ended()? {
            None => Ok(()),
            Some(status) => Err(format!("the server has ended with {status} while our client talked to it")),
        }
    }
}

/// The port, if the whole line is there.
pub(super) fn ready(line: &str) -> Option<u16> {
    line.strip_prefix("ready ")?.parse().ok()
}

fn drive(limit: Duration, mut driver: Command, file: &Path) -> Result<(), String> {
    driver.stdout(run::log(file)?);
    let status = Running::with_children(driver)?.end_within(limit)?;
    if status.success() { Ok(()) } else { Err(format!("the driver ended with {status}")) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    TypeScript2,
    TypeScript1,
    Python,
    Everything,
}

impl Peer {
    pub(super) const ALL: [Self; 4] = [Self::TypeScript2, Self::TypeScript1, Self::Python, Self::Everything];

    pub(super) fn package(self) -> &'static str {
        match self {
            Self::TypeScript2 => "@modelcontextprotocol/server",
            Self::TypeScript1 => "@modelcontextprotocol/sdk",
            Self::Python => "mcp",
            Self::Everything => "@modelcontextprotocol/server-everything",
        }
    }

    pub(super) fn server(self, installed: &Installed) -> Command {
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
    places().map(|(peer, transport, revision)| row(peer, transport, revision)).collect()
}

pub(super) fn places() -> impl Iterator<Item = (Peer, &'static str, &'static str)> {
    let transports = |revision| match revision {
        "2024-11-05" => ["stdio", "sse"],
        _ => ["stdio", "http"],
    };
    Peer::ALL.into_iter().flat_map(move |peer| {
        REVISIONS.into_iter().flat_map(move |revision| {
            transports(revision).into_iter().map(move |transport| (peer, transport, revision))
        })
    })
}

fn row(peer: Peer, transport: &'static str, revision: &'static str) -> Row {
    let cell = |feature| (feature, expected(peer, transport, revision, feature));
    Row { package: peer.package(), transport, revision, behind: None, cells: FEATURES.map(cell).into() }
}

/// That a cell must work, or why it cannot. Those that must do so with the clients of other projects.
fn expected(peer: Peer, transport: &str, revision: &str, feature: &str) -> Result<(), &'static str> {
    match (peer, transport, revision, feature) {
        (Peer::TypeScript1 | Peer::Everything, _, "2026-07-28", _) => Err("1.x does not speak 2026-07-28"),
        (_, _, "2025-03-26", "elicitation") => Err("2025-03-26 has no elicitation"),
        (_, _, "2024-11-05", "elicitation") => Err("2024-11-05 has no elicitation"),
        (_, "stdio", _, "resumption") => Err("stdio has no resumption: a pipe is not lost"),
        (_, "sse", _, "resumption") => Err("2024-11-05 has no resumption: HTTP+SSE ends with its stream"),
        (_, _, "2026-07-28", "resumption") => {
            Err("2026-07-28 has no resumption: a lost stream is a cancelled call")
        }
        (Peer::Everything, _, _, "resumption") => Err("server-everything loses no stream"),
        (Peer::Everything, _, _, "cancellation") => {
            Err("server-everything does not tell whether it was cancelled")
        }
        (Peer::Everything, _, _, "pages") => Err("server-everything has one page of each list"),
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

/// Each feature has a limit of its own in the driver.
const A_REVISION: Duration = Duration::from_secs(300);

/// There are 36 of them; a client that hears nobody shall not take an hour.
const EVERYTHING: Duration = Duration::from_secs(1200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_asked_for_all_it_can_do() {
        let asked = |peer: Peer, transport| {
            let wanted = move |place: &(Peer, &str, &str)| (place.0, place.1) == (peer, transport);
            let rows =
                places().filter(wanted).map(|(peer, transport, revision)| row(peer, transport, revision));
            rows.map(|row| row.features().len()).collect::<Vec<_>>()
        };
        for peer in [Peer::TypeScript2, Peer::Python] {
            assert_eq!(asked(peer, "stdio"), [13, 13, 13, 12, 12]);
            assert_eq!(asked(peer, "http"), [13, 14, 14, 13]);
            assert_eq!(asked(peer, "sse"), [12]);
        }
        assert_eq!(asked(Peer::TypeScript1, "stdio"), [0, 13, 13, 12, 12]);
        assert_eq!(asked(Peer::TypeScript1, "http"), [0, 14, 14, 13]);
        assert_eq!(asked(Peer::TypeScript1, "sse"), [12]);
        assert_eq!(asked(Peer::Everything, "stdio"), [0, 11, 11, 10, 10]);
        assert_eq!(asked(Peer::Everything, "http"), [0, 11, 11, 10]);
        assert_eq!(asked(Peer::Everything, "sse"), [10]);
        assert_eq!(Table::new("server", rows()).count(), Count { passed: 0, failed: 445, skipped: 0 });
    }

    #[test]
    fn what_was_said_of_a_row_goes_to_a_file_of_its_own() {
        let mut files: Vec<_> = rows().iter().map(Row::file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), rows().len());
    }
}
