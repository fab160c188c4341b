//! Idempotency keys cross a bridge unchanged, and so does what a tool says about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;

use super::{HANDSHAKE, STATELESS, overheard, text, within};

const KEY: &str = "dev.tsugite/idempotency-key";

#[tokio::test(start_paused = true)]
async fn key_and_definition_cross_unchanged() {
    for (near, far) in [(HANDSHAKE, STATELESS), (STATELESS, HANDSHAKE), (STATELESS, STATELESS)] {
        let runs = Arc::<AtomicUsize>::default();
        let count = runs.clone();
        let pay = Tool::new("pay").once(true).handler(move || {
            let run = count.fetch_add(1, Ordering::SeqCst) + 1;
            async move { format!("run {run}") }
        });
        let server = Server::new("shop", "1").tool(pay);
        let (upstream, heard) = overheard(Client::in_process(&server).revision(far));
        let bridge = Bridge::to(upstream);
        let mut peer = RawClient::connect(&bridge.server(), near, json!({})).await;
        let listed = within(peer.request_once("tools/list", json!({}))).await;
        let meta = &listed["result"]["tools"][0]["_meta"]["dev.tsugite/idempotency"];
        assert_eq!(*meta, json!({"retentionMs": 3_600_000, "durable": false}), "{listed}");
        let params = json!({"name": "pay", "arguments": {}, "_meta": {KEY: "a-key-that-crosses"}});
        for _ in 0..2 {
            let answer = within(peer.request_once("tools/call", params.clone())).await;
            assert_eq!(text(&answer), "run 1", "{near} to {far}");
        }
        // A call without a key gets none from the bridge.
        assert_eq!(text(&within(peer.call("pay", json!({}))).await), "run 2", "{near} to {far}");
        let heard = heard.lock().unwrap();
        let calls = heard.iter().filter(|message| message["method"] == "tools/call");
        let keys: Vec<_> = calls.map(|call| call["params"]["_meta"][KEY].clone()).collect();
        assert_eq!(keys, [json!("a-key-that-crosses"), json!("a-key-that-crosses"), json!(null)]);
    }
}
