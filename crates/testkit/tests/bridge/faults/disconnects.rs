//! Clients that disconnect and bridges that close: they leave no calls and no tasks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::protocol::form::FormSchema;
use tsugite::server::FormField;
use tsugite_testkit::log::Warnings;
use tsugite_testkit::raw_client::RawClient;

use super::{HANDSHAKE, Mute, STATELESS, can_be_asked, overheard, within};

/// A server whose tool asks the user, and a receiver that resolves when the call ends.
fn asks() -> (Server, oneshot::Receiver<()>) {
    let (held, over) = oneshot::channel::<()>();
    let held = Arc::new(Mutex::new(Some(held)));
    let tool = Tool::new("ask").handler(move |context: Context| {
        let held = held.lock().unwrap().take();
        async move {
            let _held = held;
            context.ask_form(FormSchema::new().required_field("name", String::field()), "Who?").await?;
            Ok::<_, HandlerError>("answered")
        }
    });
    (Server::new("asks", "1").tool(tool), over)
}

/// Lets all other tasks run until they wait.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn dropping_the_bridge_ends_suspended_calls() {
    let (server, over) = asks();
    let bridge = Bridge::to(Client::in_process(&server).revision(HANDSHAKE));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, can_be_asked()).await;
    let asked = within(peer.request_once("tools/call", json!({"name": "ask"}))).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    drop((peer, bridge));
    let ended = tokio::time::timeout(Duration::from_secs(60), over).await;
    assert!(ended.is_ok(), "the call still runs");
    settle().await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn progress_of_a_suspended_call_arrives_after_resumption() {
    let tool = Tool::new("work").handler(|context: Context| async move {
        context.progress(1).total(3).await;
        let form = FormSchema::new().required_field("name", String::field());
        let asked = context.ask_form(form, "Who?");
        let meanwhile = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            context.progress(2).total(3).await;
        };
        let (answer, ()) = tokio::join!(asked, meanwhile);
        answer?;
        context.progress(3).total(3).await;
        Ok::<_, HandlerError>("done")
    });
    let bridge = Bridge::to(Client::in_process(&Server::new("works", "1").tool(tool)).revision(HANDSHAKE));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, can_be_asked()).await;
    let mut call = json!({"name": "work", "_meta": {"progressToken": "first"}});
    let asked = within(peer.request_once("tools/call", call.clone())).await;
    let questions = asked["result"]["inputRequests"].as_object().unwrap().keys().cloned();
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let answers: serde_json::Map<_, _> = questions.map(|question| (question, answer.clone())).collect();
    // The client stays away until the call has made progress.
    settle().await;
    call["requestState"] = asked["result"]["requestState"].clone();
    call["inputResponses"] = answers.into();
    call["_meta"]["progressToken"] = json!("second");
    let done = within(peer.request_once("tools/call", call)).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    let heard: Vec<_> = peer
        .notifications
        .iter()
        .filter(|said| said["method"] == "notifications/progress")
        .map(|said| (said["params"]["progressToken"].clone(), said["params"]["progress"].clone()))
        .collect();
    let expected = [("first", 1), ("second", 2), ("second", 3)];
    assert_eq!(heard, expected.map(|(token, progress)| (json!(token), json!(progress))), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_the_bridge_ends_suspended_calls() {
    let (server, over) = asks();
    let bridge = Bridge::to(Client::in_process(&server).revision(HANDSHAKE));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, can_be_asked()).await;
    let asked = within(peer.request_once("tools/call", json!({"name": "ask"}))).await;
    bridge.close().await;
    bridge.close().await;
    let ended = tokio::time::timeout(Duration::from_secs(60), over).await;
    assert!(ended.is_ok(), "the call still runs");
    let state = &asked["result"]["requestState"];
    let again = within(peer.request_once("tools/call", json!({"name": "ask", "requestState": state}))).await;
    assert!(again.get("error").is_some(), "{again}");
}

#[tokio::test(start_paused = true)]
async fn closed_bridge_opens_no_connections() {
    for near in [HANDSHAKE, STATELESS] {
        let (far, sent) = overheard(Client::in_process(&Server::new("s", "1")).revision(HANDSHAKE));
        let bridge = Bridge::to(far);
        let server = bridge.server();
        // The bridge is used before it is closed.
        let mut before = RawClient::connect(&server, near, json!({})).await;
        within(before.request("tools/list", json!({}))).await;
        bridge.close().await;
        sent.lock().unwrap().clear();
        let mut wire = tsugite::transport::memory::connect(&server).unwrap();
        let initialize = json!({
            "protocolVersion": HANDSHAKE.as_str(), "capabilities": {}, "clientInfo": {"name": "p", "version": "1"},
        });
        wire.send(
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}).to_string(),
        );
        let answer = within(wire.next()).await;
        assert!(answer.contains("the bridge is closed"), "{answer}");
        assert!(sent.lock().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn disconnected_clients_leave_no_tasks() {
    for (near, far) in
        [(HANDSHAKE, HANDSHAKE), (HANDSHAKE, STATELESS), (STATELESS, HANDSHAKE), (STATELESS, STATELESS)]
    {
        for mute in ["", "subscriptions/listen", "tools/call", "ping"] {
            let (server, _over) = asks();
            let server = server.tool(Tool::new("one").handler(async || 1)).layer(Mute(mute));
            // Suspended calls expire soon.
            let bridge = Bridge::to(Client::in_process(&server).revision(far))
                .max_suspended_calls(8)
                .suspended_call_ttl(Duration::from_millis(500));
            let server = bridge.server();
            let mut left = Vec::new();
            for _ in 0..3 {
                let mut peer = RawClient::connect(&server, near, can_be_asked()).await;
                within(peer.request("tools/list", json!({}))).await;
                peer.notify("notifications/roots/list_changed", json!({}));
                peer.send_request("tools/call", json!({"name": "ask"}));
                peer.send_request("tools/call", json!({"name": "one"}));
                if near == STATELESS {
                    let lists = json!({"toolsListChanged": true});
                    peer.send_request("subscriptions/listen", json!({"notifications": lists}));
                } else {
                    peer.send_request("resources/subscribe", json!({"uri": "file:///x"}));
                }
                settle().await;
                drop(peer);
                settle().await;
                left.push(tasks());
            }
            assert!(left[0] == left[2], "{near} to {far}, no {mute}: {left:?}");
            if near == HANDSHAKE {
                assert_eq!(left[2], 0, "{near} to {far}, no {mute}");
            }
            bridge.close().await;
            drop((bridge, server));
            settle().await;
            assert_eq!(tasks(), 0, "{near} to {far}, no {mute}: after closing");
        }
    }
}

/// A bridge whose server got a subscription and does not respond.
async fn opening(near: Revision, far: Revision) -> (Bridge, RawClient) {
    let ask = if far.is_stateless() { "subscriptions/listen" } else { "resources/subscribe" };
    let server = Server::new("mute", "1")
        .tool(Tool::new("one").description("Counts to one.").handler(async || 1))
        .resource(Resource::new("file:///x").handler(async || "x"))
        .layer(Mute(ask));
    let (connecting, sent) = overheard(Client::in_process(&server).revision(far));
    let bridge = Bridge::to_many().target("mute", connecting);
    let mut peer = RawClient::connect(&bridge.server(), near, json!({})).await;
    if near.is_stateless() {
        let list = within(peer.request("resources/list", json!({}))).await;
        let uri = &list["result"]["resources"][0]["uri"];
        let wish = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
        peer.send_request("subscriptions/listen", json!({"notifications": wish}));
        settle().await;
    }
    assert!(sent.lock().unwrap().iter().any(|message| message["method"] == ask), "{near} to {far}");
    (bridge, peer)
}

#[tokio::test(start_paused = true)]
async fn closing_while_a_subscription_opens_logs_no_warning() {
    for (near, far) in [(HANDSHAKE, STATELESS), (STATELESS, STATELESS), (STATELESS, HANDSHAKE)] {
        let warnings = Warnings::capture();
        let (bridge, _peer) = opening(near, far).await;
        bridge.close().await;
        settle().await;
        assert_eq!(warnings.take(), [""; 0], "{near} to {far}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_subscription_is_logged() {
    for (near, far) in [(HANDSHAKE, STATELESS), (STATELESS, STATELESS), (STATELESS, HANDSHAKE)] {
        let warnings = Warnings::capture();
        let (bridge, _peer) = opening(near, far).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(warnings.take(), ["failed to subscribe to the changes of a server"], "{near} to {far}");
        bridge.close().await;
    }
}
