//! A task whose process is killed, with the store in a file. Both tests together kill more than 100 processes.

use futures_util::future::join_all;
use tsugite_testkit::replicas::TempDir;
use tsugite_testkit::task_kills::{KillReport, kill_at_every_write};

const PROGRAM: &str = env!("CARGO_BIN_EXE_task-server");

/// All places in the writes of a task: there are two for each.
const POINTS: usize = 26;
/// How often all of them are tried, at the same time.
const PASSES: usize = 3;

async fn kill(tool: &str) -> Vec<KillReport> {
    let passes = (0..PASSES).map(|pass| async move {
        let folder = TempDir::create(&format!("task-kills-{tool}-{pass}")).unwrap();
        let file = |point: usize| {
            let path = folder.path().join(format!("{tool}-{point}"));
            ["--file".to_owned(), path.display().to_string()]
        };
        let report = kill_at_every_write(PROGRAM, folder.path(), tool, POINTS, file).await;
        println!("{report:?}");
        report
    });
    let reports = join_all(passes).await;
    let kills: usize = reports.iter().map(|report| report.kills).sum();
    assert!(kills >= 50, "only {kills} kills");
    reports
}

#[tokio::test]
async fn killed_task_that_may_restart_ends_as_defined() {
    for report in kill("restarts").await {
        assert!(report.kills >= 16 && report.unannounced >= 1, "{report:?}");
        assert!(report.completed >= 10 && report.may_have_run >= 1, "{report:?}");
    }
}

#[tokio::test]
async fn killed_task_that_may_not_restart_fails_with_the_reason() {
    for report in kill("stays").await {
        // While it waits for the answer, it may run again.
        assert!(report.kills >= 16 && report.completed >= 5 && report.not_restartable >= 5, "{report:?}");
    }
}
