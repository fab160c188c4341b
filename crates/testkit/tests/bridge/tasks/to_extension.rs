//! A client of 2025-11-25, and a server of 2026-07-28 with the extension.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tsugite::bridge::Bridge;
use tsugite::server::Principal;
use tsugite_testkit::raw_client::RawClient;

use super::{CORE, EXTENSION, answer, bridge_to, poll_until, request_task, server, start, within};

async fn connect(bridge: &Bridge) -> RawClient {
    RawClient::connect(&bridge.server(), CORE, json!({"elicitation": {}})).await
}

#[tokio::test(start_paused = true)]
async fn result_of_an_extension_task_asks_its_questions() {
    let bridge = bridge_to(&server(), EXTENSION);
    let mut client = connect(&bridge).await.on_request(|_, params| {
        let text = params["message"].as_str().unwrap_or_default();
        answer(if text == "One?" { "Ada" } else { "Bob" })
    });
    let id = start(&mut client, "asks_both").await;
    let asked = poll_until(&mut client, &id, "input_required").await;
    assert!(asked["inputRequests"].is_null() && asked["ttl"].is_u64(), "{asked}");
    let ended = request_task(&mut client, "tasks/result", &id).await;
    assert_eq!(ended["result"]["content"][0]["text"], "Ada and Bob", "{ended}");
    let related = json!({"taskId": id});
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/related-task"], related);
    assert_eq!(client.received_requests.len(), 2);
    for (method, params) in &client.received_requests {
        assert_eq!(method, "elicitation/create");
        assert_eq!(params["_meta"]["io.modelcontextprotocol/related-task"], related);
    }
    assert_eq!(poll_until(&mut client, &id, "completed").await["taskId"], json!(id));
}

#[tokio::test(start_paused = true)]
async fn ended_extension_task_has_the_outcome_of_its_call() {
    let bridge = bridge_to(&server(), EXTENSION);
    let mut client = connect(&bridge).await;
    let failed = start(&mut client, "fails").await;
    let result = request_task(&mut client, "tasks/result", &failed).await;
    assert_eq!(result["result"]["isError"], true, "{result}");
    assert_eq!(poll_until(&mut client, &failed, "failed").await["statusMessage"], "no luck");
    let broken = start(&mut client, "breaks").await;
    let result = request_task(&mut client, "tasks/result", &broken).await;
    assert_eq!(result["error"]["code"], -32603, "{result}");
    let ended = request_task(&mut client, "tasks/cancel", &broken).await;
    assert_eq!(ended["error"]["code"], -32602, "{ended}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_extension_task_stays_cancelled() {
    let bridge = bridge_to(&server(), EXTENSION);
    let mut client = connect(&bridge).await;
    let id = start(&mut client, "waits").await;
    let cancelled = request_task(&mut client, "tasks/cancel", &id).await;
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    assert_eq!(request_task(&mut client, "tasks/cancel", &id).await["error"]["code"], -32602);
    assert_eq!(request_task(&mut client, "tasks/result", &id).await["error"]["code"], -32600);
    assert_eq!(request_task(&mut client, "tasks/get", &id).await["result"]["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn cancellation_ends_the_wait_for_a_result() {
    let interval = Duration::from_secs(300);
    let bridge = bridge_to(&server().task_poll_interval(interval), EXTENSION);
    let mut client = connect(&bridge).await;
    let id = start(&mut client, "waits").await;
    let begun = Instant::now();
    let waiting = client.send_request("tasks/result", json!({"taskId": id}));
    tokio::time::sleep(interval / 10).await;
    request_task(&mut client, "tasks/cancel", &id).await;
    let ended = within(client.wait_for_response(waiting)).await;
    assert_eq!(ended["error"]["code"], -32600, "{ended}");
    assert!(begun.elapsed() < interval, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn ordinary_call_is_a_task_for_its_client() {
    let bridge = bridge_to(&server(), EXTENSION);
    let mut client = connect(&bridge).await;
    let created = within(client.request_once("tools/call", json!({"name": "t", "task": {}}))).await;
    let task = &created["result"]["task"];
    assert_eq!(task["status"], "working", "{created}");
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(poll_until(&mut client, id, "completed").await["ttl"], 3_600_000);
    let result = request_task(&mut client, "tasks/result", id).await;
    assert_eq!(result["result"]["content"][0]["text"], "t", "{result}");
    let related = &result["result"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], id);
    assert_eq!(request_task(&mut client, "tasks/cancel", id).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn every_tool_offers_tasks_before_the_extension() {
    let bridge = bridge_to(&server(), EXTENSION);
    let mut client = connect(&bridge).await;
    let listed = within(client.request("tools/list", json!({}))).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["execution"]["taskSupport"] == "optional"), "{listed}");
    // A call without a task is an ordinary one; a tool that needs a task refuses it.
    assert_eq!(client.call("counts", json!({})).await["result"]["content"][0]["text"], "as a call");
    assert_eq!(client.call("waits", json!({})).await["error"]["code"], -32601);
    assert_eq!(within(client.request("tasks/list", json!({}))).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn extension_task_belongs_to_the_caller_of_the_bridge() {
    let server = bridge_to(&server(), EXTENSION).server();
    let mut ann = RawClient::connect_as(&server, Principal::new("ann"), CORE, json!({})).await;
    let ids = [start(&mut ann, "waits").await, start(&mut ann, "t").await];
    let mut ben = RawClient::connect_as(&server, Principal::new("ben"), CORE, json!({})).await;
    let mut again = RawClient::connect_as(&server, Principal::new("ann"), CORE, json!({})).await;
    for id in ids {
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let refused = request_task(&mut ben, method, &id).await;
            assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        }
        let seen = request_task(&mut again, "tasks/get", &id).await;
        assert_eq!(seen["result"]["taskId"], json!(id), "{seen}");
    }
}
