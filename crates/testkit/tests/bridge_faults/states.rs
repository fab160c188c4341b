//! `requestState`: whose it is, and what becomes of one that is nobody's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tsugite::bridge::Bridge;
use tsugite::core::protocol::form::FormSchema;
use tsugite::prelude::*;
use tsugite::server::FormField;
use tsugite_testkit::peer::Peer;

use crate::{HANDSHAKE, STATELESS, can_be_asked, text, within};

/// A server whose tool asks for a name, and how often it was called.
fn greeter() -> (Server, Arc<AtomicUsize>) {
    let called = Arc::<AtomicUsize>::default();
    let count = called.clone();
    let greet = Tool::new("greet").handler(move |context: Context| {
        let count = count.clone();
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            let field = FormSchema::new().required_field("name", String::field());
            let answer = context.ask_form(field, "Who are you?").await?;
            Ok::<_, ToolError>(format!("Hello, {}", String::read("name", answer.get("name")).unwrap()))
        }
    });
    (Server::new("greeter", "1").tool(greet), called)
}

#[tokio::test(start_paused = true)]
async fn a_question_crosses_two_bridges() {
    let (server, called) = greeter();
    let inner = Bridge::to(Client::of(&server).revision(HANDSHAKE));
    let outer = Bridge::to(Client::of(&inner.server()).revision(STATELESS));
    let peer = Peer::connect(&outer.server(), STATELESS, can_be_asked()).await;
    let mut peer = peer.answering(|_, _| json!({"action": "accept", "content": {"name": "Ada"}}));
    let answer = within(peer.call("greet", json!({}))).await;
    assert_eq!(text(&answer), "Hello, Ada");
    assert_eq!(called.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_nobodys_runs_nothing() {
    let (server, called) = greeter();
    let bridge = Bridge::to(Client::of(&server).revision(HANDSHAKE));
    let mut peer = Peer::connect(&bridge.server(), STATELESS, can_be_asked()).await;
    for state in ["x", "parked.x", ""] {
        let call = json!({"name": "greet", "arguments": {}, "requestState": state});
        let answer = within(peer.request_once("tools/call", call)).await;
        assert_eq!(answer["error"]["code"], -32602, "{state}: {answer}");
    }
    assert_eq!(called.load(Ordering::Relaxed), 0);
}
