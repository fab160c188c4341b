//! Messages that belong to no request: whichever replica has one, the client gets it once, on its newest GET stream.

use serde_json::json;
use tsugite::server::ListKind;
use tsugite_testkit::http::open_session;

use super::*;

fn subscribe(id: u32, uri: &str) -> Value {
    request(id, "resources/subscribe", json!({"uri": uri}))
}

fn unsubscribe(id: u32, uri: &str) -> Value {
    request(id, "resources/unsubscribe", json!({"uri": uri}))
}

async fn updated(stream: &mut Connection) -> String {
    let message = next(stream).await.unwrap();
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    message["params"]["uri"].as_str().unwrap().to_owned()
}

const PAGE: &str = "test://secret-page";
const OTHER: &str = "test://other";

#[tokio::test]
async fn completion_elsewhere_reaches_the_get_stream() {
    // Leases are long, so that only messages can wake the readers.
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {"url": {}}})).await;
    let mut old = third.get_stream(&session).await;
    assert_eq!(first.post(&session, &call(1, "login")).await.error_code(), Some(-32042));
    let mut stream = second.get_stream(&session).await;
    assert_eq!(next(&mut old).await, None, "the newest stream takes over");
    // The first replica still believes that the third one has the stream.
    assert!(cluster.stage.visits.lock().unwrap()[0].complete());
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/elicitation/complete");
}

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
async fn subscription_ended_elsewhere_sends_nothing() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let _old = first.get_stream(&session).await;
    // The third replica takes the subscription, the second one its end.
    for uri in [PAGE, OTHER] {
        assert_eq!(third.post(&session, &subscribe(1, uri)).await.status, 200);
    }
    assert_eq!(second.post(&session, &unsubscribe(2, PAGE)).await.status, 200);
    for replica in [&third, &second] {
        let mut stream = replica.get_stream(&session).await;
        first.server.notify_resource_updated(PAGE);
        first.server.notify_resource_updated(OTHER);
        assert_eq!(updated(&mut stream).await, OTHER);
    }
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

#[tokio::test]
async fn late_end_of_an_old_stream_does_not_end_the_new_one() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut old = first.get_stream(&session).await;
    third.server.change(|changes| changes.disable(ListKind::Tool, "slow"));
    assert!(next(&mut old).await.is_some());
    // The first replica does not hear that the second one has the stream, and then notices the end of its own.
    second.faults.drop_messages();
    let mut stream = second.get_stream(&session).await;
    let commits = first.faults.seen().commits;
    drop(old);
    within(first.faults.wait_for(|seen| seen.commits > commits)).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    for _ in 0..3 {
        third.server.change(|changes| changes.enable(ListKind::Tool, "slow"));
        third.server.change(|changes| changes.disable(ListKind::Tool, "slow"));
        assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
    }
}

#[tokio::test]
async fn get_streams_opened_at_once_are_not_both_sent_to() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&third.at, "2025-11-25", json!({})).await;
    let (mut one, mut other) = tokio::join!(first.get_stream(&session), second.get_stream(&session));
    // One of the two has ended.
    let ended = tokio::select! {
        message = next(&mut one) => (message, 1),
        message = next(&mut other) => (message, 2),
    };
    assert_eq!(ended.0, None);
    let stream = if ended.1 == 1 { &mut other } else { &mut one };
    third.server.change(|changes| changes.disable(ListKind::Tool, "slow"));
    assert_eq!(next(stream).await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn message_whose_confirmation_is_lost_is_sent_once() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {"url": {}}})).await;
    let mut stream = second.get_stream(&session).await;
    for id in 1..3 {
        assert_eq!(first.post(&session, &call(id, "login")).await.error_code(), Some(-32042));
    }
    let visits = cluster.stage.visits.lock().unwrap().clone();
    let mut completed = Vec::new();
    for visit in &visits {
        first.faults.lose_confirmation(|operation| operation.appends());
        assert!(visit.complete());
        let message = next(&mut stream).await.unwrap();
        completed.push(message["params"]["elicitationId"].as_str().unwrap().to_owned());
    }
    assert_eq!(completed, [visits[0].id(), visits[1].id()]);
}
