//! A task, and a call with an idempotency key, whose process is killed, with the store in Redis.

use futures_util::future::join_all;
use tsugite_testkit::replicas::{RedisServer, TempDir};
use tsugite_testkit::task_kills::{KillReport, kill_at_every_write, kill_keyed_calls};

const PROGRAM: &str = env!("CARGO_BIN_EXE_task-server");

/// All places in the writes of a task: there are two for each.
const POINTS: usize = 26;
/// How often all of them are tried, at the same time.
const PASSES: usize = 3;

async fn kill(redis: &RedisServer, tool: &str) -> Vec<KillReport> {
    let passes = (0..PASSES).map(|pass| async move {
        let folder = TempDir::create(&format!("task-kills-{tool}-{pass}")).unwrap();
        let url = |point: usize| ["--redis".to_owned(), format!("{}|{tool}-{pass}-{point}", redis.url())];
        let report = kill_at_every_write(PROGRAM, folder.path(), tool, POINTS, url).await;
        println!("{report:?}");
        report
    });
    join_all(passes).await
}

#[tokio::test]
async fn killed_task_in_redis_ends_as_defined() {
    let redis = RedisServer::start().unwrap();
    let restarts = kill(&redis, "restarts").await;
    for report in &restarts {
        assert!(report.kills >= 16 && report.completed >= 10 && report.may_have_run >= 1, "{report:?}");
    }
    let stays = kill(&redis, "stays").await;
    for report in &stays {
        assert!(report.kills >= 16 && report.completed >= 5 && report.not_restartable >= 5, "{report:?}");
    }
    let kills: usize = restarts.iter().chain(&stays).map(|report| report.kills).sum();
    assert!(kills >= 100, "only {kills} kills");
}

#[tokio::test]
async fn killed_call_with_a_key_in_redis_ends_as_defined() {
    let (redis, folder) = (RedisServer::start().unwrap(), TempDir::create("key-kills").unwrap());
    let url = |tool: &str, point: usize| ["--redis".to_owned(), format!("{}|{tool}{point}", redis.url())];
    for (tool, ends) in [
        ("pays", [(true, 1), (false, 0), (false, 1), (true, 1)]),
        ("pays_again", [(true, 1), (true, 1), (true, 2), (true, 1)]),
    ] {
        let found = kill_keyed_calls(PROGRAM, folder.path(), tool, |point| url(tool, point)).await;
        assert_eq!(found, ends, "{tool}");
    }
}
