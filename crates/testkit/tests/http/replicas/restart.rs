//! A store that outlives one process: the next process continues what the last one left.

use serde_json::json;
use tsugite_testkit::http::open_session;

use super::*;

fn cluster() -> Cluster {
    Cluster { scope: StoreScope::Restart, ..Cluster::with_long_leases() }
}

#[tokio::test]
async fn sessions_streams_and_subscriptions_survive_a_restart() {
    let cluster = cluster();
    let mut first = cluster.start().await;
    first.server = first.server.shutdown_grace(Duration::from_millis(10));
    let first = Replica { at: TestServer::start(&first.server).await, ..first };
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let level = request(1, "logging/setLevel", json!({"level": "debug"}));
    assert_eq!(first.post(&session, &level).await.status, 200);
    let subscription = request(2, "resources/subscribe", json!({"uri": "test://other"}));
    assert_eq!(first.post(&session, &subscription).await.status, 200);
    let mut finished = first.call_stream(&session, &call(3, "slow")).await;
    let progress = next_event(&mut finished).await.id.unwrap();
    cluster.let_go(1);
    assert_eq!(text(&next(&mut finished).await.unwrap()), "done");
    let mut running = first.call_stream(&session, &call(4, "slow")).await;
    let cut_off = next_event(&mut running).await.id.unwrap();
    first.at.stop().await.unwrap();

    let second = cluster.start().await;
    let mut kept = second.resume(&session, &progress).await;
    assert_eq!(text(&next(&mut kept).await.unwrap()), "done");
    let mut ended = second.resume(&session, &cut_off).await;
    assert_eq!(next(&mut ended).await.unwrap()["error"]["code"], -32603);
    let logged = second.post(&session, &call(5, "log")).await;
    assert!(logged.body.contains("details"), "{logged:?}");
    let mut stream = second.get_stream(&session).await;
    second.server.notify_resource_updated("test://other");
    assert_eq!(next(&mut stream).await.unwrap()["params"]["uri"], "test://other");
}

#[tokio::test]
async fn killed_process_ends_its_streams_at_once() {
    let cluster = cluster();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut running = first.call_stream(&session, &call(1, "slow")).await;
    let progress = next_event(&mut running).await.id.unwrap();
    // The lease would last for minutes; but only one process has the store.
    first.faults.cut_off();
    drop(first);
    let second = cluster.start().await;
    let mut resumed = second.resume(&session, &progress).await;
    let lost = next(&mut resumed).await.unwrap();
    assert_eq!((&lost["id"], &lost["error"]["code"]), (&json!(1), &json!(-32603)), "{lost}");
    assert_eq!(next(&mut resumed).await, None);
}
