//! Calls that become tasks.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tsugite::client::{Client, ClientBuilder, ErrorKind, FormResponse};
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite_testkit::fixture;

fn connect(server: &Server) -> ClientBuilder {
    let client = Client::in_process(server).revision(Revision::V2026_07_28);
    client.on_elicit_form(async |_| FormResponse::accept(json!({"name": "Ada"})))
}

#[tokio::test(start_paused = true)]
async fn call_follows_its_task_and_answers_its_questions() {
    // TASK-042, TASK-054, TASK-055
    let client = connect(&fixture::by_name("tasks").unwrap()).tasks().await.unwrap();
    let both: String = client.call("asks_both", json!({})).await.unwrap();
    assert_eq!(both, "Ada and Ada");
    let plain: String = client.call("t", json!({})).await.unwrap();
    assert_eq!(plain, "t");
    let failed = client.call::<String>("fails", json!({})).await.unwrap_err();
    assert!(matches!(failed.kind(), ErrorKind::ToolFailed(_)), "{failed}");
    let broken = client.call::<String>("breaks", json!({})).await.unwrap_err();
    assert!(matches!(broken.kind(), ErrorKind::ErrorResponse { .. }), "{broken}");
}

#[tokio::test(start_paused = true)]
async fn task_is_polled_at_the_interval_of_the_server() {
    // TASK-015, TASK-052: there is no time limit
    let works = Tool::new("works").task(TaskSupport::Required).handler(|| async {
        tokio::time::sleep(Duration::from_secs(3000)).await;
        "done"
    });
    let server = Server::new("s", "1").task_poll_interval(Duration::from_secs(40)).tool(works.no_timeout());
    let client = Client::in_process(&server).revision(Revision::V2026_07_28).tasks().await.unwrap();
    let start = Instant::now();
    let done: String = client.call("works", json!({})).await.unwrap();
    assert_eq!(done, "done");
    assert!(start.elapsed() >= Duration::from_secs(3000) && start.elapsed() <= Duration::from_secs(3041));
}

#[tokio::test(start_paused = true)]
async fn task_is_taken_up_again_by_its_id() {
    // TASK-022, TASK-026: it polls, and fetches the questions of 2025-11-25 with `tasks/result`
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = fixture::by_name("tasks").unwrap();
        let client = connect(&server).revision(revision).tasks().await.unwrap();
        let params = json!({"name": "greets", "arguments": {}, "task": {}});
        let params = tsugite::jsonrpc::RawJson::from_value(&params).unwrap();
        let created = client.request_raw("tools/call", Some(params)).await.unwrap();
        let created: serde_json::Value = created.read().unwrap();
        let id = created["taskId"].as_str().or(created["task"]["taskId"].as_str()).unwrap().to_owned();
        drop(client);
        let later = connect(&server).revision(revision).tasks().await.unwrap();
        let result = later.follow_task(id).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("Hello, Ada!"), "{revision}");
        let unknown = later.follow_task("unknown").await.unwrap_err();
        assert!(matches!(unknown.kind(), ErrorKind::ErrorResponse { .. }), "{unknown}");
    }
}
