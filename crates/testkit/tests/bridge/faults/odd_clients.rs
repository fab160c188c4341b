//! Unusual clients: repeated handshakes, batches, and unknown cursors.

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::transport::memory;
use tsugite_testkit::raw_client::RawClient;

use super::disconnects::{settle, tasks};
use super::{HANDSHAKE, STATELESS, overheard, within};

fn one() -> Server {
    Server::new("one", "1").tool(Tool::new("one").handler(async || "1"))
}

async fn next(wire: &mut memory::MemoryConnection) -> Value {
    serde_json::from_str(&within(wire.next()).await).unwrap()
}

fn initialize(revision: Revision) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": revision.as_str(), "capabilities": {},
            "clientInfo": {"name": "peer", "version": "1"},
        },
    })
}

/// A second handshake starts over: a server allows that, and so does a bridge to it.
#[tokio::test(start_paused = true)]
async fn second_initialize_replaces_the_first_session() {
    for at_once in [false, true] {
        let (far, sent) = overheard(Client::in_process(&one()).revision(HANDSHAKE));
        let bridge = Bridge::to(far);
        let mut wire = memory::connect(&bridge.server()).unwrap();
        let mut again = initialize(HANDSHAKE);
        again["id"] = json!(2);
        wire.send(initialize(HANDSHAKE).to_string());
        let mut left = 0;
        if !at_once {
            assert!(next(&mut wire).await.get("result").is_some());
            settle().await;
            left = tasks();
        }
        wire.send(again.to_string());
        for _ in 0..1 + usize::from(at_once) {
            let answer = next(&mut wire).await;
            assert!(answer.get("result").is_some(), "{answer}");
        }
        wire.send(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}}"#);
        assert_eq!(next(&mut wire).await["result"]["content"][0]["text"], "1");
        settle().await;
        assert!(at_once || tasks() <= left, "{left} tasks were left, {} are", tasks());
        let called = sent.lock().unwrap().iter().filter(|message| message["method"] == "tools/call").count();
        assert_eq!(called, 1);
        drop(wire);
        settle().await;
        assert_eq!(tasks(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn batch_gets_one_response_array() {
    for far in [HANDSHAKE, STATELESS] {
        let bridge = Bridge::to(Client::in_process(&one()).revision(far));
        let mut wire = memory::connect(&bridge.server()).unwrap();
        wire.send(initialize(Revision::V2025_03_26).to_string());
        assert!(next(&mut wire).await.get("result").is_some());
        wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        wire.send(
            r#"[{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}},
            {"jsonrpc":"2.0","method":"notifications/roots/list_changed"},
            {"jsonrpc":"2.0","id":4,"method":"tools/list"}]"#
                .replace('\n', ""),
        );
        let answers = next(&mut wire).await;
        let mut ids: Vec<_> =
            answers.as_array().unwrap().iter().filter_map(|answer| answer["id"].as_u64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [3, 4], "{far}: {answers}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_cursor_is_refused_with_several_servers() {
    for near in [HANDSHAKE, STATELESS] {
        let bridge = Bridge::to_many().target("a", Client::in_process(&one()).revision(HANDSHAKE));
        let mut peer = RawClient::connect(&bridge.server(), near, json!({})).await;
        let list = within(peer.request("tools/list", json!({"cursor": "x"}))).await;
        assert_eq!(list["error"]["code"], -32602, "{near}: {list}");
    }
}
