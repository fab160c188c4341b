//! What the specification demands of a server's exchanges: messages, opening, versions, capabilities.

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

const STATELESS: Revision = Revision::NEWEST;
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

fn handshakes() -> impl Iterator<Item = Revision> {
    Revisions::ALL.handshake().newest_first()
}

fn revision(name: &str) -> Revision {
    name.parse().unwrap()
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

/// A client that can be asked anything its revision knows.
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

/// Asks in each of the three ways there are; says what it heard.
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

/// One thing of each kind.
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
    heard(wire).await
}

async fn heard(wire: &mut MemoryConnection) -> Value {
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
async fn a_method_that_is_not_there_is_refused_under_the_id_of_the_request() {
    // JRPC-018, JRPC-022
    for revision in revisions() {
        let mut peer = RawClient::connect(&everything(), revision, json!({})).await;
        for method in ["nope", "tools/dance", "Tools/list", "rpc.discover", "rpc.", "rpc.t", ""] {
            let refused = peer.request(method, json!({})).await;
            assert_eq!(refused["error"]["code"], -32601, "{method} on {revision}: {refused}");
            assert!(refused["error"]["message"].is_string());
        }
        for id in [json!("seven"), json!(""), json!(0), json!(-7), json!(9_007_199_254_740_993_u64)] {
            let mut request = stateless(id.clone(), "nope", json!({}), json!({}));
            if !revision.is_stateless() {
                request["params"] = json!({});
            }
            peer.send(&request);
            let refused = peer.next().await;
            assert_eq!(
                (&refused["id"], &refused["error"]["code"]),
                (&id, &json!(-32601)),
                "{revision}: {refused}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_advertised_is_not_there_and_what_is_advertised_is() {
    // JRPC-023, VER-016
    let offers = [
        (Server::new("s", "1"), vec![]),
        (Server::new("s", "1").tool(tool("t")), vec!["tools"]),
        (Server::new("s", "1").resource(Resource::text("x:y", "z")), vec!["resources"]),
        (Server::new("s", "1").prompt(Prompt::new("p").handler(|| async { "p" })), vec!["prompts"]),
        (everything(), vec!["tools", "resources", "prompts", "completions"]),
        (Server::new("s", "1").declare_all_capabilities(), vec!["tools", "resources", "prompts"]),
    ];
    let methods = [
        ("tools", "tools/list", json!({})),
        ("tools", "tools/call", json!({"name": "t"})),
        ("resources", "resources/list", json!({})),
        ("resources", "resources/templates/list", json!({})),
        ("resources", "resources/read", json!({"uri": "x:y"})),
        ("prompts", "prompts/list", json!({})),
        ("prompts", "prompts/get", json!({"name": "p"})),
        (
            "completions",
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "n://{name}"}, "argument": {"name": "name", "value": ""}}),
        ),
    ];
    for (server, offered) in offers {
        let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
        let declared = peer.request("server/discover", json!({})).await["result"]["capabilities"].clone();
        for capability in ["tools", "resources", "prompts", "completions"] {
            let expected = offered.contains(&capability);
            assert_eq!(declared.get(capability).is_some(), expected, "{capability} in {declared}");
        }
        for (capability, method, params) in &methods {
            let answer = peer.request(method, params.clone()).await;
            let refused = answer["error"]["code"] == -32601;
            assert_eq!(refused, !offered.contains(capability), "{method}, {offered:?}: {answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_server_is_an_internal_error_that_tells_nothing() {
    // JRPC-025
    let secret = || std::io::Error::other("the password is swordfish");
    let server = Server::new("s", "1")
        .tool(Tool::new("panics").handler(|| async {
            if true {
                panic!("swordfish");
            }
        }))
        .resource(Resource::new("x:breaks").handler(move || async move { Err::<String, _>(secret()) }))
        .resource(Resource::new("x:panics").handler(|| async {
            if true {
                panic!("swordfish");
            }
            "never"
        }))
        .prompt(Prompt::new("breaks").handler(move || async move { Err::<String, _>(secret()) }));
    for revision in revisions() {
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        for (method, params) in [
            ("tools/call", json!({"name": "panics"})),
            ("resources/read", json!({"uri": "x:breaks"})),
            ("resources/read", json!({"uri": "x:panics"})),
            ("prompts/get", json!({"name": "breaks"})),
        ] {
            let failed = peer.request(method, params).await;
            assert_eq!(failed["error"]["code"], -32603, "{method} on {revision}: {failed}");
            assert!(!failed.to_string().contains("swordfish"), "{failed}");
            assert!(!failed.to_string().contains(".rs"), "{failed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_request_by_request() {
    // JRPC-026, JRPC-029, STDIO-010
    let mut peer = RawClient::connect(&curious(), revision("2025-03-26"), able()).await;
    peer.send(&json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/whatever"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/list"},
        {"jsonrpc": "2.0", "id": "c", "method": "nope"},
    ]));
    let answers = peer.next().await;
    let mut ids: Vec<_> = answers.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b", "c"], "{answers}");
    // Notifications alone are not answered, an empty array is no batch.
    peer.send(&json!([{"jsonrpc": "2.0", "method": "notifications/whatever"}]));
    peer.send(&json!([]));
    let refused = peer.next().await;
    assert!(refused.is_object(), "{refused}");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    // A batch of responses.
    let first = peer.send_request("tools/call", json!({"name": "samples"}));
    let second = peer.send_request("tools/call", json!({"name": "places"}));
    let questions = [peer.next().await, peer.next().await];
    let answers: Vec<_> = questions
        .iter()
        .map(|question| {
            let answer = host(question["method"].as_str().unwrap(), &Value::Null);
            json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        })
        .collect();
    peer.send(&Value::Array(answers));
    assert_eq!(text(&peer.wait_for_response(first).await), "true");
    assert_eq!(text(&peer.wait_for_response(second).await), "true");
}

#[tokio::test(start_paused = true)]
async fn server_sends_no_request_before_initialized() {
    // LIFE-008
    for revision in handshakes() {
        let mut wire = memory::connect(&curious()).unwrap();
        let response = exchange(&mut wire, &initialize(1, revision.as_str(), able())).await;
        assert_eq!(response["id"], 1, "{response}");
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(exchange(&mut wire, &ping).await["id"], 2);
        assert!(tokio::time::timeout(Duration::from_secs(600), wire.next()).await.is_err());
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "places"}});
        assert_eq!(exchange(&mut wire, &call).await["method"], "roots/list");
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_asks_nothing_of_its_own_accord_on_2026_07_28() {
    // JRPC-039, STDIO-012
    let server = curious();
    for name in ["asks", "samples", "places"] {
        let mut wire = memory::connect(&server).unwrap();
        let request = stateless(json!(1), "tools/call", json!({"name": name}), able());
        let answer = exchange(&mut wire, &request).await;
        assert_eq!(answer.get("method"), None, "{answer}");
        assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(1), &json!("input_required")));
        // Nothing else follows.
        let fence = stateless(json!("fence"), "server/discover", json!({}), json!({}));
        assert_eq!(exchange(&mut wire, &fence).await["id"], "fence");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_offers_nothing_still_opens_and_speaks() {
    // LIFE-001
    let server = Server::new("bare", "1");
    for revision in handshakes() {
        let mut wire = memory::connect(&server).unwrap();
        let opened = exchange(&mut wire, &initialize(1, revision.as_str(), json!({}))).await;
        assert_eq!(opened["result"]["protocolVersion"], revision.as_str(), "{opened}");
        assert!(opened["result"]["capabilities"].is_object());
        assert_eq!(opened["result"]["serverInfo"], json!({"name": "bare", "version": "1"}));
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(
            exchange(&mut wire, &ping).await,
            json!({"jsonrpc": "2.0", "id": 2, "result": {}}),
            "{revision}"
        );
        wire.send("no json");
        assert_eq!(heard(&mut wire).await["error"]["code"], -32700);
    }
}

#[tokio::test(start_paused = true)]
async fn versions_rounds_and_subscriptions_are_there_on_2026_07_28() {
    // LIFE-002
    let server = curious();
    let mut wire = memory::connect(&server).unwrap();
    let mut wrong = stateless(json!(1), "tools/list", json!({}), json!({}));
    wrong["params"]["_meta"][VERSION] = json!("1999-01-01");
    assert_eq!(exchange(&mut wire, &wrong).await["error"]["code"], -32022);
    let call = stateless(json!(2), "tools/call", json!({"name": "asks"}), able());
    let asked = exchange(&mut wire, &call).await;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let retry = json!({
        "name": "asks", "requestState": asked["result"]["requestState"],
        "inputResponses": {key: host("elicitation/create", &Value::Null)},
    });
    let done = exchange(&mut wire, &stateless(json!(3), "tools/call", retry, able())).await;
    assert_eq!(text(&done), "true");
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let told = exchange(&mut wire, &stateless(json!(4), "subscriptions/listen", listen, json!({}))).await;
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    server.add(tool("new")).unwrap();
    assert_eq!(heard(&mut wire).await["method"], "notifications/tools/list_changed");
}

#[tokio::test(start_paused = true)]
async fn before_the_handshake_only_ping_is_answered() {
    // LIFE-003, PING-001
    for revision in handshakes() {
        let mut wire = memory::connect(&everything()).unwrap();
        for (id, method) in [(1, "tools/list"), (2, "prompts/list"), (3, "logging/setLevel")] {
            let early = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"level": "debug"}});
            let refused = exchange(&mut wire, &early).await;
            assert!(refused.get("error").is_some(), "{method}: {refused}");
        }
        let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        let pong = |id: u32| json!({"jsonrpc": "2.0", "id": id, "result": {}});
        assert_eq!(exchange(&mut wire, &ping(4)).await, pong(4));
        let opened = exchange(&mut wire, &initialize(5, revision.as_str(), json!({}))).await;
        assert_eq!(opened["result"]["protocolVersion"], revision.as_str());
        // The client has not said that it is ready yet.
        assert_eq!(exchange(&mut wire, &ping(6)).await, pong(6));
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        assert_eq!(exchange(&mut wire, &ping(7)).await, pong(7));
        let list = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list"});
        assert_eq!(exchange(&mut wire, &list).await["result"]["tools"][0]["name"], "t");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_to_the_version_and_the_capabilities_that_were_agreed_on() {
    for revision in handshakes() {
        // A method of another revision is not there, whatever the server could do.
        let mut peer = RawClient::connect(&everything(), revision, able()).await;
        for method in ["server/discover", "subscriptions/listen"] {
            let refused = peer.request(method, json!({"notifications": {}})).await;
            assert_eq!(refused["error"]["code"], -32601, "{method} on {revision}: {refused}");
        }
        // Nor does a result say what only another revision says.
        for (method, params) in [
            ("tools/list", json!({})),
            ("tools/call", json!({"name": "t"})),
            ("resources/read", json!({"uri": "x:y"})),
            ("prompts/get", json!({"name": "p"})),
        ] {
            let result = peer.request(method, params).await["result"].clone();
            for member in ["resultType", "ttlMs", "cacheScope"] {
                assert_eq!(result.get(member), None, "{method} on {revision}: {result}");
            }
        }
        // What the client did not declare, or the revision does not know, is not asked of it.
        for (name, capability) in [("asks", "elicitation"), ("samples", "sampling"), ("places", "roots")] {
            let known = capability != "elicitation" || revision.has_elicitation();
            let mut with =
                RawClient::connect(&curious(), revision, json!({capability: {}})).await.on_request(host);
            assert_eq!(text(&with.call(name, json!({})).await), known.to_string(), "{name} on {revision}");
            assert_eq!(with.received_requests.len(), usize::from(known));
            let mut without = able();
            without.as_object_mut().unwrap().remove(capability);
            let mut without = RawClient::connect(&curious(), revision, without).await.on_request(host);
            assert_eq!(text(&without.call(name, json!({})).await), "false", "{name} on {revision}");
            assert!(without.received_requests.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_has_a_time_limit_that_can_be_set_for_each() {
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
async fn versions_capabilities_and_time_limits_that_fail_are_told_and_the_session_goes_on() {
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
async fn unrelated_conversations_share_a_connection() {
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
        let answer = heard(&mut wire).await;
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
async fn what_belongs_together_may_come_over_another_connection() {
    // LIFE-030, LIFE-032
    let server = curious().tool(tool("t")).page_size(1);
    let one = || memory::connect(&server).unwrap();
    let call = stateless(json!(1), "tools/call", json!({"name": "asks"}), able());
    let asked = exchange(&mut one(), &call).await;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut retry =
        json!({"name": "asks", "inputResponses": {key: host("elicitation/create", &Value::Null)}});
    // Who hands nothing in begins anew, even on the connection that was asked.
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
async fn a_handshake_can_be_repeated_and_begins_a_session_of_its_own() {
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
        let answer = heard(&mut wire).await;
        assert_eq!(text(&answer), "false", "{revision}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_result_names_the_server() {
    // VER-007
    let server = everything().tool(
        Tool::new("asks")
            .handler(|cx: Context| async move { cx.ask_form(form(), "?").await.map(|_| "told") }),
    );
    let mut peer = RawClient::connect(&server, STATELESS, able()).await;
    let completing = json!({"ref": {"type": "ref/resource", "uri": "n://{name}"}, "argument": {"name": "name", "value": ""}});
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "t"})),
        ("tools/call", json!({"name": "asks"})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "x:y"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "p"})),
        ("completion/complete", completing),
    ] {
        let answer = peer.request_once(method, params).await;
        assert_eq!(
            answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"],
            json!({"name": "all", "version": "1.2.3"}),
            "{method}: {answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_calls_itself_changes_nothing() {
    // VER-008, ELIC-043
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
        assert_eq!(text(&seen[each - 2]), "None", "nobody was authenticated");
        assert_eq!(seen[each - 1]["error"]["code"], -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn discover_says_which_versions_are_served_and_a_refusal_says_the_same() {
    // VER-012, VER-014
    let some = Revisions::NONE.with(STATELESS).with(revision("2025-06-18"));
    for (server, count) in [
        (everything(), 5),
        (everything().revisions(some), 2),
        (everything().revisions(Revisions::ALL.stateless()), 1),
    ] {
        let mut wire = memory::connect(&server).unwrap();
        let discover = stateless(json!(1), "server/discover", json!({}), json!({}));
        let answer = exchange(&mut wire, &discover).await;
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        let served = answer["result"]["supportedVersions"].clone();
        assert_eq!(served.as_array().unwrap().len(), count, "{served}");
        assert!(served.as_array().unwrap().contains(&json!("2026-07-28")));
        for method in ["server/discover", "tools/list", "tools/call", "nope"] {
            let mut request = stateless(json!(2), method, json!({"name": "t"}), json!({}));
            request["params"]["_meta"][VERSION] = json!("2099-01-01");
            let refused = exchange(&mut wire, &request).await;
            assert_eq!(refused["error"]["code"], -32022, "{refused}");
            let data = &refused["error"]["data"];
            assert_eq!((&data["supported"], &data["requested"]), (&served, &json!("2099-01-01")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_this_request_does_not_declare_is_not_used_for_it() {
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
async fn extensions_are_off_until_somebody_switches_them_on() {
    // VER-021, VER-022, VER-024
    for revision in revisions() {
        for (server, declared) in [
            (everything(), Value::Null),
            (
                everything()
                    .extension("com.example/a", &json!({}))
                    .extension("com.example/b", &json!({"n": 1}))
                    .extension("com.example/c", &7),
                json!({"com.example/a": {}, "com.example/b": {"n": 1}, "com.example/c": {}}),
            ),
        ] {
            for client in
                [json!({}), json!({"extensions": {"com.example/z": {}, "com.example/a": {"x": [1]}}})]
            {
                let mut wire = memory::connect(&server).unwrap();
                let said = if revision.is_stateless() {
                    let discover = stateless(json!(1), "server/discover", json!({}), client.clone());
                    exchange(&mut wire, &discover).await
                } else {
                    exchange(&mut wire, &initialize(1, revision.as_str(), client.clone())).await
                };
                let extensions = &said["result"]["capabilities"]["extensions"];
                if revision.is_stateless() || declared.is_null() {
                    assert_eq!(extensions, &declared, "{revision}: {said}");
                }
                // Whoever lacks what the other has, both speak the protocol as it is without.
                let mut peer = RawClient::connect(&server, revision, client).await;
                assert_eq!(text(&peer.call("t", json!({})).await), "t");
                assert_eq!(peer.request("tools/list", json!({})).await["result"]["tools"][0]["name"], "t");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_only_2026_07_28_is_served_no_id_is_no_id() {
    // JRPC-013
    let mut wire = memory::connect(&everything().revisions(Revisions::ALL.stateless())).unwrap();
    for garbage in ["{oops", "[]", "7", "[1]"] {
        wire.send(garbage);
        let refused = heard(&mut wire).await;
        assert_eq!(refused.get("id"), None, "{garbage}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_declared_at_the_handshake_stays_there_and_what_was_not_stays_away() {
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
async fn who_may_no_longer_see_a_resource_hears_no_more_of_it() {
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
async fn where_only_2026_07_28_is_served_every_request_says_who_sends_it() {
    // VER-004, JRPC-042, PING-005
    let mut wire = memory::connect(&everything().revisions(Revisions::ALL.stateless())).unwrap();
    for method in ["tools/list", "server/discover", "ping"] {
        for params in [json!(null), json!({}), json!({"_meta": {}}), json!({"_meta": {CAPABILITIES: {}}})] {
            let mut request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            if params.is_null() {
                request.as_object_mut().unwrap().remove("params");
            }
            let refused = exchange(&mut wire, &request).await;
            assert_eq!(refused["error"]["code"], -32602, "{method} {params}: {refused}");
        }
        let answer = exchange(&mut wire, &stateless(json!(1), method, json!({}), json!({}))).await;
        if method == "ping" {
            assert_eq!(answer["error"]["code"], -32601, "{answer}");
        } else {
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_name_of_an_extension_has_a_prefix_and_follows_the_grammar() {
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
async fn any_number_of_sessions_of_one_server_are_kept_apart() {
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
async fn a_tool_of_a_session_without_tools_cannot_be_called() {
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
