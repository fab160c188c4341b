//! Sessions: every replica sees what another one changed, also if messages between them are lost.

use std::net::SocketAddr;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tower_service::Service;
use tsugite::Server;
use tsugite::server::Principal;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, initialize_request, open_session};

use super::*;

#[tokio::test]
async fn replica_without_the_key_leaves_a_session_to_others() {
    let cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let other = TestServer::start(&cluster.server().0.seal_keys(SealKey::new([8; 32]))).await;
    assert_unavailable(&within(other.send(Request::post(&list(1)).session(&session))).await);
    assert_eq!(first.post(&session, &list(1)).await.status, 200);
}

fn set_level(id: u32, level: &str) -> Value {
    request(id, "logging/setLevel", json!({"level": level}))
}

#[tokio::test]
async fn ended_session_stays_ended_after_sweeps() {
    let mut cluster = Cluster::with_long_leases();
    // The sweeper runs each 10 ms.
    cluster.http = cluster.http.log_ttl(Duration::from_millis(40));
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    assert_eq!(second.post(&session, &list(1)).await.status, 200);
    // A stream keeps the session in use at the first replica, and its sweeper refreshes such sessions.
    let _stream = first.get_stream(&session).await;
    second.faults.drop_messages();
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);
    let purges = first.faults.seen().purges;
    within(first.faults.wait_for(|seen| seen.purges > purges + 2)).await;
    for replica in [&first, &second] {
        assert_eq!(replica.post(&session, &list(2)).await.status, 404);
    }
}

#[tokio::test]
async fn end_is_seen_although_messages_are_lost() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    for replica in [&second, &third] {
        assert_eq!(replica.post(&session, &list(1)).await.status, 200);
    }
    second.faults.drop_messages();
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);
    assert_eq!(first.post(&session, &list(2)).await.status, 404);
    assert_eq!(third.send(Request::get_stream(&session)).await.status, 404);
}

#[tokio::test]
async fn end_elsewhere_closes_streams_at_once() {
    // Leases are long, so that only the message can end the stream.
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut stream = first.get_stream(&session).await;
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);
    assert_eq!(next(&mut stream).await, None);
}

#[tokio::test]
async fn missed_end_of_a_session_is_looked_up() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let mut stream = first.get_stream(&session).await;
    first.faults.miss_messages();
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);
    // The changes that it could have missed may come first.
    while next(&mut stream).await.is_some() {}
}

#[tokio::test]
async fn log_level_set_elsewhere_is_seen_and_kept() {
    let cluster = Cluster::with_long_leases();
    let [first, second, third] = cluster.start_three().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    for replica in [&first, &second, &third] {
        assert_eq!(replica.post(&session, &set_level(1, "error")).await.status, 200);
        let logged = replica.post(&session, &call(2, "log")).await;
        assert!(!logged.body.contains("details"), "{logged:?}");
    }
    assert_eq!(second.post(&session, &set_level(3, "debug")).await.status, 200);
    for replica in [&first, &second, &third, &first] {
        let logged = replica.post(&session, &call(4, "log")).await;
        assert!(logged.body.contains("details"), "{logged:?}");
    }
}

#[tokio::test]
async fn session_beyond_the_limit_is_unavailable_not_unknown() {
    let mut cluster = Cluster::with_long_leases();
    let first = cluster.start().await;
    cluster.http = Http::new().max_sessions(1);
    let second = cluster.start().await;
    let session = open_session(&first.at, "2025-11-25", json!({})).await;
    let own = open_session(&second.at, "2025-11-25", json!({})).await;
    assert_unavailable(&second.post(&session, &list(1)).await);
    assert_unavailable(&second.send(Request::get_stream(&session)).await);
    assert_unavailable(&second.send(Request::new("DELETE").session(&session)).await);
    assert_eq!(second.send(Request::new("DELETE").session(&own)).await.status, 200);
    assert_eq!(second.post(&session, &list(2)).await.status, 200);
}

/// Serves behind a layer that takes the principal and a scope from headers.
pub(super) async fn gated(server: &Server) -> SocketAddr {
    let service = server.http_service().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let service = service.clone();
            let gate = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                let header =
                    |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
                if let Some(user) = header("x-user") {
                    let principal = Principal::new(user).with_scopes(header("x-scope"));
                    request.extensions_mut().insert(principal);
                }
                let mut service = service.clone();
                async move { service.call(request).await }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), gate));
        }
    });
    address
}

#[tokio::test]
async fn session_of_one_caller_is_unknown_to_another() {
    let cluster = Cluster::with_long_leases();
    let (first, second) = (gated(&cluster.server().0).await, gated(&cluster.server().0).await);
    let send = async |to: SocketAddr, user: &str, request: Request| {
        within(Connection::connect(to).await.send(request.header("X-User", user))).await
    };
    let opened = send(first, "ann", Request::post(&initialize_request("2025-11-25", json!({})))).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let requests = || {
        [
            Request::post(&list(1)).session(&session),
            Request::get_stream(&session),
            Request::new("DELETE").session(&session),
        ]
    };
    // Before the replica knows the session, and when it does.
    for _ in 0..2 {
        for request in requests() {
            assert_eq!(send(second, "bob", request).await.status, 404);
        }
        let [post, ..] = requests();
        assert_eq!(send(second, "ann", post).await.status, 200);
    }
}

#[tokio::test]
async fn client_is_notified_although_another_replica_saw_initialized() {
    let cluster = Cluster::with_long_leases();
    let [first, second, _] = cluster.start_three().await;
    let opened = first.send(Request::post(&initialize_request("2025-11-25", json!({})))).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(second.post(&session, &ready).await.status, 202);
    let mut stream = first.get_stream(&session).await;
    second.server.change(|changes| changes.disable(tsugite::server::ListKind::Tool, "slow"));
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
}
