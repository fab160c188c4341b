//! A bridge whose servers are replaced while clients stay connected.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::log::Warnings;
use tsugite_testkit::raw_client::RawClient;

use super::disconnects::settle;
use super::{HANDSHAKE, STATELESS, names, overheard, within};

const PAIRS: [(Revision, Revision); 4] =
    [(HANDSHAKE, HANDSHAKE), (HANDSHAKE, STATELESS), (STATELESS, HANDSHAKE), (STATELESS, STATELESS)];

fn growing() -> Server {
    Server::new("growing", "1").tool(Tool::new("one").description("One.").handler(async || 1))
}

/// Connects a client that hears of changed lists.
async fn listening(bridge: &Bridge, revision: Revision) -> RawClient {
    let mut peer = RawClient::connect(&bridge.server(), revision, json!({})).await;
    if revision == STATELESS {
        peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        assert_eq!(within(peer.next()).await["method"], "notifications/subscriptions/acknowledged");
    }
    peer
}

fn list_changes(peer: &RawClient) -> usize {
    let changed = |told: &&Value| told["method"] == "notifications/tools/list_changed";
    peer.notifications.iter().filter(changed).count()
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_end_of_a_pause() {
    for (near, far) in PAIRS {
        let server = growing();
        let warnings = Warnings::capture();
        let (target, sent) = overheard(Client::in_process(&server).revision(far));
        let bridge = Bridge::to(target);
        let mut peer = listening(&bridge, near).await;
        assert_eq!(names(&within(peer.request("tools/list", json!({}))).await), ["one"]);
        let pause = within(bridge.pause()).await;
        let before = sent.lock().unwrap().len();
        let waiting = peer.send_request("tools/list", json!({}));
        // The server changes unseen.
        server.add(Tool::new("two").description("Two.").handler(async || 2)).unwrap();
        settle().await;
        assert_eq!((sent.lock().unwrap().len(), list_changes(&peer)), (before, 0), "{near} {far}");
        pause.resume();
        let list = within(peer.wait_for_response(waiting)).await;
        assert_eq!(names(&list), ["one", "two"], "{near} {far}");
        settle().await;
        within(peer.request("tools/list", json!({}))).await;
        assert!(list_changes(&peer) > 0, "{near} {far}: {:?}", peer.notifications);
        assert_eq!(warnings.take(), [""; 0], "{near} {far}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_fail_with_the_reason_of_a_failed_pause() {
    for (near, far) in PAIRS {
        let (server, sent) = overheard(Client::in_process(&growing()).revision(far));
        let bridge = Bridge::to(server);
        let mut peer = listening(&bridge, near).await;
        within(peer.request("tools/list", json!({}))).await;
        within(bridge.pause()).await.fail("it does not build");
        settle().await;
        let before = sent.lock().unwrap().len();
        let failed = within(peer.request("tools/list", json!({}))).await;
        let message = failed["error"]["message"].as_str().unwrap_or_default();
        assert!(message.ends_with("cannot be reached: it does not build"), "{near} {far}: {failed}");
        // It is not tried again by itself.
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(sent.lock().unwrap().len(), before, "{near} {far}");
        within(bridge.pause()).await.resume();
        let list = within(peer.request("tools/list", json!({}))).await;
        assert_eq!(names(&list), ["one"], "{near} {far}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_pause_connects_again() {
    let bridge = Bridge::to(Client::in_process(&growing()));
    // Also without a client.
    drop(within(bridge.pause()).await);
    let mut peer = listening(&bridge, HANDSHAKE).await;
    drop(within(bridge.pause()).await);
    assert_eq!(names(&within(peer.request("tools/list", json!({}))).await), ["one"]);
    let pause = within(bridge.pause()).await;
    within(bridge.close()).await;
    pause.resume();
}
