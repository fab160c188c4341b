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
