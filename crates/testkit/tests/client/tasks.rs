//! Calls that become tasks.

use std::future::{IntoFuture, pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};
use tokio::time::Instant;
use tsugite::client::{Client, ClientBuilder, ErrorKind, FormResponse, TimeoutKind};
use tsugite::prelude::*;
use tsugite::protocol::{TaskStatus, TaskSupport};
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

#[tokio::test(start_paused = true)]
async fn core_tasks_are_called_followed_and_answered() {
    // TASK-007, TASK-022: required tools always, others if the application asks for it
    let client =
        connect(&fixture::by_name("tasks").unwrap()).revision(Revision::V2025_11_25).tasks().await.unwrap();
    let both: String = client.call("asks_both", json!({})).await.unwrap();
    assert_eq!(both, "Ada and Ada");
    let plain: String = client.call("t", json!({})).as_task().await.unwrap();
    assert_eq!(plain, "t");
    let counted: String = client.call("counts", json!({})).await.unwrap();
    assert_eq!(counted, "as a call");
    let counted: String = client.call("counts", json!({})).as_task().await.unwrap();
    assert_eq!(counted, "as a task");
    let failed = client.call::<String>("fails", json!({})).await.unwrap_err();
    assert!(matches!(failed.kind(), ErrorKind::ToolFailed(_)), "{failed}");
    let broken = client.call::<String>("breaks", json!({})).await.unwrap_err();
    assert!(matches!(broken.kind(), ErrorKind::ErrorResponse { .. }), "{broken}");
    let checked = client.call_checked("done", json!({})).await.unwrap();
    assert_eq!(checked.text(), "done");
}

#[tokio::test(start_paused = true)]
async fn tools_that_require_tasks_need_a_client_that_declared_them() {
    let client = connect(&fixture::by_name("tasks").unwrap()).revision(Revision::V2025_11_25).await.unwrap();
    let refused = client.call::<String>("done", json!({})).as_task().await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::ErrorResponse { error, .. } if error.code == -32601),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn running_call_hands_out_its_task() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = fixture::by_name("tasks").unwrap();
        let client = connect(&server).revision(revision).tasks().await.unwrap();
        let (tell, mut tasks) = tokio::sync::mpsc::unbounded_channel();
        let tell = move |task| drop(tell.send(task));
        let call = tokio::spawn(client.call::<String>("waits", json!({})).on_task(tell).into_future());
        let id = tasks.recv().await.unwrap().task_id;
        call.abort();
        drop(client);
        // Another client, as after a restart.
        let later = connect(&server).revision(revision).tasks().await.unwrap();
        let following = tokio::spawn(later.follow_task(&id).into_future());
        later.cancel_task(&id).await.unwrap();
        let cancelled = following.await.unwrap().unwrap_err();
        assert!(matches!(cancelled.kind(), ErrorKind::TaskCancelled), "{revision} {cancelled}");
        assert_eq!((cancelled.task_id(), cancelled.may_have_run()), (Some(id.as_str()), false), "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_limit_ends_the_wait_and_not_the_task() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = fixture::by_name("tasks").unwrap();
        let client = connect(&server).revision(revision).tasks().await.unwrap();
        let limit = Duration::from_secs(500);
        let error = client.call::<String>("waits", json!({})).task_timeout(limit).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::TimedOut { kind: TimeoutKind::Task, .. })
                && error.may_have_run(),
            "{revision} {error}"
        );
        let id = error.task_id().expect("the id of the task").to_owned();
        assert_eq!(client.task(id).await.unwrap().task.status, TaskStatus::Working, "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_and_progress_of_a_task_are_reported() {
    // On 2026-07-28 a task has no progress.
    for (revision, progress) in [(Revision::V2025_11_25, 1), (Revision::V2026_07_28, 0)] {
        let server = fixture::by_name("tasks").unwrap();
        let client = connect(&server).revision(revision).tasks().await.unwrap();
        let (tell, mut tasks) = tokio::sync::mpsc::unbounded_channel();
        let (tell_progress, mut reported) = tokio::sync::mpsc::unbounded_channel();
        let name: String = client
            .call("reports", json!({}))
            .on_task(move |task| drop(tell.send((task.status, task.status_message))))
            .on_progress(move |progress| {
                let _ = tell_progress.send(progress.progress);
            })
            .await
            .unwrap();
        assert_eq!(name, "Ada");
        assert_eq!(tasks.recv().await, Some((TaskStatus::Working, None)), "{revision}");
        let mut seen = Vec::new();
        while let Some((_, message)) = tasks.recv().await {
            seen.extend(message);
        }
        assert!(seen.iter().all(|message| message == "half done") && !seen.is_empty(), "{revision} {seen:?}");
        let mut count = 0;
        while reported.recv().await.is_some() {
            count += 1;
        }
        assert_eq!(count, progress, "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_heard_before_the_next_poll() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let works = Tool::new("works").task(TaskSupport::Required).handler(|| async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            "done"
        });
        let server =
            Server::new("s", "1").task_poll_interval(Duration::from_secs(300)).tool(works.no_timeout());
        let client = Client::in_process(&server).revision(revision).tasks().await.unwrap();
        let start = Instant::now();
        let done: String = client.call("works", json!({})).await.unwrap();
        assert_eq!(done, "done");
        assert!(start.elapsed() < Duration::from_secs(100), "{revision} {:?}", start.elapsed());
    }
}

/// A server on a pipe that creates a task only after 100 seconds. Returns the methods it has received, when the task is
/// cancelled.
async fn serve_late(stream: DuplexStream) -> Vec<String> {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mut methods = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        let request: serde_json::Value = serde_json::from_str(&line).unwrap();
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let time = "2026-01-01T00:00:00Z";
        let task = |status: &str| json!({"taskId": "1", "status": status, "createdAt": time, "lastUpdatedAt": time, "ttl": null});
        let result = match method.as_str() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
                "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
            }),
            "tools/list" => json!({"tools": [{
                "name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"},
            }]}),
            "tools/call" => {
                tokio::time::sleep(Duration::from_secs(100)).await;
                json!({"task": task("working")})
            }
            "tasks/cancel" => task("cancelled"),
            _ => serde_json::Value::Null,
        };
        methods.push(method);
        let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        if request["id"].is_i64() && writer.write_all(format!("{response}\n").as_bytes()).await.is_err() {
            break;
        }
        if methods.last().is_some_and(|last| last == "tasks/cancel") {
            break;
        }
    }
    methods
}

#[tokio::test(start_paused = true)]
async fn task_of_a_call_that_timed_out_is_cancelled() {
    // CANC-006
    let (ours, theirs) = duplex(1 << 16);
    let server = tokio::spawn(serve_late(theirs));
    let (reader, writer) = split(ours);
    let client = Client::over(reader, writer).revision(Revision::V2025_11_25).tasks().await.unwrap();
    let begun = Instant::now();
    let error = client.call::<String>("t", json!({})).await.unwrap_err();
    assert!(error.is_timeout() && error.may_have_run(), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(31), "{:?}", begun.elapsed());
    let methods = tokio::time::timeout(Duration::from_secs(600), server).await.unwrap().unwrap();
    assert_eq!(methods.last().map(String::as_str), Some("tasks/cancel"), "{methods:?}");
    assert!(!methods.iter().any(|method| method == "notifications/cancelled"), "{methods:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_call_leaves_no_unknown_task() {
    // Each running call of the tool holds a reference.
    let running = Arc::new(());
    let held = Arc::clone(&running);
    let waits = Tool::new("waits").task(TaskSupport::Required).handler(move || {
        let held = Arc::clone(&held);
        async move {
            pending::<()>().await;
            drop(held);
        }
    });
    let server = Server::new("s", "1").tool(waits);
    let client = Client::in_process(&server).revision(Revision::V2025_11_25).tasks().await.unwrap();
    let idle = Arc::strong_count(&running);
    for polls in 0..1_000 {
        let known = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&known);
        let call =
            client.call::<String>("waits", json!({})).on_task(move |_| tell.store(true, Ordering::SeqCst));
        let mut call = call.into_future();
        for _ in 0..polls {
            poll_fn(|cx| {
                drop(call.as_mut().poll(cx));
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
        drop(call);
        if known.load(Ordering::SeqCst) {
            return;
        }
        // The clock is paused: it goes on when nothing else is left to do.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(Arc::strong_count(&running), idle, "dropped after {polls} polls");
    }
    panic!("no call became a task");
}
