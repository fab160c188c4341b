//! Prefixes of several servers that are equal or overlap.

use serde_json::json;
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::raw_client::RawClient;

use super::{STATELESS, names, text, within};

fn server(name: &'static str) -> Server {
    Server::new(name, "1")
        .tool(Tool::new("b_x").handler(move || async move { name }))
        .tool(Tool::new("x").handler(move || async move { name }))
        .prompt(Prompt::new("b_x").handler(move || async move { name }))
        .prompt(Prompt::new("x").handler(move || async move { name }))
        .resource(Resource::text("text://b/x", name))
        .resource(Resource::text("text://x", name))
}

#[tokio::test]
async fn equal_prefixes_are_refused_when_served() {
    let bridge = Bridge::to_many()
        .target("a", Client::in_process(&server("one")))
        .target("a", Client::in_process(&server("two")));
    let error = bridge.server().bind_http("127.0.0.1:0").await.unwrap_err().to_string();
    assert!(error.contains("two servers have the prefix `a`"), "{error}");
    let error = tsugite::transport::memory::connect(&bridge.server()).unwrap_err().to_string();
    assert!(error.contains("two servers have the prefix `a`"), "{error}");
}

#[tokio::test]
async fn target_beside_an_unprefixed_server_is_refused() {
    let bridge =
        Bridge::to(Client::in_process(&server("one"))).target("a", Client::in_process(&server("two")));
    let error = bridge.server().bind_http("127.0.0.1:0").await.unwrap_err().to_string();
    assert!(error.contains("Bridge::to_many"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn longest_prefix_wins() {
    let (short, long) = (server("short"), server("long"));
    let bridge = Bridge::to_many()
        .target("a_b", Client::in_process(&long))
        .target("a", Client::in_process(&short))
        .target("a/b", Client::in_process(&long));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, json!({})).await;
    assert_eq!(text(&within(peer.call("a_b_x", json!({}))).await), "long");
    assert_eq!(text(&within(peer.call("a_x", json!({}))).await), "short");
    let prompt = within(peer.request("prompts/get", json!({"name": "a_b_x"}))).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "long", "{prompt}");
    let read = within(peer.request("resources/read", json!({"uri": "text://a/b/x"}))).await;
    assert_eq!(read["result"]["contents"][0]["text"], "long", "{read}");
    // A list names each item once: the one that a call reaches.
    for (method, member, name, shared) in [
        ("tools/list", "tools", "name", "a_b_x"),
        ("prompts/list", "prompts", "name", "a_b_x"),
        ("resources/list", "resources", "uri", "text://a/b/x"),
    ] {
        let list = within(peer.request(method, json!({}))).await;
        let items = list["result"][member].as_array().unwrap();
        let equal: Vec<_> = items.iter().filter(|item| item[name] == shared).collect();
        assert_eq!(equal.len(), 1, "{list}");
    }
    assert!(names(&within(peer.request("tools/list", json!({}))).await).contains(&"a_x"));
}

#[tokio::test(start_paused = true)]
async fn resource_subscription_goes_to_the_longest_prefix() {
    let (short, long) = (server("short"), server("long"));
    let bridge = Bridge::to_many()
        .target("a", Client::in_process(&short).revision(STATELESS))
        .target("a/b", Client::in_process(&long).revision(STATELESS));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, json!({})).await;
    let wish = json!({"notifications": {"resourceSubscriptions": ["text://a/b/x"]}});
    peer.send_request("subscriptions/listen", wish);
    assert_eq!(within(peer.next()).await["method"], "notifications/subscriptions/acknowledged");
    // The server of the shorter prefix has a resource that clients would know by the same URI.
    short.notify_resource_updated("text://b/x");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    long.notify_resource_updated("text://x");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    within(peer.request("tools/list", json!({}))).await;
    assert_eq!(peer.notifications.len(), 1, "{:?}", peer.notifications);
}
