//! Connections through a proxy, and how many there are.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tsugite::client::{Client, FormResponse};
use tsugite::prelude::Revision;

use super::raw::{AfterResponse, Raw, answer_handshake, welcome};
use super::{HANDSHAKE, call, until, within};

#[tokio::test]
async fn plain_http_request_to_a_proxy_has_the_whole_url() {
    let proxy = Raw::after_handshake(|request, writer| {
        writer.json(&request.answer("through"));
        AfterResponse::Keep
    });
    let client = within(
        Client::connect("http://mcp.example:8000/mcp?key=1")
            .revision(HANDSHAKE)
            .proxy(format!("http://us%65r:pass@{}", proxy.address)),
    )
    .await
    .unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "through");
    for request in proxy.requests() {
        assert_eq!(request.path, "http://mcp.example:8000/mcp?key=1");
        assert_eq!(request.header("host"), Some("mcp.example:8000"));
        assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjpwYXNz"));
    }
}

#[tokio::test]
async fn server_on_the_loopback_interface_is_reached_without_the_proxy() {
    let (server, proxy) = (Raw::after_handshake(answer), Raw::after_handshake(answer));
    let client = within(server.client().proxy(format!("http://{}", proxy.address))).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    assert_eq!((server.calls(), proxy.requests().len()), (1, 0));
}

fn answer(request: &super::raw::ReceivedRequest, writer: &mut super::raw::ResponseWriter) -> AfterResponse {
    writer.json(&request.answer("done"));
    AfterResponse::Keep
}

#[tokio::test]
async fn calls_wait_while_all_connections_are_in_use() {
    let released = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
    let gate = Arc::clone(&released);
    let server = Raw::after_handshake(move |request, writer| {
        let (lock, changed) = &*gate;
        drop(changed.wait_while(lock.lock().unwrap(), |released| !*released).unwrap());
        writer.json(&request.answer("done"));
        AfterResponse::Keep
    });
    let client =
        within(Client::connect(server.url()).revision(Revision::NEWEST).max_connections(2)).await.unwrap();
    let calls: Vec<_> = (0..6)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "t").await })
        })
        .collect();
    until(|| server.calls() == 2).await;
    // Every other task has had its turn: none of them got a third connection.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.calls(), 2);
    *released.0.lock().unwrap() = true;
    released.1.notify_all();
    for call in calls {
        assert_eq!(within(call).await.unwrap().unwrap(), "done");
    }
    let connections: std::collections::HashSet<_> =
        server.requests().iter().map(|request| request.connection).collect();
    assert!(connections.len() <= 2, "{connections:?}");
}

#[tokio::test]
async fn response_to_the_server_does_not_wait_for_calls() {
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {
        "message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}});
    let answered = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
    let gate = Arc::clone(&answered);
    let server = Raw::start(move |request, writer| {
        let (lock, changed) = &*gate;
        match request.method() {
            "initialize" => writer.json(&welcome(request)),
            "tools/call" => {
                writer.stream();
                writer.event(None, &question);
                drop(changed.wait_while(lock.lock().unwrap(), |answered| !*answered).unwrap());
                writer.event(None, &request.answer("done"));
                writer.closed();
            }
            _ if request.body["id"] == "q" => {
                *lock.lock().unwrap() = true;
                changed.notify_all();
                writer.status(202, "", "");
            }
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        }
        AfterResponse::Keep
    });
    let builder = server.client().max_connections(1);
    let client = within(builder.on_elicit_form(async |_| FormResponse::accept(json!({})))).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

/// A server of 2026-07-28 that acknowledges subscriptions, and holds tool calls named `slow` until the client closes them.
fn one_at_a_time() -> Raw {
    Raw::start(|request, writer| {
        match request.method() {
            "server/discover" => writer.json(&request.result(json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}},
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}))),
            "subscriptions/listen" => {
                writer.stream();
                let meta = json!({"io.modelcontextprotocol/subscriptionId": request.body["id"]});
                writer.event(
                    None,
                    &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                        "params": {"notifications": {"toolsListChanged": true}, "_meta": meta}}),
                );
                writer.closed();
                return AfterResponse::Close;
            }
            "tools/call" if request.body["params"]["name"] == "slow" => {
                writer.closed();
                return AfterResponse::Close;
            }
            "tools/call" => writer.json(&request.answer("done")),
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        }
        AfterResponse::Keep
    })
}

#[tokio::test]
async fn subscriptions_hold_no_connection_of_a_call() {
    let server = one_at_a_time();
    let builder = Client::connect(server.url()).stateless_only().max_connections(1);
    let client = within(builder.on_change(|_| {})).await.unwrap();
    server.wait_for_requests(1, |request| request.method() == "subscriptions/listen").await;
    let _changes = within(client.listen(tsugite::client::ChangeFilter::new().tools())).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn ping_does_not_wait_for_the_connection_of_a_call() {
    let server = one_at_a_time();
    let builder = Client::connect(server.url()).stateless_only().max_connections(1);
    let builder = builder.ping_interval(std::time::Duration::from_millis(10));
    let client = within(builder).await.unwrap();
    let slow = super::Running::new({
        let client = client.clone();
        // Longer than any ping waits.
        async move { client.call::<String>("slow", json!({})).timeout(10 * super::PATIENCE).await }
    });
    server.wait_for_requests(1, super::raw::ReceivedRequest::is_call).await;
    let pings = || server.count(|request| request.method() == "server/discover");
    let before = pings();
    server.wait_for_requests(before + 3, |request| request.method() == "server/discover").await;
    assert!(client.is_connected());
    drop(slow);
}

#[tokio::test]
async fn call_that_waits_for_a_connection_has_not_run() {
    for revision in [HANDSHAKE, Revision::NEWEST] {
        let server = Raw::after_handshake(|_, writer| {
            writer.closed();
            AfterResponse::Close
        });
        let builder = Client::connect(server.url()).revision(revision).max_connections(1);
        let client = within(builder).await.unwrap();
        let first = super::Running::new({
            let client = client.clone();
            async move { client.call::<String>("t", json!({})).await }
        });
        server.wait_for_requests(1, super::raw::ReceivedRequest::is_call).await;
        let waiting = client.call::<String>("t", json!({})).timeout(std::time::Duration::from_millis(50));
        let error = within(waiting).await.unwrap_err();
        assert!(error.is_timeout() && !error.may_have_run(), "{revision}: {error}");
        assert!(!error.to_string().contains("may have run"), "{error}");
        drop(first);
        // The first call is cancelled; the other was never sent.
        server.wait_for_closed(1).await;
        if revision == HANDSHAKE {
            server.wait_for_requests(1, |request| request.method() == "notifications/cancelled").await;
        }
        within(client.close()).await;
        let seen = server.requests();
        let sent: Vec<_> =
            seen.iter().filter(|request| request.is_call()).map(|request| request.id()).collect();
        assert_eq!(sent.len(), 1);
        for request in seen.iter().filter(|request| request.method() == "notifications/cancelled") {
            assert_eq!(request.body["params"]["requestId"], sent[0], "{seen:?}");
        }
    }
}
