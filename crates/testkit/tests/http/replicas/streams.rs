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
async fn running_stream_is_followed_and_taken_over() {
    // Leases are long, so that only messages can wake the readers.
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let (mut stream, progress) = start_slow(&first, &session, 1).await;
    let after = progress.id.unwrap();
    let mut at_second = second.resume(&session, &after).await;
    // The stream that was resumed ends at its first replica.
    assert_eq!(next(&mut stream).await, None);
    let mut at_third = third.resume(&session, &after).await;
    assert_eq!(next(&mut at_second).await, None, "a second resumption takes the stream over");
    let mut again = third.resume(&session, &after).await;
    assert_eq!(next(&mut at_third).await, None, "also at the same replica");
    let mut back = first.resume(&session, &after).await;
    assert_eq!(next(&mut again).await, None, "and at the replica that runs the request");
    cluster.let_go(1);
    let done = next(&mut back).await.unwrap();
    assert_eq!((&done["id"], text(&done)), (&json!(1), "done"));
    assert_eq!(next(&mut back).await, None);
    // The finished stream can be read at every replica.
    for replica in [&first, &second, &third] {
        let mut finished = replica.resume(&session, &after).await;
        assert_eq!(text(&next(&mut finished).await.unwrap()), "done");
        assert_eq!(next(&mut finished).await, None);
    }
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
    // The log is kept like that of any stream that has ended.
    assert!(second.faults.times_to_live().contains(&Duration::from_secs(5 * 60)));
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
async fn short_outage_of_a_replica_ends_no_stream() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let (_stream, progress) = start_slow(&first, &session, 1).await;
    first.faults.cut_off();
    let mut resumed = second.resume(&session, &progress.id.unwrap()).await;
    cluster.let_go(1);
    cluster.ended(1).await;
    let failures = first.faults.seen().failures;
    within(first.faults.wait_for(|seen| seen.failures > failures)).await;
    first.faults.connect();
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "done");
}

#[tokio::test]
async fn events_are_shown_only_after_they_are_stored() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let (mut stream, progress) = start_slow(&first, &session, 1).await;
    first.faults.refuse(|operation| operation.appends());
    cluster.let_go(1);
    // Every attempt to store the response fails, and the client sees nothing.
    within(first.faults.wait_for(|seen| seen.failures >= 2)).await;
    let mut resumed = second.resume(&session, &progress.id.unwrap()).await;
    first.faults.connect();
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "done");
    assert_eq!(next(&mut stream).await, None, "the stream was resumed elsewhere");
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
