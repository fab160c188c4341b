//! Tasks whose results, clients, tools or transports are not what they should be.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite::server::ListKind;
use tsugite_testkit::log::Warnings;
use tsugite_testkit::raw_client::RawClient;

use super::{CORE, EXTENSION, declared, endless, server, start};

/// Polls a task until it has ended.
async fn wait_for_end(client: &mut RawClient, id: &str) -> Value {
    for _ in 0..100_000 {
        let got = client.request_once("tasks/get", json!({"taskId": id})).await["result"].clone();
        match got["status"].as_str() {
            Some("working" | "input_required") => tokio::task::yield_now().await,
            Some(_) => return got,
            None => panic!("no status: {got}"),
        }
    }
    panic!("the task does not end");
}

#[tokio::test]
async fn task_with_oversized_result_fails_with_a_reason() {
    let large = Tool::new("large").task(TaskSupport::Required).handler(|| async { "x".repeat(17 << 20) });
    let server = Server::new("s", "1").tool(large);
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let id = start(&mut client, "large").await;
    let ended = wait_for_end(&mut client, &id).await;
    assert_eq!(ended["status"], "failed");
    let reason = ended["error"]["message"].as_str().unwrap_or_default();
    assert!(reason.contains("16777216"), "{reason}");
}

#[tokio::test]
async fn task_goes_on_when_its_tool_is_removed() {
    let go = Arc::new(Semaphore::new(0));
    let gate = go.clone();
    let works = Tool::new("works").task(TaskSupport::Required).handler(move || {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            "done"
        }
    });
    let server = Server::new("s", "1").tool(works);
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let id = start(&mut client, "works").await;
    assert!(server.remove(ListKind::Tool, "works"));
    go.add_permits(1);
    let ended = wait_for_end(&mut client, &id).await;
    assert_eq!(ended["result"]["content"][0]["text"], "done", "{ended}");
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_delays_no_task() {
    let talks = Tool::new("talks").task(TaskSupport::Required).handler(|cx: Context| async move {
        for done in 0..100 {
            cx.log(Level::Error, &"x".repeat(1 << 20)).await;
            cx.progress(done).await;
        }
        "done"
    });
    let server = Server::new("s", "1").tool(talks);
    let mut deaf = RawClient::connect(&server, CORE, json!({})).await;
    let id = start(&mut deaf, "talks").await;
    let mut other = RawClient::connect(&server, CORE, json!({})).await;
    let ended = wait_for_end(&mut other, &id).await;
    assert_eq!(ended["status"], "completed", "{ended}");
}

/// Holds a permit until it is dropped.
struct Held(Arc<Semaphore>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

#[tokio::test]
async fn spawned_part_of_a_cancelled_task_ends() {
    let (go, ended) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (gate, seen) = (go.clone(), ended.clone());
    let spawns = Tool::new("spawns").task(TaskSupport::Required).handler(move |cx: Context| {
        let (gate, held) = (gate.clone(), Held(seen.clone()));
        async move {
            tokio::spawn(async move {
                gate.acquire().await.unwrap().forget();
                let step = cx.once("step", async { Ok::<_, HandlerError>(1) }).await;
                assert!(step.is_err());
                drop((held, cx));
            });
            std::future::pending::<()>().await;
        }
    });
    let server = Server::new("s", "1").tool(spawns);
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let id = start(&mut client, "spawns").await;
    client.request_once("tasks/cancel", json!({"taskId": id})).await;
    go.add_permits(1);
    within(ended.acquire()).await.unwrap().forget();
}

#[tokio::test]
async fn wish_for_a_task_ends_with_its_call() {
    let (go, ended) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (gate, seen) = (go.clone(), ended.clone());
    let spawns = Tool::new("spawns").task(TaskSupport::Optional).handler(move |cx: Context| {
        let (gate, held) = (gate.clone(), Held(seen.clone()));
        async move {
            tokio::spawn(async move {
                gate.acquire().await.unwrap().forget();
                assert!(cx.start_task().await.is_err());
                drop((held, cx));
            });
            "done"
        }
    });
    let server = Server::new("s", "1").tool(spawns);
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let answered = client.request_once("tools/call", json!({"name": "spawns"})).await;
    assert_eq!(answered["result"]["content"][0]["text"], "done", "{answered}");
    go.add_permits(1);
    within(ended.acquire()).await.unwrap().forget();
}

/// Fails a test that hangs.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.unwrap_or_else(|_| panic!("timed out"))
}

#[tokio::test]
async fn question_goes_to_a_session_that_can_answer() {
    let (server, ann) = (server(), Principal::new("ann"));
    let mut asked = RawClient::connect_as(&server, ann.clone(), CORE, json!({"elicitation": {}}))
        .await
        .on_request(|_, _| json!({"action": "accept", "content": {"name": "Ada"}}));
    // Its handler panics if it is asked.
    let mut other = RawClient::connect_as(&server, ann, CORE, json!({})).await;
    let id = start(&mut asked, "greets").await;
    let waiting = other.send_request("tasks/result", json!({"taskId": id}));
    let result = asked.request_once("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["result"]["content"][0]["text"], "Hello, Ada!", "{result}");
    let same = other.wait_for_response(waiting).await;
    assert_eq!(same["result"]["content"], result["result"]["content"], "{same}");
    assert_eq!(asked.received_requests.len(), 1);
}

#[tokio::test]
async fn end_of_a_task_is_logged_without_its_id() {
    let logged = Warnings::capture_from(tracing::Level::INFO);
    let server = server();
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let id = start(&mut client, "done").await;
    wait_for_end(&mut client, &id).await;
    let mut events = Vec::new();
    for _ in 0..1_000 {
        events.extend(logged.take_with_fields());
        if events.iter().any(|event| event.contains("a task has ended")) {
            break;
        }
        tokio::task::yield_now().await;
    }
    let end = events.iter().find(|event| event.contains("a task has ended")).expect("no event");
    assert!(end.contains("done") && end.contains("completed"), "{end}");
    assert!(events.iter().all(|event| !event.contains(&id)), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_end_with_the_last_transport() {
    let (server, is_dropped) = endless();
    let [first, second] = [server.http_service().unwrap(), server.http_service().unwrap()];
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let id = start(&mut client, "waits").await;
    // Requests may come again, so nothing ends.
    first.drain().await;
    first.close();
    first.drain().await;
    first.drain().await;
    assert_eq!(status(&mut client, &id).await, "working");
    second.close();
    second.drain().await;
    assert_eq!(status(&mut client, &id).await, "failed");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(is_dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn tasks_begin_again_with_the_next_transport() {
    let (server, _) = endless();
    let service = server.http_service().unwrap();
    service.close();
    service.drain().await;
    let mut client = RawClient::connect(&server, EXTENSION, declared()).await;
    let refused = client.request_once("tools/call", json!({"name": "waits"})).await;
    assert!(refused.to_string().contains("the server is stopping"), "{refused}");
    let _next = server.http_service().unwrap();
    start(&mut client, "waits").await;
}

async fn status(client: &mut RawClient, id: &str) -> Value {
    client.request_once("tasks/get", json!({"taskId": id})).await["result"]["status"].clone()
}
