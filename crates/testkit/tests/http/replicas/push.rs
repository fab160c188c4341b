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
async fn late_end_of_an_old_stream_keeps_the_new() {
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
async fn request_during_a_takeover_does_not_silence_the_stream() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let _old = first.get_stream(&session).await;
    assert_eq!(second.post(&session, &subscribe(1, PAGE)).await.status, 200);
    // The second replica begins to take the stream, and serves a request that still finds it at the first.
    let (gate, lists) = (second.faults.stall_lists(), second.faults.seen().lists);
    let begun = async {
        within(second.faults.wait_for(|seen| seen.lists > lists)).await;
        assert_eq!(second.post(&session, &list(2)).await.status, 200);
        gate.add_permits(10);
    };
    let (mut stream, ()) = tokio::join!(second.get_stream(&session), begun);
    third.server.notify_resource_updated(PAGE);
    assert_eq!(updated(&mut stream).await, PAGE);
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

#[tokio::test]
async fn message_that_is_stored_late_is_sent_once() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {"url": {}}})).await;
    let mut stream = second.get_stream(&session).await;
    for id in 1..3 {
        assert_eq!(first.post(&session, &call(id, "login")).await.error_code(), Some(-32042));
    }
    let visits = cluster.stage.visits.lock().unwrap().clone();
    first.faults.delay_append();
    assert!(visits[0].complete());
    assert_eq!(completed(&mut stream).await, visits[0].id());
    assert!(!first.faults.has_delayed());
    assert!(visits[1].complete());
    assert_eq!(completed(&mut stream).await, visits[1].id());
}

#[tokio::test]
async fn missed_changes_are_announced() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut stream = first.get_stream(&session).await;
    assert_eq!(first.post(&session, &subscribe(1, PAGE)).await.status, 200);
    first.faults.miss_messages();
    second.server.notify_resource_updated(PAGE);
    let mut methods = Vec::new();
    for _ in 0..3 {
        methods.push(next(&mut stream).await.unwrap()["method"].as_str().unwrap().to_owned());
    }
    methods.sort();
    let expected = ["resources/list_changed", "resources/updated", "tools/list_changed"];
    assert_eq!(methods, expected.map(|method| format!("notifications/{method}")));
}

#[tokio::test]
async fn missed_takeover_ends_the_old_stream() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut old = first.get_stream(&session).await;
    first.faults.miss_messages();
    let mut stream = second.get_stream(&session).await;
    // The old stream may still get the changes that it could have missed.
    while next(&mut old).await.is_some() {}
    second.server.notify_resource_updated(PAGE);
    second.server.change(|changes| changes.disable(ListKind::Tool, "slow"));
    assert!(next(&mut stream).await.is_some());
}

/// Completes a URL elicitation that a replica began, and waits until that is stored.
async fn complete(cluster: &Cluster, replica: &Replica, session: &str, id: usize) -> String {
    assert_eq!(replica.post(session, &call(id, "login")).await.error_code(), Some(-32042));
    let visit = cluster.stage.visits.lock().unwrap().last().unwrap().clone();
    let commits = replica.faults.seen().commits;
    assert!(visit.complete());
    within(replica.faults.wait_for(|seen| seen.commits > commits)).await;
    visit.id().to_owned()
}

async fn completed(stream: &mut Connection) -> String {
    next(stream).await.unwrap()["params"]["elicitationId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn new_stream_does_not_repeat_what_the_old_one_sent() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {"url": {}}})).await;
    let mut old = first.get_stream(&session).await;
    let one = complete(&cluster, &third, &session, 1).await;
    assert_eq!(completed(&mut old).await, one);
    let commits = first.faults.seen().commits;
    // At the same replica, while the old stream is open.
    let mut stream = first.get_stream(&session).await;
    let two = complete(&cluster, &third, &session, 2).await;
    assert_eq!(completed(&mut stream).await, two);
    // At another one, after the end of the stream was noted.
    drop(stream);
    within(first.faults.wait_for(|seen| seen.commits > commits + 1)).await;
    let mut stream = second.get_stream(&session).await;
    let three = complete(&cluster, &third, &session, 3).await;
    assert_eq!(completed(&mut stream).await, three);
    // And after the replica has stopped.
    second.at.stop().await.unwrap();
    let mut stream = third.get_stream(&session).await;
    let four = complete(&cluster, &third, &session, 4).await;
    assert_eq!(completed(&mut stream).await, four);
}

#[tokio::test]
async fn get_stream_begins_with_the_messages_that_are_kept() {
    let mut cluster = Cluster::with_long_leases();
    cluster.http = cluster.http.max_log_events(8);
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {"url": {}}})).await;
    let mut ids = Vec::new();
    for id in 0..20 {
        ids.push(complete(&cluster, &first, &session, id).await);
    }
    let mut stream = second.get_stream(&session).await;
    for id in &ids[12..] {
        assert_eq!(completed(&mut stream).await, *id);
    }
    let next = complete(&cluster, &first, &session, 20).await;
    assert_eq!(completed(&mut stream).await, next);
}
