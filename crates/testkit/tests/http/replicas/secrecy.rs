//! The contents of the store: nothing in it can be read without the keys, and everything in it expires.

use serde_json::json;
use tsugite_testkit::http::{initialize_request, open_session};

use super::*;

#[tokio::test]
async fn store_holds_nothing_readable_and_nothing_for_ever() {
    let cluster = Cluster::with_long_leases();
    let replicas = cluster.start_three().await;
    let [first, second, third] = &replicas;
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}});
    let session = open_session(&first.at, "2025-11-25", capabilities.clone()).await;
    let mut pushed = second.get_stream(&session).await;
    let mut stream = first.call_stream(&session, &call("secret-request", "greet")).await;
    let question = next(&mut stream).await.unwrap();
    assert_eq!(second.post(&session, &answer(&question, "secret-name")).await.status, 202);
    assert_eq!(text(&next(&mut stream).await.unwrap()), "Hello, secret-name!");
    let subscription = request(2, "resources/subscribe", json!({"uri": "test://secret-page"}));
    assert_eq!(third.post(&session, &subscription).await.status, 200);
    first.server.notify_resource_updated("test://secret-page");
    assert_eq!(next(&mut pushed).await.unwrap()["method"], "notifications/resources/updated");
    assert_eq!(third.post(&session, &cancelled("secret-cancellation")).await.status, 202);
    let sse = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    let mut sse = first.stream(sse).await;
    let endpoint = within(sse.next_event()).await.unwrap().data;
    let initialize = initialize_request("2024-11-05", capabilities);
    let posted = Request::new("POST").path(&endpoint).header("Content-Type", "application/json");
    assert_eq!(second.send(posted.body(initialize.to_string())).await.status, 202);
    assert!(next(&mut sse).await.is_some());
    assert_eq!(second.send(Request::new("DELETE").session(&session)).await.status, 200);

    let sse_session = endpoint.split_once("sessionId=").unwrap().1;
    let secrets = [
        &*session,
        sse_session,
        "secret",
        "Who are you",
        "elicitation",
        "testkit",
        "jsonrpc",
        "2025-11-25",
        "tools",
    ];
    for replica in &replicas {
        let written = replica.faults.written();
        assert!(!written.is_empty());
        for value in &written {
            let readable = String::from_utf8_lossy(value);
            for secret in secrets {
                assert!(!readable.contains(secret), "{secret:?} in {readable:?}");
            }
        }
        for time in replica.faults.times_to_live() {
            assert!(!time.is_zero() && time <= MAX_TTL, "{time:?}");
        }
    }
}

/// The time to live of the list of replicas with waiting calls; everything else expires sooner.
const MAX_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
