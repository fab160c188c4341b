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

#[tokio::test]
async fn request_that_cannot_be_registered_does_not_go_on() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-03-26", json!({})).await;
    first.faults.refuse(|operation| operation.writes_field("request/"));
    // An error and not 503, which says that the request can be repeated: its handler has begun.
    let failed = first.post(&session, &call(1, "silent")).await;
    assert_eq!((failed.status, failed.error_code()), (200, Some(-32603)), "{failed:?}");
    assert!(failed.body.contains("may have run"), "{failed:?}");
    cluster.ended(1).await;
    let failed = first.post(&session, &json!([call(2, "silent"), call(3, "echo"), call(4, "silent")])).await;
    let mut responses = failed.json();
    let responses = responses.as_array_mut().unwrap();
    responses.sort_by_key(|response| response["id"].as_u64());
    assert_eq!(responses[0]["error"]["code"], -32603, "{responses:?}");
    assert_eq!(text(&responses[1]), "echo");
    assert_eq!(responses[2]["error"]["code"], -32603, "{responses:?}");
    cluster.ended(3).await;
    assert_eq!(text(&second.post(&session, &call(1, "echo")).await.json()), "echo");
}

#[tokio::test]
async fn failed_registration_leaves_no_record() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    first.faults.lose_confirmation(|operation| operation.writes_field("request/"));
    assert_eq!(first.post(&session, &call(1, "silent")).await.error_code(), Some(-32603));
    let keys = first.faults.written();
    let key = keys.iter().find(|key| key.starts_with(b"session/")).unwrap();
    let key = std::str::from_utf8(key).unwrap();
    let is_left = async || {
        let fields = tsugite::store::Store::list(&*cluster.store, key, "request/", 10).await.unwrap();
        fields.iter().any(|(field, _)| field.starts_with("request/"))
    };
    let removed = async {
        while is_left().await {
            tokio::task::yield_now().await;
        }
    };
    within(removed).await;
}

#[tokio::test]
async fn request_of_a_batch_is_refused_and_cancelled_elsewhere() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-03-26", json!({})).await;
    let mut stream = first.call_stream(&session, &json!([call(1, "slow"), call(2, "slow")])).await;
    cluster.started(2).await;
    for _ in 0..2 {
        assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
    }
    let refused = second.post(&session, &call(1, "echo")).await;
    assert_eq!(refused.error_code(), Some(-32600), "{refused:?}");
    let refused = second.post(&session, &json!([call(3, "echo"), call(2, "echo")])).await.json();
    assert_eq!(refused.as_array().unwrap().len(), 2, "{refused}");
    let error = refused.as_array().unwrap().iter().find(|response| response["id"] == 2).unwrap();
    assert_eq!(error["error"]["code"], -32600, "{refused}");
    assert_eq!(third.post(&session, &cancelled(1)).await.status, 202);
    cluster.ended(1).await;
    // In a batch with a request, so that the response comes when the cancellation is stored.
    let batch = third.post(&session, &json!([cancelled(2), call(4, "echo")])).await.json();
    assert_eq!(text(&batch[0]), "echo");
    cluster.ended(2).await;
    assert_eq!(next(&mut stream).await, None);
    assert_eq!(text(&second.post(&session, &call(5, "echo")).await.json()), "echo");
}

#[tokio::test]
async fn subscription_in_a_batch_counts_at_other_replicas() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-03-26", json!({})).await;
    let subscribe = |id: u32, uri: &str| request(id, "resources/subscribe", json!({"uri": uri}));
    let batch = json!([subscribe(1, "test://other"), subscribe(2, "test://unknown"), call(3, "echo")]);
    assert_eq!(first.post(&session, &batch).await.json().as_array().unwrap().len(), 3);
    let mut stream = second.get_stream(&session).await;
    third.server.notify_resource_updated("test://unknown");
    third.server.notify_resource_updated("test://other");
    assert_eq!(next(&mut stream).await.unwrap()["params"]["uri"], "test://other");
}
