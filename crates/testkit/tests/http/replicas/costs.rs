//! The number of store operations that a request costs.

use serde_json::json;
use tsugite_testkit::http::open_session;

use super::store::Seen;
use super::*;

#[tokio::test]
async fn stateless_calls_do_not_touch_the_store() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let before = first.faults.seen();
    for id in 0..3 {
        assert_eq!(text(&first.send(Request::stateless(call(id, "echo"))).await.json()), "echo");
    }
    assert_eq!(first.faults.seen(), before);
}

#[tokio::test]
async fn session_calls_cost_as_documented() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    // A call that is answered at once: one read, also at a replica that sees the session for the first time.
    for replica in [&first, &second, &second] {
        let before = replica.faults.seen();
        assert_eq!(text(&replica.post(&session, &call(1, "echo")).await.json()), "echo");
        assert_eq!(replica.faults.seen(), Seen { reads: before.reads + 1, ..before });
    }
    // Another one: two writes more, one of them after the response.
    let before = second.faults.seen();
    let mut connection = second.at.connect().await;
    connection.write_request(&Request::post(&call(2, "silent")).session(&session)).await;
    cluster.started(1).await;
    cluster.let_go(1);
    assert_eq!(within(connection.read_head()).await.unwrap().status, 200);
    within(second.faults.wait_for(|seen| seen.commits == before.commits + 2)).await;
    // A stream: one write for each time that events are sent, here the first event, the progress and the response.
    let mut stream = second.call_stream(&session, &call(3, "slow")).await;
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
    cluster.let_go(1);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "done");
    assert_eq!(next(&mut stream).await, None);
    within(second.faults.wait_for(|seen| seen.commits == before.commits + 2 + 2 + 3)).await;
    let after = second.faults.seen();
    let expected = Seen { reads: before.reads + 2, commits: before.commits + 7, ..before };
    assert_eq!(after, expected);
}
