//! Calls that wait for an answer and must not go on: cancelled by their clients, or ended with their sessions.

use serde_json::json;
use tsugite::store::Store;
use tsugite_testkit::http::open_session;

use super::*;

/// The name of the replica that asked a question.
fn asker(question: &Value) -> &str {
    &question["id"].as_str().unwrap()[..16]
}

async fn open_asking(replica: &Replica) -> String {
    open_session(&replica.at, "2025-11-25", json!({"elicitation": {}})).await
}

/// Reads the rest of the stream of a call that was cancelled: the question is cancelled, too, and there is no response.
async fn expect_cancelled(stream: &mut Connection, question: &Value) {
    let cancelled = next(stream).await.unwrap();
    let id = &cancelled["params"]["requestId"];
    assert_eq!((&cancelled["method"], id), (&json!("notifications/cancelled"), &question["id"]));
    assert_eq!(next(stream).await, None);
}

impl Cluster {
    /// Waits until a replica has no waiting call and the session does not know the request.
    async fn wait_until_withdrawn(&self, replica: &Replica, name: &str) {
        within(self.wait_for_claim_of(name)).await;
        let keys = replica.faults.written();
        let key = keys.iter().find(|key| key.starts_with(b"session/")).unwrap();
        let key = std::str::from_utf8(key).unwrap();
        let fields = Store::list(&*self.store, key, "request/", 10).await.unwrap();
        assert!(!fields.iter().any(|(field, _)| field.starts_with("request/")), "{fields:?}");
    }
}

#[tokio::test]
async fn cancelled_call_does_not_wait_in_the_store() {
    let cluster = Cluster::with_long_leases();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_asking(&first).await;
    // Once at the replica that runs the call, and once at another one.
    for (id, at) in [(1, &first), (2, &second)] {
        let mut stream = first.call_stream(&session, &call(id, "greet")).await;
        let question = next(&mut stream).await.unwrap();
        assert_eq!(at.post(&session, &cancelled(id)).await.status, 202);
        expect_cancelled(&mut stream, &question).await;
        cluster.wait_until_withdrawn(&first, asker(&question)).await;
    }
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    assert_eq!(first.post(&session, &answer(&question, "Ann")).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn call_stored_without_confirmation_is_withdrawn() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_asking(&first).await;
    first.faults.lose_confirmation(|operation| operation.writes_field("session/"));
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    assert_eq!(first.post(&session, &cancelled(1)).await.status, 202);
    expect_cancelled(&mut stream, &question).await;
    cluster.wait_until_withdrawn(&first, asker(&question)).await;
}

#[tokio::test]
async fn call_is_withdrawn_when_the_store_is_back() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_asking(&first).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    first.faults.refuse(|operation| operation.writes_field("request/"));
    assert_eq!(first.post(&session, &cancelled(1)).await.status, 202);
    within(first.faults.wait_for(|seen| seen.failures > 0)).await;
    first.faults.connect();
    expect_cancelled(&mut stream, &question).await;
    cluster.wait_until_withdrawn(&first, asker(&question)).await;
}

#[tokio::test]
async fn waiting_call_ends_with_its_session() {
    let cluster = Cluster::with_long_leases();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_asking(&first).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);
    assert_eq!(next(&mut stream).await, None);
    within(cluster.wait_for_claim_of(asker(&question))).await;
}

#[tokio::test]
async fn waiting_call_beyond_the_detached_limit_ends() {
    let mut cluster = Cluster::with_long_leases();
    cluster.http = Http::new().max_detached_requests(0);
    let first = cluster.start().await;
    let session = open_asking(&first).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let question = next(&mut stream).await.unwrap();
    drop(stream);
    within(cluster.wait_for_claim_of(asker(&question))).await;
    cluster.wait_until_withdrawn(&first, asker(&question)).await;
}

#[tokio::test]
async fn claimed_call_can_be_cancelled() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_asking(&first).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    let mut stream = first.call_stream(&session, &call(2, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    first.faults.cut_off();
    within(cluster.wait_for_claim_of(asker(&question))).await;
    assert_eq!(second.post(&session, &cancelled(2)).await.status, 202);
    let mut resumed = second.resume(&session, &last).await;
    expect_cancelled(&mut resumed, &question).await;
    let replicas = cluster.store.list("replicas", "", 10).await.unwrap();
    for (name, _) in replicas {
        cluster.wait_until_withdrawn(&first, &name).await;
    }
    // The answer comes too late.
    assert_eq!(second.post(&session, &answer(&question, "Ann")).await.status, 202);
    let mut again = second.resume(&session, &last).await;
    expect_cancelled(&mut again, &question).await;
}

#[tokio::test]
async fn cancellation_stored_for_a_dead_replica_counts() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_asking(&first).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    let mut stream = first.call_stream(&session, &call(2, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    first.faults.cut_off();
    // Before another replica knows that the first one is dead.
    assert_eq!(second.post(&session, &cancelled(2)).await.status, 202);
    let mut resumed = second.resume(&session, &last).await;
    expect_cancelled(&mut resumed, &question).await;
}

#[tokio::test]
async fn cancelled_call_does_not_run_after_a_restart() {
    let cluster = Cluster { scope: StoreScope::Restart, ..Cluster::with_long_leases() };
    let first = cluster.start().await;
    let session = open_asking(&first).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    first.faults.cut_off();
    drop((stream, first));
    let second = cluster.start().await;
    assert_eq!(second.post(&session, &cancelled(1)).await.status, 202);
    let mut resumed = second.resume(&session, &last).await;
    expect_cancelled(&mut resumed, &question).await;
}

#[tokio::test]
async fn waiting_call_goes_on_after_an_orderly_restart() {
    let cluster = Cluster { scope: StoreScope::Restart, ..Cluster::with_long_leases() };
    let mut first = cluster.start().await;
    first.server = first.server.shutdown_grace(Duration::from_millis(10));
    let first = Replica { at: TestServer::start(&first.server).await, ..first };
    let session = open_asking(&first).await;
    let mut stream = first.call_stream(&session, &call(1, "greet")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    first.at.stop().await.unwrap();
    let second = cluster.start().await;
    let mut resumed = second.resume(&session, &last).await;
    within(cluster.wait_for_claim_of(asker(&question))).await;
    assert_eq!(second.post(&session, &answer(&question, "Ann")).await.status, 202);
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Hello, Ann!");
}
