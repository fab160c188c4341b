//! Requests about a task that the server refuses for now, with a server on a pipe. The clock of the tests is paused.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};
use tokio::task::JoinHandle;
use tsugite::client::{Client, ClientBuilder, ClientError, ErrorKind};
use tsugite::protocol::TaskStatus;
use tsugite::revision::Revision;

/// A response: a result, or an error.
pub(super) type Response = Result<Value, Value>;

/// Starts a server on a pipe. `respond` gets each request about a task and how often its method was received before; without
/// a response the request stays open. The server returns the requests that it received when the client has closed the pipe.
pub(super) fn serve(
    revision: Revision,
    respond: impl Fn(&Value, usize) -> Option<Response> + Send + 'static,
) -> (ClientBuilder, JoinHandle<Vec<Value>>) {
    let (ours, theirs) = duplex(1 << 16);
    let (reader, writer) = split(ours);
    (Client::over(reader, writer).revision(revision).tasks(), tokio::spawn(respond_to(theirs, respond)))
}

async fn respond_to(
    stream: DuplexStream,
    respond: impl Fn(&Value, usize) -> Option<Response> + Send + 'static,
) -> Vec<Value> {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mut requests: Vec<Value> = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let method = request["method"].clone();
        let response = match method.as_str() {
            Some("initialize") => Some(Ok(json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
                "capabilities": {"tasks": {"cancel": {}}},
            }))),
            Some(name) if name.starts_with("tasks/") => {
                let earlier = requests.iter().filter(|one| one["method"] == method).count();
                respond(&request, earlier)
            }
            _ => continue,
        };
        let id = request["id"].clone();
        requests.push(request);
        let message = match response {
            Some(Ok(result)) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Some(Err(error)) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            None => continue,
        };
        if writer.write_all(format!("{message}\n").as_bytes()).await.is_err() {
            break;
        }
    }
    requests
}

/// The task `t1` in both forms, with further members.
pub(super) fn task(status: &str, members: Value) -> Value {
    let time = "2026-01-01T00:00:00Z";
    let mut task = json!({
        "resultType": "complete", "taskId": "t1", "status": status, "createdAt": time, "lastUpdatedAt": time,
        "ttl": null, "ttlMs": null, "pollInterval": 1_000, "pollIntervalMs": 1_000,
    });
    for (name, value) in members.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

pub(super) fn done() -> Value {
    json!({"result": {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}})
}

fn count(requests: &[Value], method: &str) -> usize {
    requests.iter().filter(|request| request["method"] == method).count()
}

/// Errors that say that the same request may succeed later: of a failed store, of a rate limit, and of a bridge.
fn passing_errors() -> [Value; 3] {
    [
        json!({"code": -32803, "message": "the store fails"}),
        json!({"code": -32603, "message": "Too many requests", "data": {"retryAfterMs": 32}}),
        json!({"code": -32603, "message": "gone", "data": {"status": 503, "mayHaveRun": true}}),
    ]
}

#[tokio::test(start_paused = true)]
async fn refused_polls_and_answers_are_sent_again() {
    // TASK-056, TASK-058
    for error in passing_errors() {
        let (client, server) = serve(Revision::V2026_07_28, move |request, earlier| {
            let refused = Err(error.clone());
            Some(match (request["method"].as_str().unwrap(), earlier) {
                ("tasks/get", 0 | 2) | ("tasks/update", 0) => refused,
                ("tasks/get", 1 | 3) => {
                    Ok(task("input_required", json!({"inputRequests": {"r": {"method": "roots/list"}}})))
                }
                ("tasks/get", _) => Ok(task("completed", done())),
                _ => Ok(json!({"resultType": "complete"})),
            })
        });
        let client = client.on_roots(async || Vec::new()).await.unwrap();
        let result = client.follow_task("t1").await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("done"));
        client.close().await;
        drop(client);
        let requests = server.await.unwrap();
        assert_eq!((count(&requests, "tasks/get"), count(&requests, "tasks/update")), (5, 2), "{requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_result_is_requested_again() {
    for error in passing_errors() {
        let (client, server) = serve(Revision::V2025_11_25, move |request, earlier| {
            Some(match (request["method"].as_str().unwrap(), earlier) {
                ("tasks/result", 0) => Err(error.clone()),
                ("tasks/result", _) => Ok(done()["result"].clone()),
                _ => Ok(task("completed", json!({}))),
            })
        });
        let client = client.await.unwrap();
        let result = client.follow_task("t1").await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("done"));
        client.close().await;
        drop(client);
        assert_eq!(count(&server.await.unwrap(), "tasks/result"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn error_of_a_failed_task_is_requested_three_times() {
    for error in passing_errors() {
        let (client, server) = serve(Revision::V2025_11_25, move |request, _| {
            Some(match request["method"].as_str().unwrap() {
                "tasks/result" => Err(error.clone()),
                _ => Ok(task("failed", json!({}))),
            })
        });
        let client = client.await.unwrap();
        let failed = client.follow_task("t1").await.unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::ErrorResponse { .. }), "{failed}");
        client.close().await;
        drop(client);
        assert_eq!(count(&server.await.unwrap(), "tasks/result"), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_refuses_every_poll_is_given_up() {
    for error in passing_errors() {
        let (client, server) = serve(Revision::V2026_07_28, move |_, _| Some(Err(error.clone())));
        let client = client.await.unwrap();
        let failed = client.follow_task("t1").await.unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::ErrorResponse { .. }), "{failed}");
        client.close().await;
        drop(client);
        assert_eq!(count(&server.await.unwrap(), "tasks/get"), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn refused_cancellation_is_sent_again() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let [error, ..] = passing_errors();
        let (client, server) = serve(revision, move |_, earlier| {
            Some(if earlier < 2 { Err(error.clone()) } else { Ok(task("cancelled", json!({}))) })
        });
        let client = client.await.unwrap();
        let cancelled = client.cancel_task("t1").await.unwrap();
        assert!(cancelled.task.is_none_or(|task| task.status == TaskStatus::Cancelled));
        client.close().await;
        drop(client);
        assert_eq!(count(&server.await.unwrap(), "tasks/cancel"), 3, "{revision}");
    }
}

/// Follows a task that the server describes like this, and returns the error.
async fn follow_to_error(revision: Revision, response: Response, result: Value) -> ClientError {
    let (client, _server) = serve(revision, move |request, _| {
        Some(if request["method"] == "tasks/result" { Ok(result.clone()) } else { response.clone() })
    });
    let client = client.await.unwrap();
    let error = client.follow_task("t1").await.unwrap_err();
    assert_eq!(error.task_id(), Some("t1"));
    error
}

#[tokio::test(start_paused = true)]
async fn failed_task_without_an_error_is_explained() {
    for (members, text) in [
        (json!({}), "the task failed, and the server does not say why"),
        (json!({"statusMessage": "no luck"}), "the task failed: no luck"),
    ] {
        let state = Ok(task("failed", members));
        let error = follow_to_error(Revision::V2026_07_28, state, Value::Null).await;
        assert_eq!(error.to_string(), text);
        assert!(matches!(error.kind(), ErrorKind::Protocol(_)) && !error.may_have_run());
    }
}

#[tokio::test(start_paused = true)]
async fn task_that_was_seen_to_end_does_not_go_on() {
    let malformed = json!({"resultType": "complete", "content": 5});
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let state = Ok(task("completed", json!({"result": malformed})));
        let error = follow_to_error(revision, state, malformed.clone()).await;
        let text = error.to_string();
        assert!(text.contains("malformed") && !text.contains("go on"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn task_whose_poll_fails_may_go_on() {
    for (code, goes_on) in [(-32603, true), (-32602, false)] {
        let refused = Err(json!({"code": code, "message": "no"}));
        let error = follow_to_error(Revision::V2026_07_28, refused, Value::Null).await;
        assert_eq!(error.may_have_run(), goes_on, "{error}");
        assert_eq!(error.to_string().contains("; the task t1 may go on at the server"), goes_on, "{error}");
    }
}
