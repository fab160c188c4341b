//! Limits on the connections to a server: in total, for one caller, for suspended calls, and over time.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite::protocol::form::FormSchema;
use tsugite::server::{FormField, Principal};
use tsugite_testkit::http::{Connection, Request, TestServer, initialize_request};
use tsugite_testkit::raw_client::RawClient;

use super::{HANDSHAKE, STATELESS, can_be_asked, names, overheard, text, within};

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

/// Sends `initialize` from a loopback address. Returns the response and the session it opened.
async fn initialize_from(host: u8, serving: &TestServer) -> (Value, String) {
    let request = Request::post(&initialize_request(HANDSHAKE.as_str(), json!({})));
    let mut connection = Connection::connect_from([127, 0, 0, host], serving.address).await;
    let response = within(connection.send_and_read(request)).await;
    let session = response.header("mcp-session-id").unwrap_or_default().to_owned();
    (response.json(), session)
}

/// Lists the tools in a session, from a loopback address.
async fn list_from(host: u8, serving: &TestServer, session: &str) -> Value {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut connection = Connection::connect_from([127, 0, 0, host], serving.address).await;
    within(connection.send_and_read(Request::post(&list).session(session))).await.json()
}

#[tokio::test]
async fn one_address_opens_half_of_the_connections() {
    // L-11
    let bridge = Bridge::to(Client::in_process(&shop()).revision(HANDSHAKE)).max_connections(4);
    let serving = TestServer::start(&bridge.server()).await;
    for (host, is_refused) in [(1, false), (1, false), (1, true), (2, false)] {
        let (_, session) = initialize_from(host, &serving).await;
        let answer = list_from(host, &serving, &session).await;
        match is_refused {
            true => {
                assert!(message(&answer).contains("connection limit of one caller reached (2)"), "{answer}")
            }
            false => assert_eq!(names(&answer), ["order", "one"]),
        }
    }
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unused_session_is_disconnected_until_its_first_request() {
    let (far, sent) = overheard(Client::in_process(&shop()).revision(HANDSHAKE));
    let bridge = Bridge::to(far).max_connections(2);
    let serving = TestServer::start(&bridge.server()).await;
    let (_, session) = initialize_from(1, &serving).await;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(within(serving.send(Request::post(&ready).session(&session))).await.status, 202);
    tokio::time::sleep(Duration::from_secs(61)).await;
    // The first session has given up the only connection of this address.
    let (_, other_session) = initialize_from(1, &serving).await;
    assert_eq!(names(&list_from(1, &serving, &other_session).await), ["order", "one"]);
    let end = Request::new("DELETE").session(&other_session);
    assert!(within(serving.send(end)).await.status < 300);
    assert_eq!(names(&list_from(1, &serving, &session).await), ["order", "one"]);
    // A session that was used keeps its connection.
    tokio::time::sleep(Duration::from_secs(200)).await;
    list_from(1, &serving, &session).await;
    let handshakes = sent.lock().unwrap().iter().filter(|message| message["method"] == "initialize").count();
    assert_eq!(handshakes, 3);
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn open_stream_keeps_an_unused_session_connected() {
    let bridge = Bridge::to(Client::in_process(&shop()).revision(HANDSHAKE)).max_connections(2);
    let serving = TestServer::start(&bridge.server()).await;
    let (_, session) = initialize_from(1, &serving).await;
    let mut stream = serving.connect().await;
    let opened = within(stream.send(Request::get_stream(&session))).await;
    assert_eq!(opened.status, 200);
    tokio::time::sleep(Duration::from_secs(200)).await;
    let (_, other) = initialize_from(1, &serving).await;
    let refused = list_from(1, &serving, &other).await;
    assert!(message(&refused).contains("connection limit of one caller"), "{refused}");
    drop(stream);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(names(&list_from(1, &serving, &other).await), ["order", "one"]);
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn client_names_open_connections_only_for_principals() {
    // L-11
    for (principal, expected) in [(None, 1), (Some(Principal::new("ada")), 3)] {
        let (far, sent) = overheard(Client::in_process(&shop()).revision(HANDSHAKE));
        let bridge = Bridge::to(far);
        let server = bridge.server();
        let mut peer = match principal {
            Some(principal) => RawClient::connect_as(&server, principal, STATELESS, json!({})).await,
            None => RawClient::connect(&server, STATELESS, json!({})).await,
        };
        for name in ["a", "b", "c"] {
            let who = json!({"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}});
            within(peer.request("tools/call", json!({"name": "one", "_meta": who}))).await;
        }
        let handshakes =
            sent.lock().unwrap().iter().filter(|message| message["method"] == "initialize").count();
        assert_eq!(handshakes, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_started_at_a_bounded_rate() {
    // L-11
    let bridge = Bridge::to(Client::in_process(&shop()).revision(HANDSHAKE))
        .connection_wait_timeout(Duration::from_millis(100));
    let server = bridge.server();
    let mut peers = Vec::new();
    let mut open = async || {
        let mut peer = RawClient::connect(&server, HANDSHAKE, json!({})).await;
        let answer = within(peer.request("tools/list", json!({}))).await;
        peers.push(peer);
        answer
    };
    for _ in 0..32 {
        assert_eq!(names(&open().await), ["order", "one"]);
    }
    let refused = open().await;
    assert!(
        message(&refused).contains("too many connections are being opened; try again later"),
        "{refused}"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(names(&open().await), ["order", "one"]);
}
