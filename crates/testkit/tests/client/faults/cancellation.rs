//! Dropped and timed out calls: the server is told as its revision requires, and nothing else is cancelled.

use std::time::Duration;

use serde_json::json;
use tsugite::client::{Client, ClientBuilder};
use tsugite_testkit::script::ScriptFile;

use super::raw::{AfterResponse, Raw, ReceivedRequest, answer_handshake};
use super::script::{noted, spawn, spawn_modern};
use super::{Running, call, until, within};

fn is_cancellation(request: &ReceivedRequest) -> bool {
    request.method() == "notifications/cancelled"
}

/// A server that answers everything except calls.
fn silent() -> Raw {
    Raw::after_handshake(|_, writer| {
        writer.closed();
        AfterResponse::Close
    })
}

fn begin(client: &Client) -> Running<tsugite::client::Result<String>> {
    Running::new(client.call::<String>("t", ()).into_future())
}

#[tokio::test]
async fn dropped_call_is_cancelled_at_the_child() {
    let clients: [(ClientBuilder, i64); 2] = [(spawn("handshake; drain"), 3), (spawn_modern("drain"), 2)];
    for (client, id) in clients {
        let client = within(client).await.unwrap();
        let (first, second) = (begin(&client), begin(&client));
        until(|| client.stderr().matches("tools/call").count() == 2).await;
        drop(second);
        noted(&client, "notifications/cancelled").await;
        let said = client.stderr();
        let line = said.lines().find(|line| line.contains("notifications/cancelled")).unwrap();
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["params"]["requestId"], json!(id), "{line}");
        assert!(message.get("id").is_none());
        drop(first);
        until(|| client.stderr().matches("notifications/cancelled").count() == 2).await;
    }
}

#[tokio::test]
async fn timed_out_call_is_cancelled_at_the_child() {
    // LIFE-023
    let client = within(spawn("handshake; drain")).await.unwrap();
    let late = within(client.call::<String>("t", ()).timeout(Duration::from_millis(50))).await;
    assert!(late.unwrap_err().is_timeout());
    noted(&client, r#""requestId":2"#).await;
}

#[tokio::test]
async fn answered_call_is_not_cancelled() {
    // CANC-003, CANC-004
    let clients = [
        (spawn("handshake; read_line; answer 2 yes; drain"), 3),
        (spawn_modern("read_line; answer 1 yes; drain"), 2),
    ];
    for (client, id) in clients {
        let client = within(client).await.unwrap();
        assert_eq!(call(&client, "t").await.unwrap(), "yes");
        let other = begin(&client);
        until(|| client.stderr().matches("tools/call").count() == 2).await;
        drop(other);
        noted(&client, &format!(r#""requestId":{id}"#)).await;
        assert_eq!(client.stderr().matches("notifications/cancelled").count(), 1);
    }
}

#[tokio::test]
async fn http_handshake_cancellation_is_sent_and_keeps_the_session() {
    let raw = silent();
    let client = within(raw.client()).await.unwrap();
    let running = begin(&client);
    raw.wait_for_requests(1, ReceivedRequest::is_call).await;
    drop(running);
    raw.wait_for_requests(1, is_cancellation).await;
    let told = raw.requests().into_iter().find(is_cancellation).unwrap();
    assert_eq!(told.body["params"]["requestId"], json!(2));
    assert_eq!(told.header("mcp-session-id"), Some("one"));
    // The same for a call that timed out.
    let late = within(client.call::<String>("t", ()).timeout(Duration::from_millis(50))).await;
    assert!(late.unwrap_err().is_timeout());
    raw.wait_for_requests(2, is_cancellation).await;
    assert_eq!(
        raw.requests().into_iter().rfind(is_cancellation).unwrap().body["params"]["requestId"],
        json!(3)
    );
}

#[tokio::test]
async fn http_stateless_cancellation_only_closes_the_connection() {
    // While the client waits for the head, and while it reads a stream.
    for streams in [false, true] {
        let raw = Raw::start(move |_, writer| {
            if streams {
                writer.stream();
                writer.write(": begun\n\n");
            }
            writer.closed();
            AfterResponse::Close
        });
        let client = within(raw.stateless_client()).await.unwrap();
        let running = begin(&client);
        raw.wait_for_requests(1, ReceivedRequest::is_call).await;
        drop(running);
        raw.wait_for_closed(1).await;
        let late = within(client.call::<String>("t", ()).timeout(Duration::from_millis(50))).await;
        assert!(late.unwrap_err().is_timeout());
        raw.wait_for_closed(2).await;
        assert_eq!(raw.requests().len(), 2, "only the two calls are sent");
    }
}

#[tokio::test]
async fn handshake_is_never_cancelled() {
    // CANC-005
    let raw = Raw::start(|request, writer| {
        if request.header("x-answer").is_some() {
            return answer_handshake(request, writer).unwrap();
        }
        writer.closed();
        AfterResponse::Close
    });
    for revision in [super::HANDSHAKE, tsugite::prelude::Revision::V2024_11_05] {
        let running = Running::new(Client::connect(raw.url()).revision(revision).into_future());
        let before = raw.requests().len();
        raw.wait_for_requests(before.max(1), |request| request.method() == "initialize").await;
        drop(running);
        let late = Client::connect(raw.url()).revision(revision).timeout(Duration::from_millis(50));
        within(late).await.unwrap_err();
    }
    // A later request arrives later.
    let client = within(raw.client().header("x-answer", "1")).await.unwrap();
    within(client.close()).await;
    assert_eq!(raw.count(is_cancellation), 0);
    // The same over pipes.
    let file = ScriptFile::new();
    let script = format!("repeat forever {{ read_line; append {file} $line }}");
    let late = spawn(&script).timeout(Duration::from_millis(300));
    within(late).await.unwrap_err();
    assert!(file.text().contains("initialize") && !file.text().contains("cancelled"), "{}", file.text());
}

#[tokio::test]
async fn dropped_list_requests_no_more_pages() {
    let raw = Raw::after_handshake(|request, writer| {
        let cursor = request.body["params"]["cursor"].as_str().unwrap_or("0").parse::<u64>().unwrap() + 1;
        writer.json(
            &request
                .result(json!({"tools": [], "prompts": [{"name": "p"}], "nextCursor": cursor.to_string()})),
        );
        AfterResponse::Keep
    });
    let client = within(raw.client()).await.unwrap();
    let mut prompts = client.list_prompts();
    for _ in 0..3 {
        within(prompts.next()).await.unwrap().unwrap();
    }
    drop(prompts);
    within(client.close()).await;
    assert_eq!(raw.count(|request| request.method() == "prompts/list"), 3);
}

#[tokio::test]
async fn closing_the_client_ends_its_session_and_calls() {
    let raw = silent();
    let client = within(raw.client()).await.unwrap();
    let running = begin(&client);
    raw.wait_for_requests(1, ReceivedRequest::is_call).await;
    within(client.close()).await;
    let error = running.end().await.unwrap_err();
    assert!(error.may_have_run() && !error.is_timeout(), "{error}");
    assert_eq!(raw.count(|request| request.verb == "DELETE"), 1);
    // Once is enough.
    within(client.close()).await;
    assert!(call(&client, "t").await.is_err());
    assert_eq!(raw.count(|request| request.verb == "DELETE"), 1);
    assert_eq!(raw.calls(), 1);
}
