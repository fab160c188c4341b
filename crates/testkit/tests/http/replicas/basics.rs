//! Replicas that share a store: a client may reach any of them with any request.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tsugite::prelude::*;
use tsugite::server::{ListKind, SealKey};
use tsugite::store::MemoryStore;
use tsugite_testkit::http::{Request, TestServer, open_session};

#[derive(Form)]
struct Name {
    /// Your name.
    name: String,
}

/// Two replicas; `go` lets the tool `slow` end.
async fn replicas(go: &Arc<Notify>) -> [(Server, TestServer); 2] {
    let store = Arc::new(MemoryStore::new().shared());
    let one = || {
        let go = go.clone();
        let greet = Tool::new("greet").handler(|cx: Context| async move {
            let name = cx.ask::<Name>("Who are you?").await?.name;
            Ok::<_, AskError>(format!("Hello, {name}!"))
        });
        let slow = Tool::new("slow").handler(move |cx: Context| {
            let go = go.clone();
            async move {
                cx.progress(1).await;
                go.notified().await;
                "done"
            }
        });
        Server::new("s", "1").tool(greet).tool(slow).store(store.clone()).seal_keys(SealKey::new([7; 32]))
    };
    let (first, second) = (one(), one());
    let (at_first, at_second) = (TestServer::start(&first).await, TestServer::start(&second).await);
    [(first, at_first), (second, at_second)]
}

fn call(id: u32, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "p"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#;

#[tokio::test]
async fn session_is_shared_by_all_replicas() {
    let [(_, first), (_, second)] = replicas(&Arc::default()).await;
    let session = open_session(&first, "2025-11-25", json!({})).await;
    let list = || Request::post(&Value::Null).body(LIST).session(&session);
    for replica in [&first, &second] {
        assert_eq!(replica.send(list()).await.json()["result"]["tools"].as_array().unwrap().len(), 2);
    }
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);
    for replica in [&first, &second] {
        assert_eq!(replica.send(list()).await.status, 404);
    }
}

#[tokio::test]
async fn server_request_can_be_answered_at_another_replica() {
    let [(_, first), (_, second)] = replicas(&Arc::default()).await;
    let session = open_session(&first, "2025-11-25", json!({"elicitation": {}})).await;
    let mut stream = first.connect().await;
    stream.send(Request::post(&call(1, "greet")).session(&session)).await;
    let question = stream.next_message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let result = json!({"action": "accept", "content": {"name": "Ann"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    assert_eq!(second.send(Request::post(&answer).session(&session)).await.status, 202);
    assert_eq!(stream.next_message().await.unwrap()["result"]["content"][0]["text"], "Hello, Ann!");
}

#[tokio::test]
async fn changes_are_announced_at_every_replica() {
    let [(changed, _first), (_, second)] = replicas(&Arc::default()).await;
    let session = open_session(&second, "2025-06-18", json!({})).await;
    let mut stream = second.connect().await;
    assert_eq!(stream.send(Request::get_stream(&session)).await.status, 200);
    changed.change(|changes| changes.disable(ListKind::Tool, "slow"));
    assert_eq!(stream.next_message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn stream_is_resumed_at_another_replica() {
    let go = Arc::new(Notify::new());
    let [(_, first), (_, second)] = replicas(&go).await;
    let session = open_session(&first, "2025-11-25", json!({})).await;
    let mut stream = first.connect().await;
    stream.send(Request::post(&call(1, "slow")).session(&session)).await;
    let primed = stream.next_event().await.unwrap();
    assert_eq!(primed.data, "");
    let progress = stream.next_event().await.unwrap();
    drop(stream);
    let mut resumed = second.connect().await;
    let resume = Request::get_stream(&session).header("Last-Event-ID", progress.id.as_ref().unwrap());
    assert_eq!(resumed.send(resume).await.status, 200);
    // The handler is still running at the first replica; the second one follows it to its end.
    go.notify_one();
    let answer = resumed.next_message().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(1), &json!("done")));
    assert_eq!(resumed.next_message().await, None);
}

#[tokio::test]
async fn event_ids_are_unique_across_replicas() {
    let go = Arc::new(Notify::new());
    let [(_, first), (_, second)] = replicas(&go).await;
    let session = open_session(&first, "2025-11-25", json!({})).await;
    let mut ids = Vec::new();
    let mut open_streams = Vec::new();
    for (id, replica) in [(1, &first), (2, &second)] {
        let mut stream = replica.connect().await;
        stream.send(Request::post(&call(id, "slow")).session(&session)).await;
        ids.push(stream.next_event().await.unwrap().id);
        ids.push(stream.next_event().await.unwrap().id);
        open_streams.push(stream);
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), ids.contains(&None)), (all, false));
}

#[tokio::test]
async fn get_stream_is_resumed_at_another_replica() {
    let [(changed, first), (_, second)] = replicas(&Arc::default()).await;
    let session = open_session(&first, "2025-11-25", json!({})).await;
    let mut stream = first.connect().await;
    stream.send(Request::get_stream(&session)).await;
    let primed = stream.next_event().await.unwrap().id.unwrap();
    changed.change(|changes| changes.disable(ListKind::Tool, "slow"));
    assert_eq!(stream.next_message().await.unwrap()["method"], "notifications/tools/list_changed");
    drop(stream);
    let mut again = second.connect().await;
    let resumed = again.send(Request::get_stream(&session).header("Last-Event-ID", &primed)).await;
    assert_eq!(resumed.status, 200);
    assert_eq!(again.next_message().await.unwrap()["method"], "notifications/tools/list_changed");
    changed.change(|changes| changes.enable(ListKind::Tool, "slow"));
    assert_eq!(again.next_message().await.unwrap()["method"], "notifications/tools/list_changed");
}
