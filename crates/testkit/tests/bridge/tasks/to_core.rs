//! A client of 2026-07-28 with the extension, and a server of 2025-11-25 with tasks.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::client::FormResponse;
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite::server::Principal;
use tsugite_testkit::raw_client::RawClient;

use super::super::faults::Mute;
use super::{
    CORE, EXTENSION, MAX_POLLS, answer, bridge_to, declared, poll_until, request_task, server, start, within,
};

async fn connect(bridge: &Bridge) -> RawClient {
    RawClient::connect(&bridge.server(), EXTENSION, declared()).await
}

#[tokio::test(start_paused = true)]
async fn questions_of_a_core_task_are_input_requests() {
    let bridge = bridge_to(&server(), CORE);
    let mut client = connect(&bridge).await;
    let id = start(&mut client, "asks_both").await;
    let asked = poll_until(&mut client, &id, "input_required").await;
    let questions = asked["inputRequests"].as_object().unwrap().clone();
    assert_eq!(questions.len(), 2, "{asked}");
    for (key, question) in &questions {
        assert_eq!(question["method"], "elicitation/create");
        // A member of the other form.
        assert!(question["params"]["_meta"].is_null(), "{question}");
        let update = json!({"taskId": id, "inputResponses": {key: answer("Ada"), "other": answer("Bob")}});
        let updated = within(client.request_once("tasks/update", update)).await;
        assert_eq!(updated["result"]["resultType"], "complete", "{updated}");
    }
    let ended = poll_until(&mut client, &id, "completed").await;
    assert_eq!(ended["result"]["resultType"], "complete", "{ended}");
    assert_eq!(ended["result"]["content"][0]["text"], "Ada and Ada");
    assert!(ended["result"]["_meta"]["io.modelcontextprotocol/related-task"].is_null(), "{ended}");
    assert!(client.received_requests.is_empty());
}

#[tokio::test(start_paused = true)]
async fn optional_tool_is_called_as_a_task() {
    let bridge = bridge_to(&server(), CORE);
    let mut client = connect(&bridge).await;
    let id = start(&mut client, "introduces").await;
    let asked = poll_until(&mut client, &id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let update = json!({"taskId": id, "inputResponses": {key: answer("Ada")}});
    within(client.request_once("tasks/update", update)).await;
    let ended = poll_until(&mut client, &id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "Ada has a task");
    let plain = within(client.request_once("tools/call", json!({"name": "t"}))).await;
    assert_eq!(plain["result"]["content"][0]["text"], "t", "{plain}");
}

#[tokio::test(start_paused = true)]
async fn call_of_the_client_follows_a_task_across_the_bridge() {
    let bridge = bridge_to(&server(), CORE);
    let client = Client::in_process(&bridge.server()).revision(EXTENSION).tasks();
    let client = client.on_elicit_form(async |_| FormResponse::accept(json!({"name": "Ada"})));
    let client = within(client).await.unwrap();
    let text: String = within(client.call("greets", json!({}))).await.unwrap();
    assert_eq!(text, "Hello, Ada!");
}

#[tokio::test(start_paused = true)]
async fn core_task_belongs_to_the_caller_of_the_bridge() {
    let server = bridge_to(&server(), CORE).server();
    let mut ann = RawClient::connect_as(&server, Principal::new("ann"), EXTENSION, declared()).await;
    let id = start(&mut ann, "waits").await;
    let mut ben = RawClient::connect_as(&server, Principal::new("ben"), EXTENSION, declared()).await;
    let mut anonymous = RawClient::connect(&server, EXTENSION, declared()).await;
    for other in [&mut ben, &mut anonymous] {
        for method in ["tasks/get", "tasks/cancel"] {
            let refused = request_task(other, method, &id).await;
            assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        }
        let update = json!({"taskId": id, "inputResponses": {}});
        assert_eq!(within(other.request_once("tasks/update", update)).await["error"]["code"], -32602);
        other.send_request("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
        let acknowledged = within(other.next()).await;
        assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([]), "{acknowledged}");
    }
    // The same caller on another connection.
    let mut again = RawClient::connect_as(&server, Principal::new("ann"), EXTENSION, declared()).await;
    assert_eq!(request_task(&mut again, "tasks/get", &id).await["result"]["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_core_task_are_sent_to_subscribers() {
    let bridge = bridge_to(&server(), CORE);
    let mut client = connect(&bridge).await;
    let id = start(&mut client, "waits").await;
    let listens = json!({"notifications": {"taskIds": [id, "unknown"]}});
    let listen = client.send_request("subscriptions/listen", listens);
    let acknowledged = within(client.next()).await;
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]), "{acknowledged}");
    for status in ["working", "cancelled"] {
        let told = within(client.next()).await;
        let params = &told["params"];
        assert_eq!(told["method"], "notifications/tasks", "{told}");
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(listen));
        assert_eq!((&params["taskId"], &params["status"]), (&json!(id), &json!(status)), "{told}");
        assert!(params["ttlMs"].is_u64() && params["ttl"].is_null(), "{told}");
        if status == "working" {
            request_task(&mut client, "tasks/cancel", &id).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_that_is_never_sent_times_out() {
    let server = server().layer(Mute("tasks/result"));
    let bridge = bridge_to(&server, CORE).timeout(Duration::from_secs(60));
    let mut client = connect(&bridge).await;
    let id = start(&mut client, "done").await;
    for _ in 0..MAX_POLLS {
        let polled = request_task(&mut client, "tasks/get", &id).await;
        if !polled["error"].is_null() {
            assert_eq!(polled["error"]["code"], -32603, "{polled}");
            return;
        }
        assert_eq!(polled["result"]["status"], "working", "{polled}");
        tokio::task::yield_now().await;
    }
    panic!("the task has not ended");
}

#[tokio::test(start_paused = true)]
async fn task_without_a_slot_is_working() {
    let server = bridge_to(&server(), CORE).server();
    let mut client = RawClient::connect_as(&server, Principal::new("ann"), EXTENSION, declared()).await;
    let mut first = None;
    // One caller has this many suspended calls.
    for _ in 0..12 {
        let id = start(&mut client, "greets").await;
        poll_until(&mut client, &id, "input_required").await;
        first.get_or_insert(id);
    }
    let id = start(&mut client, "greets").await;
    for _ in 0..100 {
        let polled = request_task(&mut client, "tasks/get", &id).await;
        assert_eq!(polled["result"]["status"], "working", "{polled}");
    }
    request_task(&mut client, "tasks/cancel", &first.unwrap()).await;
    poll_until(&mut client, &id, "input_required").await;
}

#[tokio::test(start_paused = true)]
async fn answered_task_needs_no_slot() {
    #[derive(Form)]
    struct Name {
        #[allow(dead_code, reason = "only asked for")]
        name: String,
    }
    let tool = Tool::new("asks_and_waits").task(TaskSupport::Required);
    let server = server().tool(tool.handler(|cx: Context| async move {
        cx.ask::<Name>("Who?").await?;
        std::future::pending::<Result<String, AskError>>().await
    }));
    let server = bridge_to(&server, CORE).server();
    let mut client = RawClient::connect_as(&server, Principal::new("ann"), EXTENSION, declared()).await;
    for _ in 0..13 {
        let id = start(&mut client, "asks_and_waits").await;
        let asked = poll_until(&mut client, &id, "input_required").await;
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let update = json!({"taskId": id, "inputResponses": {key: answer("Ada")}});
        within(client.request_once("tasks/update", update)).await;
        poll_until(&mut client, &id, "working").await;
    }
}

#[tokio::test(start_paused = true)]
async fn several_servers_create_no_tasks() {
    for revision in [CORE, EXTENSION] {
        let (one, near) = (server(), [CORE, EXTENSION]);
        let bridge = Bridge::to_many().target("one", Client::in_process(&one).revision(revision));
        for near in near {
            let mut client = RawClient::connect(&bridge.server(), near, declared()).await;
            let call = json!({"name": "one_counts", "task": {}});
            let plain = within(client.request_once("tools/call", call)).await;
            assert_eq!(plain["result"]["content"][0]["text"], "as a call", "{near} to {revision}: {plain}");
            let unknown = request_task(&mut client, "tasks/get", "x").await;
            assert_eq!(unknown["error"]["code"], -32601, "{near} to {revision}: {unknown}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn question_for_an_absent_client_is_asked_again() {
    let server = server();
    let bridge = bridge_to(&server, CORE).suspended_call_ttl(Duration::from_secs(60));
    let mut client = connect(&bridge).await;
    let id = start(&mut client, "greets").await;
    let first = poll_until(&mut client, &id, "input_required").await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    // The question is asked again, under another key.
    let second = poll_until(&mut client, &id, "input_required").await;
    let key = |asked: &Value| asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    assert_ne!(key(&first), key(&second));
    let update = json!({"taskId": id, "inputResponses": {key(&second): answer("Ada")}});
    within(client.request_once("tasks/update", update)).await;
    let ended = poll_until(&mut client, &id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "Hello, Ada!");
}
