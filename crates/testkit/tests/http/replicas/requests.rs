//! Requests in flight: cancelled at any replica, and their ids are refused at all of them.

use serde_json::json;
use tsugite_testkit::http::open_session;

use super::*;

#[tokio::test]
async fn request_is_cancelled_through_another_replica() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut stream = first.call_stream(&session, &call(1, "slow")).await;
    cluster.started(1).await;
    second.faults.refuse(|operation| operation.sends());
    assert_unavailable(&second.post(&session, &cancelled(1)).await);
    assert_eq!(third.post(&session, &cancelled(1)).await.status, 202);
    cluster.ended(1).await;
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
    assert_eq!(next(&mut stream).await, None);
}

#[tokio::test]
async fn cancellation_before_its_request_counts_at_other_replicas() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    assert_eq!(second.post(&session, &cancelled(7)).await.status, 202);
    let refused = first.post(&session, &call(7, "silent")).await;
    assert_eq!((refused.status, refused.body.as_str()), (200, ""), "{refused:?}");
    assert_eq!(*cluster.stage.started.borrow(), 0, "the handler ran");
}

#[tokio::test]
async fn early_cancellation_that_is_not_stored_is_not_accepted() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    second.faults.refuse(|operation| operation.writes_field("request/"));
    assert_unavailable(&second.post(&session, &cancelled(7)).await);
}

#[tokio::test]
async fn stored_cancellations_of_a_session_are_limited() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    for id in 0..200 {
        assert_eq!(second.post(&session, &cancelled(id)).await.status, 202);
    }
    let keys = first.faults.written();
    let key = keys.iter().find(|key| key.starts_with(b"session/")).unwrap();
    let key = std::str::from_utf8(key).unwrap();
    let fields = tsugite::store::Store::list(&*cluster.store, key, "request/", 1_000).await.unwrap();
    let requests = fields.iter().filter(|(field, _)| field.starts_with("request/")).count();
    assert!(requests <= 64, "{requests}");
}

#[tokio::test]
async fn id_in_flight_is_refused_at_other_replicas() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut stream = first.call_stream(&session, &call(1, "slow")).await;
    cluster.started(1).await;
    for replica in [&second, &third] {
        for tool in ["echo", "silent"] {
            let refused = replica.post(&session, &call(1, tool)).await;
            assert_eq!(refused.error_code(), Some(-32600), "{refused:?}");
        }
    }
    cluster.let_go(1);
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
    assert_eq!(text(&next(&mut stream).await.unwrap()), "done");
    assert_eq!(*cluster.stage.started.borrow(), 1);
}

#[tokio::test]
async fn request_runs_although_the_last_record_was_not_removed() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    for _ in 0..2 {
        let mut stream = first.call_stream(&session, &call(1, "slow")).await;
        assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
        // The record of the first request stays.
        first.faults.refuse(|operation| operation.writes_field("request/"));
        cluster.let_go(1);
        assert_eq!(text(&next(&mut stream).await.unwrap()), "done");
        assert_eq!(next(&mut stream).await, None);
        let failures = first.faults.seen().failures;
        within(first.faults.wait_for(|seen| seen.failures > failures.max(1) - 1)).await;
        first.faults.connect();
    }
}
