//! Limits on the connections to a server: in total, for one caller, for suspended calls, and over time.

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::protocol::form::FormSchema;
use tsugite::server::FormField;
use tsugite_testkit::http::{Connection, Request, TestServer};
use tsugite_testkit::raw_client::RawClient;

use super::{HANDSHAKE, STATELESS, can_be_asked, text, within};

/// A server with a tool that asks and one that does not.
fn shop() -> Server {
    let order = Tool::new("order").handler(async |context: Context| {
        let field = FormSchema::new().required_field("what", String::field());
        context.ask_form(field, "What?").await?;
        Ok::<_, HandlerError>("ordered")
    });
    Server::new("shop", "1").tool(order).tool(Tool::new("one").handler(async || "1"))
}

fn is_suspended(response: &Value) -> bool {
    response["result"]["resultType"] == "input_required"
}

fn message(response: &Value) -> &str {
    response["error"]["message"].as_str().unwrap_or_else(|| panic!("no error in {response}"))
}

#[tokio::test(start_paused = true)]
async fn suspended_calls_leave_connections_for_other_calls() {
    let bridge = Bridge::to(Client::in_process(&shop()).revision(HANDSHAKE));
    let server = bridge.server();
    let mut peers = Vec::new();
    let mut suspended = 0;
    for _ in 0..32 {
        let mut peer = RawClient::connect(&server, STATELESS, can_be_asked()).await;
        let answer = within(peer.request_once("tools/call", json!({"name": "order"}))).await;
        match is_suspended(&answer) {
            true => suspended += 1,
            false => assert!(message(&answer).contains("(24 at this server)"), "{answer}"),
        }
        peers.push(peer);
    }
    assert_eq!(suspended, 24);
    let mut other = RawClient::connect(&server, STATELESS, can_be_asked()).await;
    assert_eq!(text(&within(other.call("one", json!({}))).await), "1");
}

/// A request of a client without a session that can be asked, from a loopback address.
async fn post_from(host: u8, serving: &TestServer, method: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": can_be_asked()});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut connection = Connection::connect_from([127, 0, 0, host], serving.address).await;
    within(connection.send_and_read(Request::stateless(request))).await.json()
}

#[tokio::test]
async fn suspended_calls_of_one_address_are_limited() {
    let bridge = Bridge::to(Client::in_process(&shop()).revision(HANDSHAKE));
    let serving = TestServer::start(&bridge.server()).await;
    let mut suspended = 0;
    for _ in 0..16 {
        let answer = post_from(1, &serving, "tools/call", json!({"name": "order"})).await;
        match is_suspended(&answer) {
            true => suspended += 1,
            false => assert!(message(&answer).contains("12 of this caller"), "{answer}"),
        }
    }
    assert_eq!(suspended, 12);
    for host in [1, 2] {
        let answer = post_from(host, &serving, "tools/call", json!({"name": "one"})).await;
        assert_eq!(text(&answer), "1");
    }
    assert!(is_suspended(&post_from(2, &serving, "tools/call", json!({"name": "order"})).await));
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_connection_has_a_time_limit() {
    let bridge = Bridge::to(Client::in_process(&shop()).revision(HANDSHAKE)).max_connections(1);
    let server = bridge.server();
    let mut first = RawClient::connect(&server, STATELESS, json!({})).await;
    first.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(within(first.next()).await["method"], "notifications/subscriptions/acknowledged");
    let mut second = RawClient::connect(&server, STATELESS, can_be_asked()).await;
    let answer = within(second.request("tools/list", json!({}))).await;
    assert!(message(&answer).contains("none became free within 30 s; try again later"), "{answer}");
}
