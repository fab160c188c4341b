//! Streams that are resumed by another user, replayed without limit, or subscribed to without permission.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, Response, SseEvent, TestServer, open_session};

use super::guard::{Direct, Guarded, by, next};
use super::{OLD, Stops, call, notice, refused, request};

/// A tool that logs `one`, waits for a permit, and then logs a text of `bytes` bytes `words` times.
fn teller(go: &Arc<Semaphore>, done: &Arc<Notify>, words: usize, bytes: usize) -> Tool {
    let (go, done) = (go.clone(), done.clone());
    Tool::new("tells").handler(move |cx: Context| {
        let (go, done) = (go.clone(), done.clone());
        async move {
            cx.log(Level::Error, "one").await;
            go.acquire().await.unwrap().forget();
            for _ in 0..words {
                cx.log(Level::Error, &"x".repeat(bytes)).await;
            }
            done.notify_one();
            cx.client().map_or_else(String::new, |client| client.name.clone())
        }
    })
}

/// Reads up to the first event with a message and returns its id.
async fn first(connection: &mut tsugite_testkit::http::Connection) -> String {
    loop {
        let event = connection.next_event().await.unwrap();
        if !event.data.is_empty() {
            return event.id.unwrap();
        }
    }
}

#[tokio::test]
async fn other_users_cannot_resume_a_stream() {
    // S-07, S-08, RESM-006
    let (go, done) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let guarded = Guarded::start(&Server::new("s", "1").tool(teller(&go, &done, 1, 3))).await;
    for revision in OLD {
        let ada = guarded.open("ada", revision, json!({})).await;
        let eve = guarded.open("eve", revision, json!({})).await;
        let mut calling = guarded.connect().await;
        calling.send(by("ada", Request::post(&call("tells", json!({}))).session(&ada))).await;
        let last = first(&mut calling).await;
        drop(calling);
        // A stolen id can neither send to the session nor read from it.
        let forged = Request::post(&request(99, "tools/call", json!({"name": "tells"}))).session(&ada);
        for forged in [by("eve", forged.clone()), forged] {
            assert_eq!(guarded.connect().await.send(forged).await.status, 404);
        }
        let resume = |session: &str| Request::get_stream(session).header("Last-Event-ID", &last);
        for request in [by("eve", resume(&ada)), resume(&ada), by("eve", Request::get_stream(&ada))] {
            let answer = guarded.connect().await.send(request).await;
            assert_eq!(answer.status, 404, "{revision}: {answer:?}");
        }
        // Nor is the event found in the user's own session.
        let answer = guarded.connect().await.send(by("eve", resume(&eve))).await;
        assert_eq!(answer.status, 400, "{revision}");
        go.add_permits(1);
        done.notified().await;
        let resumed = guarded.send(by("ada", resume(&ada))).await;
        let events: Vec<_> = resumed.events().into_iter().filter(|event| !event.data.is_empty()).collect();
        assert_eq!(events.len(), 2, "{resumed:?}");
        assert_eq!(events[0].json()["params"]["data"], "xxx");
        assert_eq!(events[1].json()["id"], 7, "{revision}");
    }
}

#[tokio::test]
async fn resumed_stream_replays_only_its_own_events() {
    // S-08, RESM-002, RESM-006, HTTP-037, HTTP-040
    let (go, done) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let serving = TestServer::start(&Server::new("s", "1").tool(teller(&go, &done, 1, 3))).await;
    for revision in OLD {
        let session = open_session(&serving, revision, json!({})).await;
        let mut ids = Vec::new();
        for id in [1, 2] {
            let mut calling = serving.connect().await;
            let call = request(id, "tools/call", json!({"name": "tells"}));
            calling.send(Request::post(&call).session(&session)).await;
            ids.push((id, first(&mut calling).await));
        }
        assert_ne!(ids[0].1, ids[1].1);
        let mut news = serving.connect().await;
        assert_eq!(news.send(Request::get_stream(&session)).await.status, 200);
        go.add_permits(2);
        done.notified().await;
        for (id, last) in &ids {
            let resumed = serving.send(Request::get_stream(&session).header("Last-Event-ID", last)).await;
            let answers: Vec<_> =
                resumed.events().into_iter().filter(|event| !event.data.is_empty()).collect();
            assert_eq!(answers.len(), 2, "{revision}: {resumed:?}");
            assert_eq!(answers[1].json()["id"], *id, "{revision}");
        }
        // Messages of a request never came on the GET stream.
        assert_eq!(serving.send(Request::new("DELETE").session(&session)).await.status, 200);
        assert_eq!(news.next_message().await, None, "{revision}");
    }
}

#[tokio::test]
async fn unknown_event_id_is_refused() {
    // S-08
    let (go, done) = (Arc::new(Semaphore::new(100)), Arc::new(Notify::new()));
    let serving = TestServer::start(&Server::new("s", "1").tool(teller(&go, &done, 1, 3))).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let called = serving.send(Request::post(&call("tells", json!({}))).session(&session)).await;
    let last = called.events().pop().unwrap().id.unwrap();
    let (stream, number) = last.split_once('-').unwrap();
    let later = format!("{stream}-{}", number.parse::<u64>().unwrap() + 1);
    let long = "9".repeat(10_000);
    for id in ["", "x", "-", "0-0", "0-1", "-1", "1-", &later, "ffffffffffffffff-18446744073709551615", &long]
    {
        let answer = serving.send(Request::get_stream(&session).header("Last-Event-ID", id)).await;
        assert_eq!(refused(&answer).0, 400, "{id}");
    }
    let twice = Request::get_stream(&session).header("Last-Event-ID", &last).header("Last-Event-ID", &last);
    assert_eq!(serving.send(twice).await.status, 400);
}

/// Calls `tells`, disconnects after the first event, waits until the handler is done, and resumes.
async fn come_back(
    direct: &Direct,
    session: &str,
    go: &Semaphore,
    done: &Notify,
) -> (Response, Vec<SseEvent>) {
    let (mut head, mut body) = direct.begin(&Request::post(&call("tells", json!({}))).session(session)).await;
    while head.events().iter().all(|event| event.data.is_empty()) {
        head.body.push_str(&next(&mut body).await.unwrap());
    }
    drop(body);
    go.add_permits(1);
    done.notified().await;
    let last = head.events().pop().unwrap().id.unwrap();
    let resumed = direct.send(&Request::get_stream(session).header("Last-Event-ID", &last)).await;
    let events = match resumed.status {
        200 => resumed.events().into_iter().filter(|event| !event.data.is_empty()).collect(),
        _ => Vec::new(),
    };
    (resumed, events)
}

#[tokio::test(start_paused = true)]
async fn replay_log_is_limited() {
    // S-09
    let (go, done) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let hour = Duration::from_secs(3600);
    let hello = Request::post(&tsugite_testkit::http::initialize_request("2025-06-18", json!({})));
    for (why, log, words, bytes, whole) in [
        ("fits", Http::new().log_ttl(hour), 5, 10, true),
        ("events", Http::new().max_log_events(3).log_ttl(hour), 5, 10, false),
        ("bytes", Http::new().max_log_bytes(4000).log_ttl(hour), 5, 1000, false),
    ] {
        let direct = Direct::new(&Server::new("s", "1").tool(teller(&go, &done, words, bytes)).http(log));
        let session = direct.send(&hello).await.header("mcp-session-id").unwrap().to_owned();
        let (resumed, events) = come_back(&direct, &session, &go, &done).await;
        // A partial replay is never served as a complete one.
        assert_eq!((resumed.status, events.len()), if whole { (200, 6) } else { (400, 0) }, "{why}");
    }
    let log = Http::new().log_ttl(Duration::from_secs(300));
    let direct = Direct::new(&Server::new("s", "1").tool(teller(&go, &done, 5, 10)).http(log));
    let session = direct.send(&hello).await.header("mcp-session-id").unwrap().to_owned();
    let (resumed, events) = come_back(&direct, &session, &go, &done).await;
    assert_eq!((resumed.status, events.len()), (200, 6));
    let again = Request::get_stream(&session).header("Last-Event-ID", events[0].id.as_ref().unwrap());
    assert_eq!(direct.send(&again).await.status, 200);
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(direct.send(&again).await.status, 400, "too old");
}

#[tokio::test(start_paused = true)]
async fn streams_kept_per_session_are_limited() {
    // S-09
    let (go, done) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let server =
        Server::new("s", "1").tool(teller(&go, &done, 1, 10)).http(Http::new().max_logs_per_session(2));
    let direct = Direct::new(&server);
    let hello = Request::post(&tsugite_testkit::http::initialize_request("2025-06-18", json!({})));
    let session = direct.send(&hello).await.header("mcp-session-id").unwrap().to_owned();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (_, events) = come_back(&direct, &session, &go, &done).await;
        ids.push(events[0].id.clone().unwrap());
    }
    let mut statuses = Vec::new();
    for id in &ids {
        statuses.push(direct.send(&Request::get_stream(&session).header("Last-Event-ID", id)).await.status);
    }
    assert_eq!(statuses, [400, 200, 200]);
}

#[tokio::test]
async fn open_streams_are_limited() {
    // S-06, F-25
    let server = Server::new("s", "1").tool(Tool::new("t").handler(|| async { "t" }));
    let server = server.http(Http::new().max_streams(1).http_sse());
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let other = open_session(&serving, "2025-11-25", json!({})).await;
    let mut first = serving.connect().await;
    assert_eq!(first.send(Request::get_stream(&session)).await.status, 200);
    assert_eq!(refused(&serving.send(Request::get_stream(&other)).await).0, 503);
    let old = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    assert_eq!(refused(&serving.send(old).await).0, 503);
    // The open stream continues, and its end frees a slot.
    server.add(Tool::new("more").handler(|| async { "more" })).unwrap();
    assert_eq!(first.next_message().await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(serving.send(Request::new("DELETE").session(&session)).await.status, 200);
    assert_eq!(first.next_message().await, None);
    assert_eq!(serving.connect().await.send(Request::get_stream(&other)).await.status, 200);
}

fn listen(id: i64, notifications: Value) -> Request {
    Request::stateless(request(id, "subscriptions/listen", json!({"notifications": notifications})))
}

#[tokio::test]
async fn subscriber_gets_only_requested_notifications() {
    // F-23, F-24
    let logs = Tool::new("logs").handler(|cx: Context| async move {
        cx.log(Level::Error, "secret").await;
        cx.progress(1).await;
        tokio::task::yield_now().await;
        "done"
    });
    let server = Server::new("s", "1")
        .tool(logs)
        .resource(Resource::text("text://a", "a"))
        .resource(Resource::text("text://b", "b"));
    let serving = TestServer::start(&server).await;
    let mut lists = serving.connect().await;
    lists.send(listen(1, json!({"toolsListChanged": true}))).await;
    let mut pages = serving.connect().await;
    let wish = json!({"resourceSubscriptions": ["text://a", "text://nowhere"], "promptsListChanged": true});
    pages.send(listen(2, wish)).await;
    let granted = lists.next_message().await.unwrap();
    assert_eq!(granted["params"]["notifications"], json!({"toolsListChanged": true}));
    let granted = pages.next_message().await.unwrap();
    assert_eq!(granted["params"]["notifications"], json!({"resourceSubscriptions": ["text://a"]}));
    let mut loud = call("logs", json!({}));
    loud["params"]["_meta"] = json!({"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"});
    assert_eq!(serving.send(Request::stateless(loud)).await.events().len(), 3);
    server.notify_resource_updated("text://b");
    server.notify_resource_updated("text://a");
    server.add(Tool::new("more").handler(|| async { "more" })).unwrap();
    let message = pages.next_message().await.unwrap();
    assert_eq!(
        (&message["method"], &message["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("text://a"))
    );
    let message = lists.next_message().await.unwrap();
    assert_eq!(message["method"], "notifications/tools/list_changed");
    // Nothing else came before the end.
    serving.stop().await.unwrap();
    for (mut stream, id) in [(lists, 1), (pages, 2)] {
        let end = stream.next_message().await.unwrap();
        assert_eq!((end.get("method"), &end["id"]), (None, &json!(id)), "{end}");
        assert_eq!(stream.next_message().await, None);
    }
}

#[tokio::test]
async fn stateless_stream_is_never_resumed() {
    // RESM-013, HTTP-028, HTTP-030
    let stopped = Arc::new(Notify::new());
    let stops = stopped.clone();
    let waits = Tool::new("waits").handler(move |cx: Context| {
        let stops = Stops(stops.clone());
        async move {
            cx.progress(1).await;
            std::future::pending::<()>().await;
            drop(stops);
        }
    });
    let serving = TestServer::start(&Server::new("s", "1").tool(waits)).await;
    let params = json!({"name": "waits", "_meta": {"progressToken": 1}});
    let mut calling = serving.connect().await;
    let call = Request::stateless(request(7, "tools/call", params)).header("Last-Event-ID", "0-1");
    assert_eq!(calling.send(call).await.header("content-type"), Some("text/event-stream"));
    let event = calling.next_event().await.unwrap();
    assert_eq!((&event.id, &event.json()["params"]["progress"]), (&None, &json!(1)));
    drop(calling);
    // Disconnecting cancels the call.
    stopped.notified().await;
    let again = Request::new("GET").header("Accept", "text/event-stream").header("Last-Event-ID", "0-1");
    let again = serving.send(again.header("MCP-Protocol-Version", "2026-07-28")).await;
    assert_eq!(again.status, 405);
}

#[tokio::test]
async fn handshake_client_disconnect_cancels_nothing() {
    // HTTP-026, HTTP-027
    let (go, done) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let serving = TestServer::start(&Server::new("s", "1").tool(teller(&go, &done, 0, 0))).await;
    for revision in OLD {
        let session = open_session(&serving, revision, json!({})).await;
        let mut calling = serving.connect().await;
        calling.send(Request::post(&call("tells", json!({}))).session(&session)).await;
        first(&mut calling).await;
        drop(calling);
        // Only a cancellation would end the call, and this one names another request.
        let cancel =
            Request::post(&notice("notifications/cancelled", json!({"requestId": 8}))).session(&session);
        assert_eq!(serving.send(cancel).await.status, 202);
        go.add_permits(1);
        done.notified().await;
    }
}
