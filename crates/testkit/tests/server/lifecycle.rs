//! Requirements on sessions: handshakes, versions, capabilities, extensions and question timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::Role;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::form::{Field, FormSchema};
use tsugite::protocol::sampling::{CreateMessageParams, SamplingMessage};
use tsugite::server::ListKind;
use tsugite::transport::memory::{self, MemoryConnection};
use tsugite_testkit::raw_client::RawClient;
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

fn handshakes() -> impl Iterator<Item = Revision> {
    Revisions::ALL.handshake().newest_first()
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

fn tool(name: &str) -> Tool {
    let said = name.to_owned();
    Tool::new(name).handler(move || {
        let said = said.clone();
        async move { said }
    })
}

fn sampling(question: &str) -> CreateMessageParams {
    CreateMessageParams::new(vec![SamplingMessage::new(Role::User, SamplingBlock::text(question))], 100_u64)
}

fn form() -> FormSchema {
    FormSchema::new().required_field("word", Field::text())
}

/// Capabilities of a client that supports every question of its revision.
fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

fn host(method: &str, _: &Value) -> Value {
    match method {
        "elicitation/create" => json!({"action": "accept", "content": {"word": "hello"}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///home"}]}),
        other => panic!("{other}"),
    }
}

/// A server with one tool for each kind of question; each returns whether it was answered.
fn curious() -> Server {
    let asks = Tool::new("asks").handler(|cx: Context| async move {
        let said = cx.ask_form(form(), "?").await.map(|content| content.get("word").is_some());
        format!("{}", said.is_ok_and(|said| said))
    });
    let samples = Tool::new("samples")
        .handler(|cx: Context| async move { format!("{}", cx.sample(sampling("?")).await.is_ok()) });
    let places = Tool::new("places").handler(|cx: Context| async move {
        format!("{}", cx.roots().await.is_ok_and(|roots| roots.len() == 1))
    });
    Server::new("curious", "1").tool(asks).tool(samples).tool(places)
}

/// A server with one item of each kind.
fn everything() -> Server {
    Server::new("all", "1.2.3")
        .tool(tool("t"))
        .resource(Resource::text("x:y", "z"))
        .resource(Resource::template("n://{name}").complete("name", ["a"]).handler(|| async { "n" }))
        .prompt(Prompt::new("p").handler(|| async { "p" }))
}

/// Sends a line as it is and gives the next one.
async fn exchange(wire: &mut MemoryConnection, message: &Value) -> Value {
    wire.send(message.to_string());
    receive(wire).await
}

async fn receive(wire: &mut MemoryConnection) -> Value {
    let line = tokio::time::timeout(Duration::from_secs(3_600), wire.next()).await;
    serde_json::from_str(&line.unwrap_or_else(|_| panic!("the server stays silent"))).unwrap()
}

fn initialize(id: u32, version: &str, capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"},
    }})
}

/// A request of 2026-07-28.
fn stateless(id: Value, method: &str, mut params: Value, capabilities: Value) -> Value {
    params["_meta"][VERSION] = json!("2026-07-28");
    params["_meta"][CAPABILITIES] = capabilities;
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[tokio::test(start_paused = true)]
async fn each_question_can_have_its_own_timeout() {
    // LIFE-022, LIFE-024
    let asks = |seconds: Option<u64>| {
        Tool::new(format!("t{}", seconds.unwrap_or_default())).handler(move |cx: Context| async move {
            let question = cx.sample(sampling("?"));
            let question = match seconds {
                Some(seconds) => question.timeout(Duration::from_secs(seconds)),
                None => question,
            };
            format!("{}", matches!(question.await, Err(AskError::TimedOut)))
        })
    };
    let server = Server::new("s", "1").tool(asks(None)).tool(asks(Some(5))).tool(asks(Some(50)));
    for revision in handshakes() {
        for (name, least, most) in [("t5", 5, 6), ("t50", 50, 51), ("t0", 1, 3_599)] {
            let mut peer = RawClient::connect(&server, revision, able()).await;
            let began = tokio::time::Instant::now();
            let id = peer.send_request("tools/call", json!({"name": name}));
            let question = peer.next().await;
            assert_eq!(question["method"], "sampling/createMessage");
            let cancelled = peer.next().await;
            assert_eq!(cancelled["method"], "notifications/cancelled", "{revision}");
            assert_eq!(cancelled["params"]["requestId"], question["id"]);
            assert_eq!(text(&peer.wait_for_response(id).await), "true");
            let took = began.elapsed().as_secs();
            assert!((least..=most).contains(&took), "{name} took {took} s on {revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_negotiations_and_timeouts_leave_the_session_usable() {
    // LIFE-027
    let hasty = Tool::new("hasty").handler(|cx: Context| async move {
        cx.sample(sampling("?")).timeout(Duration::from_secs(1)).await?;
        Ok::<_, HandlerError>("answered")
    });
    let server = curious().tool(hasty);
    for revision in handshakes() {
        let mut wire = memory::connect(&server).unwrap();
        let opened = exchange(&mut wire, &initialize(1, "1999-01-01", json!({}))).await;
        let spoken = opened["result"]["protocolVersion"].as_str().unwrap();
        assert!(handshakes().any(|revision| revision.as_str() == spoken), "{opened}");
        let mut poor = RawClient::connect(&server, revision, json!({})).await;
        let refused = poor.call("hasty", json!({})).await;
        assert_eq!(refused["result"]["isError"], true, "{revision}: {refused}");
        assert!(poor.request("ping", json!({})).await.get("result").is_some());
        let mut silent = RawClient::connect(&server, revision, able()).await;
        let id = silent.send_request("tools/call", json!({"name": "hasty"}));
        assert_eq!(silent.next().await["method"], "sampling/createMessage");
        let refused = silent.wait_for_response(id).await;
        assert_eq!(refused["result"]["isError"], true, "{revision}: {refused}");
        assert!(silent.request("ping", json!({})).await.get("result").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn unrelated_requests_share_a_connection() {
    // LIFE-029
    let server = curious().tool(tool("t"));
    let mut wire = memory::connect(&server).unwrap();
    let mut open = Vec::new();
    for id in 0..10 {
        let call = stateless(json!(format!("ask {id}")), "tools/call", json!({"name": "asks"}), able());
        wire.send(call.to_string());
        let call = stateless(json!(id), "tools/call", json!({"name": "t"}), json!({}));
        wire.send(call.to_string());
    }
    for _ in 0..20 {
        let answer = receive(&mut wire).await;
        match answer["id"].as_str() {
            Some(_) => open.push(answer),
            None => assert_eq!(text(&answer), "t"),
        }
    }
    assert_eq!(open.len(), 10);
    for asked in open.iter().rev() {
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let retry = json!({
            "name": "asks", "requestState": asked["result"]["requestState"],
            "inputResponses": {key: host("elicitation/create", &Value::Null)},
        });
        let done = exchange(&mut wire, &stateless(asked["id"].clone(), "tools/call", retry, able())).await;
        assert_eq!((text(&done), &done["id"]), ("true", &asked["id"]));
    }
}

#[tokio::test(start_paused = true)]
async fn related_requests_may_use_another_connection() {
    // LIFE-030, LIFE-032
    let server = curious().tool(tool("t")).page_size(1);
    let one = || memory::connect(&server).unwrap();
    let call = stateless(json!(1), "tools/call", json!({"name": "asks"}), able());
    let asked = exchange(&mut one(), &call).await;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut retry =
        json!({"name": "asks", "inputResponses": {key: host("elicitation/create", &Value::Null)}});
    // A call without a state starts from the beginning, even on the same connection.
    let mut same = one();
    exchange(&mut same, &call).await;
    let anew = exchange(&mut same, &stateless(json!(2), "tools/call", json!({"name": "asks"}), able())).await;
    assert_ne!(
        anew.get("result").and_then(|result| result.get("resultType")),
        Some(&json!("complete")),
        "{anew}"
    );
    retry["requestState"] = asked["result"]["requestState"].clone();
    let done = exchange(&mut one(), &stateless(json!(2), "tools/call", retry, able())).await;
    assert_eq!(text(&done), "true", "{done}");
    let first = exchange(&mut one(), &stateless(json!(1), "tools/list", json!({}), json!({}))).await;
    let cursor = json!({"cursor": first["result"]["nextCursor"]});
    let second = exchange(&mut one(), &stateless(json!(1), "tools/list", cursor, json!({}))).await;
    assert_eq!(second["result"]["tools"][0]["name"], "samples", "{second}");
}

#[tokio::test(start_paused = true)]
async fn repeated_handshake_starts_a_new_session() {
    // LIFE-033
    let loud = Tool::new("loud").handler(|cx: Context| async move {
        cx.log(Level::Error, "loud").await;
        format!("{}", cx.client_capabilities().sampling.is_some())
    });
    let server = Server::new("s", "1").tool(loud).resource(Resource::text("x:y", "z"));
    for revision in handshakes() {
        let mut wire = memory::connect(&server).unwrap();
        let first = exchange(&mut wire, &initialize(1, revision.as_str(), json!({"sampling": {}}))).await;
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        let list = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
        let tools = exchange(&mut wire, &list(2)).await["result"].clone();
        assert_eq!(exchange(&mut wire, &list(3)).await["result"], tools);
        let subscribe =
            json!({"jsonrpc": "2.0", "id": 4, "method": "resources/subscribe", "params": {"uri": "x:y"}});
        assert!(exchange(&mut wire, &subscribe).await.get("result").is_some());
        let level = json!({"jsonrpc": "2.0", "id": 40, "method": "logging/setLevel", "params": {"level": "emergency"}});
        assert!(exchange(&mut wire, &level).await.get("result").is_some());
        let second = exchange(&mut wire, &initialize(5, revision.as_str(), json!({}))).await;
        assert_eq!(first["result"], second["result"], "{revision}");
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        assert_eq!(exchange(&mut wire, &list(6)).await["result"], tools);
        // Nothing of the first session is left: not what was subscribed to, the level of logs, nor what the client could.
        server.notify_resource_updated("x:y");
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "loud"}});
        let log = exchange(&mut wire, &call).await;
        assert_eq!(log["method"], "notifications/message", "the level of the first session: {log}");
        let answer = receive(&mut wire).await;
        assert_eq!(text(&answer), "false", "{revision}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn client_name_changes_nothing() {
    // VER-008, ELIC-043, F-37
    let who = Tool::new("who").handler(|who: Option<Principal>| async move { format!("{who:?}") });
    let server = everything().tool(who).visible(|who, item| item.name != "t" || who.is_some());
    for revision in revisions() {
        let mut seen = Vec::new();
        for name in ["peer", "admin", "claude-desktop", ""] {
            let mut wire = memory::connect(&server).unwrap();
            let info = json!({"name": name, "version": "1", "title": "root"});
            let claims = json!({"user": "root", "sub": "root", "com.example/user": "root"});
            if !revision.is_stateless() {
                let mut open = initialize(1, revision.as_str(), json!({}));
                open["params"]["clientInfo"] = info.clone();
                seen.push(exchange(&mut wire, &open).await);
                wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
            }
            for (id, method, params) in [
                (2, "tools/list", json!({"_meta": claims})),
                (3, "tools/call", json!({"name": "who", "_meta": claims})),
                (4, "tools/call", json!({"name": "t", "_meta": claims})),
            ] {
                let mut request = stateless(json!(id), method, params.clone(), json!({}));
                if revision.is_stateless() {
                    request["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = info.clone();
                } else {
                    request["params"] = params;
                }
                seen.push(exchange(&mut wire, &request).await);
            }
        }
        let each = seen.len() / 4;
        assert!(seen.chunks(each).all(|chunk| chunk == &seen[..each]), "{revision}: {seen:?}");
        assert_eq!(text(&seen[each - 2]), "None", "no authenticated caller");
        assert_eq!(seen[each - 1]["error"]["code"], -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn undeclared_capability_is_not_used_for_a_request() {
    // VER-017, VER-018
    let server = curious();
    for handshake in [false, true] {
        let mut wire = memory::connect(&server).unwrap();
        if handshake {
            exchange(&mut wire, &initialize(1, "2025-11-25", able())).await;
            wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        }
        for (name, capability) in [("asks", "elicitation"), ("samples", "sampling"), ("places", "roots")] {
            let call = |id: u32, capabilities| {
                stateless(json!(id), "tools/call", json!({"name": name}), capabilities)
            };
            let asked = exchange(&mut wire, &call(2, able())).await;
            assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
            let mut others = able();
            others.as_object_mut().unwrap().remove(capability);
            for poor in [json!({}), others] {
                let refused = exchange(&mut wire, &call(3, poor)).await;
                if refused.get("result").is_some() {
                    // The handler has gone on without an answer, which it may.
                    assert_eq!(text(&refused), "false", "{refused}");
                    continue;
                }
                assert_eq!(refused["error"]["code"], -32021, "{refused}");
                let required = refused["error"]["data"]["requiredCapabilities"].as_object().unwrap();
                assert_eq!(required.keys().collect::<Vec<_>>(), [capability], "{refused}");
                assert!(required[capability].is_object());
            }
        }
    }
    // A handler that cannot go on without the answer.
    let needs = Tool::new("needs").handler(|cx: Context| async move {
        cx.roots().await?;
        Ok::<_, HandlerError>("done")
    });
    let mut wire = memory::connect(&Server::new("s", "1").tool(needs)).unwrap();
    let call = stateless(json!(1), "tools/call", json!({"name": "needs"}), json!({"sampling": {}}));
    let refused = exchange(&mut wire, &call).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({"roots": {}}));
}

#[tokio::test(start_paused = true)]
async fn declared_features_are_fixed_by_the_handshake() {
    // PRMT-015
    for revision in handshakes() {
        // Declared: the list may become empty, the method does not vanish.
        let server = everything();
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        server.remove(ListKind::Tool, "t");
        assert_eq!(peer.next().await["method"], "notifications/tools/list_changed");
        let list = peer.request("tools/list", json!({})).await;
        assert_eq!(list["result"]["tools"], json!([]), "{revision}: {list}");
        let unknown = peer.call("t", json!({})).await;
        assert_eq!(unknown["error"]["code"], -32602, "{revision}: {unknown}");
    }
    for revision in handshakes() {
        // Not declared: nothing is told of it and it is not there.
        let server = Server::new("s", "1").tool(tool("t"));
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        server.add(Prompt::new("late").handler(|| async { "late" })).unwrap();
        let refused = peer.request("prompts/list", json!({})).await;
        assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
        assert_eq!(refused["error"]["code"], -32601, "{revision}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_resource_sends_no_more_updates() {
    // RSRC-022
    for revision in revisions() {
        let open = Arc::new(AtomicBool::new(true));
        let door = open.clone();
        let server = Server::new("s", "1")
            .tool(tool("t"))
            .resource(Resource::text("x:y", "z").tag("guarded"))
            .visible(move |_, item| !item.has_tag("guarded") || door.load(Ordering::SeqCst));
        let mut peer = RawClient::connect_as(&server, Principal::new("ada"), revision, json!({})).await;
        if revision.is_stateless() {
            peer.send_request(
                "subscriptions/listen",
                json!({"notifications": {"resourceSubscriptions": ["x:y"]}}),
            );
            peer.next().await;
        } else {
            peer.request("resources/subscribe", json!({"uri": "x:y"})).await;
        }
        open.store(false, Ordering::SeqCst);
        assert!(peer.request("resources/read", json!({"uri": "x:y"})).await.get("error").is_some());
        assert_eq!(peer.request("resources/list", json!({})).await["result"]["resources"], json!([]));
        if !revision.is_stateless() {
            let refused = peer.request("resources/subscribe", json!({"uri": "x:y"})).await;
            assert!(refused.get("error").is_some(), "{revision}: {refused}");
        }
        server.notify_resource_updated("x:y");
        peer.request("tools/list", json!({})).await;
        assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
    }
}

#[tokio::test(start_paused = true)]
async fn extension_name_needs_a_valid_prefix() {
    // VER-020
    for (name, fine) in [
        ("com.example/x", true),
        ("io.modelcontextprotocol/ui", true),
        ("com.example/my_thing-2.0", true),
        ("thing", false),
        ("", false),
        ("/thing", false),
        ("com..example/x", false),
        ("1com/x", false),
        ("com.example-/x", false),
        ("com.example/-x", false),
        ("com.example/a b", false),
    ] {
        let server = everything().extension(name, &json!({}));
        let served = memory::connect(&server);
        assert_eq!(served.is_ok(), fine, "{name:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_of_one_server_are_independent() {
    // SESS-015
    let says = Tool::new("says").handler(|cx: Context| async move {
        cx.log(Level::Debug, "debug").await;
        cx.log(Level::Error, "error").await;
        format!("{} {}", cx.revision(), cx.client_capabilities().sampling.is_some())
    });
    let server = (0..40).fold(Server::new("s", "1").tool(says), |server, n| {
        server.resource(Resource::text(format!("x:{n}"), "x"))
    });
    let mut peers = Vec::new();
    for (n, revision) in (0..10).flat_map(|_| handshakes()).enumerate() {
        let capabilities = if n % 2 == 0 { json!({"sampling": {}}) } else { json!({}) };
        let mut peer = RawClient::connect(&server, revision, capabilities).await;
        let level = if n % 3 == 0 { "debug" } else { "error" };
        peer.request("logging/setLevel", json!({"level": level})).await;
        peer.request("resources/subscribe", json!({"uri": format!("x:{n}")})).await;
        peers.push((revision, peer));
    }
    for (n, (revision, peer)) in peers.iter_mut().enumerate() {
        assert_eq!(text(&peer.call("says", json!({})).await), format!("{revision} {}", n % 2 == 0));
        let logged: Vec<_> =
            peer.notifications.drain(..).map(|news| news["params"]["level"].clone()).collect();
        let wanted: &[&str] = if n % 3 == 0 { &["debug", "error"] } else { &["error"] };
        assert_eq!(logged, wanted, "{n} on {revision}");
    }
    server.notify_resource_updated("x:7");
    assert_eq!(peers[7].1.next().await["params"]["uri"], "x:7");
    for (revision, peer) in &mut peers {
        peer.request("ping", json!({})).await;
        assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
    }
}

#[tokio::test(start_paused = true)]
async fn session_without_tools_cannot_call_later_tools() {
    // LIFE-015, LIFE-016
    for revision in handshakes() {
        let server = Server::new("s", "1").resource(Resource::text("x:y", "z"));
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        server.add(tool("late")).unwrap();
        assert_eq!(peer.request("tools/list", json!({})).await["error"]["code"], -32601, "{revision}");
        let called = peer.call("late", json!({})).await;
        assert_eq!(called["error"]["code"], -32601, "{revision}: {called}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_sends_no_request_before_initialized() {
    // LIFE-008: any request but `ping` counts as `initialized`, which some clients never send.
    let places = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "places"}});
    for revision in handshakes() {
        let mut wire = memory::connect(&curious()).unwrap();
        let response = exchange(&mut wire, &initialize(1, revision.as_str(), able())).await;
        assert_eq!(response["id"], 1, "{response}");
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(exchange(&mut wire, &ping).await["id"], 2);
        assert!(tokio::time::timeout(Duration::from_secs(600), wire.next()).await.is_err());
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        assert_eq!(exchange(&mut wire, &places).await["method"], "roots/list");
        let mut wire = memory::connect(&curious()).unwrap();
        exchange(&mut wire, &initialize(1, revision.as_str(), able())).await;
        assert_eq!(exchange(&mut wire, &places).await["method"], "roots/list", "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn experimental_capabilities_are_declared() {
    let settings = json!({"depth": 2});
    let server = Server::new("s", "1").experimental("search", &settings).experimental("plain", &7);
    for revision in Revisions::ALL.newest_first() {
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        let answer = match revision.is_stateless() {
            true => peer.request("server/discover", json!({})).await,
            false => {
                let client = json!({"name": "peer", "version": "1"});
                let params =
                    json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client});
                peer.request("initialize", params).await
            }
        };
        let declared = &answer["result"]["capabilities"]["experimental"];
        assert_eq!(*declared, json!({"search": settings, "plain": {}}), "{revision}: {answer}");
    }
}

#[tokio::test]
async fn bare_discover_is_answered_at_any_time() {
    let server = everything();
    let bridge = tsugite::bridge::Bridge::to(Client::in_process(&server));
    for server in [server.clone(), bridge.server()] {
        let mut wire = memory::connect(&server).unwrap();
        let full =
            exchange(&mut wire, &stateless(json!("full"), "server/discover", json!({}), json!({}))).await;
        assert!(full["result"]["supportedVersions"].is_array(), "{full}");
        let bare = json!({"jsonrpc": "2.0", "method": "mcp/discover", "id": 1});
        assert_eq!(exchange(&mut wire, &bare).await["result"], full["result"]);
        exchange(&mut wire, &initialize(2, "2025-11-25", json!({}))).await;
        assert_eq!(exchange(&mut wire, &bare).await["result"], full["result"]);
        let strict =
            exchange(&mut wire, &json!({"jsonrpc": "2.0", "method": "server/discover", "id": 3})).await;
        assert_eq!(strict["error"]["code"], -32601, "{strict}");
    }
    bridge.close().await;
}
