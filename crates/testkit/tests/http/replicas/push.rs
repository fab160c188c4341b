//! Messages that belong to no request: whichever replica has one, the client gets it once, on its newest GET stream.

use serde_json::json;
use tsugite::server::ListKind;
use tsugite_testkit::http::open_session;

use super::*;

fn subscribe(id: u32, uri: &str) -> Value {
    request(id, "resources/subscribe", json!({"uri": uri}))
}

async fn updated(stream: &mut Connection) -> String {
    let message = next(stream).await.unwrap();
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    message["params"]["uri"].as_str().unwrap().to_owned()
}

const PAGE: &str = "test://secret-page";
const OTHER: &str = "test://other";

#[tokio::test]
async fn update_elsewhere_reaches_only_the_newest_stream_once() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut old = first.get_stream(&session).await;
    assert_eq!(second.post(&session, &subscribe(1, PAGE)).await.status, 200);
    let mut stream = second.get_stream(&session).await;
    assert_eq!(next(&mut old).await, None);
    assert_eq!(third.post(&session, &subscribe(2, OTHER)).await.status, 200);
    third.server.notify_resource_updated(PAGE);
    assert_eq!(updated(&mut stream).await, PAGE);
    first.server.notify_resource_updated(OTHER);
    assert_eq!(updated(&mut stream).await, OTHER);
    third.server.change(|changes| changes.disable(ListKind::Tool, "slow"));
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
    // Nothing came twice: the next message is the next change.
    first.server.notify_resource_updated(PAGE);
    assert_eq!(updated(&mut stream).await, PAGE);
}

#[tokio::test]
async fn second_get_stream_of_one_replica_takes_over() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut old = first.get_stream(&session).await;
    let mut stream = first.get_stream(&session).await;
    assert_eq!(next(&mut old).await, None);
    second.server.change(|changes| changes.disable(ListKind::Tool, "slow"));
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn update_before_the_get_stream_is_not_lost() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    assert_eq!(first.post(&session, &subscribe(1, PAGE)).await.status, 200);
    let commits = first.faults.seen().commits;
    third.server.notify_resource_updated(PAGE);
    within(first.faults.wait_for(|seen| seen.commits > commits)).await;
    let mut stream = second.get_stream(&session).await;
    assert_eq!(updated(&mut stream).await, PAGE);
}
