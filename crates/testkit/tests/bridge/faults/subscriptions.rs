//! Subscriptions: their number, their duration, and their renewal.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;
use tsugite_testkit::script::ScriptFile;

use super::script::{Reports, spawn};
use super::{EndListen, HANDSHAKE, STATELESS, can_be_asked, within};

fn growing() -> Server {
    Server::new("growing", "1").tool(Tool::new("one").handler(async || 1))
}

#[tokio::test(start_paused = true)]
async fn call_timeout_does_not_end_a_subscription() {
    for far in [HANDSHAKE, STATELESS] {
        let server = growing();
        let bridge = Bridge::to(Client::in_process(&server).revision(far)).timeout(Duration::from_secs(5));
        let mut peer = RawClient::connect(&bridge.server(), STATELESS, json!({})).await;
        peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        assert_eq!(within(peer.next()).await["method"], "notifications/subscriptions/acknowledged");
        tokio::time::sleep(Duration::from_secs(60)).await;
        server.add(Tool::new("two").handler(async || 2)).unwrap();
        let told = within(peer.next()).await;
        assert_eq!(told["method"], "notifications/tools/list_changed", "{far}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_limited() {
    for far in [HANDSHAKE, STATELESS] {
        let bridge = Bridge::to(Client::in_process(&growing()).revision(far));
        let server = bridge.server().max_subscriptions(2);
        let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
        let wish = json!({"notifications": {"toolsListChanged": true}});
        let first = peer.send_request("subscriptions/listen", wish.clone());
        peer.send_request("subscriptions/listen", wish.clone());
        let third = within(peer.request("subscriptions/listen", wish.clone())).await;
        assert_eq!(third["error"]["message"], "Too many subscriptions", "{far}: {third}");
        let many = json!({"notifications": {"resourceSubscriptions": ["a:1", "a:2", "a:3"]}});
        let many = within(peer.request("subscriptions/listen", many)).await;
        assert_eq!(many["error"]["code"], -32602, "{far}: {many}");
        // A closed subscription no longer counts.
        peer.notify("notifications/cancelled", json!({"requestId": first}));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = peer.notifications.len();
        let fourth = peer.send_request("subscriptions/listen", wish);
        let ping = peer.send_request("tools/list", json!({}));
        within(peer.wait_for_response(ping)).await;
        let acknowledged =
            peer.notifications.iter().skip(before).any(|told| {
                told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == json!(fourth)
            });
        assert!(acknowledged, "{far}: {:?}", peer.notifications);
    }
}

#[tokio::test]
async fn restarted_server_gets_its_subscriptions_again() {
    let (first, told) = (ScriptFile::new(), Reports::listen().await);
    let far = spawn(&format!(
        r#"once {first} {{
            handshake
            read_line; send_line '{{"jsonrpc":"2.0","id":2,"result":{{}}}}'
            read_line; send_line '{{"jsonrpc":"2.0","id":3,"result":{{}}}}'
            exit 0
        }}
        handshake
        read_line; report {told} $line; send_line '{{"jsonrpc":"2.0","id":2,"result":{{}}}}'
        read_line; report {told} $line; drain"#
    ));
    let bridge = Bridge::to(far);
    let mut peer = RawClient::connect(&bridge.server(), HANDSHAKE, can_be_asked()).await;
    within(peer.request("resources/subscribe", json!({"uri": "file:///x"}))).await;
    within(peer.request("logging/setLevel", json!({"level": "error"}))).await;
    let level: Value = serde_json::from_str(&told.next().await).unwrap();
    assert_eq!(level["method"], "logging/setLevel");
    assert_eq!(level["params"]["level"], "error");
    let subscription: Value = serde_json::from_str(&told.next().await).unwrap();
    assert_eq!(subscription["method"], "resources/subscribe");
    assert_eq!(subscription["params"]["uri"], "file:///x");
    bridge.close().await;
}

#[tokio::test]
async fn unread_change_notifications_are_limited() {
    let done = Reports::listen().await;
    let far = spawn(&format!(
        r#"handshake; read_line
        repeat {FLOOD} {{
            send_line '{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"file:///a/rather/long/name/so/that/there/is/something/to/keep/$n"}}}}'
        }}
        send_line '{{"jsonrpc":"2.0","id":8,"method":"ping"}}'; read_line; report {done} yes; drain"#
    ));
    let bridge = Bridge::to(far);
    let server = bridge.server();
    let mut peer = RawClient::connect(&server, HANDSHAKE, json!({})).await;
    peer.notify("notifications/roots/list_changed", json!({}));
    done.next().await;
    // The waiting messages come in two parts: those that fitted, and those kept for later.
    for _ in 0..2 {
        within(peer.request("ping", json!({}))).await;
    }
    let kept: usize = peer.notifications.iter().map(|told| told.to_string().len()).sum();
    assert!(peer.notifications.len() < FLOOD, "all notifications were kept, {kept} bytes");
    bridge.close().await;
}

/// More notifications than are kept for a client that does not read.
const FLOOD: usize = 20_000;

#[tokio::test]
async fn resource_without_a_scheme_is_found_among_several_servers() {
    let far = spawn(
        r#"handshake
        read_line; send_line '{"jsonrpc":"2.0","id":2,"result":{"resources":[{"uri":"plain.txt","name":"plain"}]}}'
        read_line; send_line '{"jsonrpc":"2.0","id":3,"result":{"contents":[{"uri":"plain.txt","text":"text"}]}}'
        drain"#,
    );
    let bridge = Bridge::to_many().target("a", far);
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, json!({})).await;
    let list = within(peer.request("resources/list", json!({}))).await;
    let uri = &list["result"]["resources"][0]["uri"];
    let read = within(peer.request("resources/read", json!({"uri": uri}))).await;
    assert_eq!(read["result"]["contents"][0]["text"], "text", "{uri}: {read}");
    assert_eq!(&read["result"]["contents"][0]["uri"], uri);
    bridge.close().await;
}

/// The second server cannot be started at first.
#[tokio::test]
async fn subscribers_are_notified_of_a_late_server() {
    for near in [HANDSHAKE, STATELESS] {
        let first = ScriptFile::new();
        let late = spawn(&format!("once {first} {{ exit 1 }}; handshake; drain"));
        let bridge = Bridge::to_many()
            .target("here", Client::in_process(&growing()).revision(HANDSHAKE))
            .target("late", late);
        let mut peer = RawClient::connect(&bridge.server(), near, json!({})).await;
        if near == STATELESS {
            peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
            assert_eq!(within(peer.next()).await["method"], "notifications/subscriptions/acknowledged");
        }
        let told = within(peer.next()).await;
        assert_eq!(told["method"], "notifications/tools/list_changed", "{near}: {told}");
        bridge.close().await;
    }
}

/// A server of 2026-07-28 sends only subscribed changes, so it must be subscribed to once it is connected.
#[tokio::test]
async fn late_server_is_subscribed_to() {
    for near in [HANDSHAKE, STATELESS] {
        let (first, asked) = (ScriptFile::new(), Reports::listen().await);
        let late = spawn(&format!(
            r#"once {first} {{ exit 1 }}
            read_line
            send_line '{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{"listChanged":true}}}},"ttlMs":0,"cacheScope":"private"}}}}'
            read_line; report {asked} $line; drain"#
        ));
        let late = late.revisions(Revisions::ALL);
        let bridge = Bridge::to_many()
            .target("here", Client::in_process(&growing()).revision(HANDSHAKE))
            .target("late", late);
        let mut peer = RawClient::connect(&bridge.server(), near, json!({})).await;
        if near == STATELESS {
            peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        }
        let asked: Value = serde_json::from_str(&asked.next().await).unwrap();
        assert_eq!(asked["method"], "subscriptions/listen", "{near}: {asked}");
        assert_eq!(asked["params"]["notifications"]["toolsListChanged"], true, "{near}: {asked}");
        bridge.close().await;
    }
}

fn changes(peer: &RawClient) -> usize {
    peer.notifications.iter().filter(|told| told["method"] == "notifications/tools/list_changed").count()
}

#[tokio::test(start_paused = true)]
async fn each_listener_is_notified_once() {
    for far in [HANDSHAKE, STATELESS] {
        let (server, other) = (growing(), growing());
        let bridge = Bridge::to_many()
            .target("a", Client::in_process(&server).revision(far))
            .target("b", Client::in_process(&other).revision(far));
        let near = bridge.server();
        let mut peers = Vec::new();
        for revision in [STATELESS, STATELESS, HANDSHAKE] {
            let mut peer = RawClient::connect(&near, revision, json!({})).await;
            if revision == STATELESS {
                peer.send_request(
                    "subscriptions/listen",
                    json!({"notifications": {"toolsListChanged": true}}),
                );
                assert_eq!(within(peer.next()).await["method"], "notifications/subscriptions/acknowledged");
            } else {
                // Its first request connects it.
                within(peer.request("tools/list", json!({}))).await;
            }
            peers.push(peer);
        }
        server.add(Tool::new("two").handler(async || 2)).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        for mut peer in peers {
            within(peer.request("tools/list", json!({}))).await;
            assert_eq!(changes(&peer), 1, "{far}: {:?}", peer.notifications);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_resource_listener_is_notified_once() {
    let server = Server::new("s", "1").resource(Resource::text("text://a", "a"));
    let bridge = Bridge::to_many().target("a", Client::in_process(&server).revision(STATELESS));
    let near = bridge.server();
    let mut peers = Vec::new();
    for _ in 0..2 {
        let mut peer = RawClient::connect(&near, STATELESS, json!({})).await;
        let wish = json!({"notifications": {"resourceSubscriptions": ["text://a/a"]}});
        peer.send_request("subscriptions/listen", wish);
        assert_eq!(within(peer.next()).await["method"], "notifications/subscriptions/acknowledged");
        peers.push(peer);
    }
    server.notify_resource_updated("text://a");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for mut peer in peers {
        within(peer.request("tools/list", json!({}))).await;
        assert_eq!(peer.notifications.len(), 1, "{:?}", peer.notifications);
    }
}

/// The server ends the subscription with an error, as one that is away for long does.
#[tokio::test(start_paused = true)]
async fn ended_subscription_is_opened_again() {
    for near in [HANDSHAKE, STATELESS] {
        let (server, end) = (growing(), EndListen::default());
        let server = server.layer(end.clone());
        let bridge = Bridge::to_many().target("a", Client::in_process(&server).revision(STATELESS));
        let mut peer = RawClient::connect(&bridge.server(), near, json!({})).await;
        if near == STATELESS {
            peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
            assert_eq!(within(peer.next()).await["method"], "notifications/subscriptions/acknowledged");
        }
        end.0.notify_one();
        tokio::time::sleep(Duration::from_secs(60)).await;
        within(peer.request("tools/list", json!({}))).await;
        let before = changes(&peer);
        server.add(Tool::new("two").handler(async || 2)).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        within(peer.request("tools/list", json!({}))).await;
        assert_eq!(changes(&peer), before + 1, "{near}: {:?}", peer.notifications);
    }
}
