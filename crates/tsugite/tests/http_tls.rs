//! HTTP over TLS and HTTP/2, with clients of others: rustls and hyper. The certificate and the key in `tls/` are for this
//! test alone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so do its own helpers"
)]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tsugite::client::{ConnectStep, ErrorKind};
use tsugite::prelude::*;
use tsugite::transport::http::Http;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

fn server() -> Server {
    let count = Tool::new("count").handler(|cx: Context| async move {
        for step in 1..=3 {
            cx.progress(step).await;
            tokio::task::yield_now().await;
        }
        "counted"
    });
    Server::new("s", "1").tool(count)
}

fn encrypted() -> Server {
    server().http(Http::new().tls(format!("{FOLDER}/certificate.pem"), format!("{FOLDER}/key.pem")))
}

async fn start(server: Server) -> (SocketAddr, oneshot::Sender<()>) {
    let listener = server.bind_http("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let address = listener.local_addr();
    tokio::spawn(listener.serve_until(async move { drop(stopped.await) }));
    (address, stop)
}

async fn handshake(address: SocketAddr, speaks: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(format!("{FOLDER}/certificate.pem")).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = speaks.iter().map(|name| name.to_vec()).collect();
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap()
}

/// A complete body.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn post(uri: &str, message: &Value) -> Request<Whole> {
    Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Whole(Some(Bytes::from(message.to_string()))))
        .unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
    }
    String::from_utf8(text).unwrap()
}

fn initialize() -> Value {
    let client = json!({"name": "c", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn count() -> Value {
    let params = json!({"name": "count", "arguments": {}, "_meta": {"progressToken": 1}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

/// Opens a session and calls, over HTTP/2.
async fn speak_http2<T>(io: T, scheme: &str)
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("{scheme}://localhost/mcp");
    let opened = sender.send_request(post(&uri, &initialize())).await.unwrap();
    assert_eq!((opened.status().as_u16(), opened.version()), (200, Version::HTTP_2));
    let session = opened.headers()["mcp-session-id"].clone();
    text(opened).await;
    // Concurrent requests on one connection.
    let mut stream =
        Request::builder().uri(&uri).header("accept", "text/event-stream").body(Whole(None)).unwrap();
    stream.headers_mut().insert("mcp-session-id", session.clone());
    let stream = sender.send_request(stream).await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut call = post(&uri, &count());
    call.headers_mut().insert("mcp-session-id", session);
    let said = text(sender.send_request(call).await.unwrap()).await;
    assert_eq!(
        (said.matches("notifications/progress").count(), said.matches("counted").count()),
        (3, 1),
        "{said}"
    );
    drop(stream);
}

#[tokio::test]
async fn tls_carries_http_1() {
    let (address, _stop) = start(encrypted()).await;
    let io = handshake(address, &[b"http/1.1"]).await;
    assert_eq!(io.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    let opened = sender.send_request(post("/mcp", &initialize())).await.unwrap();
    assert_eq!(opened.status(), 200);
    assert!(text(opened).await.contains("2025-11-25"));
}

#[tokio::test]
async fn tls_carries_http_2() {
    let (address, _stop) = start(encrypted()).await;
    let io = handshake(address, &[b"h2", b"http/1.1"]).await;
    assert_eq!(io.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    speak_http2(io, "https").await;
}

#[tokio::test]
async fn http_2_works_without_tls() {
    let (address, _stop) = start(server()).await;
    speak_http2(TcpStream::connect(address).await.unwrap(), "http").await;
}

/// Lets time pass, with turns for the server in between.
async fn later(time: std::time::Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn idle_http_2_connection_is_closed() {
    let limit = std::time::Duration::from_secs(30);
    let (address, _stop) = start(server()).await;
    let connect = || async {
        let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), socket).await.unwrap();
        (sender, tokio::spawn(connection))
    };
    let (_sender, silent) = connect().await;
    let (mut used, connection) = connect().await;
    // Each request restarts the timeout.
    for _ in 0..5 {
        let opened = used.send_request(post("http://localhost/mcp", &initialize())).await.unwrap();
        assert!(text(opened).await.contains("2025-11-25"));
        later(limit / 2).await;
    }
    // Both are closed, with or without an error.
    drop(silent.await.unwrap());
    while !connection.is_finished() {
        later(limit).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn http_2_peer_that_takes_no_response_is_disconnected() {
    let (address, _stop) = start(server()).await;
    let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.initial_stream_window_size(0).handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let opened = sender.send_request(post("http://localhost/mcp", &initialize())).await.unwrap();
    assert_eq!(opened.status(), 200);
    let reading = tokio::spawn(text(opened));
    while !connection.is_finished() {
        later(std::time::Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
    }
    assert!(reading.await.is_err(), "the response was read");
}

#[tokio::test]
async fn failed_tls_handshake_affects_no_other_connection() {
    let (address, _stop) = start(encrypted()).await;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(TcpStream::connect(address).await.unwrap())).await.unwrap();
    tokio::spawn(connection);
    assert!(
        sender.send_request(post("/mcp", &initialize())).await.is_err(),
        "a request without TLS was served"
    );
    handshake(address, &[b"http/1.1"]).await;
}

#[tokio::test]
async fn missing_certificate_file_is_named() {
    let server = server().http(Http::new().tls("nowhere.pem", format!("{FOLDER}/key.pem")));
    let error = server.bind_http("127.0.0.1:0").await.err().unwrap().to_string();
    assert!(error.contains("nowhere.pem"), "{error}");
}

#[tokio::test]
async fn client_connects_only_to_trusted_https_servers() {
    let (address, _stop) = start(encrypted()).await;
    let url = format!("https://localhost:{}/mcp", address.port());
    for revision in Revision::ALL {
        let client = Client::connect(&*url)
            .add_root_certificate(format!("{FOLDER}/certificate.pem"))
            .revision(revision)
            .await
            .unwrap();
        let counted: String = client.call("count", json!({})).await.unwrap();
        assert_eq!((counted.as_str(), client.revision()), ("counted", revision));
        client.close().await;
    }
    let error = Client::connect(&*url).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Connect { step: ConnectStep::Tls, .. }), "{error}");
    let error = Client::connect(&*url).add_root_certificate("/no/such/file.pem").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Config(_)), "{error}");
    // A server without TLS is reported as a TLS error.
    let plain = Client::connect(url.replace("https", "http")).await.unwrap_err();
    assert!(!plain.to_string().is_empty());
}

/// An HTTP proxy that opens tunnels to `server`, whatever name they are for, and reports the heads of requests.
async fn tunnel_proxy(server: SocketAddr) -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (report, heads) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let report = report.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let is_allowed = head.contains("Basic dTpw");
                report.send(head).unwrap();
                if !is_allowed {
                    return client
                        .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                        .await
                        .unwrap();
                }
                client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").await.unwrap();
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn https_goes_through_a_tunnel_of_the_proxy() {
    let tls = Http::new().tls(format!("{FOLDER}/certificate.pem"), format!("{FOLDER}/key.pem"));
    let (address, _stop) = start(server().http(tls.allow_host("secure.example"))).await;
    let (proxy, mut heads) = tunnel_proxy(address).await;
    let connect = |proxy: String| {
        Client::connect("https://secure.example/mcp")
            .add_root_certificate(format!("{FOLDER}/certificate.pem"))
            .proxy(proxy)
    };
    let client = connect(format!("http://u:p@{proxy}")).await.unwrap();
    assert_eq!(client.call::<String>("count", json!({})).await.unwrap(), "counted");
    let head = heads.recv().await.unwrap();
    assert!(
        head.starts_with("CONNECT secure.example:443 HTTP/1.1\r\nHost: secure.example:443\r\n"),
        "{head}"
    );

    let refused = connect(format!("http://{proxy}")).await.err().unwrap();
    assert!(
        matches!(refused.kind(), ErrorKind::Connect { step: ConnectStep::Proxy, .. })
            && refused.to_string().contains("407"),
        "{refused}"
    );
}

#[tokio::test]
async fn client_without_a_certificate_of_the_authority_is_refused() {
    let tls = Http::new()
        .tls(format!("{FOLDER}/certificate.pem"), format!("{FOLDER}/key.pem"))
        .tls_client_ca(format!("{FOLDER}/client_authority.pem"));
    let (address, _stop) = start(server().http(tls)).await;
    let connect = async |with_certificate: bool| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(format!("{FOLDER}/certificate.pem")).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match with_certificate {
            false => config.with_no_client_auth(),
            true => {
                let chain = CertificateDer::from_pem_file(format!("{FOLDER}/client.pem")).unwrap();
                let key = PrivateKeyDer::from_pem_file(format!("{FOLDER}/client_key.pem")).unwrap();
                config.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let io = TlsConnector::from(Arc::new(config)).connect(name, socket).await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.ok()?;
        tokio::spawn(connection);
        sender.send_request(post("/mcp", &initialize())).await.ok()
    };
    assert!(connect(false).await.is_none());
    assert_eq!(connect(true).await.unwrap().status(), 200);
    let without_tls = server().http(Http::new().tls_client_ca("ca.pem")).bind_http("127.0.0.1:0").await;
    assert!(without_tls.err().unwrap().to_string().contains("Http::tls"));
}
