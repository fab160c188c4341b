//! Foreign origins, DNS rebinding, and malformed HTTP.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tsugite::jsonrpc::MessageLimits;
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Connection, Request, TestServer, initialize_request, open_session};

use super::{Stops, call, counted, refused, text};

const EVIL: &str = "http://evil.example";

#[tokio::test]
async fn foreign_origin_is_refused_before_reading() {
    // T-01, T-08, HTTP-003, HTTP-004
    let (server, count) = counted();
    let mut limits = MessageLimits::default();
    limits.max_message_bytes = 4000;
    let serving = TestServer::start(&server.limits(limits)).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let post = Request::post(&call("ran", json!({})));
    for request in [
        Request::stateless(call("ran", json!({}))),
        post.clone().session(&session),
        Request::post(&initialize_request("2025-11-25", json!({}))),
        // The body is not read, whatever its size and shape.
        post.clone().body("{"),
        post.body("x".repeat(5000)).without_header("Content-Type"),
        Request::get_stream(&session),
        Request::new("DELETE").session(&session),
        Request::new("PUT"),
        Request::new("GET").path("/health"),
    ] {
        let mut connection = serving.connect().await;
        let mut answer = connection.send(request.clone().header("Origin", EVIL)).await;
        assert_eq!(answer.status, 403, "{request:?}");
        answer.body = connection.read_body().await;
        assert!(answer.body.is_empty() || answer.json().get("id").is_none(), "{answer:?}");
        assert_eq!(answer.header("mcp-session-id"), None);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert_eq!(count.get(), 0);
    // The session still exists.
    let answer = serving.send(Request::post(&call("ran", json!({}))).session(&session)).await;
    assert_eq!(text(&answer), "ran");
}

#[tokio::test]
async fn http_sse_refuses_foreign_origins() {
    // T-02, HSSE-005
    let (server, count) = counted();
    let serving = TestServer::start(&server.http(Http::new().http_sse())).await;
    let stream = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    for foreign in
        [stream.clone().header("Origin", EVIL), stream.clone().replace_header("Host", "evil.example")]
    {
        assert_eq!(serving.connect().await.send(foreign).await.status, 403);
    }
    let mut connection = serving.connect().await;
    connection.send(stream).await;
    let endpoint = connection.next_event().await.unwrap().data;
    let post = |message| Request::post(&message).path(&endpoint);
    serving.send(post(initialize_request("2024-11-05", json!({})))).await;
    connection.next_message().await.unwrap();
    let forged = serving.send(post(call("ran", json!({}))).header("Origin", EVIL)).await;
    assert_eq!(forged.status, 403);
    assert_eq!(serving.send(post(super::request(8, "ping", json!({})))).await.status, 202);
    assert_eq!(connection.next_message().await.unwrap()["id"], 8, "the forged call was accepted");
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn http_sse_refuses_elements_of_other_sites() {
    // T-02
    let http = Http::new().http_sse().allow_origin("https://app.example");
    let serving = TestServer::start(&counted().0.http(http)).await;
    let stream = Request::new("GET").path("/sse").header("Accept", "*/*");
    // An image or a script of another site sends no `Origin`.
    let element = stream.clone().header("Sec-Fetch-Site", "cross-site");
    assert_eq!(serving.connect().await.send(element.clone()).await.status, 403);
    for allowed in [
        element.header("Origin", "https://app.example"),
        stream.clone().header("Sec-Fetch-Site", "same-site").header("Origin", "http://localhost:3000"),
        stream.clone().header("Sec-Fetch-Site", "none"),
        stream,
    ] {
        assert_eq!(serving.connect().await.send(allowed).await.status, 200);
    }
}

#[tokio::test]
async fn dns_rebinding_host_is_refused() {
    // T-03
    let (server, count) = counted();
    let serving = TestServer::start(&server.http(Http::new().allow_host("Tools.example"))).await;
    let port = serving.address.port();
    let request = Request::stateless(call("ran", json!({})));
    for host in [
        "evil.example",
        &format!("evil.example:{port}"),
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "127.0.0.1:80@evil.example",
        "localhost.",
        "tools.example.",
        "127.0.0.2",
        "0.0.0.0",
        "[::]",
        "2130706433",
        "localhost:",
        "localhost:port",
    ] {
        let answer = serving.send(request.clone().replace_header("Host", host)).await;
        assert!(matches!(answer.status, 400 | 403), "{host}: {answer:?}");
    }
    for nameless in [
        request.clone().without_header("Host"),
        request.clone().replace_header("Host", ""),
        request.clone().header("Host", "evil.example"),
        request.clone().path("http://evil.example/mcp"),
    ] {
        let answer = serving.send(nameless.clone()).await;
        assert!(matches!(answer.status, 400 | 403), "{nameless:?}: {answer:?}");
    }
    assert_eq!(count.get(), 0);
    let (plain, named) =
        (["localhost", "127.0.0.1", "[::1]", "tools.example"], ["LOCALHOST", "Tools.Example"]);
    for host in plain.into_iter().chain(named) {
        for host in [host.to_owned(), format!("{host}:{port}"), format!("{host}:1")] {
            assert_eq!(
                text(&serving.send(request.clone().replace_header("Host", &host)).await),
                "ran",
                "{host}"
            );
        }
    }
}

#[tokio::test]
async fn client_without_origin_is_served() {
    // T-04, HTTP-005
    let (server, _) = counted();
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", json!({})).await;
    let request = Request::post(&call("ran", json!({}))).session(&session);
    for request in [request, Request::stateless(call("ran", json!({})))] {
        assert!(!request.headers.iter().any(|(name, _)| name == "Origin"));
        assert_eq!(text(&serving.send(request).await), "ran");
    }
    let mut stream = serving.connect().await;
    assert_eq!(stream.send(Request::get_stream(&session)).await.status, 200);
}

#[tokio::test]
async fn origin_is_compared_as_a_whole() {
    // T-05
    let (server, count) = counted();
    let serving = TestServer::start(&server.http(Http::new().allow_origin("https://app.example"))).await;
    let request = Request::stateless(call("ran", json!({})));
    for origin in [
        "null",
        "",
        "*",
        "localhost",
        "http://localhost.evil.example",
        "http://127.0.0.1@evil",
        "http://127.0.0.1:80@evil",
        "http://localhost#@evil",
        "http://LOCALHOST",
        "HTTP://localhost",
        "http://localhost:80",
        "http://localhost.",
        "http://127.0.0.1.",
        "http://127.1",
        "http://localhost/",
        "http://[::1].evil.example",
        "https://app.example:443",
        "https://APP.example",
        "https://app.example.",
        "https://app.example/",
        "https://app.example:8443",
        "https://app.example.evil.example",
        "https://evil-app.example",
        "https://user@app.example",
        "http://app.example",
        "https://app.example https://evil.example",
        "https://app.example, https://evil.example",
    ] {
        assert_eq!(serving.send(request.clone().header("Origin", origin)).await.status, 403, "{origin}");
    }
    let twice = request.clone().header("Origin", "https://app.example").header("Origin", EVIL);
    assert_eq!(serving.send(twice).await.status, 403);
    assert_eq!(count.get(), 0);
    let known = ["https://app.example", "http://localhost", "http://localhost:3000", "http://[::1]:3000"];
    for origin in known {
        assert_eq!(text(&serving.send(request.clone().header("Origin", origin)).await), "ran", "{origin}");
    }
}

#[tokio::test]
async fn host_is_checked_on_every_listen_address() {
    // T-06: an address is always chosen, and every one but loopback is a choice.
    let (server, count) = counted();
    let local = server.bind_http("localhost:0").await.unwrap().local_addr();
    assert!(local.ip().is_loopback());
    let everywhere = server.bind_http("0.0.0.0:0").await.unwrap();
    let port = everywhere.local_addr().port();
    let task = tokio::spawn(everywhere.serve_until(std::future::pending()));
    for (host, status) in [("evil.example", 403), ("0.0.0.0", 403), ("10.0.0.7", 403), ("localhost", 200)] {
        let mut connection = Connection::connect(([127, 0, 0, 1], port).into()).await;
        let request = Request::stateless(call("ran", json!({}))).replace_header("Host", host);
        assert_eq!(connection.send(request).await.status, status, "{host}");
    }
    assert_eq!(count.get(), 1);
    task.abort();
}

#[tokio::test]
async fn cors_preflight_of_a_foreign_origin_is_refused() {
    // T-07
    let (server, _) = counted();
    let open = Http::new().cors(true).allow_origin("https://app.example");
    let serving = TestServer::start(&server.http(open)).await;
    let preflight = Request::new("OPTIONS")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "content-type, mcp-param-region, x-other");
    let cors = |answer: &tsugite_testkit::http::Response| {
        answer.headers.iter().any(|(name, _)| name.starts_with("access-control-"))
    };
    for origin in [EVIL, "null", "https://app.example.evil.example"] {
        let answer = serving.send(preflight.clone().header("Origin", origin)).await;
        assert_eq!((answer.status, cors(&answer)), (403, false), "{origin}: {answer:?}");
    }
    let answer = serving.send(preflight.clone().header("Origin", "https://app.example")).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    let allowed = answer.header("access-control-allow-headers").unwrap().to_owned();
    for name in [
        "authorization",
        "content-type",
        "accept",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-session-id",
        "last-event-id",
        "dpop",
    ] {
        assert!(allowed.split(", ").any(|known| known == name), "{name}: {allowed}");
    }
    assert!(!allowed.contains("x-other") && !allowed.contains('*'), "{allowed}");
    let request = Request::stateless(call("ran", json!({}))).header("Origin", "https://app.example");
    let answer = serving.send(request).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("vary"), Some("origin"));
    assert_eq!(
        answer.header("access-control-expose-headers"),
        Some("mcp-session-id, www-authenticate, dpop-nonce")
    );
    // Without allowed origins there are no CORS headers.
    let (server, _) = counted();
    let serving = TestServer::start(&server.http(Http::new().allow_origin("https://app.example"))).await;
    let answer = serving.send(preflight.header("Origin", "https://app.example")).await;
    assert_eq!((answer.status, cors(&answer)), (405, false), "{answer:?}");
}

/// Sends bytes, and reads until the connection ends.
async fn exchange(connection: &mut Connection, bytes: &[u8]) -> String {
    let socket = connection.socket();
    // The server may refuse before all bytes are sent.
    drop(socket.write_all(bytes).await);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = socket.read(&mut piece).await {
        answer.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn too_many_or_too_long_headers_are_refused() {
    // T-17, SEC-030
    let (server, count) = counted();
    let serving = TestServer::start(&server).await;
    let request = Request::stateless(call("ran", json!({})));
    let many = (0..10_000)
        .fold(request.clone(), |request, n| request.header(&format!("Mcp-Param-{n}"), "=?base64?QQ==?="));
    let long = request.clone().header("Mcp-Param-Region", &"x".repeat(1 << 20));
    let some = (0..200).fold(request, |request, n| request.header(&format!("Mcp-Param-{n}"), "x"));
    for request in [many, long, some] {
        let answer = exchange(&mut serving.connect().await, &request.to_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn body_over_the_limit_closes_the_connection() {
    // T-20
    let (server, count) = counted();
    let mut limits = MessageLimits::default();
    limits.max_message_bytes = 1000;
    let serving = TestServer::start(&server.limits(limits)).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let declared = format!("{head}Content-Length: 1000000000\r\n\r\n{{");
    let chunk = format!("200\r\n{}\r\n", "x".repeat(0x200));
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(3));
    for bytes in [declared, chunked] {
        let answer = exchange(&mut serving.connect().await, bytes.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn slow_request_times_out() {
    // T-20
    let (server, count) = counted();
    let (short, long) = (Duration::from_millis(1), Duration::from_secs(600));
    let serving = TestServer::start(
        &server
            .clone()
            .http(Http::new().header_read_timeout(long).body_read_timeout(short).write_timeout(long)),
    )
    .await;
    let request = Request::stateless(call("ran", json!({})));
    let bytes = request.to_bytes();
    let answer = exchange(&mut serving.connect().await, &bytes[..bytes.len() - 1]).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let serving = TestServer::start(
        &server.http(Http::new().header_read_timeout(short).body_read_timeout(long).write_timeout(long)),
    )
    .await;
    let answer = exchange(&mut serving.connect().await, b"POST /mcp HTTP/1.1\r\nHost: local").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn ambiguous_request_length_is_refused() {
    // T-20
    let (server, count) = counted();
    let serving = TestServer::start(&server).await;
    let smuggled = Request::stateless(call("ran", json!({}))).to_bytes();
    let smuggled = String::from_utf8(smuggled).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for lengths in [
        "Content-Length: 0\r\nContent-Length: 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x10\r\n",
        "Content-Length : 0\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding : chunked\r\n",
    ] {
        let bytes = format!("{head}{lengths}\r\n{smuggled}");
        let answer = exchange(&mut serving.connect().await, bytes.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lengths}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{lengths}: {answer}");
    }
    assert_eq!(count.get(), 0);
}

#[tokio::test]
async fn two_kinds_of_length_smuggle_no_request() {
    // T-20: only the chunks count, and nothing that follows them is taken for a request (RFC 9112, 6.3).
    let (server, count) = counted();
    let serving = TestServer::start(&server).await;
    let request = Request::stateless(call("ran", json!({})));
    let whole = String::from_utf8(request.to_bytes()).unwrap();
    let body = String::from_utf8(request.body).unwrap();
    let (head, _) = whole.split_once("Content-Length").unwrap();
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for (tried, lengths) in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = format!("{head}{lengths}\r\n{chunks}{whole}");
        let answer = exchange(&mut serving.connect().await, bytes.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        assert!(count.get() <= tried + 1, "the second request ran");
    }
}

#[tokio::test]
async fn client_that_never_reads_is_disconnected() {
    // T-20, S-09
    let stopped = Arc::new(Notify::new());
    let stops = stopped.clone();
    let endless = Tool::new("endless").handler(move |cx: Context| {
        let stops = Stops(stops.clone());
        async move {
            while !cx.cancellation_token().is_cancelled() {
                cx.log(Level::Error, &"x".repeat(100_000)).await;
            }
            drop(stops);
        }
    });
    let (short, long) = (Duration::from_millis(1), Duration::from_secs(600));
    let http = Http::new().header_read_timeout(long).body_read_timeout(long).write_timeout(short);
    let serving = TestServer::start(&Server::new("s", "1").tool(endless).http(http)).await;
    let mut loud = call("endless", json!({}));
    loud["params"]["_meta"] = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let mut connection = serving.connect().await;
    connection.write_request(&Request::stateless(loud)).await;
    // The call is dropped although the connection is still open on this side.
    stopped.notified().await;
    drop(connection);
}

#[tokio::test]
async fn truncated_body_is_never_run() {
    // T-20
    let (server, count) = counted();
    let serving = TestServer::start(&server).await;
    let mut connection = serving.connect().await;
    let bytes = Request::stateless(call("ran", json!({}))).to_bytes();
    connection.socket().write_all(&bytes[..bytes.len() - 1]).await.unwrap();
    connection.socket().shutdown().await.unwrap();
    let answer = connection.read_head().await;
    assert!(answer.is_none_or(|answer| answer.status == 400));
    assert_eq!(count.get(), 0);
    let broken = Request::post(&json!(0)).body("{\"jsonrpc\":");
    assert_eq!(refused(&serving.send(broken).await), (400, -32700));
}

#[tokio::test]
async fn invalid_allowed_origin_is_a_registration_error() {
    // T-05
    for origin in ["app.example", "https://app.example/", "https://App.example", "*"] {
        let server = Server::new("s", "1").http(Http::new().allow_origin(origin));
        assert!(server.http_service().is_err_and(|error| error.is_registration()), "{origin}");
    }
}
