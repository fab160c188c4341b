//! Tasks: what a transcript cannot say, because it needs a paused clock, settings of its own or another process.

mod failing_stores;
mod faults;
mod kills;
mod limits;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::sampling::{CreateMessageParams, SamplingMessage};
use tsugite::protocol::{Role, TaskSupport};
use tsugite_core::revision::Revision;
use tsugite_testkit::fixture;
use tsugite_testkit::raw_client::RawClient;

const CORE: Revision = Revision::V2025_11_25;
const EXTENSION: Revision = Revision::V2026_07_28;

fn server() -> Server {
    fixture::by_name("tasks").unwrap()
}

fn declared() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Calls a tool that becomes a task, and returns the id.
async fn start(client: &mut RawClient, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}, "task": {}});
    let response = client.request_once("tools/call", params).await;
    let result = &response["result"];
    let id = result["taskId"].as_str().or(result["task"]["taskId"].as_str());
    id.unwrap_or_else(|| panic!("no task: {response}")).to_owned()
}

async fn error_code(client: &mut RawClient, method: &str, params: Value) -> Value {
    client.request_once(method, params).await["error"]["code"].clone()
}

#[tokio::test]
async fn task_is_visible_only_to_its_caller() {
    // TASK-034. F-32
    let server = server();
    let (ann, ben) = (Principal::new("ann"), Principal::new("ann").with_issuer("https://other.example"));
    let mut owner = RawClient::connect_as(&server, ann, CORE, json!({})).await;
    let id = start(&mut owner, "waits").await;
    let mut other = RawClient::connect_as(&server, ben, CORE, json!({})).await;
    let mut nobody = RawClient::connect(&server, CORE, json!({})).await;
    for client in [&mut other, &mut nobody] {
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            assert_eq!(error_code(client, method, json!({"taskId": id})).await, -32602, "{method}");
        }
    }
    assert_eq!(other.request_once("tasks/list", json!({})).await["result"]["tasks"], json!([]));
    assert_eq!(error_code(&mut nobody, "tasks/list", json!({})).await, -32601);
    let listed = owner.request_once("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], json!(id));
    let got = owner.request_once("tasks/get", json!({"taskId": id})).await;
    assert_eq!(got["result"]["status"], "working");
}

#[tokio::test]
async fn task_of_the_extension_is_visible_only_to_its_caller() {
    // TASK-069. F-33
    let server = server();
    let mut owner = RawClient::connect_as(&server, Principal::new("ann"), EXTENSION, declared()).await;
    let id = start(&mut owner, "waits").await;
    let mut other = RawClient::connect_as(&server, Principal::new("ben"), EXTENSION, declared()).await;
    for method in ["tasks/get", "tasks/cancel"] {
        assert_eq!(error_code(&mut other, method, json!({"taskId": id})).await, -32602, "{method}");
    }
    let update = json!({"taskId": id, "inputResponses": {}});
    assert_eq!(error_code(&mut other, "tasks/update", update).await, -32602);
    other.send_request("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    let acknowledged = other.next().await;
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([]), "{acknowledged}");
}

#[tokio::test]
async fn tasks_are_listed_in_pages() {
    // TASK-027, TASK-028, TASK-032, PAGE-002
    let server = server().page_size(2);
    let mut client = RawClient::connect_as(&server, Principal::new("ann"), CORE, json!({})).await;
    let mut created = Vec::new();
    for _ in 0..5 {
        created.push(start(&mut client, "waits").await);
    }
    let (mut listed, mut cursor) = (Vec::new(), json!(null));
    for size in [2, 2, 1] {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = client.request_once("tasks/list", params).await["result"].clone();
        let tasks = page["tasks"].as_array().unwrap().clone();
        assert_eq!(tasks.len(), size, "{page}");
        listed.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        cursor = page["nextCursor"].clone();
    }
    assert!(cursor.is_null());
    created.sort();
    listed.sort();
    assert_eq!(created, listed);
    assert_eq!(error_code(&mut client, "tasks/list", json!({"cursor": "made up"})).await, -32602);
}

#[tokio::test]
async fn list_of_tasks_is_declared_to_known_callers() {
    // TASK-001, TASK-036
    let server = server();
    let offer = json!({
        "protocolVersion": CORE.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
    });
    let mut ann = RawClient::connect_as(&server, Principal::new("ann"), CORE, json!({})).await;
    let nameless = RawClient::connect_as(&server, Principal::new(""), CORE, json!({})).await;
    let anonymous = RawClient::connect(&server, CORE, json!({})).await;
    let calls = json!({"tools": {"call": {}}});
    let declared = |answer: Value| answer["result"]["capabilities"]["tasks"].clone();
    let to_ann = declared(ann.request("initialize", offer.clone()).await);
    assert_eq!(to_ann, json!({"list": {}, "cancel": {}, "requests": calls}));
    for mut client in [nameless, anonymous] {
        let answer = declared(client.request("initialize", offer.clone()).await);
        assert_eq!(answer, json!({"cancel": {}, "requests": calls}));
        assert_eq!(error_code(&mut client, "tasks/list", json!({})).await, -32601);
    }
}

#[tokio::test(start_paused = true)]
async fn message_of_a_task_needs_the_scopes_of_its_call() {
    let fails = Tool::new("fails").task(TaskSupport::Required).scope("admin");
    let fails = fails.handler(|| async { Err::<(), _>(HandlerError::new("a secret")) });
    let waits =
        Tool::new("waits").task(TaskSupport::Required).scope("admin").handler(|cx: Context| async move {
            cx.status("a secret").await;
            std::future::pending::<()>().await;
        });
    let server = Server::new("s", "1").tool(fails).tool(waits);
    let connect = |scopes: &[&str]| {
        let ann = Principal::new("ann").with_scopes(scopes.iter().copied());
        RawClient::connect_as(&server, ann, CORE, json!({}))
    };
    let (mut admin, mut other) = (connect(&["admin"]).await, connect(&[]).await);
    start(&mut admin, "fails").await;
    let waiting = start(&mut admin, "waits").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    for (client, message) in [(&mut admin, json!("a secret")), (&mut other, Value::Null)] {
        let listed = client.request_once("tasks/list", json!({})).await["result"]["tasks"].clone();
        assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
        for task in listed.as_array().unwrap() {
            assert_eq!(task["statusMessage"], message, "{listed}");
        }
    }
    assert_eq!(error_code(&mut other, "tasks/get", json!({"taskId": waiting})).await, -32602);
    let cancelled = other.request_once("tasks/cancel", json!({"taskId": waiting})).await;
    assert_eq!(cancelled["result"]["statusMessage"], Value::Null, "{cancelled}");
}

#[tokio::test]
async fn task_ids_are_long_and_random() {
    // TASK-013, TASK-035, TASK-069
    let server = server();
    let mut client = RawClient::connect(&server, CORE, json!({})).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(start(&mut client, "waits").await);
    }
    // 128 bits.
    assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20);
}

#[tokio::test]
async fn tasks_beyond_a_limit_are_rejected() {
    // TASK-037. F-34
    for server in [server().max_running_tasks(2), server().max_tasks(2)] {
        let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
        let first = start(&mut client, "waits").await;
        start(&mut client, "waits").await;
        let refused = client.request_once("tools/call", json!({"name": "waits"})).await;
        let text = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(text.contains("too many tasks"), "{refused}");
        // A call that may be a task is an ordinary one then.
        let plain = client.request_once("tools/call", json!({"name": "counts"})).await;
        assert_eq!(plain["result"]["content"][0]["text"], "as a call", "{plain}");
        client.request_once("tasks/cancel", json!({"taskId": first})).await;
    }
}

/// A server with a tool that never ends, and whether its handler was dropped.
fn endless() -> (Server, Arc<AtomicBool>) {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let is_dropped = Arc::new(AtomicBool::new(false));
    let seen = is_dropped.clone();
    let waits = Tool::new("waits").task(TaskSupport::Required).handler(move || {
        let dropped = Dropped(seen.clone());
        async move {
            std::future::pending::<()>().await;
            drop(dropped);
        }
    });
    (Server::new("s", "1").tool(waits), is_dropped)
}

#[tokio::test(start_paused = true)]
async fn cancelled_task_drops_its_handler() {
    // TASK-031
    for revision in [CORE, EXTENSION] {
        let (server, is_dropped) = endless();
        let mut client = RawClient::connect(&server, revision, declared()).await;
        let id = start(&mut client, "waits").await;
        assert!(!is_dropped.load(Ordering::SeqCst));
        let cancelled = client.request_once("tasks/cancel", json!({"taskId": id})).await;
        assert!(cancelled["error"].is_null(), "{cancelled}");
        // Only a moment: the clock moves on when the server has nothing left to do.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(is_dropped.load(Ordering::SeqCst), "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn task_ends_with_its_time_to_live() {
    let (server, is_dropped) = endless();
    let server = server.task_ttl(Duration::from_secs(60));
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let id = start(&mut client, "waits").await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(!is_dropped.load(Ordering::SeqCst));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(is_dropped.load(Ordering::SeqCst));
    assert_eq!(error_code(&mut client, "tasks/get", json!({"taskId": id})).await, -32602);
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_result_ends_with_the_time_to_live() {
    let (server, _) = endless();
    let mut client = RawClient::connect(&server, CORE, json!({})).await;
    let params = json!({"name": "waits", "arguments": {}, "task": {"ttl": 1_000}});
    let created = client.request_once("tools/call", params).await;
    let id = created["result"]["task"]["taskId"].clone();
    let started = tokio::time::Instant::now();
    assert_eq!(error_code(&mut client, "tasks/result", json!({"taskId": id})).await, -32602);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn long_call_becomes_a_task_by_itself() {
    let works = Tool::new("works").task(TaskSupport::Optional).handler(|cx: Context| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        if cx.task_id().is_some() { "as a task" } else { "as a call" }
    });
    let server = Server::new("s", "1").tool(works);
    let started = tokio::time::Instant::now();
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let id = start(&mut client, "works").await;
    assert_eq!(started.elapsed(), Duration::from_secs(10));
    tokio::time::sleep(Duration::from_secs(51)).await;
    let got = client.request_once("tasks/get", json!({"taskId": id})).await;
    assert_eq!(got["result"]["result"]["content"][0]["text"], "as a task", "{got}");
    let mut other = RawClient::connect(&server, EXTENSION, json!({})).await;
    let plain = other.request_once("tools/call", json!({"name": "works"})).await;
    assert_eq!(plain["result"]["content"][0]["text"], "as a call", "{plain}");
}

#[tokio::test(start_paused = true)]
async fn open_question_stays_open_when_its_call_becomes_a_task() {
    let builds = Tool::new("builds").task(TaskSupport::Optional).handler(|cx: Context| async move {
        let slow = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<_, HandlerError>(1)
        };
        let (built, answer) = tokio::join!(cx.once("build", slow), cx.sample(question()));
        built?;
        Ok::<_, HandlerError>(answer?.model)
    });
    let server = Server::new("s", "1").tool(builds).call_timeout(Duration::from_secs(90));
    let declared = json!({"sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = RawClient::connect(&server, EXTENSION, declared).await;
    let id = start(&mut client, "builds").await;
    // Much longer than the limit of the call, which does not hold while a question is open.
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    let got = client.request_once("tasks/get", json!({"taskId": id})).await["result"].clone();
    assert_eq!(got["status"], "input_required", "{got}");
    let key = got["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({"role": "assistant", "content": {"type": "text", "text": "!"}, "model": "m"});
    let params = json!({"taskId": id, "inputResponses": {key: answer}});
    let updated = client.request_once("tasks/update", params).await;
    assert!(updated["error"].is_null(), "{updated}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let got = client.request_once("tasks/get", json!({"taskId": id})).await;
    assert_eq!(got["result"]["result"]["content"][0]["text"], "m", "{got}");
}

#[tokio::test]
async fn task_is_kept_for_a_second_at_least() {
    // TASK-017
    let mut client = RawClient::connect(&server(), CORE, json!({})).await;
    for ttl in [json!(0), json!(-5), json!(0.5)] {
        let params = json!({"name": "waits", "arguments": {}, "task": {"ttl": ttl}});
        let created = client.request_once("tools/call", params).await;
        assert_eq!(created["result"]["task"]["ttl"], 1_000, "{created}");
    }
}

#[tokio::test]
async fn keys_of_questions_are_never_used_again() {
    // TASK-056: also if the handler drops a question and asks it again
    let asks = Tool::new("asks").task(TaskSupport::Required).handler(|cx: Context| async move {
        for _ in 0..2 {
            let question = cx.sample(question());
            drop(tokio::time::timeout(Duration::from_millis(1), question).await);
        }
        let answer = cx.sample(question()).await?;
        Ok::<_, AskError>(answer.model)
    });
    let server = Server::new("s", "1").tool(asks);
    let declared = json!({"sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = RawClient::connect(&server, EXTENSION, declared).await;
    let id = start(&mut client, "asks").await;
    let mut keys: Vec<String> = Vec::new();
    while keys.last().is_none_or(|key| !key.ends_with("-3")) {
        tokio::task::yield_now().await;
        let got = client.request_once("tasks/get", json!({"taskId": id})).await;
        let open = got["result"]["inputRequests"].as_object().cloned().unwrap_or_default();
        assert!(open.len() <= 1, "{got}");
        if let Some(key) = open.keys().next().filter(|key| keys.last() != Some(*key)).cloned() {
            assert!(!keys.contains(&key), "{key} again");
            keys.push(key);
        }
    }
}

fn question() -> CreateMessageParams {
    let message = SamplingMessage::new(Role::User, SamplingBlock::text("?"));
    CreateMessageParams::new(vec![message], 100_u64)
}
