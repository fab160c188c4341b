//! Subscriptions whose connection is lost, and servers that stop answering while nothing is called.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tsugite::client::{Change, ChangeFilter, Client, ErrorKind};
use tsugite::prelude::Revision;
use tsugite_testkit::log::Warnings;

use super::raw::{AfterResponse, Raw, answer_handshake, welcome};
use super::script::{spawn, spawn_modern};
use super::{HANDSHAKE, Running, kind, until, within};

/// A server over HTTP+SSE whose stream breaks when `breaks` is set, after which it is `gone` or not.
fn http_sse(breaks: &Arc<AtomicBool>, gone: bool) -> Raw {
    let (breaks, is_gone) = (Arc::clone(breaks), AtomicBool::new(false));
    let mail = Mutex::new(Vec::<Value>::new());
    Raw::start(move |request, writer| {
        if is_gone.load(Ordering::SeqCst) {
            return AfterResponse::Reset;
        }
        if request.verb == "POST" {
            if request.method() == "initialize" {
                mail.lock().unwrap().push(welcome(request));
            }
            writer.status(202, "", "");
            return AfterResponse::Keep;
        }
        writer.stream();
        writer.write("event: endpoint\ndata: /messages\n\n");
        loop {
            if let Some(message) = mail.lock().unwrap().pop() {
                writer.event(None, &message);
            }
            if breaks.swap(false, Ordering::SeqCst) {
                is_gone.store(gone, Ordering::SeqCst);
                return AfterResponse::Close;
            }
            // Writing notices a client that has disconnected.
            if !writer.write(":\n\n") {
                return AfterResponse::Close;
            }
            std::thread::yield_now();
        }
    })
}

#[tokio::test]
async fn broken_http_sse_stream_is_reopened_for_its_listeners() {
    let breaks = Arc::default();
    let raw = http_sse(&breaks, false);
    let client = within(Client::connect(raw.url()).http_sse()).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    breaks.store(true, Ordering::SeqCst);
    assert_eq!(within(changes.next()).await.unwrap().unwrap(), Change::All);
    assert!(client.is_connected());
    assert_eq!(raw.count(|request| request.verb == "GET"), 2);
}

#[tokio::test]
async fn listeners_hear_that_an_http_server_is_gone() {
    let breaks = Arc::default();
    let raw = http_sse(&breaks, true);
    let client = within(Client::connect(raw.url()).http_sse()).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    breaks.store(true, Ordering::SeqCst);
    until(|| !client.is_connected()).await;
    // The client waits longer and longer between its attempts.
    tokio::time::pause();
    let told = tokio::time::timeout(Duration::from_secs(100_000), changes.next()).await.unwrap();
    let error = told.unwrap().unwrap_err();
    let expected = matches!(
        error.kind(),
        ErrorKind::Connect { .. } | ErrorKind::ConnectionLost { .. } | ErrorKind::TimedOut { .. }
    );
    assert!(expected && !error.may_have_run(), "{error}");
    assert!(changes.next().await.is_none());
    assert!(raw.count(|request| request.verb == "GET") <= 11);
}

/// A server that answers its first `pings` pings, and no other until the client has connected again.
fn silent_after(pings: usize) -> Raw {
    let (sessions, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Raw::start(move |request, writer| match request.method() {
        "initialize" => {
            sessions.fetch_add(1, Ordering::SeqCst);
            writer.json_with("mcp-session-id: one\r\n", &welcome(request));
            AfterResponse::Keep
        }
        "ping" | "server/discover" => {
            let answers = seen.fetch_add(1, Ordering::SeqCst) < pings || sessions.load(Ordering::SeqCst) > 1;
            match answers {
                true => writer.json(&request.result(json!({}))),
                false => writer.closed(),
            }
            AfterResponse::Keep
        }
        "tools/call" => {
            writer.closed();
            AfterResponse::Close
        }
        _ => answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
    })
}

#[tokio::test]
async fn silent_http_server_is_treated_as_gone() {
    // PING-003, PING-004
    for modern in [false, true] {
        let warnings = Warnings::capture();
        let raw = silent_after(2);
        let builder = if modern { raw.stateless_client() } else { raw.client() };
        let builder = builder.timeout(Duration::from_secs(1)).ping_interval(Duration::from_millis(20));
        let client = within(builder).await.unwrap();
        let call = Running::new({
            let client = client.clone();
            async move { client.call::<String>("t", json!({})).timeout(super::PATIENCE).await }
        });
        match kind(call.end().await) {
            ErrorKind::ConnectionLost { may_have_run: true, reason } => {
                assert!(reason.contains("did not answer a ping"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(raw.count(|request| matches!(request.method(), "ping" | "server/discover")), 3);
        assert!(warnings.take().iter().any(|text| text.contains("does not answer pings")));
    }
}

#[tokio::test]
async fn listeners_get_a_new_connection_after_a_ping_fails() {
    let raw = silent_after(0);
    let builder = raw.client().timeout(Duration::from_secs(1)).ping_interval(Duration::from_millis(20));
    let client = within(builder).await.unwrap();
    let mut changes = within(client.listen(ChangeFilter::new().tools())).await.unwrap();
    assert_eq!(within(changes.next()).await.unwrap().unwrap(), Change::All);
    assert_eq!(raw.count(|request| request.method() == "initialize"), 2);
}

#[tokio::test]
async fn silent_child_is_treated_as_gone() {
    // PING-003, PING-004
    for builder in [spawn("handshake; drain"), spawn_modern("drain")] {
        let warnings = Warnings::capture();
        let builder = builder.timeout(Duration::from_secs(2)).ping_interval(Duration::from_millis(20));
        let client = within(builder).await.unwrap();
        let call = client.call::<String>("t", json!({})).timeout(super::PATIENCE);
        match kind(within(call).await) {
            ErrorKind::ConnectionLost { may_have_run: true, reason } => {
                assert!(reason.contains("did not answer a ping"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        assert!(warnings.take().iter().any(|text| text.contains("does not answer pings")));
        within(client.close()).await;
    }
}

/// A server in the runtime of the test, so that its clock is the same. Its streams stay open without an event; if it is
/// `lively`, with a comment every 15 seconds. Returns its URL and the number of streams that were opened.
async fn quiet_server(lively: bool) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let streams = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&streams);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // The kernel's clock is not paused: a delayed packet would be late by hours.
            socket.set_nodelay(true).unwrap();
            tokio::spawn(serve_quietly(BufStream::new(socket), lively, Arc::clone(&count)));
        }
    });
    (url, streams)
}

async fn serve_quietly(mut socket: BufStream<TcpStream>, lively: bool, streams: Arc<AtomicUsize>) {
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let start = head.len();
            if socket.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
            let line = head[start..].to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = body["method"].as_str().unwrap_or_default();
        if head.starts_with("GET") || method == "subscriptions/listen" {
            streams.fetch_add(1, Ordering::SeqCst);
            let meta = json!({"io.modelcontextprotocol/subscriptionId": body["id"]});
            let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"toolsListChanged": true}, "_meta": meta}});
            let event = if method.is_empty() { String::new() } else { format!("data: {acknowledged}\n\n") };
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let mut bytes = format!("{head}{event}");
            while socket.write_all(bytes.as_bytes()).await.is_ok() && socket.flush().await.is_ok() {
                let pause = if lively { 15 } else { 1_000_000 };
                tokio::time::sleep(Duration::from_secs(pause)).await;
                bytes = ": still here\n\n".to_owned();
            }
            return;
        }
        let result = match method {
            "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}}),
            _ => json!({}),
        };
        let response = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
        let (status, response) = if body["id"].is_null() { (202, String::new()) } else { (200, response) };
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n");
        let response = format!("{head}content-length: {}\r\n\r\n{response}", response.len());
        socket.write_all(response.as_bytes()).await.unwrap();
        socket.flush().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn silent_stream_is_opened_again() {
    // PING-005
    const INTERVAL: Duration = Duration::from_secs(10);
    // The paused clock jumps to the next timer whenever the runtime waits for a socket, so there is always a timer nearby.
    let _ticking = Running::new(async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    // Nothing but a comment every 15 seconds is enough.
    for (lively, expected) in [(true, 1), (false, 3)] {
        let (url, streams) = quiet_server(lively).await;
        let client = Client::connect(&*url).revision(Revision::NEWEST).ping_interval(INTERVAL).await.unwrap();
        let mut changes = client.listen(ChangeFilter::new().tools()).await.unwrap();
        let reopened = async {
            if !lively {
                assert_eq!(changes.next().await.unwrap().unwrap(), Change::All);
            }
            while streams.load(Ordering::SeqCst) < expected {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10_000), reopened).await.expect("the stream stays silent");
        if lively {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            assert_eq!(streams.load(Ordering::SeqCst), 1);
        }
        assert!(client.is_connected());

        let (url, streams) = quiet_server(lively).await;
        let client = Client::connect(&*url).revision(HANDSHAKE).ping_interval(INTERVAL).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let opened = streams.load(Ordering::SeqCst);
        // Once a minute, after a short delay.
        assert!(if lively { opened == 1 } else { (50..=60).contains(&opened) }, "{lively}: {opened}");
        assert!(client.is_connected());
    }
    // Without the setting a silent stream stays.
    let (url, streams) = quiet_server(false).await;
    let client = Client::connect(&*url).revision(HANDSHAKE).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!((streams.load(Ordering::SeqCst), client.is_connected()), (1, true));
}
