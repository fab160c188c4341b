//! A task whose requests reach one replica after the other.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tsugite_testkit::http::{Connection, Request};
use tsugite_testkit::replicas::Replicas;

/// Polls until a task must have changed.
const MAX_POLLS: usize = 10_000;

/// Four replicas of the server whose tools run as tasks.
fn start() -> Replicas {
    let replicas = Replicas::start(4, |redis| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replica"));
        command.args(["--redis", redis]).stderr(Stdio::null());
        command
    });
    replicas.unwrap()
}

/// Sends a request of a client with the extension to one replica, and returns the result.
async fn send(replica: SocketAddr, method: &str, params: Value) -> Value {
    let id = params["taskId"].as_str().map(str::to_owned);
    let request = Request::stateless(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
    let request = id.iter().fold(request, |request, id| request.header("Mcp-Name", id));
    let response = Connection::connect(replica).await.send_and_read(request.path("/run/tasks/mcp")).await;
    let body = response.json();
    assert!(body["error"].is_null(), "{method} at {replica}: {body}");
    body["result"].clone()
}

/// Asks one replica for a task until it has this status.
async fn poll(replica: SocketAddr, id: &Value, status: &str) -> Value {
    for _ in 0..MAX_POLLS {
        let task = send(replica, "tasks/get", with_extension(json!({"taskId": id}))).await;
        if task["status"] == status {
            return task;
        }
    }
    panic!("the task is not {status}");
}

fn with_extension(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    params
}

#[tokio::test(flavor = "current_thread")]
async fn each_step_of_a_task_may_reach_another_replica() {
    let replicas = start();
    let [first, second, third, fourth] = replicas.replica_addresses()[..] else { panic!("four replicas") };
    let created = send(first, "tools/call", with_extension(json!({"name": "greets", "arguments": {}}))).await;
    assert_eq!(created["resultType"], "task", "{created}");
    let id = &created["taskId"];
    let asked = poll(second, id, "input_required").await;
    assert_eq!(asked["inputRequests"]["name"]["params"]["message"], "Who?", "{asked}");
    let answers = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let update = json!({"taskId": id, "inputResponses": answers});
    send(third, "tasks/update", with_extension(update)).await;
    let ended = poll(fourth, id, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "Hello, Ada!", "{ended}");
}
