//! Servers that are connected and do not respond.

use std::time::Duration;

use serde_json::json;
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::protocol::form::FormSchema;
use tsugite::server::FormField;
use tsugite_testkit::raw_client::RawClient;

use super::{HANDSHAKE, Mute, STATELESS, can_be_asked, names, text, within};

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

#[tokio::test(start_paused = true)]
async fn errors_of_the_bridge_name_limit_and_place() {
    let far = || Client::in_process(&fine()).revision(HANDSHAKE);
    let bridge = Bridge::to(far()).max_connections(1);
    let server = bridge.server();
    let _first = RawClient::connect(&server, HANDSHAKE, json!({})).await;
    let mut second = RawClient::connect(&server, HANDSHAKE, json!({})).await;
    let refused = within(second.request("tools/list", json!({}))).await;
    assert_eq!(refused["error"]["data"], json!({"limit": 1}), "{refused}");
    let both = Bridge::to_many().target("a", far()).target("b", far());
    let mut client = RawClient::connect(&both.server(), STATELESS, json!({})).await;
    let refused = within(client.request("tools/list", json!({"cursor": "x"}))).await;
    assert_eq!(refused["error"]["data"], json!({"path": "cursor"}), "{refused}");
    let refused = within(client.call("c_one", json!({}))).await;
    assert_eq!(refused["error"]["data"], json!({"name": "c_one"}), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_ends_after_ten_minutes() {
    for (near, far) in [(HANDSHAKE, HANDSHAKE), (STATELESS, HANDSHAKE), (STATELESS, STATELESS)] {
        let bridge = Bridge::to(Client::in_process(&fine().layer(Mute("tools/call"))).revision(far));
        let mut peer = RawClient::connect(&bridge.server(), near, can_be_asked()).await;
        let call = peer.call("one", json!({}));
        let answer = tokio::time::timeout(TEN_MINUTES + Duration::from_secs(1), call).await.unwrap();
        assert_eq!(answer["error"]["code"], -32603, "{near} to {far}: {answer}");
        assert_eq!(answer["error"]["data"]["mayHaveRun"], true, "{near} to {far}: {answer}");
    }
}

/// A tool that takes an hour.
fn slow(reports_progress: bool) -> Server {
    let slow = Tool::new("slow").no_timeout().handler(move |context: Context| async move {
        for step in 1..=12 {
            tokio::time::sleep(Duration::from_secs(300)).await;
            if reports_progress {
                context.progress(step).await;
            }
        }
        "done"
    });
    Server::new("slow", "1").tool(slow)
}

#[tokio::test(start_paused = true)]
async fn progress_extends_a_forwarded_call() {
    for far in [HANDSHAKE, STATELESS] {
        let bridge = Bridge::to(Client::in_process(&slow(true)).revision(far));
        let mut peer = RawClient::connect(&bridge.server(), STATELESS, json!({})).await;
        let answer = peer.request("tools/call", json!({"name": "slow", "_meta": {"progressToken": 1}})).await;
        assert_eq!(text(&answer), "done", "{far}");
    }
}

#[tokio::test(start_paused = true)]
async fn bridge_without_a_timeout_waits_for_ever() {
    let bridge = Bridge::to(Client::in_process(&slow(false)).revision(HANDSHAKE)).timeout(None);
    let client = Client::in_process(&bridge.server()).timeout(DAY).total_timeout(DAY).await.unwrap();
    let result: String = client.call("slow", json!({})).await.unwrap();
    assert_eq!(result, "done");
}

#[tokio::test(start_paused = true)]
async fn open_question_does_not_count_as_time_of_a_call() {
    let asking = Tool::new("ask").no_timeout().handler(async |context: Context| {
        let field = FormSchema::new().required_field("name", String::field());
        context.ask_form(field, "Who?").await?;
        tokio::time::sleep(TEN_MINUTES - Duration::from_secs(60)).await;
        Ok::<_, HandlerError>("thanks")
    });
    let bridge = Bridge::to(Client::in_process(&Server::new("s", "1").tool(asking)).revision(HANDSHAKE));
    let mut peer = RawClient::connect(&bridge.server(), STATELESS, can_be_asked()).await;
    let asked = peer.request_once("tools/call", json!({"name": "ask"})).await;
    tokio::time::sleep(TEN_MINUTES - Duration::from_secs(60)).await;
    let answers = json!({"question-1": {"action": "accept", "content": {"name": "Ada"}}});
    let state = &asked["result"]["requestState"];
    let again = json!({"name": "ask", "requestState": state, "inputResponses": answers});
    assert_eq!(text(&peer.request_once("tools/call", again).await), "thanks");
}

const DAY: Duration = Duration::from_secs(86_400);
/// The default of `Bridge::timeout`.
const TEN_MINUTES: Duration = Duration::from_secs(600);
