//! `cargo xtask peers tasks`: tests the tasks of our server with a client of another project, over HTTP, in both forms.
//!
//! The script reports one line for each feature, as those of `clients.rs` do.

use std::fs;
use std::time::Duration;

use super::table::{Row, Table};
use super::{PeerPackages, report};
use crate::count::Count;
use crate::process;
use crate::server::TestkitServer;

/// Runs the client on both revisions, and adds every cell to `count`.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let installed = PeerPackages::new()?;
    let folder = installed.output_dir.join("tasks");
    process::create_dir(&folder)?;
    let mut server = TestkitServer::start("peers-task-server", &folder)?;
    let mut table = Table::new("client of tasks", rows());
    for (number, row) in rows().iter().enumerate() {
        println!("-- {}", row.name());
        let mut script = installed.typescript("tasks.mjs");
        script.arg(server.url()).arg(row.revision).args(row.features());
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
    if !server.is_running() {
        table.add_failure("the server exited during the run".to_owned());
    }
    report(&table, &folder.join("table.md"), count)
}

/// One row for each form of tasks.
pub(super) fn rows() -> Vec<Row> {
    let row = |revision| Row {
        package: "@modelcontextprotocol/ext-tasks",
        transport: "http",
        revision,
        bridged_to: None,
        cells: FEATURES.map(|feature| (feature, expected(revision, feature))).into(),
    };
    ["2026-07-28", "2025-11-25"].map(row).into()
}

/// `Ok` if a cell must work, or the reason why it cannot.
fn expected(revision: &str, feature: &str) -> Result<(), &'static str> {
    match (revision, feature) {
        ("2025-11-25", "question") => Err(
            "the client polls a task that needs input and calls `tasks/result` only when it has ended, so it never receives \
             the questions, which a server sends while `tasks/result` waits",
        ),
        _ => Ok(()),
    }
}

const FEATURES: [&str; 6] = ["call", "task", "failure", "question", "cancel", "resume"];

/// The time limit of a script; each feature has its own limit in it.
const ROW_TIMEOUT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_covers_all_its_features() {
        assert_eq!(rows().iter().map(|row| row.features().len()).collect::<Vec<_>>(), [6, 5]);
        assert_eq!(Table::new("client", rows()).count(), Count { passed: 0, failed: 11, skipped: 0 });
    }
}
