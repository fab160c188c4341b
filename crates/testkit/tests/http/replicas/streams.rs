//! Streams of requests: stored before they are sent, resumed anywhere, and ended if their replica dies.

use serde_json::json;
use tsugite_testkit::http::{SseEvent, open_session};

use super::*;

/// Starts `slow` and returns its stream and the event of its progress.
async fn start_slow(replica: &Replica, session: &str, id: u32) -> (Connection, SseEvent) {
    let mut stream = replica.call_stream(session, &call(id, "slow")).await;
    let progress = next_event(&mut stream).await;
    assert_eq!(progress.json()["method"], "notifications/progress");
    (stream, progress)
}

#[tokio::test]
async fn dead_replica_ends_its_streams_with_an_error() {
    let cluster = Cluster::new();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let (mut zombie, progress) = start_slow(&first, &session, 1).await;
    let after = progress.id.unwrap();
    first.faults.cut_off();
    let mut resumed = second.resume(&session, &after).await;
    let lost = next(&mut resumed).await.unwrap();
    assert_eq!((&lost["id"], &lost["error"]["code"]), (&json!(1), &json!(-32603)), "{lost}");
    assert!(lost["error"]["message"].as_str().unwrap().contains("may have run"), "{lost}");
    assert_eq!(next(&mut resumed).await, None);
    // The replica continues and completes the request: its client is not answered twice.
    first.faults.connect();
    cluster.let_go(1);
    assert_eq!(next(&mut zombie).await, None);
    for replica in [&first, &second, &third] {
        let mut again = replica.resume(&session, &after).await;
        assert_eq!(next(&mut again).await.unwrap(), lost);
        assert_eq!(next(&mut again).await, None);
    }
    // The id is free again, and the session is alive at all replicas.
    for replica in [&first, &second, &third] {
        assert_eq!(text(&replica.post(&session, &call(1, "echo")).await.json()), "echo");
    }
}

#[tokio::test]
async fn response_is_sent_once_the_store_heals() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let (mut stream, progress) = start_slow(&first, &session, 1).await;
    // The store takes the response, but does not say so; then it refuses appends for a while.
    first.faults.lose_confirmation(|operation| operation.appends());
    cluster.let_go(1);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "done");
    assert_eq!(next(&mut stream).await, None);
    let mut resumed = first.resume(&session, &progress.id.unwrap()).await;
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "done");
    assert_eq!(next(&mut resumed).await, None, "it was stored once");
}

#[tokio::test]
async fn stopped_replica_keeps_finished_streams_and_reports_cut_off_ones() {
    let cluster = Cluster::with_long_leases();
    let [mut first, second, third] = cluster.start_three().await;
    first.server = first.server.shutdown_grace(Duration::from_millis(10));
    let first = {
        let at = TestServer::start(&first.server).await;
        Replica { at, ..first }
    };
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let (mut finished, progress) = start_slow(&first, &session, 1).await;
    cluster.let_go(1);
    assert_eq!(text(&next(&mut finished).await.unwrap()), "done");
    let (_running, cut_off) = start_slow(&first, &session, 2).await;
    first.at.stop().await.unwrap();
    for replica in [&second, &third] {
        let mut kept = replica.resume(&session, progress.id.as_ref().unwrap()).await;
        assert_eq!(text(&next(&mut kept).await.unwrap()), "done");
        let mut ended = replica.resume(&session, cut_off.id.as_ref().unwrap()).await;
        let error = next(&mut ended).await.unwrap();
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(2), &json!(-32603)), "{error}");
        assert_eq!(next(&mut ended).await, None);
    }
}
