//! HTTP+SSE: the stream is at one replica, and messages arrive at any of them.

use serde_json::json;
use tsugite::server::Principal;
use tsugite_testkit::http::initialize_request;

use super::*;

fn post(endpoint: &str, message: &Value) -> Request {
    Request::new("POST").path(endpoint).header("Content-Type", "application/json").body(message.to_string())
}

/// Opens a stream and returns the path to post to.
async fn open(replica: &Replica) -> (Connection, String) {
    let mut stream =
        replica.stream(Request::new("GET").path("/sse").header("Accept", "text/event-stream")).await;
    let endpoint = within(stream.next_event()).await.unwrap().data;
    (stream, endpoint)
}

/// Completes the handshake through a replica.
async fn initialize(replica: &Replica, stream: &mut Connection, endpoint: &str) {
    let initialize = initialize_request("2024-11-05", json!({"elicitation": {}}));
    assert_eq!(replica.send(post(endpoint, &initialize)).await.status, 202);
    assert_eq!(next(stream).await.unwrap()["result"]["protocolVersion"], "2024-11-05");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(replica.send(post(endpoint, &ready)).await.status, 202);
}

#[tokio::test]
async fn messages_and_cancellations_arrive_at_any_replica() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let (mut stream, endpoint) = open(&first).await;
    initialize(&second, &mut stream, &endpoint).await;
    assert_eq!(third.send(post(&endpoint, &call(1, "echo"))).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "echo");
    assert_eq!(second.send(post(&endpoint, &call(2, "slow"))).await.status, 202);
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
    cluster.started(1).await;
    assert_eq!(third.send(post(&endpoint, &cancelled(2))).await.status, 202);
    cluster.ended(1).await;
    assert_eq!(third.send(post(&endpoint, &call(3, "echo"))).await.status, 202);
    assert_eq!(next(&mut stream).await.unwrap()["id"], 3);
}

#[tokio::test]
async fn request_that_is_delivered_twice_runs_once() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let (mut stream, endpoint) = open(&first).await;
    initialize(&second, &mut stream, &endpoint).await;
    first.faults.repeat_messages();
    for id in 1..=2 {
        assert_eq!(second.send(post(&endpoint, &call(id, "echo"))).await.status, 202);
        assert_eq!(next(&mut stream).await.unwrap()["id"], id);
    }
}

#[tokio::test]
async fn question_is_answered_at_another_replica() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let (mut stream, endpoint) = open(&first).await;
    // Elicitation came after 2024-11-05; the transport carries later revisions as well.
    let initialize = initialize_request("2025-06-18", json!({"elicitation": {}}));
    assert_eq!(second.send(post(&endpoint, &initialize)).await.status, 202);
    assert_eq!(next(&mut stream).await.unwrap()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(second.send(post(&endpoint, &call(1, "greet"))).await.status, 202);
    let question = next(&mut stream).await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(third.send(post(&endpoint, &answer(&question, "Ann"))).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Hello, Ann!");
}

#[tokio::test]
async fn forwarded_message_has_the_scopes_of_its_own_token() {
    let cluster = Cluster::with_long_leases();
    let scoped = |(server, _): (Server, Arc<Faults>)| {
        let who = Tool::new("who")
            .handler(|principal: Principal| async move { principal.has_scope("admin").to_string() });
        server.tool(who)
    };
    let first = sessions::gated(&scoped(cluster.server())).await;
    let second = sessions::gated(&scoped(cluster.server())).await;
    let mut stream = Connection::connect(first).await;
    let open = Request::new("GET").path("/sse").header("Accept", "text/event-stream").header("X-User", "ann");
    assert_eq!(within(stream.send(open.header("X-Scope", "admin"))).await.status, 200);
    let endpoint = within(stream.next_event()).await.unwrap().data;
    let send = async |message: &Value, scope: &str| {
        let request = post(&endpoint, message).header("X-User", "ann").header("X-Scope", scope);
        assert_eq!(within(Connection::connect(second).await.send(request)).await.status, 202);
    };
    send(&initialize_request("2024-11-05", json!({})), "admin").await;
    assert!(next(&mut stream).await.is_some());
    for (scope, is_admin) in [("admin", "true"), ("none", "false")] {
        send(&call(1, "who"), scope).await;
        assert_eq!(text(&next(&mut stream).await.unwrap()), is_admin);
    }
    // Another caller does not reach the session.
    let request = post(&endpoint, &call(2, "who")).header("X-User", "bob");
    assert_eq!(within(Connection::connect(second).await.send(request)).await.status, 404);
}

#[tokio::test]
async fn message_that_cannot_be_stored_is_not_accepted() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let (mut stream, endpoint) = open(&first).await;
    initialize(&second, &mut stream, &endpoint).await;
    second.faults.refuse(|operation| operation.sends());
    assert_unavailable(&second.send(post(&endpoint, &call(1, "echo"))).await);
    second.faults.connect();
    assert_eq!(second.send(post(&endpoint, &call(2, "echo"))).await.status, 202);
    assert_eq!(next(&mut stream).await.unwrap()["id"], 2);
}

#[tokio::test]
async fn closed_stream_is_unknown_at_all_replicas() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let (stream, endpoint) = open(&first).await;
    let commits = first.faults.seen().commits;
    drop(stream);
    within(first.faults.wait_for(|seen| seen.commits > commits)).await;
    for replica in [&first, &second] {
        assert_eq!(replica.send(post(&endpoint, &call(1, "echo"))).await.status, 404);
    }
    assert_eq!(second.send(post("/messages?sessionId=unknown", &call(1, "echo"))).await.status, 404);
}
