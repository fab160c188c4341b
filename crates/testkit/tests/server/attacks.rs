//! Hostile or careless input: it is refused, bounded and never leaks anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite::server::UrlElicitation;
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

fn revision(name: &str) -> Revision {
    name.parse().unwrap()
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

fn raw(schema: Value) -> Tool {
    Tool::new("raw")
        .input_schema(Schema::from(schema))
        .raw_handler(|arguments, _| async move { arguments.text().to_owned() })
}

#[test]
fn expensive_or_remote_schemas_are_refused_at_registration() {
    // SCHM-012, SCHM-013, SCHM-015, SCHM-016, F-06, F-07, SCHM-014
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = json!({"anyOf": [deep]});
    }
    let wide: Vec<_> = (0..20_000).map(|n| json!({"const": n})).collect();
    for (why, property) in [
        ("the network", json!({"$ref": "http://169.254.169.254/latest"})),
        ("a file", json!({"$ref": "file:///etc/passwd"})),
        ("depth", deep),
        ("width", json!({"anyOf": wide})),
        ("an expression that needs to look back", json!({"type": "string", "pattern": "(a)\\1"})),
        ("no schema", json!({"type": "thing"})),
    ] {
        let tool = raw(json!({"type": "object", "properties": {"x": property}}));
        let error = tsugite::transport::memory::connect(&Server::new("s", "1").tool(tool)).err();
        assert!(error.is_some_and(|error| error.is_registration()), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_are_validated_before_the_handler_runs() {
    // TOOL-011, F-05
    let tool = raw(json!({
        "type": "object", "required": ["limit"], "additionalProperties": false,
        "properties": {"limit": {"type": "integer", "minimum": 1}, "word": {"type": "string", "pattern": "^(a+)+$"}},
    }));
    let server = Server::new("s", "1").tool(tool);
    for revision in revisions() {
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        assert_eq!(text(&peer.call("raw", json!({"limit": 42.0})).await), r#"{"limit":42.0}"#);
        for (arguments, word) in [
            (json!({"limit": 0}), "limit"),
            (json!({"limit": "many"}), "limit"),
            (json!({}), "limit"),
            (json!({"limit": 1, "other": 2}), "other"),
            (json!({"limit": 1, "word": format!("{}b", "a".repeat(50_000))}), "word"),
        ] {
            let refused = peer.call("raw", arguments).await;
            assert_eq!(refused["result"]["isError"], true, "{revision}: {refused}");
            assert!(text(&refused).contains(word), "{refused}");
            assert!(text(&refused).len() < 1_000, "what was sent is not echoed whole");
        }
        for arguments in [json!([1]), json!("x"), json!(7)] {
            let refused = peer.call("raw", arguments).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn result_that_breaks_its_schema_is_an_internal_error() {
    let tool = |name: &str, result: CallResult| {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        Tool::new(name).output_schema(Schema::from(schema)).raw_handler(move |_, _| {
            let result = result.clone();
            async move { result }
        })
    };
    let structured = |value: Value| CallResult::from_text("x").structured_content(value);
    let server = Server::new("s", "1")
        .validate_output(true)
        .tool(tool("good", structured(json!({"n": 1}))))
        .tool(tool("bad", structured(json!({"n": "one"}))))
        .tool(tool("none", CallResult::from_text("x")))
        .tool(tool("failed", CallResult::error("x")));
    let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
    for (name, fine) in [("good", true), ("bad", false), ("none", false), ("failed", true)] {
        let response = peer.call(name, json!({})).await;
        assert_eq!(response.get("result").is_some(), fine, "{name}: {response}");
    }
    let unchecked =
        Server::new("s", "1").validate_output(false).tool(tool("bad", structured(json!({"n": "one"}))));
    let mut peer = RawClient::connect(&unchecked, STATELESS, json!({})).await;
    assert!(peer.call("bad", json!({})).await.get("result").is_some());
}

#[tokio::test(start_paused = true)]
async fn no_notification_follows_the_response_of_a_request() {
    // F-23
    let late = Tool::new("late").handler(|cx: Context| async move {
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            cx.progress(2).await;
            cx.log(Level::Error, "late").await;
        });
        cx_done().await
    });
    async fn cx_done() -> &'static str {
        "done"
    }
    let server = Server::new("s", "1").tool(late);
    for revision in revisions() {
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        let params = json!({"name": "late", "_meta": {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}});
        assert_eq!(text(&peer.request("tools/call", params).await), "done");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(peer.request("tools/list", json!({})).await.get("result").is_some());
        assert!(peer.notifications.is_empty(), "{revision}: {:?}", peer.notifications);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_do_not_inherit_capabilities() {
    // LIFE-028, S-13: what an earlier request declared is not used for a later one, nor what a handshake agreed on.
    let sees = Tool::new("sees").handler(|cx: Context| async move {
        let can = cx.client_capabilities();
        cx.log(Level::Error, "loud").await;
        format!("{} {}", can.elicitation.is_some(), cx.client().is_some())
    });
    let server = Server::new("s", "1").tool(sees);
    let mut peer = RawClient::connect(&server, revision("2025-06-18"), json!({"elicitation": {}})).await;
    assert_eq!(text(&peer.call("sees", json!({})).await), "true true");
    assert_eq!(peer.notifications.len(), 1);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "sees", "_meta": meta});
    assert_eq!(text(&peer.request("tools/call", params).await), "false false");
    assert_eq!(peer.notifications.len(), 1, "logs without a level: {:?}", peer.notifications);
}

#[tokio::test(start_paused = true)]
async fn clients_cannot_cancel_or_answer_for_each_other() {
    // S-16, S-17
    let waits = Tool::new("waits")
        .handler(|cx: Context| async move { cx.roots().await.map(|roots| roots.len().to_string()) });
    let server = Server::new("s", "1").tool(waits);
    let old = revision("2025-11-25");
    let mut ada = RawClient::connect(&server, old, json!({"roots": {}})).await;
    let mut eve = RawClient::connect(&server, old, json!({"roots": {}})).await;
    let id = ada.send_request("tools/call", json!({"name": "waits"}));
    let question = ada.next().await;
    eve.notify("notifications/cancelled", json!({"requestId": id}));
    eve.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}));
    eve.request("ping", json!({})).await;
    ada.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": "file:///a"}]}}));
    assert_eq!(text(&ada.wait_for_response(id).await), "1");
}

#[tokio::test(start_paused = true)]
async fn malformed_trace_context_is_ignored() {
    // F-38
    let server = Server::new("s", "1").tool(Tool::new("t").handler(|| async { "t" }));
    for revision in revisions() {
        let mut peer = RawClient::connect(&server, revision, json!({})).await;
        for meta in [json!({"traceparent": 7}), json!({"traceparent": "x", "baggage": "b".repeat(1 << 20)})] {
            let response = peer.request("tools/call", json!({"name": "t", "_meta": meta})).await;
            assert_eq!(text(&response), "t", "{revision}");
        }
    }
}

fn visiting() -> (Server, Arc<Mutex<Vec<UrlElicitation>>>) {
    let visits: Arc<Mutex<Vec<UrlElicitation>>> = Arc::default();
    let (kept, also) = (visits.clone(), visits.clone());
    let login = Tool::new("login").handler(move |cx: Context| {
        let kept = kept.clone();
        async move {
            let visit = cx.url_elicitation("https://example.com/login")?.message("Please log in.");
            kept.lock().unwrap().push(visit.clone());
            visit.ask().await?;
            Ok::<_, HandlerError>("agreed")
        }
    });
    let first = Tool::new("first").handler(move |cx: Context| {
        let also = also.clone();
        async move {
            let visit = cx.url_elicitation("https://example.com/login")?.message("Please log in.");
            also.lock().unwrap().push(visit.clone());
            Err::<(), _>(visit.required_error())
        }
    });
    (Server::new("s", "1").tool(login).tool(first), visits)
}

#[tokio::test(start_paused = true)]
async fn web_pages_are_requested_where_the_revision_can() {
    // ELIC-023, ELIC-026, ELIC-029, ELIC-030
    for revision in revisions() {
        let (server, visits) = visiting();
        let urls = json!({"elicitation": {"url": {}}});
        let peer = RawClient::connect(&server, revision, urls).await;
        let mut peer = peer.on_request(|_, _| json!({"action": "accept"}));
        let mut other = RawClient::connect(&server, revision, json!({})).await;
        let agreed = peer.call("login", json!({})).await;
        let first = peer.call("first", json!({})).await;
        if revision.has_url_elicitation() {
            assert_eq!(text(&agreed), "agreed", "{revision}");
            let (_, asked) = &peer.received_requests[0];
            assert_eq!((&asked["mode"], &asked["url"]), (&json!("url"), &json!("https://example.com/login")));
            assert_eq!(asked.get("elicitationId").is_some(), !revision.is_stateless(), "{asked}");
        } else {
            assert_eq!(agreed["result"]["isError"], true, "{revision}: {agreed}");
        }
        let visit = visits.lock().unwrap().last().unwrap().clone();
        let told = visit.complete();
        if revision.as_str() == "2025-11-25" {
            assert_eq!(first["error"]["code"], -32042, "{first}");
            let page = &first["error"]["data"]["elicitations"][0];
            assert_eq!(
                (&page["url"], &page["elicitationId"]),
                (&json!("https://example.com/login"), &json!(visit.id()))
            );
            assert!(told);
            let notice = peer.next().await;
            assert_eq!(notice["method"], "notifications/elicitation/complete");
            assert_eq!(notice["params"]["elicitationId"], visit.id());
        } else {
            assert_eq!(first["result"]["isError"], true, "{revision}: {first}");
            assert!(!told, "{revision}");
        }
        // F-18: other clients are not notified.
        assert!(other.request("tools/list", json!({})).await.get("result").is_some());
        assert!(other.notifications.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn unsafe_page_urls_are_refused() {
    // F-14, F-16
    let visit = Tool::new("visit").raw_handler(|arguments, cx| async move {
        let url: Value = arguments.read()?;
        Ok::<_, HandlerError>(cx.url_elicitation(url["url"].as_str().unwrap_or_default()).is_ok().to_string())
    });
    let server = Server::new("s", "1").tool(visit);
    let mut peer = RawClient::connect(&server, STATELESS, json!({})).await;
    for (url, fine) in [
        ("https://example.com/a?b=c", true),
        ("http://localhost:8080/x", true),
        ("http://[::1]/", true),
        ("http://example.com/", false),
        ("javascript:alert(1)", false),
        ("file:///etc/passwd", false),
        ("https://user:secret@example.com/", false),
        ("https://example.com/\n", false),
        ("https://", false),
        ("", false),
    ] {
        assert_eq!(text(&peer.call("visit", json!({"url": url})).await), fine.to_string(), "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn headers_and_principal_are_present_only_if_known() {
    let who = Tool::new("who").handler(|who: Principal, headers: Headers| async move {
        format!("{} {:?}", who.subject(), headers.get("x"))
    });
    let maybe = Tool::new("maybe").handler(|who: Option<Principal>| async move { format!("{who:?}") });
    let server = Server::new("s", "1").tool(who).tool(maybe);
    let mut anonymous = RawClient::connect(&server, STATELESS, json!({})).await;
    assert_eq!(anonymous.call("who", json!({})).await["result"]["isError"], true);
    assert_eq!(text(&anonymous.call("maybe", json!({})).await), "None");
    let mut ada = RawClient::connect_as(&server, Principal::new("ada"), STATELESS, json!({})).await;
    assert_eq!(text(&ada.call("who", json!({})).await), "ada None");
    assert_eq!(text(&ada.call("maybe", json!({})).await), "Some(Principal(\"ada\"))");
}
