//! State that a request asks for by name, shared by replicas: states that are used once, and rate limits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::server::SealKey;
use tsugite::server::layer::RateLimit;
use tsugite::store::MemoryStore;
use tsugite_testkit::http::{Request, TestServer};

#[derive(Form)]
struct Confirmation {
    /// Pay now?
    pay: bool,
}

async fn replica(store: &Arc<MemoryStore>, limit: u32) -> TestServer {
    let pay = Tool::new("pay").description("Pays.").handler(|cx: Context| async move {
        let pay = cx.ask::<Confirmation>("Pay?").await?.pay;
        cx.single_use().await?;
        Ok::<_, HandlerError>(if pay { "paid" } else { "not paid" })
    });
    let server = Server::new("shop", "1")
        .tool(pay)
        .layer(RateLimit::new(limit, Duration::from_secs(3_600)).shared())
        .seal_keys(SealKey::new([7; 32]))
        .store(store.clone());
    TestServer::start(&server).await
}

/// A call of the stateless era, with the answer and the state of an earlier round if there are any.
fn pay(round: Option<(&Value, &Value)>) -> Request {
    let capabilities = json!({"elicitation": {"form": {}}});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    });
    let mut params = json!({"name": "pay", "arguments": {}, "_meta": meta});
    if let Some((key, state)) = round {
        let answer = json!({"action": "accept", "content": {"pay": true}});
        params["inputResponses"] = json!({key.as_str().unwrap(): answer});
        params["requestState"] = state.clone();
    }
    Request::stateless(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
}

#[tokio::test]
async fn state_is_used_once_at_all_replicas() {
    // MRTR-013, M-05
    let store = Arc::new(MemoryStore::new().shared());
    let (first, second) = (replica(&store, 100).await, replica(&store, 100).await);
    let asked = first.send(pay(None)).await.json();
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let key = json!(result["inputRequests"].as_object().unwrap().keys().next().unwrap());
    let state = &result["requestState"];
    let paid = second.send(pay(Some((&key, state)))).await.json();
    assert_eq!(paid["result"]["content"][0]["text"], "paid", "{paid}");
    for replica in [&first, &second] {
        let again = replica.send(pay(Some((&key, state)))).await.json();
        assert_eq!(again["error"]["code"], -32602, "{again}");
        assert!(again["error"]["message"].as_str().unwrap().contains("used before"), "{again}");
    }
}

#[tokio::test]
async fn rate_limit_is_shared_by_replicas() {
    let store = Arc::new(MemoryStore::new().shared());
    let (first, second) = (replica(&store, 3).await, replica(&store, 3).await);
    for replica in [&first, &second, &first] {
        assert_eq!(replica.send(pay(None)).await.json()["result"]["resultType"], "input_required");
    }
    for replica in [&first, &second] {
        let refused = replica.send(pay(None)).await.json();
        assert_eq!(refused["error"]["message"], "Too many requests", "{refused}");
    }
}
