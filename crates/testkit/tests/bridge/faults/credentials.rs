//! Headers of a client stay at the bridge, except those that repeat arguments of a tool.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::transport::http::StaticToken;
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

#[tokio::test]
async fn token_that_a_bridge_accepts_stays_there() {
    // A-03, ARS-017, ARS-018
    let server = Server::new("s", "1").tool(Tool::new("one").handler(async || "1"));
    let far = TestServer::start(&server).await;
    for revision in [HANDSHAKE, STATELESS] {
        let (address, sent) = recorded(far.address).await;
        let bridge = Bridge::to(Client::connect(format!("http://{address}/mcp")).revision(revision));
        let token = StaticToken::new("hunter2", Principal::new("ann").with_scopes(["hunter2-scope"]));
        let near = TestServer::start(&bridge.server().authorize(token)).await;
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "one", "arguments": {}}});
        assert_eq!(within(near.send(Request::stateless(call.clone()))).await.status, 401);
        let called = Request::stateless(call).header("Authorization", "Bearer hunter2");
        let answer = within(near.send(called)).await;
        assert!(answer.body.contains("\"1\""), "{answer:?}");
        let bytes = sent.lock().unwrap().clone();
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(text.contains("tools/call") && !text.contains("hunter2"), "{revision}: {text}");
        bridge.close().await;
    }
}

#[tokio::test]
async fn bridge_refuses_wrong_mirrored_headers_with_an_http_error() {
    // HTTP-079; HTTP-078: mirrored headers count only beside a version that has them, and are refused beside another.
    let schema =
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let tool = Tool::new("one")
        .input_schema(tsugite::protocol::Schema::from(schema))
        .raw_handler(|_, _| async { "1" });
    let far = TestServer::start(&Server::new("s", "1").tool(tool)).await;
    for revision in [HANDSHAKE, STATELESS] {
        let (address, sent) = recorded(far.address).await;
        let bridge = Bridge::to(Client::connect(format!("http://{address}/mcp")).revision(revision));
        let near = TestServer::start(&bridge.server()).await;
        let params = json!({"name": "one", "arguments": {"region": "north"}});
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
        let call = Request::stateless(call).header("Mcp-Param-Region", "north");
        for (name, value) in [
            ("Mcp-Method", "tools/list"),
            ("Mcp-Name", "two"),
            ("Mcp-Param-Region", "south"),
            ("MCP-Protocol-Version", "2025-11-25"),
            ("MCP-Protocol-Version", "2027-01-01"),
        ] {
            let refused = within(near.send(call.clone().replace_header(name, value))).await;
            assert_eq!(refused.status, 400, "{name}: {value}: {refused:?}");
        }
        for name in ["Mcp-Name", "MCP-Protocol-Version"] {
            let refused = within(near.send(call.clone().without_header(name))).await;
            assert_eq!(refused.status, 400, "{name}: {refused:?}");
        }
        let sent_so_far = String::from_utf8_lossy(&sent.lock().unwrap()).into_owned();
        assert!(!sent_so_far.contains("tools/call"), "{sent_so_far}");
        let answer = within(near.send(call)).await;
        assert!(answer.status == 200 && answer.body.contains("\"1\""), "{answer:?}");
        bridge.close().await;
    }
}
