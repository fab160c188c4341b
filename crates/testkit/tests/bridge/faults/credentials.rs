//! Headers of a client stay at the bridge, except those that repeat arguments of a tool.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::http::{Request, TestServer, open_session};

use super::{HANDSHAKE, STATELESS, within};

/// A proxy that records the bytes sent to `server`.
async fn recorded(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, recorded) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
    let record = recorded.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (record, server) = (record.clone(), TcpStream::connect(server).await.unwrap());
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move {
                let mut buffer = vec![0; 16 << 10];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    record.lock().unwrap().extend_from_slice(&buffer[..read]);
                    if to_server.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            });
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        }
    });
    (address, recorded)
}

fn with_credentials(request: Request) -> Request {
    ["Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "Forwarded", "X-Anything"]
        .into_iter()
        .fold(request, |request, name| request.header(name, "Bearer hunter2"))
        .header("Mcp-Param-Trace", "passed-on")
}

#[tokio::test]
async fn only_param_headers_reach_the_server() {
    // HTTP-077: unknown `Mcp-Param-*` headers are forwarded unchanged.
    let server = Server::new("s", "1").tool(Tool::new("one").handler(async || "1"));
    let far = TestServer::start(&server).await;
    for revision in [HANDSHAKE, STATELESS] {
        let (address, sent) = recorded(far.address).await;
        let bridge = Bridge::to(Client::connect(format!("http://{address}/mcp")).revision(revision));
        let near = TestServer::start(&bridge.server()).await;
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "one", "arguments": {}}});
        let answer = within(near.send(with_credentials(Request::stateless(call.clone())))).await;
        assert!(answer.body.contains("\"1\""), "{answer:?}");
        let session = open_session(&near, HANDSHAKE.as_str(), json!({})).await;
        let answer = within(near.send(with_credentials(Request::post(&call).session(&session)))).await;
        assert!(answer.body.contains("\"1\""), "{answer:?}");
        let bytes = sent.lock().unwrap().clone();
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(text.contains("tools/call"), "{text}");
        assert!(!text.contains("hunter2"), "{revision}: {text}");
        if revision == STATELESS {
            assert!(text.contains("mcp-param-trace: passed-on"), "{text}");
        }
        bridge.close().await;
    }
}
