//! How often a task is polled, with a server on a pipe that counts the polls. The clock of the tests is paused.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};
use tokio::time::{Instant, sleep_until};
use tsugite::client::{Client, ErrorKind, TimeoutKind};
use tsugite::revision::Revision;

/// What the server sends between two polls.
#[derive(Clone, Copy, PartialEq)]
enum Sends {
    Nothing,
    /// A notification each 10 milliseconds, which says that the task has ended.
    WrongNews,
    /// A notification each 10 milliseconds, which says that the task works, each with another message.
    Messages,
    /// No answer to every second poll.
    FewAnswers,
}

/// Follows a task that never ends for 100 seconds; the server wants a poll every ten seconds. Returns the number of polls and
/// of calls of the callback.
async fn follow(sends: Sends) -> (usize, usize) {
    let (ours, theirs) = duplex(1 << 16);
    let server = tokio::spawn(serve(theirs, sends));
    let (reader, writer) = split(ours);
    let client = Client::over(reader, writer).revision(Revision::V2025_11_25).tasks().await.unwrap();
    let (reports, counted) = std::sync::mpsc::channel();
    let limit = Duration::from_secs(100);
    let task = client.follow_task("t1").timeout(limit).on_task(move |task| drop(reports.send(task)));
    let error = task.await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TimedOut { kind: TimeoutKind::Task, .. }), "{error}");
    assert_eq!(error.task_id(), Some("t1"));
    assert_eq!(error.to_string(), "the task did not end within 100 s; the task t1 may go on at the server");
    client.close().await;
    drop(client);
    (server.await.unwrap(), counted.iter().count())
}

/// Serves the client until it closes the pipe, and returns the number of polls.
async fn serve(stream: DuplexStream, sends: Sends) -> usize {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    let (mut polls, mut number) = (0, 0);
    let mut next = Instant::now();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => line,
                _ => return polls,
            },
            () = sleep_until(next), if matches!(sends, Sends::WrongNews | Sends::Messages) && polls > 0 => {
                number += 1;
                next = Instant::now() + Duration::from_millis(10);
                let status = if sends == Sends::WrongNews { "completed" } else { "working" };
                let params = task(status, &format!("step {number}"));
                let news = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params});
                if writer.write_all(format!("{news}\n").as_bytes()).await.is_err() {
                    return polls;
                }
                continue;
            }
        };
        let request: Value = serde_json::from_str(&line).unwrap();
        let result = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"},
            }),
            Some("tasks/get") => {
                polls += 1;
                if sends == Sends::FewAnswers && polls % 2 == 0 {
                    continue;
                }
                task("working", "polled")
            }
            _ => continue,
        };
        let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        writer.write_all(format!("{response}\n").as_bytes()).await.unwrap();
    }
}

fn task(status: &str, message: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    json!({
        "taskId": "t1", "status": status, "statusMessage": message, "createdAt": time, "lastUpdatedAt": time,
        "ttl": null, "pollInterval": 10_000,
    })
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_polled_at_its_interval() {
    assert_eq!(follow(Sends::Nothing).await, (10, 1));
}

#[tokio::test(start_paused = true)]
async fn flood_of_wrong_notifications_causes_few_polls() {
    // 10 at the interval, and 8 while the delay grows from 50 milliseconds to the interval.
    let (polls, _) = follow(Sends::WrongNews).await;
    assert!((10..=20).contains(&polls), "{polls}");
}

#[tokio::test(start_paused = true)]
async fn flood_of_messages_causes_no_polls() {
    let (polls, reports) = follow(Sends::Messages).await;
    assert_eq!(polls, 10);
    // At most one each 50 milliseconds.
    assert!((100..=2_000 + polls).contains(&reports), "{reports}");
}

#[tokio::test(start_paused = true)]
async fn poll_without_an_answer_is_repeated() {
    // Each second one lasts 30 seconds, the idle timeout.
    let (polls, _) = follow(Sends::FewAnswers).await;
    assert!((4..=5).contains(&polls), "{polls}");
}

/// Acknowledges each stream for the changes of a task and ends it at once, until the client closes the pipe. Returns the number
/// of streams.
async fn end_streams(stream: DuplexStream) -> usize {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mut streams = 0;
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let mut answers = Vec::new();
        let result = match request["method"].as_str() {
            Some("subscriptions/listen") => {
                streams += 1;
                let meta = json!({"io.modelcontextprotocol/subscriptionId": request["id"]});
                let params = json!({"_meta": meta, "notifications": {"taskIds": ["t1"]}});
                let method = "notifications/subscriptions/acknowledged";
                answers.push(json!({"jsonrpc": "2.0", "method": method, "params": params}));
                json!({"resultType": "complete"})
            }
            Some("tasks/get") => {
                let mut details = task("working", "polled");
                details["resultType"] = json!("complete");
                details["ttlMs"] = Value::Null;
                details["pollIntervalMs"] = json!(10_000);
                details
            }
            _ => continue,
        };
        answers.push(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
        for answer in answers {
            if writer.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return streams;
            }
        }
    }
    streams
}

#[tokio::test(start_paused = true)]
async fn acknowledged_stream_is_opened_again_without_a_limit() {
    let (ours, theirs) = duplex(1 << 16);
    let server = tokio::spawn(end_streams(theirs));
    let (reader, writer) = split(ours);
    let client = Client::over(reader, writer).revision(Revision::V2026_07_28).tasks().await.unwrap();
    let error = client.follow_task("t1").timeout(Duration::from_secs(100)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TimedOut { kind: TimeoutKind::Task, .. }), "{error}");
    client.close().await;
    drop(client);
    let streams = server.await.unwrap();
    assert!(streams > 100, "{streams}");
}
