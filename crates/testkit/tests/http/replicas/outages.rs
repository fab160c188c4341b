//! A store that fails: requests that need it get 503, others go on, and nothing is left when it heals.

use serde_json::json;
use tsugite_testkit::http::{initialize_request, open_session};

use super::*;

#[tokio::test]
async fn requests_that_need_the_store_are_unavailable() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    first.faults.cut_off();
    let initialize = || Request::post(&initialize_request("2025-11-25", json!({})));
    let requests = || {
        [
            Request::post(&list(1)).session(&session),
            Request::get_stream(&session),
            Request::get_stream(&session).header("Last-Event-ID", "0-0"),
            Request::new("DELETE").session(&session),
            initialize(),
            Request::new("GET").path("/sse").header("Accept", "text/event-stream"),
            Request::new("POST")
                .path("/messages?sessionId=unknown")
                .header("Content-Type", "application/json")
                .body(list(1).to_string()),
        ]
    };
    for request in requests() {
        let refused = first.send(request.clone()).await;
        assert_eq!(refused.status, 503, "{request:?}: {refused:?}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert_eq!(refused.header("mcp-session-id"), None);
    }
    let stateless = first.send(Request::stateless(call(1, "echo"))).await;
    assert_eq!(text(&stateless.json()), "echo");
    first.faults.connect();
    assert_eq!(first.post(&session, &list(1)).await.status, 200);
    assert_eq!(first.send(Request::new("DELETE").session(&session)).await.status, 200);
    assert_eq!(first.send(initialize()).await.status, 200);
}

#[tokio::test]
async fn changes_that_are_not_stored_are_not_confirmed() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    first.faults.refuse(|operation| matches!(operation, store::Operation::Commit(_)));
    let level = request(1, "logging/setLevel", json!({"level": "debug"}));
    let subscription = request(2, "resources/subscribe", json!({"uri": "test://other"}));
    for change in [&level, &subscription] {
        assert_unavailable(&first.post(&session, change).await);
    }
    first.faults.connect();
    // The level of the record counts, at both replicas.
    for replica in [&second, &first] {
        let logged = replica.post(&session, &call(3, "log")).await;
        assert!(!logged.body.contains("details"), "{logged:?}");
    }
}

#[tokio::test]
async fn lost_data_ends_sessions_as_unknown() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let keys = first.faults.written();
    let key = keys.iter().find(|key| key.starts_with(b"session/")).unwrap();
    let key = std::str::from_utf8(key).unwrap();
    tsugite::store::Store::take(&*cluster.store, key).await.unwrap().unwrap();
    for replica in [&first, &second] {
        assert_eq!(replica.post(&session, &list(1)).await.status, 404);
    }
}

#[tokio::test]
async fn call_of_an_outage_is_answered_after_it() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut connection = first.at.connect().await;
    connection.write_request(&Request::post(&call(1, "silent")).session(&session)).await;
    cluster.started(1).await;
    first.faults.cut_off();
    cluster.let_go(1);
    // It answers with JSON, which needs no store.
    let mut answered = within(connection.read_head()).await.unwrap();
    answered.body = within(connection.read_body()).await;
    assert_eq!(text(&answered.json()), "done");
}

#[tokio::test]
async fn changes_before_the_store_was_first_reached_are_announced() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    first.faults.cut_off();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = request(1, "subscriptions/listen", filter);
    let mut stream = first.stream(Request::stateless(listen)).await;
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    first.faults.connect();
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn change_during_a_long_outage_is_announced_after_it() {
    let cluster = Cluster::with_long_leases();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_session(&second.at, "2025-11-25", json!({})).await;
    let subscription = request(1, "resources/subscribe", json!({"uri": "test://other"}));
    assert_eq!(second.post(&session, &subscription).await.status, 200);
    let mut stream = second.get_stream(&session).await;
    assert_eq!(first.post(&session, &list(2)).await.status, 200);
    first.faults.refuse(|operation| operation.sends());
    first.server.notify_resource_updated("test://other");
    within(first.faults.wait_for(|seen| seen.failures > 6)).await;
    first.faults.connect();
    assert_eq!(next(&mut stream).await.unwrap()["params"]["uri"], "test://other");
}

#[tokio::test]
async fn session_that_ended_during_an_outage_ends_after_it() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let _stream = first.call_stream(&session, &call(1, "slow")).await;
    cluster.started(1).await;
    // The first replica misses the end of the session, and cannot read its record when it learns that.
    first.faults.miss_messages();
    first.faults.refuse(|operation| matches!(operation, store::Operation::Read));
    let failures = first.faults.seen().failures;
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);
    within(first.faults.wait_for(|seen| seen.failures > failures)).await;
    first.faults.connect();
    cluster.ended(1).await;
}
