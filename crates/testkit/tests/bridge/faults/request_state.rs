//! `requestState`: it is bound to its caller and call, and an unknown one is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::protocol::form::FormSchema;
use tsugite::server::{FormField, Principal};
use tsugite_testkit::raw_client::RawClient;

use super::script::spawn;
use super::{HANDSHAKE, STATELESS, can_be_asked, text, within};

/// A server whose tool asks for a name, and the number of its calls.
fn greeter() -> (Server, Arc<AtomicUsize>) {
    let called = Arc::<AtomicUsize>::default();
    let count = called.clone();
    let greet = Tool::new("greet").handler(move |context: Context| {
        let count = count.clone();
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            let field = FormSchema::new().required_field("name", String::field());
            let answer = context.ask_form(field, "Who are you?").await?;
            Ok::<_, HandlerError>(format!("Hello, {}", String::read("name", answer.get("name")).unwrap()))
        }
    });
    (Server::new("greeter", "1").tool(greet), called)
}

#[tokio::test(start_paused = true)]
async fn elicitation_crosses_two_bridges() {
    let (server, called) = greeter();
    let inner = Bridge::to(Client::in_process(&server).revision(HANDSHAKE));
    let outer = Bridge::to(Client::in_process(&inner.server()).revision(STATELESS));
    let peer = RawClient::connect(&outer.server(), STATELESS, can_be_asked()).await;
    let mut peer = peer.on_request(|_, _| json!({"action": "accept", "content": {"name": "Ada"}}));
    let answer = within(peer.call("greet", json!({}))).await;
    assert_eq!(text(&answer), "Hello, Ada");
    assert_eq!(called.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_request_state_runs_nothing() {
    let (server, called) = greeter();
    let bridge = Bridge::to(Client::in_process(&server).revision(HANDSHAKE));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, can_be_asked()).await;
    for state in ["x", "parked.x", ""] {
        let call = json!({"name": "greet", "arguments": {}, "requestState": state});
        let answer = within(peer.request_once("tools/call", call)).await;
        assert_eq!(answer["error"]["code"], -32602, "{state}: {answer}");
    }
    assert_eq!(called.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn request_state_is_bound_to_one_call_and_used_once() {
    let (server, called) = greeter();
    let bridge = Bridge::to(Client::in_process(&server).revision(HANDSHAKE));
    let server = bridge.server();
    let ada = || Principal::new("ada");
    let mut peer = RawClient::connect_as(&server, ada(), STATELESS, can_be_asked()).await;
    let request = within(peer.request_once("tools/call", json!({"name": "greet", "arguments": {}}))).await;
    let state = &request["result"]["requestState"];
    let answers = json!({"question-1": {"action": "accept", "content": {"name": "Ada"}}});
    let back = json!({
        "name": "greet", "arguments": {}, "requestState": state, "inputResponses": answers,
    });
    let with = |member: &str, value: Value| {
        let mut changed = back.clone();
        changed[member] = value;
        changed
    };
    let mut forged = state.as_str().unwrap().to_owned();
    forged.replace_range(20..21, if &forged[20..21] == "A" { "B" } else { "A" });
    let wrong = [
        ("tools/call", with("arguments", json!({"x": 1}))),
        ("tools/call", with("name", json!("other"))),
        ("tools/call", with("requestState", json!(forged))),
        ("tools/call", with("requestState", json!(7))),
        ("tools/call", with("inputResponses", json!([]))),
        ("prompts/get", back.clone()),
    ];
    for (method, params) in wrong {
        let answer = within(peer.request_once(method, params.clone())).await;
        assert_eq!(answer["error"]["code"], -32602, "{method} {params}: {answer}");
    }
    let grace = Principal::new("grace");
    for mut other in [
        RawClient::connect_as(&server, grace, STATELESS, can_be_asked()).await,
        RawClient::connect(&server, STATELESS, can_be_asked()).await,
    ] {
        let answer = within(other.request_once("tools/call", back.clone())).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    // The state is still valid, and may come back on another connection.
    let mut again = RawClient::connect_as(&server, ada(), STATELESS, can_be_asked()).await;
    assert_eq!(text(&within(again.request_once("tools/call", back.clone())).await), "Hello, Ada");
    let replayed = within(peer.request_once("tools/call", back)).await;
    assert_eq!(replayed["error"]["code"], -32602, "{replayed}");
    assert_eq!(called.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn large_request_state_is_not_sent_back() {
    // M-09
    let state = "x".repeat(2_000);
    let discovered = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
    let script = format!(
        r#"repeat forever {{
            read_line
            if_line server/discover {{ send_line '{{"jsonrpc":"2.0","id":$id,"result":{discovered}}}'; read_line }}
            send_line '{{"jsonrpc":"2.0","id":$id,"result":{{"resultType":"input_required","requestState":"{state}"}}}}'
            read_line; answer $id again
        }}"#
    );
    for (limit, sent_back) in [(1_999, false), (2_000, true)] {
        let far = spawn(&script).revision(STATELESS).max_request_state_bytes(limit);
        let bridge = Bridge::to(far);
        let mut peer = RawClient::connect(&bridge.server(), HANDSHAKE, can_be_asked()).await;
        let answer = within(peer.call("t", json!({}))).await;
        match sent_back {
            true => assert_eq!(text(&answer), "again"),
            false => {
                let message = answer["error"]["message"].as_str().unwrap();
                assert!(message.contains("2000") && message.contains("max_request_state_bytes"), "{answer}");
            }
        }
        bridge.close().await;
    }
}
