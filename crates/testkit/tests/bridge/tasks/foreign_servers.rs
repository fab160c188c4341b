//! Servers whose tasks behave otherwise than those of this library, as the specification allows.
//!
//! They are scripts of `tsugite_testkit::script`.

use std::sync::Mutex;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::client::{Client, ClientBuilder};
use tsugite_testkit::raw_client::RawClient;
use tsugite_testkit::script;

use super::super::faults::overheard;
use super::{CORE, EXTENSION, MAX_POLLS, answer, declared, poll_until, request_task, start, within};

/// Variables for the scripts: the only tool, and the members that every task has.
const VARIABLES: &str = r#"
set tool '{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}'
set task '"taskId":"1","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"'
"#;

/// A server that is a script, of 2025-11-25 unless it is set otherwise.
fn spawn(script: &str) -> ClientBuilder {
    spawn_as_is(&format!("{VARIABLES}{script}"))
}

fn spawn_as_is(script: &str) -> ClientBuilder {
    Client::spawn(script::command(env!("CARGO_BIN_EXE_helper"), script)).revision(CORE)
}

/// A server of 2025-11-25 that sends the question of a task at once, does not wait for `tasks/result`, and does not say that
/// the task needs input.
const EAGER: &str = r#"
set status working
repeat forever {
    read_line
    if_line '"initialize"' {
        result '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}'
    }
    if_line tools/list { result '{"tools":[$tool]}' }
    if_line tools/call {
        result '{"task":{$task,"status":"working","ttl":null,"pollInterval":50}}'
        send_line '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}}'
    }
    if_line '"id":"q"' { set status completed }
    if_line tasks/get { result '{$task,"status":"$status","ttl":null,"pollInterval":50}' }
    if_line tasks/result {
        result '{"content":[{"type":"text","text":"answered"}]}'
    }
    if_line tasks/cancel { result '{$task,"status":"cancelled","ttl":null,"pollInterval":50}' }
}
"#;

/// A server of 2026-07-28 whose task asks one question. The first answer and each second poll fail with `ERROR`.
const FAILING: &str = r#"
set status input_required
set failure 'ERROR'
repeat forever {
    read_line
    if_line server/discover {
        result '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"private"}'
    }
    if_line tools/call { result '{"resultType":"task",$task,"status":"working","ttlMs":null,"pollIntervalMs":50}' }
    if_line tasks/get {
        if polled yes {
            set polled no
            error $failure
        } else {
            set polled yes
            result '{"resultType":"complete",$task,"status":"$status","ttlMs":null,"pollIntervalMs":50,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"result":{"resultType":"complete","content":[{"type":"text","text":"answered"}]}}'
        }
    }
    if_line tasks/update {
        if answered yes {
            set status completed
            result '{"resultType":"complete"}'
        } else {
            set answered yes
            error $failure
        }
    }
}
"#;

/// A server of 2026-07-28 that acknowledges a cancellation and completes the task nevertheless.
const STUBBORN: &str = r#"
set status working
repeat forever {
    read_line
    if_line server/discover {
        result '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"private"}'
    }
    if_line tools/call { result '{"resultType":"task",$task,"status":"working","ttlMs":null,"pollIntervalMs":50}' }
    if_line tasks/get { result '{"resultType":"complete",$task,"status":"$status","ttlMs":null,"result":{"resultType":"complete","content":[]}}' }
    if_line tasks/cancel {
        set status completed
        result '{"resultType":"complete"}'
    }
}
"#;

/// A server of 2025-11-25 whose list of tools changes with each call of a tool as a task.
const CHANGING: &str = r#"
repeat forever {
    read_line
    if_line '"initialize"' {
        result '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}'
    }
    if_line tools/list { result '{"tools":[$tool]}' }
    if_line tools/call {
        if_line '"task":' {
            send_line '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
            result '{"task":{$task,"status":"working","ttl":null,"pollInterval":50}}'
        } else {
            result '{"content":[]}'
        }
    }
}
"#;

#[tokio::test]
async fn changed_list_keeps_calls_tasks() {
    let bridge = Bridge::to(spawn(CHANGING));
    let mut client = RawClient::connect(&bridge.server(), EXTENSION, declared()).await;
    let ids = [start(&mut client, "t").await, start(&mut client, "t").await];
    assert_ne!(ids[0], ids[1]);
    bridge.close().await;
}

#[tokio::test]
async fn early_question_of_a_core_task_is_kept() {
    let bridge = Bridge::to(spawn(EAGER));
    let mut client = RawClient::connect(&bridge.server(), EXTENSION, declared()).await;
    let id = start(&mut client, "t").await;
    let asked = poll_until(&mut client, &id, "input_required").await;
    assert!(asked["ttlMs"].is_null(), "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let update = json!({"taskId": id, "inputResponses": {key: answer("Ada")}});
    within(client.request_once("tasks/update", update)).await;
    let ended = poll_until(&mut client, &id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "answered", "{ended}");
    bridge.close().await;
}

/// A server of 2025-11-25 that creates a task when the client reads the list of resources.
const LATE: &str = r#"
repeat forever {
    read_line
    if_line '"initialize"' {
        result '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}'
    }
    if_line tools/list { result '{"tools":[$tool]}' }
    if_line tools/call { set call $id }
    if_line prompts/list { result '{"prompts":[]}' }
    if_line resources/list {
        result '{"resources":[]}'
        send_line '{"jsonrpc":"2.0","id":$call,"result":{"task":{$task,"status":"working","ttl":null,"pollInterval":50}}}'
    }
    if_line tasks/cancel { result '{$task,"status":"cancelled","ttl":null,"pollInterval":50}' }
}
"#;

/// Sends requests until the bridge has sent this one to the server.
async fn until_heard(client: &mut RawClient, heard: &Mutex<Vec<Value>>, method: &str) {
    for _ in 0..MAX_POLLS {
        if heard.lock().unwrap().iter().any(|message| message["method"] == method) {
            return;
        }
        within(client.request_once("prompts/list", json!({}))).await;
    }
    panic!("the server got no {method}");
}

#[tokio::test]
async fn task_of_a_cancelled_call_is_cancelled_by_its_id() {
    // CANC-006
    for near in [CORE, EXTENSION] {
        let (server, heard) = overheard(spawn(LATE));
        let bridge = Bridge::to(server);
        let mut client = RawClient::connect(&bridge.server(), near, declared()).await;
        let call = client.send_request("tools/call", json!({"name": "t", "task": {}}));
        until_heard(&mut client, &heard, "tools/call").await;
        client.notify("notifications/cancelled", json!({"requestId": call}));
        // Now the task gets its id.
        within(client.request_once("resources/list", json!({}))).await;
        until_heard(&mut client, &heard, "tasks/cancel").await;
        let sent = heard.lock().unwrap().clone();
        let cancelled = sent.iter().find(|message| message["method"] == "tasks/cancel").unwrap();
        assert_eq!(cancelled["params"]["taskId"], "1", "{near}");
        assert!(sent.iter().all(|message| message["method"] != "notifications/cancelled"), "{near}");
    }
}

#[tokio::test]
async fn task_with_an_oversized_id_is_refused() {
    let id = "x".repeat(1025);
    let name_task = |script: &str| {
        format!("{VARIABLES}{script}").replace(r#""taskId":"1""#, &format!(r#""taskId":"{id}""#))
    };
    for (script, behind, near) in [(EAGER, CORE, EXTENSION), (STUBBORN, EXTENSION, CORE)] {
        let (server, heard) = overheard(spawn_as_is(&name_task(script)).revision(behind));
        let bridge = Bridge::to(server);
        let mut client = RawClient::connect(&bridge.server(), near, declared()).await;
        let refused = within(client.request_once("tools/call", json!({"name": "t", "task": {}}))).await;
        assert_eq!(refused["error"]["data"]["limit"], 1024, "{refused}");
        let sent = heard.lock().unwrap().clone();
        let cancelled = sent.iter().find(|message| message["method"] == "tasks/cancel").unwrap();
        assert_eq!(cancelled["params"]["taskId"], json!(id), "{near}");
        bridge.close().await;
    }
}

#[tokio::test]
async fn equal_ids_of_two_core_servers_do_not_mix() {
    let bridge = Bridge::to(spawn(EAGER));
    let other = json!({"elicitation": {}, "roots": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut clients = [
        RawClient::connect(&bridge.server(), EXTENSION, declared()).await,
        // A connection has one set of capabilities, so this client gets another process.
        RawClient::connect(&bridge.server(), EXTENSION, other).await,
    ];
    let mut ids = Vec::new();
    for client in &mut clients {
        ids.push(start(client, "t").await);
    }
    let [one, other] = &mut clients;
    let asked = poll_until(one, &ids[0], "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let update = json!({"taskId": ids[0], "inputResponses": {key: answer("Ada")}});
    within(one.request_once("tasks/update", update)).await;
    poll_until(one, &ids[0], "completed").await;
    assert_eq!(poll_until(other, &ids[1], "input_required").await["taskId"], json!(ids[1]));
    bridge.close().await;
}

#[tokio::test]
async fn equal_ids_of_two_extension_servers_do_not_mix() {
    let bridge = Bridge::to(spawn(STUBBORN).revision(EXTENSION));
    let mut one = RawClient::connect(&bridge.server(), CORE, json!({})).await;
    let mut other = RawClient::connect(&bridge.server(), CORE, json!({})).await;
    let ids = [start(&mut one, "t").await, start(&mut other, "t").await];
    request_task(&mut one, "tasks/cancel", &ids[0]).await;
    let seen = request_task(&mut other, "tasks/get", &ids[1]).await;
    assert_eq!((&seen["result"]["taskId"], &seen["result"]["status"]), (&json!(ids[1]), &json!("working")));
    bridge.close().await;
}

#[tokio::test]
async fn failed_task_fails_across_the_bridge_whatever_its_error() {
    let answers = r#"result '{"content":[{"type":"text","text":"answered"}]}'"#;
    let fails = r#"error '{"code":-32803,"message":"too large"}'"#;
    let script = EAGER.replace("set status working", "set status failed").replace(answers, fails);
    let bridge = Bridge::to(spawn(&script));
    let mut client = RawClient::connect(&bridge.server(), EXTENSION, declared()).await;
    let id = start(&mut client, "t").await;
    let ended = poll_until(&mut client, &id, "failed").await;
    assert_eq!(ended["error"]["message"], "too large", "{ended}");
    bridge.close().await;
}

#[tokio::test]
async fn failed_request_does_not_fail_a_completed_task() {
    let answers = r#"result '{"content":[{"type":"text","text":"answered"}]}'"#;
    let fails = r#"set asked yes; error '{"code":-32603,"message":"busy"}'"#;
    let fails_once = format!("if asked yes {{ {answers} }} else {{ {fails} }}");
    let script = EAGER.replace("set status working", "set status completed").replace(answers, &fails_once);
    let bridge = Bridge::to(spawn(&script));
    let mut client = RawClient::connect(&bridge.server(), EXTENSION, declared()).await;
    let id = start(&mut client, "t").await;
    assert_eq!(request_task(&mut client, "tasks/get", &id).await["error"]["message"], "busy");
    let ended = poll_until(&mut client, &id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "answered", "{ended}");
    bridge.close().await;
}

/// Errors that say that the same request may succeed later.
const PASSING_ERRORS: [&str; 3] = [
    r#"{"code":-32603,"message":"gone","data":{"status":503,"mayHaveRun":true}}"#,
    r#"{"code":-32803,"message":"the store fails"}"#,
    r#"{"code":-32603,"message":"Too many requests","data":{"retryAfterMs":32}}"#,
];

#[tokio::test]
async fn answer_that_fails_on_its_way_is_sent_again() {
    // TASK-056, TASK-058
    for error in PASSING_ERRORS {
        let (server, heard) = overheard(spawn(&FAILING.replace("ERROR", error)).revision(EXTENSION));
        let bridge = Bridge::to(server);
        let mut client = RawClient::connect(&bridge.server(), CORE, json!({"elicitation": {}})).await;
        client = client.on_request(|_, _| answer("Ada"));
        let id = start(&mut client, "t").await;
        let ended = request_task(&mut client, "tasks/result", &id).await;
        assert_eq!(ended["result"]["content"][0]["text"], "answered", "{ended}");
        assert_eq!(client.received_requests.len(), 1);
        let sent = heard.lock().unwrap().clone();
        let answers: Vec<_> = sent.iter().filter(|message| message["method"] == "tasks/update").collect();
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert_eq!(answers[0]["params"]["inputResponses"], answers[1]["params"]["inputResponses"]);
        bridge.close().await;
    }
}

#[tokio::test]
async fn cancelled_task_stays_cancelled_for_its_client() {
    let bridge = Bridge::to(spawn(STUBBORN).revision(EXTENSION));
    let mut client = RawClient::connect(&bridge.server(), CORE, json!({})).await;
    let id = start(&mut client, "t").await;
    let cancelled = request_task(&mut client, "tasks/cancel", &id).await;
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    let seen = request_task(&mut client, "tasks/get", &id).await;
    assert_eq!(seen["result"]["status"], "cancelled", "{seen}");
    assert!(seen["result"]["result"].is_null(), "{seen}");
    assert_eq!(request_task(&mut client, "tasks/result", &id).await["error"]["code"], -32600);
    bridge.close().await;
}
