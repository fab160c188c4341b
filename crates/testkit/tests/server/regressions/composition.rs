//! Layers, mounted servers, rules of visibility, lists and news.

use super::*;

#[tokio::test(start_paused = true)]
async fn layers_keep_the_code_of_a_missing_capability() {
    let asks =
        Tool::new("asks").handler(|cx: Context| async move { cx.ask::<Name>("?").await.map(|n| n.name) });
    for layered in [false, true] {
        let mut server = Server::new("s", "1").tool(asks.clone());
        if layered {
            server = server.layer(ConcurrencyLimit::new(8));
        }
        let mut peer = plain(&server, STATELESS).await;
        let refused = peer.call("asks", json!({})).await;
        assert_eq!(refused["error"]["code"], -32021, "layered {layered}: {refused}");
    }
}

fn deep(n: usize) -> Value {
    let mut v = json!(1);
    for _ in 0..n {
        v = json!([v]);
    }
    v
}

#[tokio::test(start_paused = true)]
async fn layers_do_not_lose_deep_results() {
    let deep_tool = Tool::new("deep").handler(|| async {
        CallResult::from_text("x").structured_content(RawJson::from_value(&json!({"v": deep(130)})).unwrap())
    });
    for layered in [false, true] {
        let mut server = Server::new("s", "1").tool(deep_tool.clone());
        if layered {
            server = server.layer(ConcurrencyLimit::new(8));
        }
        let mut wire = memory::connect(&server).unwrap();
        wire.send(json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deep","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}).to_string());
        let line = wire.next().await;
        assert!(line.contains("\"result\""), "layered {layered}: {}", &line[..line.len().min(200)]);
    }
}

#[tokio::test(start_paused = true)]
async fn layers_respect_the_maximum_id_length() {
    for layered in [false, true] {
        let mut server =
            Server::new("s", "1").tool(tool("t")).limits(MessageLimits::default().max_id_bytes(1 << 20));
        if layered {
            server = server.layer(ConcurrencyLimit::new(8));
        }
        let mut wire = memory::connect(&server).unwrap();
        let id = "x".repeat(8000);
        wire.send(json!({"jsonrpc":"2.0","id":id,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}).to_string());
        let line = wire.next().await;
        let v: Value = serde_json::from_str(&line).unwrap();
        assert!(v.get("result").is_some(), "layered {layered}: {}", v["error"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deep_schema_does_not_empty_the_list() {
    let odd = Tool::new("odd")
        .handler(|| async { "x" })
        .output_schema(Schema::from(json!({"type": "object", "x-note": deep(130)})));
    let server = Server::new("s", "1").validate_output(false).tool(tool("fine")).tool(odd);
    let wire = memory::connect(&server);
    let Ok(mut wire) = wire else { return };
    wire.send(json!({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}).to_string());
    let line = wire.next().await;
    assert!(line.contains("fine"), "{}", &line[..line.len().min(200)]);
}

#[derive(Deserialize, JsonSchema)]
struct Var {
    name: String,
}

fn vault() -> Resource {
    Resource::template("vault://{name}")
        .tag("secret")
        .complete("name", ["alpha", "beta"])
        .handler(|Args(v): Args<Var>| async move { v.name })
}

#[tokio::test(start_paused = true)]
async fn a_hidden_template_of_a_mounted_server_is_not_completed() {
    let inner = Server::new("inner", "1").resource(vault());
    let outer = Server::new("outer", "1")
        .tool(tool("t"))
        .mount("m", inner)
        .visible(|_, item| !item.has_tag("secret"));
    let mut peer = plain(&outer, STATELESS).await;
    assert_eq!(
        names(&peer.request("resources/templates/list", json!({})).await, "resourceTemplates", "uriTemplate")
            .len(),
        0
    );
    let values = peer.request("completion/complete", json!({"ref": {"type": "ref/resource", "uri": "vault://m/{name}"}, "argument": {"name": "name", "value": ""}})).await;
    assert!(values.get("error").is_some(), "{values}");
}

#[tokio::test(start_paused = true)]
async fn a_rule_sees_a_mounted_template_by_one_name() {
    let inner = Server::new("inner", "1")
        .resource(Resource::template("db://{name}").handler(|Args(v): Args<Var>| async move { v.name }));
    let outer = Server::new("outer", "1").mount("m", inner).visible(|_, item| item.name != "db://m/{name}");
    let own = Server::new("own", "1")
        .resource(Resource::template("db://{name}").handler(|Args(v): Args<Var>| async move { v.name }))
        .visible(|_, item| item.name != "db://{name}");
    for (server, uri) in [(own, "db://x"), (outer, "db://m/x")] {
        let mut peer = plain(&server, STATELESS).await;
        assert_eq!(
            names(
                &peer.request("resources/templates/list", json!({})).await,
                "resourceTemplates",
                "uriTemplate"
            )
            .len(),
            0
        );
        let read = peer.request("resources/read", json!({"uri": uri})).await;
        assert!(read.get("error").is_some(), "hidden in the list, but read: {read}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Two {
    owner: String,
    id: String,
}

#[tokio::test(start_paused = true)]
async fn listed_resource_is_the_one_read() {
    let inner = Server::new("inner", "1").resource(Resource::text("notes://motto", "the motto"));
    let outer = Server::new("outer", "1")
        .resource(
            Resource::template("notes://{owner}/{id}")
                .handler(|Args(t): Args<Two>| async move { format!("{}'s {}", t.owner, t.id) }),
        )
        .mount("team", inner);
    let mut peer = plain(&outer, STATELESS).await;
    assert_eq!(
        names(&peer.request("resources/list", json!({})).await, "resources", "uri"),
        ["notes://team/motto"]
    );
    let read = peer.request("resources/read", json!({"uri": "notes://team/motto"})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "the motto", "{read}");
}

#[tokio::test(start_paused = true)]
async fn listed_tool_can_be_called() {
    let inner = Server::new("inner", "1").tool(tool("b"));
    let outer = Server::new("outer", "1")
        .tool(tool("a_b").tag("admin"))
        .mount("a", inner)
        .visible(|_, item| !item.has_tag("admin"));
    let mut peer = plain(&outer, STATELESS).await;
    let list = peer.request("tools/list", json!({})).await;
    let called = peer.call("a_b", json!({})).await;
    assert_eq!(
        names(&list, "tools", "name").contains(&"a_b"),
        called.get("result").is_some(),
        "{list} {called}"
    );
}

#[tokio::test(start_paused = true)]
async fn cached_list_never_shows_another_callers_definition() {
    let one = Server::new("one", "1")
        .tool(tool("b_c").tag("admin").description("for admins: the root password is in /etc/x"));
    let two = Server::new("two", "1").tool(tool("c").tag("guest").description("for guests"));
    let outer = Server::new("outer", "1").mount("a", one).mount("a_b", two).visible(|who, item| match who {
        Some(who) if who.has_scope("admin") => item.has_tag("admin"),
        _ => item.has_tag("guest"),
    });
    let mut admin =
        RawClient::connect_as(&outer, Principal::new("root").with_scopes(["admin"]), STATELESS, json!({}))
            .await;
    let mut guest = plain(&outer, STATELESS).await;
    let seen = admin.request("tools/list", json!({})).await;
    assert!(seen["result"]["tools"][0]["description"].as_str().unwrap().contains("admins"), "{seen}");
    let seen = guest.request("tools/list", json!({})).await;
    assert_eq!(seen["result"]["tools"][0]["description"], "for guests", "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_mounted_handler_reaches_its_own_server() {
    let touch = Tool::new("touch").handler(|cx: Context| async move {
        cx.server().notify_resource_updated("config://app");
        "touched"
    });
    let inner = Server::new("inner", "1").tool(touch).resource(Resource::text("config://app", "x"));
    let outer = Server::new("outer", "1").mount("m", inner);
    let mut peer = plain(&outer, rev("2025-06-18")).await;
    peer.request("resources/subscribe", json!({"uri": "config://m/app"})).await;
    peer.call("m_touch", json!({})).await;
    peer.request("ping", json!({})).await;
    assert_eq!(peer.notifications.len(), 1, "no notification of the change");
}

#[tokio::test(start_paused = true)]
async fn secrets_are_taken_out_of_logs_of_mounted_servers() {
    // F-22
    let leaks = Tool::new("leaks").handler(|cx: Context| async move {
        cx.log(Level::Error, "hunter2").await;
        "ok"
    });
    let inner = Server::new("inner", "1").tool(leaks).redact_logs(|v| *v = json!("***"));
    let outer = Server::new("outer", "1").mount("m", inner);
    let mut peer = plain(&outer, rev("2025-06-18")).await;
    peer.call("m_leaks", json!({})).await;
    assert!(!format!("{:?}", peer.notifications).contains("hunter2"), "{:?}", peer.notifications);
}

#[tokio::test(start_paused = true)]
async fn change_of_a_twice_mounted_server_is_announced_once() {
    let leaf = Server::new("leaf", "1").tool(tool("t"));
    let left = Server::new("left", "1").mount("leaf", leaf.clone());
    let right = Server::new("right", "1").mount("leaf", leaf.clone());
    let outer = Server::new("outer", "1").mount("l", left).mount("r", right);
    let mut peer = plain(&outer, rev("2025-06-18")).await;
    leaf.add(tool("u")).unwrap();
    peer.request("ping", json!({})).await;
    assert_eq!(peer.notifications.len(), 1, "{:?}", peer.notifications);
}

#[tokio::test(start_paused = true)]
async fn a_resource_under_a_rule_is_private_whatever_it_says() {
    let server = Server::new("s", "1")
        .resource(
            Resource::text("x:salaries", "42")
                .tag("admin")
                .cache(Duration::from_secs(60), CacheScope::Public),
        )
        .visible(|who, item| !item.has_tag("admin") || who.is_some());
    let mut peer = RawClient::connect_as(&server, Principal::new("boss"), STATELESS, json!({})).await;
    let read = peer.request("resources/read", json!({"uri": "x:salaries"})).await;
    assert_eq!(read["result"]["cacheScope"], "private", "{read}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_given_to_a_clone_while_served_is_listed() {
    let server = Server::new("s", "1").tool(tool("a"));
    let mut peer = plain(&server, STATELESS).await;
    peer.request("tools/list", json!({})).await;
    let _same = server.clone().tool(tool("b"));
    assert!(peer.call("b", json!({})).await.get("result").is_some(), "it can be called");
    assert_eq!(names(&peer.request("tools/list", json!({})).await, "tools", "name"), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_announced_that_was_not_declared() {
    let server = Server::new("s", "1").tool(tool("a"));
    let mut peer = plain(&server, rev("2025-06-18")).await;
    server.add(Prompt::new("p").handler(|| async { "p" })).unwrap();
    peer.request("ping", json!({})).await;
    assert!(peer.notifications.is_empty(), "{:?}", peer.notifications);
}

#[tokio::test(start_paused = true)]
async fn subscribing_again_is_not_one_more() {
    let server = Server::new("s", "1").resource(Resource::text("x:y", "z")).max_subscriptions(1);
    let mut peer = plain(&server, rev("2025-06-18")).await;
    for _ in 0..2 {
        let answer = peer.request("resources/subscribe", json!({"uri": "x:y"})).await;
        assert!(answer.get("result").is_some(), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_survives_a_change_with_rules_as_without() {
    for rules in [false, true] {
        let mut server = Server::new("s", "1").page_size(1).tool(tool("a")).tool(tool("b")).tool(tool("c"));
        if rules {
            server = server.visible(|_, _| true);
        }
        let mut peer = plain(&server, STATELESS).await;
        let page = peer.request("tools/list", json!({})).await;
        server.add(tool("d")).unwrap();
        let next = peer.request("tools/list", json!({"cursor": page["result"]["nextCursor"]})).await;
        assert!(next.get("result").is_some(), "rules {rules}: {next}");
    }
}

#[tokio::test(start_paused = true)]
async fn session_without_tools_ignores_later_tools() {
    for layered in [false, true] {
        let server = Server::new("s", "1").prompt(Prompt::new("p").handler(|| async { "p" }));
        let server = if layered { server.layer(ConcurrencyLimit::new(8)) } else { server };
        let mut old = plain(&server, rev("2025-06-18")).await;
        server.add(tool("late")).unwrap();
        assert_eq!(old.request("tools/list", json!({})).await["error"]["code"], -32601);
        assert_eq!(old.call("late", json!({})).await["error"]["code"], -32601);
        assert!(plain(&server, STATELESS).await.call("late", json!({})).await.get("result").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn outer_server_sets_the_question_timeout() {
    let asks = Tool::new("asks")
        .handler(|cx: Context| async move { cx.ask::<Name>("?").await.map(|name| name.name) });
    let inner = Server::new("inner", "1").tool(asks);
    let server = Server::new("outer", "1").mount("in", inner).ask_timeout(Duration::from_secs(5));
    let mut peer = RawClient::connect(&server, rev("2025-11-25"), elicits()).await;
    let began = tokio::time::Instant::now();
    let id = peer.send_request("tools/call", json!({"name": "in_asks"}));
    assert_eq!(peer.next().await["method"], "elicitation/create");
    assert_eq!(peer.next().await["method"], "notifications/cancelled");
    assert_eq!(peer.wait_for_response(id).await["result"]["isError"], true);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[test]
fn output_schema_that_is_no_schema_is_refused() {
    for schema in [json!({"type": "object", "properties": 7}), json!({"$schema": "https://example.com/own"})]
    {
        let tool = Tool::new("t").output_schema(Schema::from(schema)).raw_handler(|_, _| async { "x" });
        assert!(memory::connect(&Server::new("s", "1").validate_output(false).tool(tool)).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_argument_is_refused_in_every_spelling() {
    #[derive(Deserialize, JsonSchema)]
    struct Add {
        a: i64,
        b: i64,
    }
    let add = Tool::new("add").handler(|Args(add): Args<Add>| async move { add.a + add.b });
    let mut wire = memory::connect(&Server::new("s", "1").tool(add)).unwrap();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    for (arguments, fine) in [(r#"{"a":1,"a":2.0,"b":3}"#, false), (r#"{"a":1.0,"b":3}"#, true)] {
        wire.send(format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"add","arguments":{arguments},{meta}}}}}"#
        ));
        assert_eq!(!wire.next().await.contains("isError"), fine, "{arguments}");
    }
}
