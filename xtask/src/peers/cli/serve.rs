//! Clients of other projects against the demo server, over HTTP and stdio, driven by the same scripts as against
//! `peers-server`.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::{CliRun, REVISIONS};
use crate::count::Count;
use crate::peers::clients::ClientPeer;
use crate::peers::report;
use crate::peers::table::{Row, Table};
use crate::process;
use crate::server::ListeningServer;

/// Runs every client over every transport and on every revision.
pub(super) fn run(place: &CliRun<'_>, count: &mut Count) -> Result<(), String> {
    let folder = place.output_dir.join("clients");
    let serve = process::program(&place.program, ["serve", "--listen", "127.0.0.1:0"]);
    let mut server = ListeningServer::start_tsugite(serve, &folder.join("server.txt"))?;
    let url = format!("http://127.0.0.1:{}/mcp", server.endpoint);
    let command = json!([place.program, "serve", "--stdio"]).to_string();
    let mut table = Table::new("client of `tsugite serve`", rows());
    for (number, (peer, transport, revision)) in cases().enumerate() {
        let row = row(peer, transport, revision);
        if row.features().is_empty() {
            continue;
        }
        println!("-- {} to tsugite serve", row.name());
        let mut script = peer.script(place.installed);
        script.args(["--offers", "demo"]).arg(if transport == "stdio" { &command } else { &url });
        script.arg(revision).args(row.features());
        let file = folder.join(row.file());
        let ended = process::output_with_timeout(ROW_TIMEOUT, script, &file);
        // Reports before a timeout count, too.
        table.read_report(number, &fs::read_to_string(&file).unwrap_or_default());
        match ended {
            Ok((status, _)) if status.success() => {}
            Ok((status, _)) => table.add_row_failure(number, &format!("the script exited with {status}")),
            Err(failure) => table.add_row_failure(number, &failure),
        }
    }
    if server.process.try_wait()?.is_some() {
        table.add_failure("the server has ended while clients talked to it".to_owned());
    }
    report(&table, &folder.join("table.md"), count)
}

/// One row for each client, transport, and revision that has the transport.
pub(in crate::peers) fn rows() -> Vec<Row> {
    cases().map(|(peer, transport, revision)| row(peer, transport, revision)).collect()
}

fn cases() -> impl Iterator<Item = (ClientPeer, &'static str, &'static str)> {
    let transports = |revision| match revision {
        "2024-11-05" => ["stdio", "sse"],
        _ => ["stdio", "http"],
    };
    ClientPeer::ALL.into_iter().flat_map(move |peer| {
        REVISIONS.into_iter().flat_map(move |revision| {
            transports(revision).into_iter().map(move |transport| (peer, transport, revision))
        })
    })
}

fn row(peer: ClientPeer, transport: &'static str, revision: &'static str) -> Row {
    let cells = FEATURES.map(|feature| (feature, expected(peer, revision, feature)));
    Row { package: peer.package(), transport, revision, bridged_to: None, cells: cells.into() }
}

/// `Ok` if a cell must work, or the reason why it cannot.
fn expected(peer: ClientPeer, revision: &str, feature: &str) -> Result<(), &'static str> {
    match (peer, revision, feature) {
        (ClientPeer::TypeScript1, "2026-07-28", _) => Err("1.x does not speak 2026-07-28"),
        (_, "2024-11-05", "elicitation") => Err("2024-11-05 has no elicitation"),
        _ => Ok(()),
    }
}

const FEATURES: [&str; 6] = ["list", "call", "progress", "elicitation", "resources", "prompts"];

/// The time limit of a script; each feature has its own limit in it.
const ROW_TIMEOUT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_covers_all_its_features() {
        let rows = rows();
        assert_eq!(rows.len(), 18);
        assert_eq!(rows.iter().filter(|row| row.features().is_empty()).count(), 2);
        assert_eq!(Table::new("client", rows).count(), Count { passed: 0, failed: 90, skipped: 0 });
    }
}
