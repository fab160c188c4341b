//! Calls with an idempotency key: a replica finds what another one ran, and a lost connection or replica runs nothing twice.

use serde_json::json;
use tsugite_testkit::http::open_session;

use super::*;

const KEY: &str = "secret-key-of-a-call";

fn keyed(id: u32, tool: &str) -> Value {
    let meta = json!({"dev.tsugite/idempotency-key": KEY});
    request(id, "tools/call", json!({"name": tool, "arguments": {}, "_meta": meta}))
}

fn stateless(tool: &str) -> Request {
    Request::stateless(keyed(1, tool))
}

fn fault(message: &Value) -> &str {
    message["error"]["data"]["dev.tsugite/idempotency"].as_str().unwrap_or_else(|| panic!("{message}"))
}

impl Replica {
    /// Sends a request without waiting for its response.
    async fn begin(&self, request: Request) -> Connection {
        let mut connection = self.at.connect().await;
        within(connection.write_request(&request)).await;
        connection
    }
}

#[tokio::test]
async fn call_goes_on_when_its_connection_is_lost() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    lose_call(&cluster, &first).await;
    cluster.let_go(1);
    for replica in [&second, &first] {
        assert_eq!(text(&replica.send(stateless("charge")).await.json()), "done");
    }
    assert_eq!(*cluster.stage.started.borrow(), 2);
}

#[tokio::test]
async fn lost_calls_are_cancelled_beyond_their_limit() {
    let mut cluster = Cluster::with_long_leases();
    cluster.http = Http::new().max_detached_requests(0);
    let first = cluster.start().await;
    let lost = first.begin(stateless("charge")).await;
    cluster.started(1).await;
    drop(lost);
    cluster.ended(1).await;
    assert_eq!(fault(&first.send(stateless("charge")).await.json()), "may_have_run");
    assert_eq!(*cluster.stage.started.borrow(), 1);
}

/// Begins a call of `charge`, and loses its connection.
async fn lose_call(cluster: &Cluster, replica: &Replica) {
    let keyed = replica.begin(stateless("charge")).await;
    cluster.started(1).await;
    let usual = replica.begin(Request::stateless(call(1, "silent"))).await;
    cluster.started(2).await;
    // The server has noticed the end of both connections when it drops the usual handler.
    drop(keyed);
    drop(usual);
    cluster.ended(1).await;
}

#[tokio::test]
async fn shutdown_waits_for_a_call_without_its_connection() {
    let cluster = Cluster::with_long_leases();
    let (first, second) = (cluster.start().await, cluster.start().await);
    lose_call(&cluster, &first).await;
    let mut stopping = std::pin::pin!(first.at.stop());
    // The server has begun to stop when a call at another replica is answered.
    let listed = second.send(Request::stateless(list(1)));
    tokio::select! {
        biased;
        _ = &mut stopping => panic!("stopped before the call ended"),
        _ = listed => {}
    }
    cluster.let_go(1);
    within(stopping).await.unwrap();
    assert_eq!(text(&second.send(stateless("charge")).await.json()), "done");
    assert_eq!(*cluster.stage.started.borrow(), 2);
}

#[tokio::test]
async fn call_without_its_connection_is_cancelled_after_the_grace() {
    let cluster = Cluster::with_long_leases();
    let (mut first, second) = (cluster.start().await, cluster.start().await);
    first.server = first.server.shutdown_grace(Duration::from_millis(10));
    let first = Replica { at: TestServer::start(&first.server).await, ..first };
    lose_call(&cluster, &first).await;
    within(first.at.stop()).await.unwrap();
    assert_eq!(*cluster.stage.ended.borrow(), 2);
    assert_eq!(fault(&second.send(stateless("charge")).await.json()), "may_have_run");
}

#[tokio::test]
async fn call_of_a_dead_replica_does_not_run_again() {
    let cluster = Cluster::new();
    let [first, second, _] = cluster.start_three().await;
    let _waiting = first.begin(stateless("charge")).await;
    cluster.started(1).await;
    first.faults.cut_off();
    assert_eq!(fault(&second.send(stateless("charge")).await.json()), "may_have_run");
    assert_eq!(*cluster.stage.started.borrow(), 1);
}

#[tokio::test]
async fn restartable_call_of_a_dead_replica_runs_again() {
    let cluster = Cluster::new();
    let [first, second, third] = cluster.start_three().await;
    let _waiting = first.begin(stateless("recharge")).await;
    cluster.started(1).await;
    first.faults.cut_off();
    let again = second.begin(stateless("recharge")).await;
    cluster.started(2).await;
    cluster.let_go(2);
    assert_eq!(text(&third.send(stateless("recharge")).await.json()), "done");
    assert_eq!(*cluster.stage.started.borrow(), 2);
    drop(again);
}

#[tokio::test]
async fn store_that_fails_lets_no_keyed_call_run() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    first.faults.cut_off();
    assert_unavailable(&first.send(stateless("charge")).await);
    first.faults.connect();
    first.faults.refuse(|operation| operation.writes_field("state"));
    assert_unavailable(&first.send(stateless("charge")).await);
    assert_eq!(*cluster.stage.started.borrow(), 0);
    first.faults.connect();
    cluster.let_go(1);
    assert_eq!(text(&first.send(stateless("charge")).await.json()), "done");
}

#[tokio::test]
async fn waiting_call_keeps_its_key_at_another_replica() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.start().await, cluster.start().await);
    let session = open_session(&first.at, "2025-11-25", json!({"elicitation": {}})).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    let mut stream = first.call_stream(&session, &keyed(2, "greet_once")).await;
    let asked = next_event(&mut stream).await;
    let (question, last) = (asked.json(), asked.id.unwrap());
    first.faults.cut_off();
    within(cluster.wait_for_claim_of(&question["id"].as_str().unwrap()[..16])).await;
    assert_eq!(second.post(&session, &answer(&question, "Ann")).await.status, 202);
    let mut resumed = second.resume(&session, &last).await;
    assert_eq!(text(&next(&mut resumed).await.unwrap()), "Hello, Ann!");
    assert_eq!(text(&second.post(&session, &keyed(3, "greet_once")).await.json()), "Hello, Ann!");
}

#[tokio::test]
async fn store_shows_neither_key_nor_result() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    cluster.let_go(1);
    assert_eq!(text(&first.send(stateless("charge")).await.json()), "done");
    let written = first.faults.written();
    assert!(written.iter().any(|written| written.starts_with(b"once/")));
    for value in &written {
        let readable = String::from_utf8_lossy(value);
        for secret in ["secret", "done", "charge", "2026-07-28"] {
            assert!(!readable.contains(secret), "{secret:?} in {readable:?}");
        }
    }
}
