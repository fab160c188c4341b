//! Tasks are limited for each caller, so that one of them leaves room for the others.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite_testkit::raw_client::RawClient;

use super::{CORE, EXTENSION, declared, question, server, start};

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

#[tokio::test]
async fn handshake_counts_for_each_of_its_tasks() {
    // F-34
    let server = server().max_task_bytes(8_000);
    let large = json!({"experimental": {"x": {"text": "x".repeat(3_000)}}});
    let mut client = RawClient::connect(&server, CORE, large).await;
    let call = json!({"name": "waits", "task": {}});
    let created = client.request_once("tools/call", call.clone()).await;
    assert_eq!(created["result"]["task"]["status"], "working", "{created}");
    let refused = client.request_once("tools/call", call).await;
    assert_limited(&refused, "the limit `max_task_bytes` is 8000");
}

/// A server with a tool that keeps the answer to its first question while it waits for the second one, and returns it.
fn asking() -> Server {
    let asks = Tool::new("asks").task(TaskSupport::Required).handler(|cx: Context| async move {
        let first = cx.sample(question()).await?.model;
        cx.sample(question()).await?;
        Ok::<_, AskError>(first)
    });
    Server::new("s", "1").tool(asks)
}

async fn connect_to_answer(server: &Server, name: &str) -> RawClient {
    let declared = json!({"sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    RawClient::connect_as(server, Principal::new(name), EXTENSION, declared).await
}

/// The task, once the server has nothing left to do.
async fn get(client: &mut RawClient, id: &str) -> Value {
    tokio::time::sleep(Duration::from_millis(1)).await;
    client.request_once("tasks/get", json!({"taskId": id})).await["result"].clone()
}

/// Answers the open question of a task.
async fn answer(client: &mut RawClient, id: &str, model: &str) -> Value {
    let task = get(client, id).await;
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({"role": "assistant", "content": {"type": "text", "text": "!"}, "model": model});
    client.request_once("tasks/update", json!({"taskId": id, "inputResponses": {key: answer}})).await
}

#[tokio::test(start_paused = true)]
async fn answers_count_until_their_task_ends() {
    // F-34
    let large = "x".repeat(10_000);
    let server = asking().max_task_bytes(60_000).max_task_bytes_per_caller(20_000);
    let (mut ann, mut ben) =
        (connect_to_answer(&server, "ann").await, connect_to_answer(&server, "ben").await);
    let (first, second) = (start(&mut ann, "asks").await, start(&mut ann, "asks").await);
    assert!(answer(&mut ann, &first, &large).await["error"].is_null());
    // The question stays open.
    for _ in 0..3 {
        let refused = answer(&mut ann, &second, &large).await;
        assert_limited(&refused, "the limit `max_task_bytes_per_caller` on the bytes of tasks is 20000");
    }
    let others = start(&mut ben, "asks").await;
    assert!(answer(&mut ben, &others, &large).await["error"].is_null());
    ann.request_once("tasks/cancel", json!({"taskId": first})).await;
    let answered = answer(&mut ann, &second, &large).await;
    assert!(answered["error"].is_null(), "{answered}");
}

#[tokio::test(start_paused = true)]
async fn result_takes_the_place_of_the_answers() {
    let server = asking().max_task_bytes(60_000).max_task_bytes_per_caller(20_000);
    let mut ann = connect_to_answer(&server, "ann").await;
    let id = start(&mut ann, "asks").await;
    let large = "x".repeat(12_000);
    for model in [&*large, "m"] {
        assert!(answer(&mut ann, &id, model).await["error"].is_null());
    }
    let ended = get(&mut ann, &id).await;
    assert_eq!(ended["result"]["content"][0]["text"], large, "{ended}");
    // Now the result counts.
    let second = start(&mut ann, "asks").await;
    assert_limited(&answer(&mut ann, &second, &large).await, "max_task_bytes_per_caller");
}

#[tokio::test(start_paused = true)]
async fn values_of_once_count_as_bytes_of_their_task() {
    // F-34
    let keeps = Tool::new("keeps").task(TaskSupport::Required).handler(|cx: Context| async move {
        for key in ["a", "b"] {
            let value = async { Ok::<_, HandlerError>("x".repeat(10_000)) };
            let _: String = cx.once(key, value).await?;
        }
        Ok::<_, HandlerError>("kept")
    });
    for (limit, status) in [(20_000, "failed"), (30_000, "completed")] {
        let server = Server::new("s", "1").tool(keeps.clone()).max_task_bytes(limit);
        let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
        let id = start(&mut client, "keeps").await;
        let ended = get(&mut client, &id).await;
        assert_eq!(ended["status"], status, "{ended}");
        if status == "failed" {
            assert_limited(&ended, "the step \"b\" cannot be kept: the limit `max_task_bytes`");
        }
    }
}
