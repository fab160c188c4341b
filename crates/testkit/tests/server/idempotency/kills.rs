//! A call whose process is killed before and after each of its writes, with the store in a file.

use tsugite_testkit::replicas::TempDir;
use tsugite_testkit::task_kills::{KeyedEnds, kill_keyed_calls};

const PROGRAM: &str = env!("CARGO_BIN_EXE_task-server");

async fn kill(tool: &str) -> KeyedEnds {
    let folder = TempDir::create("key-kills").unwrap();
    let file = |point: usize| {
        let path = folder.path().join(format!("{tool}-{point}"));
        ["--file".to_owned(), path.display().to_string()]
    };
    kill_keyed_calls(PROGRAM, folder.path(), tool, file).await
}

#[tokio::test]
async fn killed_call_returns_its_result_or_may_have_run() {
    // Before and after it is stored that the call begins, before and after its result is stored.
    assert_eq!(kill("pays").await, [(true, 1), (false, 0), (false, 1), (true, 1)]);
}

#[tokio::test]
async fn killed_call_of_a_restartable_tool_runs_again() {
    assert_eq!(kill("pays_again").await, [(true, 1), (true, 1), (true, 2), (true, 1)]);
}
