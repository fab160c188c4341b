//! A task whose process is killed, with the store in a file.

use tsugite_testkit::replicas::TempDir;
use tsugite_testkit::task_kills::kill_at_every_write;

const PROGRAM: &str = env!("CARGO_BIN_EXE_task-server");

/// All places in the writes of a task: there are two for each.
const POINTS: usize = 26;

#[tokio::test]
async fn killed_task_that_may_restart_ends_as_defined() {
    let folder = TempDir::create("task-kills").unwrap();
    let file = |point: usize| {
        let path = folder.path().join(format!("restarts-{point}"));
        ["--file".to_owned(), path.display().to_string()]
    };
    let report = kill_at_every_write(PROGRAM, folder.path(), "restarts", POINTS, file).await;
    println!("{report:?}");
    assert!(report.kills >= 20 && report.unannounced >= 1, "{report:?}");
    assert!(report.completed >= 10 && report.may_have_run >= 1, "{report:?}");
}

#[tokio::test]
async fn killed_task_that_may_not_restart_fails_with_the_reason() {
    let folder = TempDir::create("task-kills").unwrap();
    let file = |point: usize| {
        let path = folder.path().join(format!("stays-{point}"));
        ["--file".to_owned(), path.display().to_string()]
    };
    let report = kill_at_every_write(PROGRAM, folder.path(), "stays", POINTS, file).await;
    println!("{report:?}");
    // While it waits for the answer, it may run again.
    assert!(report.kills >= 20 && report.completed >= 5 && report.not_restartable >= 5, "{report:?}");
}
