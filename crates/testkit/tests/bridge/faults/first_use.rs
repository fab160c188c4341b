//! Connections that are opened with the first request of a session: `initialize` is answered without one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::prelude::*;
use tsugite_testkit::http::{Request, TestServer, initialize_request};
use tsugite_testkit::raw_client::RawClient;

use super::disconnects::settle;
use super::{HANDSHAKE, Mute, STATELESS, can_be_asked, names, overheard, text, within};

type Sent = Arc<Mutex<Vec<Value>>>;

fn server() -> Server {
    let who = Tool::new("who").description("The roots of the client.").handler(async |context: Context| {
        let roots = context.roots().await?;
        Ok::<_, HandlerError>(roots.first().map(|root| root.uri.clone()).unwrap_or_default())
    });
    Server::new("behind", "1").instructions("Ask first.").tool(who)
}

/// The params of the handshakes with a server.
fn handshakes(sent: &Sent) -> Vec<Value> {
    let sent = sent.lock().unwrap();
    sent.iter().filter(|said| said["method"] == "initialize").map(|said| said["params"].clone()).collect()
}

/// Sends `initialize` with these capabilities, over HTTP. Returns the response and the session.
async fn initialize(serving: &TestServer, capabilities: Value) -> (Value, String) {
    let mut request = initialize_request(HANDSHAKE.as_str(), json!({}));
    request["params"]["capabilities"] = capabilities;
    let response = within(serving.send(Request::post(&request))).await;
    let session = response.header("mcp-session-id").unwrap_or_default().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    if !session.is_empty() {
        assert_eq!(within(serving.send(Request::post(&ready).session(&session))).await.status, 202);
    }
    (response.json(), session)
}

async fn list(serving: &TestServer, session: &str) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    within(serving.send(Request::post(&request).session(session))).await.json()
}

#[tokio::test(start_paused = true)]
async fn sessions_without_a_request_share_one_connection() {
    // L-11
    let (far, sent) = overheard(Client::in_process(&server()).revision(HANDSHAKE));
    let bridge = Bridge::to(far);
    let serving = TestServer::start(&bridge.server()).await;
    let mut sessions = Vec::new();
    for index in 0..20 {
        // Made-up capabilities change nothing.
        let made_up = json!({"experimental": {format!("x{index}"): {}}});
        let (answer, session) = initialize(&serving, made_up).await;
        let told = &answer["result"];
        assert_eq!(
            (&told["serverInfo"]["name"], &told["instructions"]),
            (&json!("behind"), &json!("Ask first."))
        );
        assert_eq!(told["capabilities"]["tools"]["listChanged"], true, "{answer}");
        sessions.push(session);
    }
    settle().await;
    assert_eq!(handshakes(&sent).len(), 1);
    // The first session uses the connection that its handshake opened, any other opens its own.
    for (session, expected) in [(&sessions[0], 1), (&sessions[19], 2), (&sessions[19], 2)] {
        assert_eq!(names(&list(&serving, session).await), ["who"]);
        assert_eq!(handshakes(&sent).len(), expected);
    }
    let declared = &handshakes(&sent)[1]["capabilities"]["experimental"];
    assert_eq!(declared, &json!({"x19": {}}));
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn simultaneous_handshakes_open_one_connection() {
    for several in [false, true] {
        let (far, sent) = overheard(Client::in_process(&server()).revision(HANDSHAKE));
        let bridge = match several {
            false => Bridge::to(far),
            true => Bridge::to_many().target("a", far),
        };
        let front = bridge.server();
        let opening = (0..20).map(|_| {
            let front = front.clone();
            tokio::spawn(async move { RawClient::connect(&front, HANDSHAKE, json!({})).await })
        });
        let mut clients = Vec::new();
        for client in opening.collect::<Vec<_>>() {
            clients.push(within(client).await.unwrap());
        }
        assert_eq!(handshakes(&sent).len(), 1, "{several}");
        let mut last = clients.pop().unwrap();
        // Requests that are sent together wait for the same connection.
        let ids: Vec<u64> = (0..3).map(|_| last.send_request("tools/list", json!({}))).collect();
        for id in ids {
            assert_eq!(names(&within(last.wait_for_response(id)).await).len(), 1, "{several}");
        }
        assert!(handshakes(&sent).len() <= 2, "{several}");
    }
}

#[tokio::test(start_paused = true)]
async fn later_connection_declares_and_asks_its_own_client() {
    let (far, sent) = overheard(Client::in_process(&server()).revision(HANDSHAKE));
    let bridge = Bridge::to(far);
    let front = bridge.server();
    let mut clients = Vec::new();
    for index in 0..2 {
        let client = RawClient::connect(&front, HANDSHAKE, can_be_asked()).await;
        let roots = json!({"roots": [{"uri": format!("file:///{index}")}]});
        clients.push(client.on_request(move |_, _| roots.clone()));
    }
    assert_eq!(handshakes(&sent).len(), 1);
    for (index, client) in clients.iter_mut().enumerate().rev() {
        assert_eq!(text(&within(client.call("who", json!({}))).await), format!("file:///{index}"));
    }
    let declared: Vec<_> = handshakes(&sent).iter().map(|params| params["capabilities"].clone()).collect();
    assert_eq!(declared, [can_be_asked(), can_be_asked()]);
}

#[tokio::test(start_paused = true)]
async fn notification_after_the_first_request_reaches_the_server() {
    let (far, sent) = overheard(Client::in_process(&server()).revision(HANDSHAKE));
    let bridge = Bridge::to(far);
    let front = bridge.server();
    let _first = RawClient::connect(&front, HANDSHAKE, json!({})).await;
    let mut second = RawClient::connect(&front, HANDSHAKE, json!({})).await;
    second.notify("notifications/early", json!({}));
    settle().await;
    let listed = second.send_request("tools/list", json!({}));
    second.notify("notifications/late", json!({}));
    within(second.wait_for_response(listed)).await;
    settle().await;
    let sent = sent.lock().unwrap();
    let count = |method: &str| sent.iter().filter(|said| said["method"] == method).count();
    assert_eq!((count("notifications/early"), count("notifications/late")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn clients_that_can_be_asked_get_a_description_for_them() {
    let (far, sent) = overheard(Client::in_process(&server()).revision(HANDSHAKE));
    let bridge = Bridge::to(far);
    let front = bridge.server();
    let mut clients = Vec::new();
    for capabilities in [json!({}), can_be_asked(), json!({}), can_be_asked()] {
        clients.push(RawClient::connect(&front, HANDSHAKE, capabilities).await);
    }
    let declared: Vec<_> = handshakes(&sent).iter().map(|params| params["capabilities"].clone()).collect();
    assert_eq!(declared, [json!({}), can_be_asked()]);
}

#[tokio::test(start_paused = true)]
async fn server_that_changed_is_described_anew() {
    for far in [HANDSHAKE, STATELESS] {
        let server = server();
        let bridge = Bridge::to(Client::in_process(&server).revision(far));
        let serving = TestServer::start(&bridge.server()).await;
        let (first, _) = initialize(&serving, json!({})).await;
        assert_eq!(first["result"]["capabilities"].get("prompts"), None, "{far}: {first}");
        let mut second = RawClient::connect(&bridge.server(), HANDSHAKE, json!({})).await;
        server.add(Prompt::new("greet").description("Greets.").handler(async || "Hello")).unwrap();
        let prompts = within(second.request("prompts/list", json!({}))).await;
        assert_eq!(prompts["result"]["prompts"][0]["name"], "greet", "{far}: {prompts}");
        settle().await;
        within(second.request("tools/list", json!({}))).await;
        // It was told of a server without prompts.
        let changed = |told: &&Value| told["method"] == "notifications/prompts/list_changed";
        assert_eq!(
            second.notifications.iter().filter(changed).count(),
            1,
            "{far}: {:?}",
            second.notifications
        );
        let (later, _) = initialize(&serving, json!({})).await;
        assert_eq!(later["result"]["capabilities"]["prompts"]["listChanged"], true, "{far}: {later}");
        bridge.close().await;
        serving.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn pause_forgets_the_description() {
    let server = server();
    let (far, sent) = overheard(Client::in_process(&server).revision(HANDSHAKE));
    let bridge = Bridge::to(far);
    let serving = TestServer::start(&bridge.server()).await;
    initialize(&serving, json!({})).await;
    let pause = within(bridge.pause()).await;
    server.add(Prompt::new("greet").description("Greets.").handler(async || "Hello")).unwrap();
    pause.resume();
    let before = handshakes(&sent).len();
    let (told, _) = initialize(&serving, json!({})).await;
    assert_eq!(told["result"]["capabilities"]["prompts"]["listChanged"], true, "{told}");
    assert!(handshakes(&sent).len() > before);
    within(bridge.pause()).await.fail("it does not build");
    let (refused, _) = initialize(&serving, json!({})).await;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("cannot be reached: it does not build"), "{refused}");
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn handshakes_with_an_unreachable_server_fail_together() {
    // The server never answers the handshake.
    let (far, sent) = overheard(Client::in_process(&server().layer(Mute("initialize"))).revision(HANDSHAKE));
    let bridge = Bridge::to(far.timeout(Duration::from_secs(5)));
    let serving = TestServer::start(&bridge.server()).await;
    let begun = tokio::time::Instant::now();
    let all = futures_util::future::join_all((0..4).map(|_| initialize(&serving, json!({})))).await;
    for (refused, _) in all {
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("the server behind this bridge cannot be reached"), "{refused}");
    }
    assert_eq!(handshakes(&sent).len(), 1, "after {:?}", begun.elapsed());
    // Another client tries again.
    assert!(initialize(&serving, json!({})).await.0.get("error").is_some());
    assert_eq!(handshakes(&sent).len(), 2);
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn server_that_is_away_opens_no_connections_to_others() {
    let (far, sent) = overheard(Client::in_process(&server()).revision(HANDSHAKE));
    let (hanging, hung) =
        overheard(Client::in_process(&server().layer(Mute("initialize"))).revision(HANDSHAKE));
    let bridge = Bridge::to_many().target("a", far).target("b", hanging);
    let serving = TestServer::start(&bridge.server()).await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let (told, session) = initialize(&serving, json!({})).await;
        assert_eq!(told["result"]["instructions"], "## a\n\n> Ask first.", "{told}");
        sessions.push(session);
    }
    assert_eq!((handshakes(&sent).len(), handshakes(&hung).len()), (1, 1));
    // A call does not wait for another server, a list does.
    let begun = tokio::time::Instant::now();
    let call = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "a_none"}});
    let answer = within(serving.send(Request::post(&call).session(&sessions[3]))).await.json();
    assert!(answer["error"]["message"].as_str().unwrap_or_default().contains("none"), "{answer}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(handshakes(&sent).len(), 2);
    assert_eq!(names(&list(&serving, &sessions[4]).await), ["a_who"]);
    assert_eq!(handshakes(&sent).len(), 3);
    bridge.close().await;
    serving.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn discovery_needs_no_connection_of_its_own() {
    for several in [false, true] {
        let (far, sent) = overheard(Client::in_process(&server()).revision(HANDSHAKE));
        let bridge = match several {
            false => Bridge::to(far),
            true => Bridge::to_many().target("a", far),
        };
        let front = bridge.server();
        let mut peers = Vec::new();
        for _ in 0..20 {
            // Each of these clients would have its own connection.
            let mut peer = RawClient::connect(&front, STATELESS, json!({})).await;
            let found = within(peer.request("server/discover", json!({}))).await;
            let told = found["result"]["instructions"].as_str().unwrap_or_default();
            assert!(told.contains("Ask first."), "{several}: {found}");
            peers.push(peer);
        }
        assert_eq!(handshakes(&sent).len(), 1, "{several}");
        assert_eq!(names(&within(peers[19].request("tools/list", json!({}))).await).len(), 1, "{several}");
        assert_eq!(handshakes(&sent).len(), 2, "{several}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_disappears_fails_the_next_handshake() {
    let upstream = TestServer::start(&server()).await;
    let url = format!("http://{}/mcp", upstream.address);
    let bridge = Bridge::to(Client::connect(url).revision(HANDSHAKE));
    let serving = TestServer::start(&bridge.server()).await;
    initialize(&serving, json!({})).await;
    let (_, session) = initialize(&serving, json!({})).await;
    upstream.stop().await.unwrap();
    let failed = list(&serving, &session).await;
    let reason = "the server behind this bridge cannot be reached: nothing answers at its address";
    assert_eq!(failed["error"]["message"], reason, "{failed}");
    let (failed, _) = initialize(&serving, json!({})).await;
    assert_eq!(failed["error"]["message"], reason, "{failed}");
    bridge.close().await;
    serving.stop().await.unwrap();
}
