//! Servers and proxies that lose requests about a task of 2025-11-25.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tsugite::client::{ErrorKind, FormResponse};

use super::raw::{AfterResponse, Raw, ReceivedRequest, ResponseWriter, answer_handshake};
use super::{kind, within};

fn task(status: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    json!({"taskId": "t1", "status": status, "createdAt": time, "lastUpdatedAt": time, "ttl": null, "pollInterval": 50})
}

/// A server whose task needs input until its result was requested once. `lose` handles that first request.
fn loses_a_result(lose: impl Fn(&mut ResponseWriter) + Send + Sync + 'static) -> Raw {
    let results = AtomicUsize::new(0);
    Raw::after_handshake(move |request: &ReceivedRequest, writer: &mut ResponseWriter| {
        match request.method() {
            "tasks/get" if results.load(Ordering::SeqCst) == 0 => {
                writer.json(&request.result(task("input_required")))
            }
            "tasks/get" => writer.json(&request.result(task("completed"))),
            "tasks/result" if results.fetch_add(1, Ordering::SeqCst) == 0 => lose(writer),
            "tasks/result" => writer.json(&request.answer("done")),
            _ => writer.status(404, "", ""),
        }
        AfterResponse::Keep
    })
}

#[tokio::test]
async fn failed_poll_is_repeated() {
    let polls = AtomicUsize::new(0);
    let raw = Raw::after_handshake(move |request, writer| {
        match (request.method(), polls.fetch_add(1, Ordering::SeqCst)) {
            (_, 0) => writer.json(&request.result(task("working"))),
            (_, 1) => writer.status(503, "retry-after: 0\r\n", ""),
            (_, 2) => writer.status(504, "", "gateway timeout"),
            (_, 3) => writer.json(&request.result(task("completed"))),
            ("tasks/result", 4) => writer.status(502, "", ""),
            ("tasks/get", _) => writer.json(&request.result(task("completed"))),
            _ => writer.json(&request.answer("done")),
        }
        AfterResponse::Keep
    });
    let client = within(raw.client().tasks()).await.unwrap();
    assert_eq!(within(client.follow_task("t1")).await.unwrap().text(), "done");
}

#[tokio::test]
async fn answer_that_is_lost_is_sent_again() {
    // TASK-056, TASK-058
    let answers = AtomicUsize::new(0);
    let raw = Raw::start(move |request, writer| {
        let details = |status: &str| {
            let mut details = task(status);
            details["resultType"] = json!("complete");
            details["ttlMs"] = Value::Null;
            details["pollIntervalMs"] = json!(50);
            details
        };
        match request.method() {
            "tasks/get" if answers.load(Ordering::SeqCst) < 2 => {
                let mut asking = details("input_required");
                let params = json!({"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
                asking["inputRequests"] = json!({"q": {"method": "elicitation/create", "params": params}});
                writer.json(&request.result(asking));
            }
            "tasks/get" => {
                let mut ended = details("completed");
                ended["result"] = request.answer("done")["result"].clone();
                writer.json(&request.result(ended));
            }
            "tasks/update" if answers.fetch_add(1, Ordering::SeqCst) == 0 => return AfterResponse::Close,
            "tasks/update" => writer.json(&request.result(json!({"resultType": "complete"}))),
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        }
        AfterResponse::Keep
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let client = raw.stateless_client().tasks().on_elicit_form(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(FormResponse::accept(json!({})))
    });
    let client = within(client).await.unwrap();
    assert_eq!(within(client.follow_task("t1")).await.unwrap().text(), "done");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let sent = raw.requests().into_iter().filter(|request| request.method() == "tasks/update");
    let sent: Vec<_> = sent.map(|request| request.body["params"]["inputResponses"].clone()).collect();
    assert!(sent.len() == 2 && sent[0] == sent[1] && sent[0]["q"].is_object(), "{sent:?}");
}

#[tokio::test]
async fn failure_behind_a_bridge_is_repeated() {
    let polls = AtomicUsize::new(0);
    let raw = Raw::after_handshake(move |request, writer| {
        match (request.method(), polls.fetch_add(1, Ordering::SeqCst)) {
            (_, 0) => {
                let data = json!({"status": 503, "retryAfterMs": 0, "mayHaveRun": true});
                let error = json!({"code": -32603, "message": "the server is busy", "data": data});
                writer.json(&json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}));
            }
            ("tasks/get", _) => writer.json(&request.result(task("completed"))),
            _ => writer.json(&request.answer("done")),
        }
        AfterResponse::Keep
    });
    let client = within(raw.client().tasks()).await.unwrap();
    assert_eq!(within(client.follow_task("t1")).await.unwrap().text(), "done");
}

#[tokio::test]
async fn refused_poll_is_final() {
    let raw = Raw::after_handshake(|_, writer| {
        writer.status(500, "", "");
        AfterResponse::Keep
    });
    let client = within(raw.client().tasks()).await.unwrap();
    let error = kind(within(client.follow_task("t1")).await);
    assert!(matches!(error, ErrorKind::Status { status: 500, .. }), "{error:?}");
    assert_eq!(raw.count(|request| request.method() == "tasks/get"), 1);
}

#[tokio::test]
async fn result_that_a_proxy_gives_up_is_requested_again() {
    let raw = loses_a_result(|writer| writer.status(504, "", "gateway timeout"));
    let client = within(raw.client().tasks()).await.unwrap();
    assert_eq!(within(client.follow_task("t1")).await.unwrap().text(), "done");
}

#[tokio::test]
async fn end_of_a_task_is_seen_beside_a_lost_result() {
    let raw = loses_a_result(|_| {});
    let client = within(raw.client().tasks()).await.unwrap();
    assert_eq!(within(client.follow_task("t1")).await.unwrap().text(), "done");
}

#[tokio::test]
async fn state_of_another_task_is_an_error() {
    let raw = Raw::after_handshake(|request, writer| {
        writer.json(&request.result(task("completed")));
        AfterResponse::Keep
    });
    let client = within(raw.client().tasks()).await.unwrap();
    let followed = kind(within(client.follow_task("t2")).await);
    let read = kind(within(client.task("t2")).await);
    for error in [followed, read] {
        assert!(matches!(&error, ErrorKind::Protocol(text) if text.contains("another task")), "{error:?}");
    }
}
