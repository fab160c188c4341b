//! Resumption of streams.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use tsugite_testkit::http::{Connection, Request, SseEvent, TestServer, open_session};

use super::{FeatureServer, HANDSHAKES, call, feature_server, send, stream, summary, within};

/// Reads up to the next message and returns all events up to it.
async fn read_until_event(stream: &mut Connection) -> Vec<SseEvent> {
    let mut events = Vec::new();
    loop {
        let event = within(stream.next_event()).await.unwrap();
        let says = !event.data.is_empty();
        events.push(event);
        if says {
            return events;
        }
    }
}

/// Reads the remaining events until the stream ends.
async fn all(mut stream: Connection) -> Vec<SseEvent> {
    let mut events = Vec::new();
    while let Some(event) = within(stream.next_event()).await {
        events.push(event);
    }
    events
}

fn messages(events: &[SseEvent]) -> Vec<Value> {
    events.iter().filter(|event| !event.data.is_empty()).map(SseEvent::json).collect()
}

fn again(session: &str, last: &str) -> Request {
    Request::get_stream(session).header("Last-Event-ID", last)
}

#[tokio::test]
async fn event_id_is_unique_and_names_its_stream() {
    // RESM-001, RESM-002; RESM-003: each event id resumes its own stream.
    for revision in HANDSHAKES {
        let FeatureServer { server, gate, .. } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let mut streams = Vec::new();
        let mut listening = stream(&serving, Request::get_stream(&session)).await;
        assert_eq!(send(&serving, Request::post(&call(9, "hides")).session(&session)).await.status, 200);
        let news = read_until_event(&mut listening).await;
        for id in 1..=2 {
            streams.push(stream(&serving, Request::post(&call(id, "waits")).session(&session)).await);
        }
        gate.add_permits(2);
        let mut seen = HashSet::new();
        let mut last = HashMap::new();
        for event in &news {
            assert!(seen.insert(event.id.clone().unwrap()), "{revision} {event:?}");
        }
        for (number, stream) in (1..).zip(streams) {
            for event in all(stream).await {
                let id = event.id.clone().unwrap_or_else(|| panic!("{revision} {event:?}"));
                assert!(seen.insert(id.clone()), "{revision}: {id} stands on two streams");
                last.entry(number).or_insert_with(Vec::new).push(id);
            }
        }
        for (number, ids) in last {
            for (at, id) in ids.iter().enumerate() {
                let events = all(stream(&serving, again(&session, id)).await).await;
                let missed: Vec<_> = events.iter().filter(|event| !event.data.is_empty()).collect();
                let after: Vec<_> = missed.iter().map(|event| event.id.clone().unwrap()).collect();
                assert_eq!(after, ids[at + 1..], "{revision}: of stream {number} after {id}");
            }
        }
    }
}

#[tokio::test]
async fn resumption_replays_only_missed_events_of_the_stream() {
    // RESM-005, RESM-006
    for revision in HANDSHAKES {
        let FeatureServer { server, gate, mut ended } = feature_server();
        let serving = TestServer::start(&server).await;
        let session = open_session(&serving, revision, json!({})).await;
        let mut last = Vec::new();
        for id in 1..=2 {
            let mut waiting = stream(&serving, Request::post(&call(id, "waits")).session(&session)).await;
            let events = read_until_event(&mut waiting).await;
            last.push(events.last().unwrap().id.clone().unwrap());
        }
        // The first client resumes before its response is ready, the second after.
        let first = stream(&serving, again(&session, &last[0])).await;
        gate.add_permits(2);
        assert_eq!(
            (within(ended.recv()).await, within(ended.recv()).await),
            (Some(true), Some(true)),
            "{revision}"
        );
        let second = stream(&serving, again(&session, &last[1])).await;
        for (id, stream) in [(1, first), (2, second)] {
            let heard = messages(&all(stream).await);
            assert_eq!(
                summary(&heard),
                ["notifications/progress".to_owned(), format!("answer {id}")],
                "{revision}"
            );
            assert_eq!(heard[0]["params"]["progressToken"], id, "{revision}");
        }
    }
}

#[tokio::test]
async fn stream_on_2025_11_25_begins_with_an_event_id() {
    // RESM-008: on the stream of a call and on the GET stream.
    let FeatureServer { server, .. } = feature_server();
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    for request in [Request::get_stream(&session), Request::post(&call(1, "waits")).session(&session)] {
        let mut begun = stream(&serving, request).await;
        let first = within(begun.next_event()).await.unwrap();
        assert!(first.id.as_ref().is_some_and(|id| !id.is_empty()), "{first:?}");
        assert_eq!(first.data, "");
    }
}

#[tokio::test]
async fn server_sends_a_retry_time_before_it_closes_a_stream() {
    // HTTP-023, RESM-009
    let FeatureServer { server, gate, mut ended } = feature_server();
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let left = all(stream(&serving, Request::post(&call(1, "leaves")).session(&session)).await).await;
    assert_eq!(summary(&messages(&left)), ["notifications/progress"]);
    assert!(left.iter().any(|event| event.retry.is_some()), "{left:?}");
    let last = left.last().unwrap().id.clone().unwrap();
    gate.add_permits(1);
    assert_eq!(within(ended.recv()).await, Some(true));
    let back = all(stream(&serving, again(&session, &last)).await).await;
    assert_eq!(summary(&messages(&back)), ["notifications/progress", "answer 1"]);
}

#[tokio::test]
async fn nothing_is_resumed_on_2026_07_28() {
    // RESM-013
    let serving = TestServer::start(&feature_server().server).await;
    let answer = send(&serving, Request::stateless(call(1, "steps")).header("Last-Event-ID", "1-1")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(summary(&messages(&answer.events())).last().unwrap(), "answer 1");
    let get = Request::new("GET")
        .header("Accept", "text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Last-Event-ID", "1-1");
    assert_eq!(send(&serving, get).await.status, 405);
}
