//! Servers that are connected and do not respond.

use serde_json::json;
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;

use super::{HANDSHAKE, Mute, STATELESS, can_be_asked, names, within};

fn fine() -> Server {
    Server::new("fine", "1").tool(Tool::new("one").handler(async || 1))
}

#[tokio::test(start_paused = true)]
async fn list_omits_a_server_that_does_not_respond() {
    for (near, far) in [(HANDSHAKE, HANDSHAKE), (HANDSHAKE, STATELESS), (STATELESS, HANDSHAKE)] {
        let mute = fine().layer(Mute("tools/list"));
        let bridge = Bridge::to_many()
            .target("mute", Client::in_process(&mute).revision(far))
            .target("fine", Client::in_process(&fine()).revision(far));
        let mut peer = RawClient::connect(&bridge.server(), near, can_be_asked()).await;
        let begun = tokio::time::Instant::now();
        let list = within(peer.request("tools/list", json!({}))).await;
        assert_eq!(names(&list), ["fine_one"], "{near} to {far}");
        assert!(begun.elapsed().as_secs() <= 10, "{near} to {far}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_log_level_does_not_block_the_client() {
    let mute = fine().layer(Mute("logging/setLevel"));
    let bridge = Bridge::to_many()
        .target("mute", Client::in_process(&mute).revision(HANDSHAKE))
        .target("fine", Client::in_process(&fine()).revision(HANDSHAKE));
    let mut peer = RawClient::connect(&bridge.server(), HANDSHAKE, json!({})).await;
    let begun = tokio::time::Instant::now();
    let answer = within(peer.request("logging/setLevel", json!({"level": "debug"}))).await;
    assert_eq!(answer["result"], json!({}));
    assert!(begun.elapsed().as_secs() <= 10, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn call_to_a_hanging_server_times_out() {
    let mute = fine().layer(Mute("initialize"));
    let bridge = Bridge::to_many()
        .target("mute", Client::in_process(&mute).revision(HANDSHAKE))
        .target("fine", Client::in_process(&fine()).revision(HANDSHAKE));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, json!({})).await;
    let begun = tokio::time::Instant::now();
    let answer = within(peer.call("mute_one", json!({}))).await;
    assert!(answer["error"]["message"].as_str().unwrap_or_default().contains("`mute`"), "{answer}");
    assert!(begun.elapsed().as_secs() <= 10, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn connection_is_reused_after_its_listener_leaves() {
    let bridge = Bridge::to(Client::in_process(&fine()).revision(HANDSHAKE)).max_connections(1);
    let server = bridge.server();
    let mut first = RawClient::connect(&server, STATELESS, json!({})).await;
    let listening =
        first.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(within(first.next()).await["method"], "notifications/subscriptions/acknowledged");
    let mut second = RawClient::connect(&server, STATELESS, can_be_asked()).await;
    let list = second.send_request("tools/list", json!({}));
    // The second client waits now; no other task can run.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    first.notify("notifications/cancelled", json!({"requestId": listening}));
    assert_eq!(names(&within(second.wait_for_response(list)).await), ["one"]);
}
