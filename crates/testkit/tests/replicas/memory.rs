//! A Redis server without memory: it refuses writes, and requests that need one get 503 until it takes them again.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::server::SealKey;
use tsugite_redis::Redis;
use tsugite_testkit::http::{Request, Response, TestServer, initialize_request, open_session};
use tsugite_testkit::replicas::RedisServer;

fn call(id: u32, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

fn assert_unavailable(response: &Response) {
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.header("retry-after").is_some(), "{response:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn writes_are_unavailable_while_redis_has_no_memory() {
    let redis = RedisServer::start().unwrap();
    let server = Server::new("s", "1")
        .tool(Tool::new("echo").handler(|| async { "echo" }))
        .tool(Tool::new("later").handler(|| async {
            tokio::task::yield_now().await;
            "later"
        }))
        .store(Redis::at(&redis.url()).unwrap())
        .seal_keys(SealKey::new([7; 32]));
    let server = TestServer::start(&server).await;
    let session = open_session(&server, "2025-11-25", json!({})).await;
    let in_session = |message: &Value| Request::post(message).session(&session);
    let initialize = || Request::post(&initialize_request("2025-11-25", json!({})));
    let level =
        json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}});

    redis.limit_memory(1).unwrap();
    let stateless = server.send(Request::stateless(call(1, "later"))).await;
    assert_eq!(stateless.json()["result"]["content"][0]["text"], "later");
    assert_unavailable(&server.send(initialize()).await);
    assert_unavailable(&server.send(in_session(&level)).await);
    // It has begun, so it must not be repeated.
    let failed = server.send(in_session(&call(2, "later"))).await;
    assert_eq!((failed.status, failed.error_code()), (200, Some(-32603)), "{failed:?}");
    // A call that writes nothing goes on.
    assert_eq!(server.send(in_session(&call(3, "echo"))).await.status, 200);

    redis.limit_memory(0).unwrap();
    assert_eq!(server.send(initialize()).await.status, 200);
    assert_eq!(server.send(in_session(&level)).await.status, 200);
    let answered = server.send(in_session(&call(4, "later"))).await;
    assert_eq!(answered.json()["result"]["content"][0]["text"], "later", "{answered:?}");
    assert_eq!(server.send(Request::new("DELETE").session(&session)).await.status, 200);
}
