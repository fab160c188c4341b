//! Streams end when the token of their caller expires.

use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, TestServer, initialize_request};

use super::within;
use crate::protected::{Issuer, call, open_session, with_token};

static GATE: Semaphore = Semaphore::const_new(0);

fn server() -> Server {
    let slow = Tool::new("slow").handler(|cx: Context| async move {
        cx.progress(1).await;
        GATE.acquire().await.unwrap().forget();
        "done"
    });
    let echo = Tool::new("echo").handler(async || "hello");
    Server::new("s", "1").tool(slow).tool(echo).http(Http::new().http_sse()).authorize(Issuer::unnamed())
}

/// Lets time pass.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

fn listen() -> Request {
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": filter});
    Request::stateless(request)
}

/// Opens the three kinds of streams with a token of 60 seconds, and reads their first events.
async fn open_streams(serving: &TestServer) -> Vec<(&'static str, Connection)> {
    let token = "sub=ann;ttl=60";
    let session = open_session(serving, "2025-11-25", token).await;
    let http_sse = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    let mut streams = Vec::new();
    for (name, request) in
        [("GET", Request::get_stream(&session)), ("listen", listen()), ("HTTP+SSE", http_sse)]
    {
        let mut stream = serving.connect().await;
        assert_eq!(stream.send(with_token(request, token)).await.status, 200, "{name}");
        within(stream.next_event()).await.unwrap();
        streams.push((name, stream));
    }
    streams
}

/// Reads the remaining events until the stream ends.
async fn rest(stream: &mut Connection) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = within(stream.next_event()).await {
        events.push(event.data);
    }
    events
}

#[tokio::test]
async fn streams_end_when_their_token_expires() {
    let serving = TestServer::start(&server()).await;
    let streams = open_streams(&serving).await;
    pass(61).await;
    for (name, mut stream) in streams {
        let events = rest(&mut stream).await;
        // `subscriptions/listen` is a request, which gets its result.
        assert_eq!(events.len(), usize::from(name == "listen"), "{name}: {events:?}");
    }
}

#[tokio::test]
async fn newer_token_of_the_same_caller_keeps_streams_open() {
    let server = server();
    let serving = TestServer::start(&server).await;
    let mut streams = open_streams(&serving).await;
    let echo = || Request::stateless(call("echo"));
    for token in ["sub=ann;ttl=90", "sub=bob;ttl=900"] {
        assert_eq!(serving.send(with_token(echo(), token)).await.status, 200);
    }
    pass(61).await;
    let _ = server.disable(tsugite::server::ListKind::Tool, "echo");
    for (name, stream) in streams.iter_mut().filter(|(name, _)| *name != "HTTP+SSE") {
        let changed = within(stream.next_message()).await.unwrap();
        assert_eq!(changed["method"], "notifications/tools/list_changed", "{name}");
    }
    pass(30).await;
    for (name, mut stream) in streams {
        let events = rest(&mut stream).await;
        assert_eq!(events.len(), usize::from(name == "listen"), "{name}: {events:?}");
    }
}

#[tokio::test]
async fn admitted_request_runs_to_its_end() {
    let serving = TestServer::start(&server()).await;
    let token = "sub=ann;ttl=60";
    let mut asked = call("slow");
    asked["params"]["_meta"] = json!({"progressToken": 1});

    let session = open_session(&serving, "2025-11-25", token).await;
    let mut post = serving.connect().await;
    assert_eq!(post.send(with_token(Request::post(&asked).session(&session), token)).await.status, 200);
    within(post.next_message()).await.unwrap();

    let mut stream = serving.connect().await;
    let opening = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    assert_eq!(stream.send(with_token(opening, token)).await.status, 200);
    let path = within(stream.next_event()).await.unwrap().data;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for message in [&initialize_request("2024-11-05", json!({})), &ready, &asked] {
        let posted = serving.send(with_token(Request::post(message).path(&path), token)).await;
        assert_eq!(posted.status, 202, "{posted:?}");
    }
    within(stream.next_message()).await.unwrap();
    within(stream.next_message()).await.unwrap();

    pass(61).await;
    let refused = serving.send(with_token(Request::stateless(call("echo")), "sub=ann;bad=yes")).await;
    assert_eq!(refused.status, 401);
    GATE.add_permits(2);
    for stream in [&mut post, &mut stream] {
        let events = rest(stream).await;
        assert!(events.iter().any(|event| event.contains("done")), "{events:?}");
    }
}
