//! Tasks are limited for each caller, so that one of them leaves room for the others.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;

use super::{EXTENSION, declared, server, start};

async fn connect_as(server: &Server, name: &str) -> RawClient {
    RawClient::connect_as(server, Principal::new(name), EXTENSION, declared()).await
}

/// Asserts that a request was refused because of a limit.
fn assert_limited(response: &Value, limit: &str) {
    assert_eq!(response["error"]["code"], -32803, "{response}");
    assert!(response["error"]["message"].as_str().unwrap().contains(limit), "{response}");
}

#[tokio::test(start_paused = true)]
async fn caller_may_run_a_quarter_of_the_tasks() {
    // F-34
    let server = server().max_running_tasks(8);
    let (mut ann, mut ben) = (connect_as(&server, "ann").await, connect_as(&server, "ben").await);
    let first = start(&mut ann, "waits").await;
    start(&mut ann, "waits").await;
    let refused = ann.request_once("tools/call", json!({"name": "waits"})).await;
    assert_limited(&refused, "the limit `max_running_tasks_per_caller` is 2");
    let plain = ann.request_once("tools/call", json!({"name": "counts"})).await;
    assert_eq!(plain["result"]["content"][0]["text"], "as a call", "{plain}");
    start(&mut ben, "waits").await;
    ann.request_once("tasks/cancel", json!({"taskId": first})).await;
    // Only a moment: the clock moves on when the server has nothing left to do.
    tokio::time::sleep(Duration::from_millis(1)).await;
    start(&mut ann, "waits").await;
    assert_limited(
        &ann.request_once("tools/call", json!({"name": "waits"})).await,
        "max_running_tasks_per_caller",
    );
}

#[tokio::test]
async fn share_of_running_tasks_can_be_set() {
    let server = server().max_running_tasks(3).max_running_tasks_per_caller(2);
    let (mut ann, mut ben) = (connect_as(&server, "ann").await, connect_as(&server, "ben").await);
    for _ in 0..2 {
        start(&mut ann, "waits").await;
    }
    assert_limited(
        &ann.request_once("tools/call", json!({"name": "waits"})).await,
        "max_running_tasks_per_caller",
    );
    start(&mut ben, "waits").await;
    let refused = ben.request_once("tools/call", json!({"name": "waits"})).await;
    assert_limited(&refused, "the limit `max_running_tasks` is 3");
}

#[tokio::test]
async fn unknown_caller_may_run_all_tasks() {
    let server = server().max_running_tasks(8).max_tasks_per_caller(1).max_task_bytes_per_caller(1);
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    for _ in 0..8 {
        start(&mut client, "waits").await;
    }
    let refused = client.request_once("tools/call", json!({"name": "waits"})).await;
    assert_limited(&refused, "the limit `max_running_tasks` is 8");
}

#[tokio::test]
async fn ended_tasks_of_a_caller_leave_room_for_others() {
    // F-34
    let server = server().max_tasks_per_caller(2);
    let (mut ann, mut ben) = (connect_as(&server, "ann").await, connect_as(&server, "ben").await);
    for _ in 0..2 {
        start(&mut ann, "done").await;
    }
    let refused = ann.request_once("tools/call", json!({"name": "done"})).await;
    assert_limited(&refused, "the limit `max_tasks_per_caller` is 2");
    start(&mut ben, "done").await;
}

#[tokio::test]
async fn caller_may_use_a_quarter_of_the_bytes() {
    // F-34
    let server = server().max_task_bytes(16_000);
    let (mut ann, mut ben) = (connect_as(&server, "ann").await, connect_as(&server, "ben").await);
    let large = json!({"name": "waits", "arguments": {"text": "x".repeat(2_000)}});
    let created = ann.request_once("tools/call", large.clone()).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let refused = ann.request_once("tools/call", large.clone()).await;
    assert_limited(&refused, "the limit `max_task_bytes_per_caller` is 4000");
    let created = ben.request_once("tools/call", large).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
}
