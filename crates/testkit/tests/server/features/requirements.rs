//! Requirements on tools, resources, prompts, completion and cache hints.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite::protocol::caching::CacheScope;
use tsugite::protocol::prompts::PromptArgument;
use tsugite::server::ListKind;
use tsugite::server::layer::RateLimit;
use tsugite::transport::memory;
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

async fn peer(server: &Server, revision: Revision) -> RawClient {
    RawClient::connect(server, revision, json!({})).await
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

fn names<'a>(response: &'a Value, list: &str, member: &str) -> Vec<&'a str> {
    let items = response["result"][list].as_array().unwrap_or_else(|| panic!("no {list} in {response}"));
    items.iter().map(|item| item[member].as_str().unwrap()).collect()
}

fn tool(name: &str) -> Tool {
    let said = name.to_owned();
    Tool::new(name).handler(move || {
        let said = said.clone();
        async move { said }
    })
}

fn prompt(name: &str) -> Prompt {
    Prompt::new(name).handler(|| async { "p" })
}

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

/// A server with five items in each list.
fn shelves() -> Server {
    (0..5).fold(Server::new("s", "1"), |server, n| {
        server
            .tool(tool(&format!("t{n}")))
            .prompt(prompt(&format!("p{n}")))
            .resource(Resource::text(format!("x:r{n}"), "r"))
            .resource(Resource::template(format!("y{n}://{{name}}")).handler(|| async { "y" }))
    })
}

#[tokio::test(start_paused = true)]
async fn lists_do_not_depend_on_earlier_requests() {
    // TOOL-003, TOOL-004, RSRC-003, PRMT-003
    let server = Server::new("s", "1").declare_all_capabilities();
    let mut first = peer(&server, STATELESS).await;
    for (method, list, _) in LISTS {
        assert_eq!(first.request(method, json!({})).await["result"][list], json!([]), "{method}");
    }
    let server = shelves().tool(Tool::new("odd").handler(|cx: Context| async move {
        cx.log(Level::Info, "odd").await;
        "odd"
    }));
    let mut first = RawClient::connect(&server, STATELESS, json!({"sampling": {}, "roots": {}})).await;
    for (method, list, _) in LISTS {
        let before = first.request(method, json!({})).await["result"].clone();
        first.call("t0", json!({})).await;
        first.call("odd", json!({})).await;
        first.call("nothing", json!({})).await;
        first.request("resources/read", json!({"uri": "x:r1"})).await;
        first.request("prompts/get", json!({"name": "p1"})).await;
        assert_eq!(first.request(method, json!({})).await["result"], before, "{method}");
        let mut other = peer(&server, STATELESS).await;
        let there = other.request(method, json!({})).await["result"].clone();
        assert_eq!(there[list], before[list], "{method}");
        // Nor does a handshake on the same connection change it.
        let mut old =
            RawClient::connect(&server, Revision::NEWEST_HANDSHAKE, json!({"elicitation": {}})).await;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        assert_eq!(
            old.request(method, json!({"_meta": meta})).await["result"][list],
            before[list],
            "{method}"
        );
    }
    server.remove(ListKind::Tool, "t0");
    let list = first.request("tools/list", json!({})).await;
    assert_eq!(names(&list, "tools", "name"), ["t1", "t2", "t3", "t4", "odd"]);
}

#[tokio::test(start_paused = true)]
async fn tool_order_is_stable() {
    // TOOL-006
    let server =
        (0..50).fold(Server::new("s", "1"), |server, n| server.tool(tool(&format!("t{}", n * 7 % 50))));
    let mut seen: Vec<Value> = Vec::new();
    for _ in 0..3 {
        let mut peer = peer(&server, STATELESS).await;
        for _ in 0..3 {
            seen.push(peer.request("tools/list", json!({})).await["result"]["tools"].clone());
        }
    }
    assert_eq!(seen[0].as_array().unwrap().len(), 50);
    assert!(seen.iter().all(|list| list == &seen[0]));
    // Removing one keeps the order of the others.
    server.remove(ListKind::Tool, "t7");
    let mut left = seen[0].as_array().unwrap().clone();
    left.retain(|tool| tool["name"] != "t7");
    let list = peer(&server, STATELESS).await.request("tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"], json!(left));
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// How many.
    count: u8,
}

#[tokio::test(start_paused = true)]
async fn calls_are_validated_authorized_and_rate_limited() {
    // TOOL-022
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let server = Server::new("s", "1")
        .tool(Tool::new("counts").handler(move |Args(count): Args<Count>| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { count.count }
        }))
        .tool(tool("fire").tag("admin"))
        .tool(Tool::new("leaks").handler(|| async {
            Err::<(), HandlerError>(std::io::Error::other("the password is swordfish").into())
        }))
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")))
        .layer(RateLimit::new(5, Duration::from_secs(60)));
    for revision in revisions() {
        ran.store(0, Ordering::SeqCst);
        tokio::time::advance(Duration::from_secs(600)).await;
        let mut peer = RawClient::connect_as(&server, Principal::new("guest"), revision, json!({})).await;
        // A handshake counts too.
        tokio::time::advance(Duration::from_secs(600)).await;
        let refused = peer.call("counts", json!({"count": -1})).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert_eq!(ran.load(Ordering::SeqCst), 0, "the handler never saw it");
        assert_eq!(peer.call("fire", json!({})).await["error"]["code"], -32602);
        let leaks = peer.call("leaks", json!({})).await;
        assert!(!leaks.to_string().contains("swordfish"), "{leaks}");
        assert_eq!(text(&peer.call("counts", json!({"count": 1})).await), "1");
        assert_eq!(text(&peer.call("counts", json!({"count": 2})).await), "2");
        let refused = peer.call("counts", json!({"count": 3})).await;
        assert!(refused.get("error").is_some(), "{revision}: {refused}");
        assert_eq!(ran.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn input_schema_is_an_object_and_keeps_every_keyword() {
    // TOOL-038, TOOL-039
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/word"}], "items": false},
        },
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["pair"]},
        "patternProperties": {"^x-": {"type": "string"}},
        "unevaluatedProperties": false,
        "dependentRequired": {"pair": ["kind"]},
        "$defs": {"word": {"type": "string", "minLength": 1}},
        "x-vendor": {"anything": [1, 2]},
    });
    let given = Tool::new("given")
        .input_schema(Schema::from(schema.clone()))
        .raw_handler(|arguments, _| async move { arguments.text().to_owned() });
    let typed = Tool::new("typed").handler(|Args(count): Args<Count>| async move { count.count });
    let server = Server::new("s", "1").tool(given).tool(typed).tool(tool("none"));
    for revision in revisions() {
        let list = peer(&server, revision).await.request("tools/list", json!({})).await;
        for tool in list["result"]["tools"].as_array().unwrap() {
            assert_eq!(tool["inputSchema"]["type"], "object", "{revision}: {tool}");
        }
        let given = list["result"]["tools"][0]["inputSchema"].as_object().unwrap();
        for (keyword, value) in schema.as_object().unwrap() {
            if keyword == "$schema" && !given.contains_key(keyword) {
                assert!(revision.as_str() < "2025-11-25", "{revision}");
                continue;
            }
            assert_eq!(&given[keyword], value, "{keyword} on {revision}");
        }
        let typed = &list["result"]["tools"][1]["inputSchema"];
        assert_eq!(typed["required"], json!(["count"]));
        assert_eq!(typed["properties"]["count"]["description"], "How many.");
    }
    let refused = Tool::new("list")
        .input_schema(Schema::from(json!({"type": "array"})))
        .raw_handler(|_, _| async { "never" });
    assert!(memory::connect(&Server::new("s", "1").tool(refused)).is_err(), "no object");
}

#[tokio::test]
async fn file_paths_cannot_leave_their_directory() {
    // RSRC-021
    let folder = std::env::temp_dir().join(format!("tsugite-offers-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("public/inner")).unwrap();
    std::fs::write(folder.join("public/inner/a.txt"), "words").unwrap();
    std::fs::write(folder.join("secret.txt"), "secret").unwrap();
    let root = format!("{}/public/", tsugite::file_uri::from_path(&folder).unwrap());
    let server = Server::new("s", "1").resource(Resource::directory(root.clone(), folder.join("public")));
    for revision in revisions() {
        let mut peer = peer(&server, revision).await;
        let read = peer.request("resources/read", json!({"uri": format!("{root}inner/a.txt")})).await;
        assert_eq!(read["result"]["contents"][0]["text"], "words", "{revision}: {read}");
        for path in [
            "../secret.txt",
            "inner/../../secret.txt",
            "%2e%2e/secret.txt",
            "%2E%2E%2Fsecret.txt",
            "..%2fsecret.txt",
            "inner/..%5c..%5csecret.txt",
            "....//secret.txt",
            "/etc/passwd",
            "inner/a.txt%00.png",
            "%252e%252e/secret.txt",
        ] {
            let read = peer.request("resources/read", json!({"uri": format!("{root}{path}")})).await;
            assert!(read.get("error").is_some(), "{path} on {revision}: {read}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn completion_is_validated_authorized_and_rate_limited() {
    // CMPL-009, F-29
    let secret = Prompt::new("secret")
        .tag("admin")
        .argument(PromptArgument::new("who"))
        .complete("who", ["the spy"])
        .handler(|| async { "s" });
    let open = Prompt::new("open")
        .argument(PromptArgument::new("who"))
        .complete("who", ["anybody"])
        .handler(|| async { "o" });
    let server = Server::new("s", "1")
        .prompt(secret)
        .prompt(open)
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")))
        .layer(RateLimit::new(5, Duration::from_secs(60)));
    let ask = |name: &str, argument: Value| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": argument});
    let who = json!({"name": "who", "value": ""});
    for revision in revisions() {
        // The rate limit of earlier sessions has recovered.
        tokio::time::advance(Duration::from_secs(600)).await;
        let mut boss = RawClient::connect_as(
            &server,
            Principal::new("boss").with_issuer("i").with_scopes(["admin"]),
            revision,
            json!({}),
        )
        .await;
        let mut guest = RawClient::connect_as(&server, Principal::new("guest"), revision, json!({})).await;
        tokio::time::advance(Duration::from_secs(600)).await;
        let told = boss.request("completion/complete", ask("secret", who.clone())).await;
        assert_eq!(told["result"]["completion"]["values"], json!(["the spy"]), "{revision}: {told}");
        let hidden = guest.request("completion/complete", ask("secret", who.clone())).await;
        assert_eq!(hidden["error"]["code"], -32602, "{revision}: {hidden}");
        assert!(!hidden.to_string().contains("spy"));
        let wrong =
            guest.request("completion/complete", ask("open", json!({"name": "who", "value": 7}))).await;
        assert_eq!(wrong["error"]["code"], -32602, "{revision}: {wrong}");
        for _ in 0..2 {
            let told = guest.request("completion/complete", ask("open", who.clone())).await;
            assert_eq!(told["result"]["completion"]["values"], json!(["anybody"]));
        }
        let refused = guest.request("completion/complete", ask("open", who.clone())).await;
        assert!(refused.get("error").is_some(), "{revision}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn guarded_results_have_private_cache_scope() {
    // CACH-019
    let server = Server::new("s", "1")
        .resource(Resource::text("x:salaries", "42").tag("admin"))
        .resource(Resource::new("x:mine").handler(|who: Principal| async move { who.subject().to_owned() }))
        .tool(tool("t"))
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")))
        .cache(Duration::from_secs(60), CacheScope::Public);
    let boss = Principal::new("boss").with_issuer("issuer").with_scopes(["admin"]);
    let mut boss = RawClient::connect_as(&server, boss, STATELESS, json!({})).await;
    for (method, params) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": "x:salaries"})),
        ("resources/read", json!({"uri": "x:mine"})),
    ] {
        let result = boss.request(method, params.clone()).await["result"].clone();
        assert_eq!(result["cacheScope"], "private", "{method} {params}: {result}");
    }
}

fn raw(schema: Value) -> Server {
    Server::new("s", "1").tool(
        Tool::new("raw")
            .input_schema(Schema::from(schema))
            .raw_handler(|arguments, _| async move { arguments.text().to_owned() }),
    )
}

#[tokio::test(start_paused = true)]
async fn caller_dependent_results_have_private_cache_scope() {
    // CACH-020
    let server = Server::new("s", "1")
        .resource(Resource::new("x:mine").handler(|who: Principal| async move { who.subject().to_owned() }))
        .resource(Resource::new("x:told").handler(|cx: Context| async move {
            let form = tsugite::protocol::form::FormSchema::new()
                .required_field("word", tsugite::protocol::form::Field::text());
            cx.ask_form(form, "?").await.map(|said| format!("{:?}", said.get("word")))
        }))
        .cache(Duration::from_secs(60), CacheScope::Public);
    for name in ["ada", "eve"] {
        let peer =
            RawClient::connect_as(&server, Principal::new(name), STATELESS, json!({"elicitation": {}})).await;
        let mut peer = peer.on_request(move |_, _| json!({"action": "accept", "content": {"word": name}}));
        for uri in ["x:mine", "x:told"] {
            let read = peer.request("resources/read", json!({"uri": uri})).await;
            assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains(name), "{read}");
            assert_eq!(read["result"]["cacheScope"], "private", "{uri}: {read}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn uri_scheme_follows_rfc_3986() {
    // RSRC-025
    for (uri, fine) in [
        ("git+ssh://host/x", true),
        ("a1.b-c+d:x", true),
        ("X:y", true),
        ("1a:x", false),
        ("a_b:x", false),
        ("a b:x", false),
        (":x", false),
        ("+a:x", false),
        ("ä:x", false),
        ("no-scheme", false),
        ("//host/path", false),
    ] {
        let served = memory::connect(&Server::new("s", "1").resource(Resource::text(uri, "x")));
        assert_eq!(served.is_ok(), fine, "{uri:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_documented_schema_dialects_are_accepted() {
    // SCHM-011
    let documented = include_str!("../../../../../docs/tools.md");
    for (name, dialect, tuple) in [
        ("2020-12", None, "prefixItems"),
        ("2020-12", Some("https://json-schema.org/draft/2020-12/schema"), "prefixItems"),
        ("2019-09", Some("https://json-schema.org/draft/2019-09/schema"), "items"),
        ("draft-07", Some("http://json-schema.org/draft-07/schema#"), "items"),
        ("draft-06", Some("http://json-schema.org/draft-06/schema#"), "items"),
    ] {
        assert!(documented.contains(name), "{name}");
        let pair = json!({"type": "array", tuple: [{"type": "string"}, {"type": "integer"}]});
        let mut schema = json!({"type": "object", "properties": {"pair": pair}});
        if let Some(dialect) = dialect {
            schema["$schema"] = json!(dialect);
        }
        let mut peer = peer(&raw(schema), STATELESS).await;
        let fits = peer.call("raw", json!({"pair": ["a", 1]})).await;
        assert_eq!(fits["result"].get("isError"), None, "{name}: {fits}");
        let refused = peer.call("raw", json!({"pair": ["a", "b"]})).await;
        assert_eq!(refused["result"]["isError"], true, "{name}: {refused}");
    }
    for (wrong, why) in [
        (json!({"type": "object", "properties": 7}), "properties"),
        (json!({"type": "object", "required": "all"}), "required"),
        (json!({"type": "object", "$schema": "https://example.com/my-own-dialect"}), "dialect"),
        (json!({"type": "object", "$schema": 7}), "dialect"),
    ] {
        let error = memory::connect(&raw(wrong.clone())).err().unwrap_or_else(|| panic!("{wrong}"));
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
    // A schema generated from a type is of 2020-12, named or not.
    let typed = Tool::new("typed").handler(|Args(count): Args<Count>| async move { count.count });
    let list =
        peer(&Server::new("s", "1").tool(typed), STATELESS).await.request("tools/list", json!({})).await;
    let dialect = list["result"]["tools"][0]["inputSchema"].get("$schema");
    assert!(dialect.is_none_or(|dialect| dialect.as_str().unwrap().contains("2020-12")), "{list}");
}

#[tokio::test(start_paused = true)]
async fn invalid_output_schema_is_refused() {
    // SCHM-010
    for wrong in [
        json!({"type": "object", "properties": 7}),
        json!({"type": "object", "$schema": "https://example.com/my-own-dialect"}),
    ] {
        let tool =
            Tool::new("t").output_schema(Schema::from(wrong.clone())).raw_handler(|_, _| async { "x" });
        assert!(memory::connect(&Server::new("s", "1").tool(tool)).is_err(), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn tool_may_link_to_a_resource_that_is_not_listed() {
    // TOOL-026
    let link = || async { tsugite::protocol::ResourceLink::new("file:///report.txt", "report") };
    let server =
        Server::new("s", "1").tool(Tool::new("link").handler(link)).resource(Resource::text("x:y", "z"));
    for revision in revisions().filter(|revision| revision.has_elicitation()) {
        let mut peer = peer(&server, revision).await;
        let called = peer.call("link", json!({})).await;
        let link = json!({"type": "resource_link", "uri": "file:///report.txt", "name": "report"});
        assert_eq!(called["result"]["content"], json!([link]), "{revision}");
        assert_eq!(names(&peer.request("resources/list", json!({})).await, "resources", "uri"), ["x:y"]);
    }
}
