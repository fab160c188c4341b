//! Requirements on cancellation, progress, log messages and subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::form::{Field, FormSchema};
use tsugite_testkit::log::Warnings;
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

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

/// Counts how often it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server with a tool that never ends and reports progress every second, and a counter of its cancellations.
fn endless() -> (Server, Arc<AtomicUsize>) {
    let stopped = Arc::new(AtomicUsize::new(0));
    let counter = stopped.clone();
    let endless = Tool::new("endless").handler(move |cx: Context| {
        let dropped = Dropped(counter.clone());
        async move {
            let _dropped = dropped;
            let mut step = 0.0;
            loop {
                step += 1.0;
                cx.progress(step).message("on and on").await;
                cx.log(Level::Error, "on and on").await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                if false {
                    return "never";
                }
            }
        }
    });
    (Server::new("s", "1").tool(endless).tool(tool("t")), stopped)
}

/// Sends a request and waits for its response, so that every earlier message has been received.
async fn fence(peer: &mut RawClient) {
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(peer.request("tools/list", json!({})).await.get("result").is_some());
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_stops_without_further_notifications() {
    // STDIO-016, STDIO-017
    for revision in revisions() {
        let (server, stopped) = endless();
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        let params = json!({"name": "endless", "_meta": {"progressToken": "p", LOG_LEVEL: "debug"}});
        let id = peer.send_request("tools/call", params);
        assert_eq!(peer.next().await["params"]["progress"], 1);
        assert_eq!(stopped.load(Ordering::SeqCst), 0);
        peer.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
        fence(&mut peer).await;
        assert_eq!(stopped.load(Ordering::SeqCst), 1, "{revision}");
        // Notifications sent before the cancellation was read may still arrive.
        peer.notifications.clear();
        tokio::time::advance(Duration::from_secs(60)).await;
        fence(&mut peer).await;
        assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
    }
}

#[tokio::test(start_paused = true)]
async fn reason_of_a_cancellation_is_logged() {
    // CANC-012
    for revision in revisions() {
        let (server, stopped) = endless();
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        let id = peer.send_request("tools/call", json!({"name": "endless", "_meta": {"progressToken": "p"}}));
        assert_eq!(peer.next().await["params"]["progress"], 1);
        let events = Warnings::capture_from(tracing::Level::DEBUG);
        peer.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
        fence(&mut peer).await;
        assert_eq!(stopped.load(Ordering::SeqCst), 1, "{revision}");
        let events = events.take_with_fields();
        assert!(
            events.iter().any(|event| event.contains("cancelled") && event.contains("enough")),
            "{events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_cancellation_is_ignored() {
    // CANC-013
    for revision in revisions() {
        let (server, stopped) = endless();
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        let id = peer.send_request("tools/call", json!({"name": "endless"}));
        fence(&mut peer).await;
        for params in [
            json!({}),
            json!({"requestId": null}),
            json!({"requestId": [id]}),
            json!({"requestId": {"id": id}}),
            json!({"requestId": id.to_string()}),
            json!({"requestId": id + 1000}),
            json!({"requestId": true, "reason": 7}),
            json!({"request": id}),
        ] {
            peer.notify("notifications/cancelled", params);
        }
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}));
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [id]}));
        fence(&mut peer).await;
        assert_eq!(stopped.load(Ordering::SeqCst), 0, "{revision}");
        assert!(
            peer.notifications.iter().all(|heard| heard["method"] == "notifications/message"),
            "{revision}"
        );
        peer.notify("notifications/cancelled", json!({"requestId": id}));
        fence(&mut peer).await;
        assert_eq!(stopped.load(Ordering::SeqCst), 1, "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_cancels_its_questions_only_in_handshake_revisions() {
    // CANC-001, CANC-015, LIFE-023
    let asks = Tool::new("asks").handler(|cx: Context| async move {
        let form = FormSchema::new().field("x", Field::text());
        cx.ask_form(form, "?").timeout(Duration::from_secs(5)).await?;
        Ok::<_, HandlerError>("answered")
    });
    let server = Server::new("s", "1").tool(asks).tool(tool("t"));
    for revision in revisions().filter(|revision| revision.has_elicitation()) {
        let mut peer = RawClient::connect(&server, revision, json!({"elicitation": {}})).await;
        if revision.is_stateless() {
            let asked = peer.request_once("tools/call", json!({"name": "asks"})).await;
            assert_eq!(asked["result"]["resultType"], "input_required");
            tokio::time::advance(Duration::from_secs(60)).await;
            let (slow, _) = endless();
            let mut other = RawClient::connect(&slow, revision, json!({})).await;
            let id = other.send_request("tools/call", json!({"name": "endless"}));
            other.notify("notifications/cancelled", json!({"requestId": id}));
            for peer in [&mut peer, &mut other] {
                fence(peer).await;
                assert!(peer.notifications.is_empty(), "{:?}", peer.notifications);
            }
        } else {
            let id = peer.send_request("tools/call", json!({"name": "asks"}));
            let question = peer.next().await;
            let cancelled = peer.next().await;
            assert_eq!(cancelled["method"], "notifications/cancelled");
            assert_eq!(cancelled["params"]["requestId"], question["id"]);
            assert!(cancelled["params"].get("reason").is_none_or(Value::is_string));
            assert_eq!(peer.wait_for_response(id).await["result"]["isError"], true);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_uses_the_token_and_ends_with_the_request() {
    // PROG-004, PROG-007, PROG-008, PROG-009, PROG-006
    let steps = Tool::new("steps").handler(|cx: Context| async move {
        cx.progress(1).total(3).message("one third").await;
        cx.progress(2.5).await;
        let later = cx.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            later.progress(3).total(3).message("too late").await;
        });
        "done"
    });
    let server = Server::new("s", "1").tool(steps);
    for revision in revisions() {
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        for token in [json!("p"), json!(0), json!(9_007_199_254_740_993_u64)] {
            let params = json!({"name": "steps", "_meta": {"progressToken": token}});
            assert_eq!(text(&peer.request("tools/call", params).await), "done");
            let heard = std::mem::take(&mut peer.notifications);
            assert_eq!(heard.len(), 2, "{revision}: {heard:?}");
            assert!(heard.iter().all(|news| news["method"] == "notifications/progress"));
            assert!(heard.iter().all(|news| news["params"]["progressToken"] == token), "{heard:?}");
            let (first, second) = (&heard[0]["params"], &heard[1]["params"]);
            assert_eq!((&first["progress"], &first["total"]), (&json!(1), &json!(3)));
            let message = if revision.as_str() == "2024-11-05" { None } else { Some(&json!("one third")) };
            assert_eq!(first.get("message"), message, "{revision}");
            assert_eq!((&second["progress"], second.get("total")), (&json!(2.5), None));
        }
        // Without a token no progress is sent, and none after the response.
        assert_eq!(text(&peer.call("steps", json!({})).await), "done");
        tokio::time::sleep(Duration::from_secs(5)).await;
        fence(&mut peer).await;
        assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
    }
}

/// A server with a tool that logs once on each level.
fn loud() -> Server {
    let loud = Tool::new("loud").handler(|cx: Context| async move {
        for (level, word) in [
            (Level::Debug, "debug"),
            (Level::Info, "info"),
            (Level::Notice, "notice"),
            (Level::Warning, "warning"),
            (Level::Error, "error"),
            (Level::Critical, "critical"),
            (Level::Alert, "alert"),
            (Level::Emergency, "emergency"),
        ] {
            cx.log_with_logger(level, "part", &json!({"said": word})).await;
        }
        "done"
    });
    Server::new("s", "1").tool(loud)
}

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn levels(heard: &[Value]) -> Vec<&str> {
    heard
        .iter()
        .map(|news| {
            assert_eq!(news["method"], "notifications/message");
            assert_eq!(news["params"]["data"]["said"], news["params"]["level"]);
            assert_eq!(news["params"]["logger"], "part");
            news["params"]["level"].as_str().unwrap()
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn request_gets_only_its_own_log_messages() {
    // LOG-008, LOG-009, LOG-010, SUBS-013
    let (slow, _) = endless();
    let server = loud().mount("slow", slow);
    let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
    for (at, level) in LEVELS.iter().enumerate() {
        let params = json!({"name": "loud", "_meta": {LOG_LEVEL: level}});
        assert_eq!(text(&peer.request("tools/call", params).await), "done");
        // Every message came before the response.
        assert_eq!(levels(&peer.notifications), LEVELS[at..]);
        peer.notifications.clear();
        assert_eq!(text(&peer.call("loud", json!({})).await), "done");
        assert!(peer.notifications.is_empty(), "the level of an earlier request: {:?}", peer.notifications);
    }
    // Beside a request that wants every level, and a subscription.
    let wish = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let listen = json!({"notifications": wish, "_meta": {LOG_LEVEL: "debug", "progressToken": "listen"}});
    peer.send_request("subscriptions/listen", listen);
    assert_eq!(peer.next().await["method"], "notifications/subscriptions/acknowledged");
    peer.send_request(
        "tools/call",
        json!({"name": "slow_endless", "_meta": {LOG_LEVEL: "debug", "progressToken": 1}}),
    );
    assert_eq!(text(&peer.call("loud", json!({})).await), "done");
    for news in &peer.notifications {
        assert_ne!(news["params"]["logger"], "part", "{news}");
        assert_ne!(news["params"]["progressToken"], "listen", "{news}");
        assert_eq!(news["params"]["_meta"].get(SUBSCRIPTION), None, "{news}");
    }
}

/// A server with one item of each kind.
fn offers() -> Server {
    Server::new("s", "1")
        .tool(tool("t"))
        .resource(Resource::text("x:a", "a"))
        .resource(Resource::text("x:b", "b"))
        .prompt(Prompt::new("p").handler(|| async { "p" }))
}

fn change(server: &Server, kind: &str, name: &str) {
    match kind {
        "tools" => server.add(tool(name)).unwrap(),
        "prompts" => server.add(Prompt::new(name).handler(|| async { "p" })).unwrap(),
        _ => server.add(Resource::text(format!("x:{name}"), "new")).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn list_changes_reach_every_session() {
    // TOOL-016, RSRC-010, PRMT-006
    for revision in handshakes() {
        for kind in ["tools", "resources", "prompts"] {
            let server = offers();
            let mut peers = Vec::new();
            for _ in 0..2 {
                let mut peer = RawClient::connect(&server, revision, json!({})).await;
                let opened = json!({
                    "protocolVersion": revision.as_str(), "capabilities": {},
                    "clientInfo": {"name": "c", "version": "1"},
                });
                let opened = peer.request("initialize", opened).await;
                assert_eq!(opened["result"]["capabilities"][kind]["listChanged"], true, "{opened}");
                peer.notify("notifications/initialized", json!({}));
                fence(&mut peer).await;
                peers.push(peer);
            }
            change(&server, kind, "new");
            for peer in &mut peers {
                let news = peer.next().await;
                assert_eq!(news["method"], format!("notifications/{kind}/list_changed"), "{revision}");
                assert_eq!(news.get("id"), None);
                fence(peer).await;
                assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn list_changes_reach_only_matching_subscriptions() {
    // TOOL-017, RSRC-011, PRMT-007, SUBS-002
    for kind in ["tools", "resources", "prompts"] {
        let server = offers();
        let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
        let mut deaf = RawClient::connect(&server, STATELESS, json!({})).await;
        let capabilities = peer.request("server/discover", json!({})).await["result"]["capabilities"].clone();
        assert_eq!(capabilities[kind]["listChanged"], true, "{capabilities}");
        let wish = json!({format!("{kind}ListChanged"): true});
        let id = peer.send_request("subscriptions/listen", json!({"notifications": wish}));
        assert_eq!(peer.next().await["params"]["notifications"], wish);
        for other in ["tools", "resources", "prompts"] {
            change(&server, other, &format!("new-{other}"));
        }
        server.notify_resource_updated("x:a");
        let news = peer.next().await;
        assert_eq!(news["method"], format!("notifications/{kind}/list_changed"));
        assert_eq!(news["params"]["_meta"][SUBSCRIPTION], id);
        for peer in [&mut peer, &mut deaf] {
            fence(peer).await;
            assert!(peer.notifications.is_empty(), "{:?}", peer.notifications);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn subscription_starts_with_its_acknowledgement() {
    // SUBS-003, SUBS-007
    let server = offers();
    let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
    let wish = json!({
        "toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["x:a", "x:none"],
        "moonPhaseChanged": true,
    });
    for id in [json!(700), json!("700"), json!("")] {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        peer.send(&json!({
            "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
            "params": {"notifications": wish, "_meta": meta},
        }));
        // Changes that come with the request do not overtake its acknowledgement.
        server.notify_resource_updated("x:a");
        let first = peer.next().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION], id);
        let granted = first["params"]["notifications"].as_object().unwrap();
        assert_eq!(granted["toolsListChanged"], true);
        assert_eq!(granted["resourceSubscriptions"], json!(["x:a"]));
        assert!(granted.get("promptsListChanged").is_none_or(|granted| granted == false), "{first}");
        assert_eq!(granted.get("moonPhaseChanged"), None);
        assert_eq!(granted.get("resourcesListChanged"), None);
        fence(&mut peer).await;
        peer.notifications.clear();
        server.notify_resource_updated("x:a");
        server.notify_resource_updated("x:b");
        let news = peer.next().await;
        assert_eq!(news["method"], "notifications/resources/updated");
        assert_eq!(news["params"]["uri"], "x:a");
        assert_eq!(news["params"]["_meta"][SUBSCRIPTION], id, "{news}");
        peer.notify("notifications/cancelled", json!({"requestId": id}));
        fence(&mut peer).await;
        assert!(peer.notifications.is_empty(), "{:?}", peer.notifications);
    }
}

#[tokio::test(start_paused = true)]
async fn ended_subscription_gets_an_empty_result() {
    // SUBS-010
    let server = offers();
    let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
    let id = peer.send_request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(peer.next().await["method"], "notifications/subscriptions/acknowledged");
    peer.close();
    let ended = peer.wait_for_response(id).await;
    let result = ended["result"].as_object().unwrap();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"][SUBSCRIPTION], id);
    assert!(result.keys().all(|member| member == "resultType" || member == "_meta"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn resource_updates_reach_only_subscribed_sessions() {
    // RSRC-013, RSRC-014
    for revision in handshakes() {
        let server = offers();
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        let mut other = RawClient::connect(&server, revision, json!({})).await;
        let subscribed = peer.request("resources/subscribe", json!({"uri": "x:a"})).await;
        assert_eq!(subscribed["result"], json!({}), "{revision}");
        fence(&mut other).await;
        server.notify_resource_updated("x:b");
        server.notify_resource_updated("x:a");
        let news = peer.next().await;
        assert_eq!(news["method"], "notifications/resources/updated");
        assert_eq!(news["params"]["uri"], "x:a");
        assert_eq!(peer.request("resources/unsubscribe", json!({"uri": "x:a"})).await["result"], json!({}));
        server.notify_resource_updated("x:a");
        for peer in [&mut peer, &mut other] {
            fence(peer).await;
            assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
        }
        let bare = Server::new("s", "1").tool(tool("t"));
        let mut peer = RawClient::connect(&bare, revision, json!({})).await;
        let refused = peer.request("resources/subscribe", json!({"uri": "x:a"})).await;
        assert_eq!(refused["error"]["code"], -32601, "{revision}: {refused}");
    }
}
