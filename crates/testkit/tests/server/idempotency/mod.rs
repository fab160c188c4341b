//! Calls with an idempotency key: what a transcript cannot say, because it needs callers, a paused clock, limits, a store
//! that fails, or calls at the same time.

mod attacks;
mod kills;
mod limits;
mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite_core::revision::Revision;
use tsugite_testkit::raw_client::RawClient;

const NEWEST: Revision = Revision::V2026_07_28;
const KEY: &str = "dev.tsugite/idempotency-key";
const FIRST: &str = "key-of-the-first-call";

/// What the handlers of a server share with the test.
#[derive(Clone)]
struct Stage {
    /// How often the handlers ran.
    runs: Arc<AtomicUsize>,
    started: Arc<Semaphore>,
    /// Lets handlers end, one each.
    go: Arc<Semaphore>,
}

impl Stage {
    fn new() -> Self {
        let semaphore = || Arc::new(Semaphore::new(0));
        Self { runs: Arc::default(), started: semaphore(), go: semaphore() }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Waits until a handler has started.
    async fn started(&self) {
        self.started.acquire().await.unwrap().forget();
    }

    fn begin(&self) -> usize {
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        self.started.add_permits(1);
        run
    }

    /// A tool that counts its runs.
    fn pay(&self) -> Tool {
        let stage = self.clone();
        Tool::new("pay").once(true).raw_handler(move |arguments, _| {
            let stage = stage.clone();
            async move { format!("run {} with {}", stage.begin(), arguments.text()) }
        })
    }

    /// The same, and it waits until the test lets it end.
    fn slow(&self) -> Tool {
        let stage = self.clone();
        Tool::new("slow").once(true).handler(move || {
            let stage = stage.clone();
            async move {
                let run = stage.begin();
                stage.go.acquire().await.unwrap().forget();
                format!("run {run}")
            }
        })
    }

    fn server(&self) -> Server {
        Server::new("once", "1").tool(self.pay()).tool(self.slow())
    }
}

async fn connect(server: &Server) -> RawClient {
    RawClient::connect(server, NEWEST, json!({"elicitation": {}})).await
}

fn params(tool: &str, key: &str) -> Value {
    json!({"name": tool, "arguments": {}, "_meta": {KEY: key}})
}

async fn call(client: &mut RawClient, tool: &str, key: &str) -> Value {
    client.request_once("tools/call", params(tool, key)).await
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {response}"))
}

fn fault(response: &Value) -> &str {
    let data = &response["error"]["data"]["dev.tsugite/idempotency"];
    data.as_str().unwrap_or_else(|| panic!("no fault: {response}"))
}

#[tokio::test]
async fn concurrent_calls_with_one_key_run_once() {
    let stage = Stage::new();
    let mut client = connect(&stage.server()).await;
    let ids: Vec<_> = (0..10).map(|_| client.send_request("tools/call", params("slow", FIRST))).collect();
    stage.started().await;
    stage.go.add_permits(10);
    for id in ids {
        assert_eq!(text(&client.wait_for_response(id).await), "run 1");
    }
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn call_without_a_key_runs_each_time() {
    let stage = Stage::new();
    let mut client = connect(&stage.server()).await;
    for run in 1..=3 {
        let response = client.call("pay", json!({})).await;
        assert_eq!(text(&response), format!("run {run} with {{}}"));
    }
    assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 4 with {}");
}

#[tokio::test(start_paused = true)]
async fn outcome_is_forgotten_after_the_retention() {
    let stage = Stage::new();
    let retention = std::time::Duration::from_secs(60);
    let mut client = connect(&stage.server().once_retention(retention)).await;
    assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
    tokio::time::advance(retention - std::time::Duration::from_secs(1)).await;
    assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 2 with {}");
}

#[tokio::test(start_paused = true)]
async fn call_longer_than_the_retention_does_not_run_twice() {
    let stage = Stage::new();
    let server = stage.server().once_retention(std::time::Duration::from_millis(1));
    let server = server.call_timeout(None).once_wait(std::time::Duration::from_secs(1));
    let mut client = connect(&server).await;
    let first = client.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    for _ in 0..5 {
        // In steps, so that the record is refreshed in between.
        tokio::time::sleep(std::time::Duration::from_secs(4 * 60)).await;
    }
    assert_eq!(fault(&call(&mut client, "slow", FIRST).await), "running");
    stage.go.add_permits(1);
    assert_eq!(text(&client.wait_for_response(first).await), "run 1");
    assert_eq!(stage.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn unfinished_call_is_waited_for_and_then_told() {
    let stage = Stage::new();
    let mut client = connect(&stage.server()).await;
    let first = client.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    let told = call(&mut client, "slow", FIRST).await;
    assert_eq!(fault(&told), "running");
    assert!(told["error"]["message"].as_str().unwrap().contains("20s"), "{told}");
    let third = client.send_request("tools/call", params("slow", FIRST));
    stage.go.add_permits(1);
    for id in [first, third] {
        assert_eq!(text(&client.wait_for_response(id).await), "run 1");
    }
}

#[tokio::test]
async fn cancelled_call_does_not_run_again() {
    let stage = Stage::new();
    let mut client = connect(&stage.server()).await;
    let first = client.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    client.notify("notifications/cancelled", json!({"requestId": first}));
    assert_eq!(fault(&call(&mut client, "slow", FIRST).await), "may_have_run");
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn cancelled_call_of_a_restartable_tool_runs_again() {
    let stage = Stage::new();
    let server = Server::new("once", "1").tool(stage.slow().restartable(true));
    let mut client = connect(&server).await;
    let first = client.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    client.notify("notifications/cancelled", json!({"requestId": first}));
    let second = client.send_request("tools/call", params("slow", FIRST));
    stage.started().await;
    stage.go.add_permits(1);
    assert_eq!(text(&client.wait_for_response(second).await), "run 2");
}

#[tokio::test]
async fn panic_of_a_handler_is_remembered() {
    let stage = Stage::new();
    let counted = stage.clone();
    let breaks = Tool::new("breaks").once(true).handler(move || {
        let stage = counted.clone();
        async move {
            stage.begin();
            if stage.runs() > 0 {
                panic!("on purpose");
            }
        }
    });
    let mut client = connect(&Server::new("once", "1").tool(breaks)).await;
    for _ in 0..2 {
        assert_eq!(call(&mut client, "breaks", FIRST).await["error"]["code"], -32603);
    }
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn request_to_visit_a_page_frees_the_key() {
    let stage = Stage::new();
    let counted = stage.clone();
    let login = Tool::new("login").once(true).handler(move |cx: Context| {
        let stage = counted.clone();
        async move {
            match stage.begin() {
                1 => Err(cx.url_elicitation("https://example.com/login")?.required_error()),
                run => Ok(format!("run {run}")),
            }
        }
    });
    let server = Server::new("once", "1").tool(login);
    let declared = json!({"elicitation": {"url": {}}});
    let mut client = RawClient::connect(&server, Revision::V2025_11_25, declared).await;
    assert_eq!(call(&mut client, "login", FIRST).await["error"]["code"], -32042);
    for _ in 0..2 {
        assert_eq!(text(&call(&mut client, "login", FIRST).await), "run 2");
    }
}

#[tokio::test]
async fn call_behind_a_layer_runs_once() {
    let stage = Stage::new();
    let layer = tsugite::server::layer::ConcurrencyLimit::new(4);
    let mut client = connect(&stage.server().layer(layer)).await;
    for _ in 0..2 {
        assert_eq!(text(&call(&mut client, "pay", FIRST).await), "run 1 with {}");
    }
}

#[tokio::test]
async fn tool_of_a_mounted_server_runs_once() {
    let stage = Stage::new();
    let server = Server::new("outer", "1").mount("inner", stage.server());
    let mut client = connect(&server).await;
    for _ in 0..2 {
        assert_eq!(text(&call(&mut client, "inner_pay", FIRST).await), "run 1 with {}");
    }
    let listed = client.request_once("tools/list", json!({})).await;
    let meta = &listed["result"]["tools"][0]["_meta"]["dev.tsugite/idempotency"];
    assert_eq!(*meta, json!({"retentionMs": 3_600_000, "durable": false}), "{listed}");
}

#[tokio::test]
async fn support_for_tasks_counts_only_where_the_tool_allows_them() {
    let stage = Stage::new();
    let server = Server::new("once", "1").tool(stage.pay()).tool(stage.slow().task(TaskSupport::Optional));
    let declared = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut with_tasks = RawClient::connect(&server, NEWEST, declared).await;
    let mut without = RawClient::connect(&server, NEWEST, json!({})).await;
    for client in [&mut with_tasks, &mut without] {
        assert_eq!(text(&call(client, "pay", FIRST).await), "run 1 with {}");
    }
    stage.go.add_permits(1);
    let key = "key-of-another-call";
    assert_eq!(text(&call(&mut with_tasks, "slow", key).await), "run 2");
    assert_eq!(fault(&call(&mut without, "slow", key).await), "other_call");
}
