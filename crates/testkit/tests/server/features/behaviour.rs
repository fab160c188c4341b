//! What a server offers: resources, prompts, completion, pages, changes, mounting, who sees what.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tower_layer::layer_fn;
use tower_service::Service;
use tsugite::prelude::*;
use tsugite::protocol::Meta;
use tsugite::protocol::caching::CacheScope;
use tsugite::revision::RpcError;
use tsugite::server::ListKind;
use tsugite::server::layer::{self, ConcurrencyLimit, Next, RateLimit, Timeout};
use tsugite::transport::memory;
use tsugite_testkit::fixture;
use tsugite_testkit::log::Warnings;
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

fn revision(name: &str) -> Revision {
    name.parse().unwrap()
}

async fn peer(server: &Server, revision: Revision) -> RawClient {
    RawClient::connect(server, revision, json!({})).await
}

fn tool(name: &str) -> Tool {
    let said = name.to_owned();
    Tool::new(name).handler(move || {
        let said = said.clone();
        async move { said }
    })
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    owner: String,
    id: u32,
}

fn library() -> Server {
    let notes = Resource::template("notes://{owner}/{id}")
        .name("note")
        .complete("owner", ["ada", "alan", "grace"])
        .handler(|Args(note): Args<Note>| async move {
            (note.id < 10).then(|| format!("{} {}", note.owner, note.id))
        });
    Server::new("library", "1")
        .resource(Resource::text("notes://motto", "Measure twice.").mime_type("text/plain"))
        .resource(Resource::bytes("notes://seal", *b"\x00\xff\x10").mime_type("application/x-seal"))
        .resource(Resource::new("notes://json").handler(|| async { tsugite::server::Json(json!({"a": 1})) }))
        .resource(notes)
}

fn names<'a>(response: &'a Value, list: &str, member: &str) -> Vec<&'a str> {
    let items = response["result"][list].as_array().unwrap_or_else(|| panic!("no {list} in {response}"));
    items.iter().map(|item| item[member].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn unknown_resource_has_the_error_code_of_its_revision() {
    // RSRC-016, RSRC-020
    for revision in revisions() {
        let mut peer = peer(&library(), revision).await;
        let code = if revision.is_stateless() { -32602 } else { -32002 };
        let long = format!("notes://{}", "x".repeat(1 << 20));
        for uri in [
            "notes://nothing",
            "notes://ada/11",
            "other:thing",
            "",
            "notes://../7",
            "notes://%2e%2e/7",
            "notes://a%2fb/7",
            "notes://a%00/7",
            &long,
        ] {
            let read = peer.request("resources/read", json!({"uri": uri})).await;
            assert_eq!(read["error"]["code"], code, "{uri:.40} on {revision}: {read}");
            assert!(read.to_string().len() < 1000, "a long URI is not echoed");
        }
        // What does not fit the handler's type is the caller's mistake.
        let read = peer.request("resources/read", json!({"uri": "notes://ada/many"})).await;
        assert_eq!(read["error"]["code"], -32602, "{read}");
    }
}

#[tokio::test]
async fn directory_resource_serves_only_its_own_files() {
    let folder = std::env::temp_dir().join(format!("tsugite-offering-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inner")).unwrap();
    std::fs::write(folder.join("a b.txt"), "words").unwrap();
    std::fs::write(folder.join("inner/p.png"), [0x89, 0x50]).unwrap();
    std::fs::write(folder.join(".secret"), "hidden").unwrap();
    let server = Server::new("docs", "1").resource(Resource::directory("docs:///", &folder)).page_size(1);
    let mut peer = peer(&server, STATELESS).await;
    let first = peer.request("resources/list", json!({})).await;
    assert_eq!(names(&first, "resources", "uri"), ["docs:///a%20b.txt"]);
    let second = peer.request("resources/list", json!({"cursor": first["result"]["nextCursor"]})).await;
    assert_eq!(names(&second, "resources", "uri"), ["docs:///inner/p.png"]);
    assert_eq!(second["result"].get("nextCursor"), None);
    let read = peer.request("resources/read", json!({"uri": "docs:///a%20b.txt"})).await;
    let expected = json!([{"uri": "docs:///a%20b.txt", "mimeType": "text/plain", "text": "words"}]);
    assert_eq!(read["result"]["contents"], expected);
    let read = peer.request("resources/read", json!({"uri": "docs:///inner/p.png"})).await;
    assert_eq!(read["result"]["contents"][0]["blob"], "iVA=");
    for uri in ["docs:///.secret", "docs:////etc/passwd", "docs:///inner/../../x", "docs:///inner"] {
        let read = peer.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["error"]["code"], -32602, "{uri}: {read}");
        assert!(
            !read.to_string().contains("tsugite-offering"),
            "the error shows the path of the files: {read}"
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn directory_resource_follows_no_link_out_of_it() {
    let folder = std::env::temp_dir().join(format!("tsugite-linking-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("way_out")).unwrap();
    let server = Server::new("docs", "1").resource(Resource::directory("docs:///", &folder));
    let mut peer = peer(&server, STATELESS).await;
    let list = peer.request("resources/list", json!({})).await;
    assert_eq!(list["result"]["resources"], json!([]));
    let read = peer.request("resources/read", json!({"uri": "docs:///way_out"})).await;
    assert_eq!(read["error"]["code"], -32602, "{read}");
    assert!(!read.to_string().contains("tsugite-linking"), "the error shows the path of the files: {read}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn tampered_cursors_are_refused() {
    // PAGE-008
    let server =
        (0..5).fold(Server::new("s", "1").page_size(2), |server, n| server.tool(tool(&format!("t{n}"))));
    for revision in revisions() {
        let mut peer = peer(&server, revision).await;
        let (mut seen, mut cursor) = (Vec::new(), None::<Value>);
        loop {
            let params = cursor.map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let page = peer.request("tools/list", params).await;
            seen.extend(names(&page, "tools", "name").into_iter().map(str::to_owned));
            cursor = page["result"].get("nextCursor").cloned();
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["t0", "t1", "t2", "t3", "t4"], "{revision}");
        let first = peer.request("tools/list", json!({})).await;
        let cursor = first["result"]["nextCursor"].as_str().unwrap().to_owned();
        for bad in ["", "2", &cursor[1..], &format!("{cursor}A"), &"A".repeat(100_000)] {
            let refused = peer.request("tools/list", json!({"cursor": bad})).await;
            assert_eq!(refused["error"]["code"], -32602, "{bad:.20}: {refused}");
        }
        let refused = peer.request("tools/list", json!({"cursor": 7})).await;
        assert_eq!(refused["error"]["code"], -32602);
    }
    // A cursor of another list is none of this one, and one whose place was removed still leads on.
    let server = server.prompt(Prompt::new("p").handler(|| async { "p" }));
    let mut peer = peer(&server, STATELESS).await;
    let cursor = peer.request("tools/list", json!({})).await["result"]["nextCursor"].clone();
    assert_eq!(peer.request("prompts/list", json!({"cursor": cursor})).await["error"]["code"], -32602);
    assert!(server.remove(ListKind::Tool, "t0"));
    let page = peer.request("tools/list", json!({"cursor": cursor})).await;
    assert_eq!(names(&page, "tools", "name"), ["t2", "t3"]);
}

#[tokio::test(start_paused = true)]
async fn resource_updates_reach_subscribers() {
    for revision in revisions() {
        let server = library();
        let mut peer = peer(&server, revision).await;
        server.notify_resource_updated("notes://motto");
        if revision.is_stateless() {
            let wish =
                json!({"resourceSubscriptions": ["notes://motto", "notes://ada/1", "notes://nothing"]});
            let id = peer.send_request("subscriptions/listen", json!({"notifications": wish}));
            let granted = &peer.next().await["params"]["notifications"];
            assert_eq!(granted, &json!({"resourceSubscriptions": ["notes://motto", "notes://ada/1"]}));
            server.notify_resource_updated("notes://seal");
            server.notify_resource_updated("notes://ada/1");
            let news = peer.next().await;
            assert_eq!(
                (&news["method"], &news["params"]["uri"]),
                (&json!("notifications/resources/updated"), &json!("notes://ada/1"))
            );
            // The server ends it gracefully, with its result.
            peer.close();
            let ended = peer.wait_for_response(id).await;
            assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
            server.notify_resource_updated("notes://ada/1");
            assert!(peer.notifications.is_empty());
        } else {
            assert!(
                peer.request("resources/subscribe", json!({"uri": "notes://motto"}))
                    .await
                    .get("result")
                    .is_some()
            );
            let refused = peer.request("resources/subscribe", json!({"uri": "notes://nothing"})).await;
            assert_eq!(refused["error"]["code"], -32002);
            server.notify_resource_updated("notes://seal");
            server.notify_resource_updated("notes://motto");
            let news = peer.next().await;
            assert_eq!(
                (&news["method"], &news["params"]["uri"]),
                (&json!("notifications/resources/updated"), &json!("notes://motto"))
            );
            assert!(
                peer.request("resources/unsubscribe", json!({"uri": "notes://motto"}))
                    .await
                    .get("result")
                    .is_some()
            );
            server.notify_resource_updated("notes://motto");
            assert!(peer.request("ping", json!({})).await.get("result").is_some());
            assert!(peer.notifications.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_updates_are_coalesced_for_slow_readers() {
    let server = Server::new("s", "1").tool(tool("a")).resource(Resource::text("x:y", "z"));
    let mut peer = peer(&server, revision("2025-06-18")).await;
    peer.request("resources/subscribe", json!({"uri": "x:y"})).await;
    // Far more than the queue of a client that does not read may hold.
    for _ in 0..100_000 {
        server.notify_resource_updated("x:y");
    }
    let id = peer.send_request("ping", json!({}));
    peer.wait_for_response(id).await;
    assert!(peer.notifications.len() < 10_000, "{}", peer.notifications.len());
}

fn reserved_meta() -> Meta {
    let mut meta = Meta::new();
    meta.insert("io.modelcontextprotocol/x", "x");
    meta
}

#[tokio::test(flavor = "current_thread")]
async fn refused_output_is_logged_with_its_item() {
    let warnings = Warnings::capture();
    let server = fixture::by_name("failing").unwrap();
    let mut peer = peer(&server, Revision::NEWEST).await;
    peer.request("prompts/get", json!({"name": "bad_uri"})).await;
    peer.request("tools/call", json!({"name": "reserved_later"})).await;
    let log = warnings.take_with_fields().join("\n");
    for part in ["bad_uri", "\"no scheme\" is not a URI", "reserved_later", "io.modelcontextprotocol/x"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn registration_error_names_its_cause() {
    // TOOL-042, SCHM-006
    let itself = Server::new("s", "1");
    let cases = [
        (Server::new("s", "1").tool(Tool::new("x")), "no handler"),
        (Server::new("s", "1").tool(tool("x")).tool(tool("x")), "registered twice"),
        (Server::new("s", "1").tool(tool("")), "no name"),
        (Server::new("s", "1").resource(Resource::text("motto", "x")), "no URI scheme"),
        (
            Server::new("s", "1").resource(Resource::template("a://{x}{y}").handler(|| async { "" })),
            "template",
        ),
        (
            Server::new("s", "1")
                .resource(Resource::template("a://{x}").handler(|| async { "" }))
                .resource(Resource::template("a://{y}").handler(|| async { "" })),
            "fit both",
        ),
        (Server::new("s", "1").resource(Resource::directory("d:///", "/nowhere/at/all")), "directory"),
        (Server::new("s", "1").prompt(prompts_with_stray_completion()), "not one of its arguments"),
        (Server::new("s", "1").tool(tool("x").meta(reserved_meta())), "reserved by the protocol"),
        (
            Server::new("s", "1").prompt(Prompt::new("x").meta(reserved_meta()).handler(|| async { "p" })),
            "reserved by the protocol",
        ),
        (
            Server::new("s", "1").resource(Resource::text("x:y", "z").meta(reserved_meta())),
            "reserved by the protocol",
        ),
        (itself.clone().mount("a", itself), "contain itself"),
        (Server::new("s", "1").mount("a b", Server::new("t", "1")), "cannot be mounted"),
        (
            Server::new("s", "1").mount("a", Server::new("t", "1")).mount("a", Server::new("u", "1")),
            "two servers",
        ),
    ];
    for (server, why) in cases {
        let error = tsugite::transport::memory::connect(&server).err().unwrap_or_else(|| panic!("{why}"));
        assert!(error.is_registration() && error.to_string().contains(why), "{why}: {error}");
    }
}

fn prompts_with_stray_completion() -> Prompt {
    Prompt::new("p").complete("x", ["y"]).handler(|| async { "" })
}

fn office() -> Server {
    Server::new("office", "1")
        .tool(tool("open"))
        .tool(tool("fire").tag("admin"))
        .resource(Resource::text("x:salaries", "42").tag("admin"))
        .resource(Resource::text("x:menu", "soup"))
        .prompt(Prompt::new("boss").tag("admin").handler(|| async { "b" }))
        .cache(Duration::from_secs(60), CacheScope::Public)
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")))
}

#[tokio::test(start_paused = true)]
async fn hidden_items_are_unknown_to_other_callers() {
    // TOOL-005, CACH-019, F-24, F-27, F-28
    let server = office();
    let admin = || Principal::new("root").with_issuer("issuer").with_scopes(["admin"]);
    for revision in revisions() {
        let mut boss = RawClient::connect_as(&server, admin(), revision, json!({})).await;
        let mut guest = RawClient::connect_as(&server, Principal::new("guest"), revision, json!({})).await;
        for _ in 0..2 {
            assert_eq!(
                names(&boss.request("tools/list", json!({})).await, "tools", "name"),
                ["open", "fire"]
            );
            let list = guest.request("tools/list", json!({})).await;
            assert_eq!(names(&list, "tools", "name"), ["open"]);
            if revision.is_stateless() {
                assert_eq!(
                    (&list["result"]["ttlMs"], &list["result"]["cacheScope"]),
                    (&json!(60_000), &json!("private"))
                );
            }
        }
        assert!(boss.call("fire", json!({})).await.get("result").is_some());
        let (hidden, unknown) = (guest.call("fire", json!({})).await, guest.call("nothing", json!({})).await);
        assert_eq!(hidden["error"]["code"], unknown["error"]["code"]);
        assert_eq!(names(&guest.request("prompts/list", json!({})).await, "prompts", "name"), [""; 0]);
        assert!(guest.request("prompts/get", json!({"name": "boss"})).await.get("error").is_some());
        let read = guest.request("resources/read", json!({"uri": "x:salaries"})).await;
        assert!(read.get("error").is_some(), "{read}");
        if revision.is_stateless() {
            let wish = json!({"resourceSubscriptions": ["x:salaries", "x:menu"]});
            guest.send_request("subscriptions/listen", json!({"notifications": wish}));
            let granted = guest.next().await;
            assert_eq!(granted["params"]["notifications"]["resourceSubscriptions"], json!(["x:menu"]));
        } else {
            assert!(
                guest
                    .request("resources/subscribe", json!({"uri": "x:salaries"}))
                    .await
                    .get("error")
                    .is_some()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn visibility_rules_of_mounted_servers_apply() {
    // TOOL-005
    for revision in revisions() {
        let outer = Server::new("outer", "1").tool(tool("own"));
        let admin = Principal::new("root").with_issuer("issuer").with_scopes(["admin"]);
        let mut boss = RawClient::connect_as(&outer, admin, revision, json!({})).await;
        let mut guest = RawClient::connect_as(&outer, Principal::new("guest"), revision, json!({})).await;
        for peer in [&mut boss, &mut guest] {
            assert_eq!(names(&peer.request("tools/list", json!({})).await, "tools", "name"), ["own"]);
        }
        // Mounted while they are connected.
        let _outer = outer.mount("office", office());
        for _ in 0..2 {
            let list = boss.request("tools/list", json!({})).await;
            assert_eq!(names(&list, "tools", "name"), ["own", "office_open", "office_fire"]);
            let list = guest.request("tools/list", json!({})).await;
            assert_eq!(names(&list, "tools", "name"), ["own", "office_open"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn layers_wrap_every_request() {
    let slow = Tool::new("slow").handler(|| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        "late"
    });
    let panics = Tool::new("panics").handler(|| async {
        if true {
            panic!("on purpose");
        }
    });
    let server = Server::new("s", "1")
        .tool(tool("fast"))
        .tool(slow)
        .tool(panics)
        .layer(ConcurrencyLimit::new(8))
        .layer(Timeout::new(Duration::from_secs(30)));
    for revision in revisions() {
        let mut peer = peer(&server, revision).await;
        let fast = peer.call("fast", json!({})).await;
        assert_eq!(fast["result"]["content"][0]["text"], "fast", "{fast}");
        let slow = peer.call("slow", json!({})).await;
        assert!(slow["error"]["message"].as_str().unwrap().contains("took longer"), "{slow}");
        assert_eq!(peer.call("panics", json!({})).await["error"]["code"], -32603);
        assert_eq!(peer.call("unknown", json!({})).await["error"]["code"], -32602);
        assert_eq!(names(&peer.request("tools/list", json!({})).await, "tools", "name").len(), 3);
        let id = peer.send_request("tools/call", json!({"name": "slow"}));
        peer.notify("notifications/cancelled", json!({"requestId": id}));
        assert!(peer.request("tools/list", json!({})).await.get("result").is_some());
    }
}

#[derive(Clone)]
struct Noted(Arc<Mutex<Vec<String>>>, Next);

impl Service<layer::LayerRequest> for Noted {
    type Response = layer::LayerResponse;
    type Error = RpcError;
    type Future = <Next as Service<layer::LayerRequest>>::Future;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<(), RpcError>> {
        self.1.poll_ready(cx)
    }

    fn call(&mut self, request: layer::LayerRequest) -> Self::Future {
        self.0.lock().unwrap().push(request.method().to_owned());
        let answer = self.1.call(request);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            answer.await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn layers_see_initialize_and_may_be_slow() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    let server = Server::new("s", "1").tool(tool("t")).layer(layer_fn(move |next| Noted(note.clone(), next)));
    let hello = |revision: &str| {
        let client = json!({"name": "p", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params}).to_string()
    };
    for revision in revisions().filter(|revision| !revision.is_stateless()) {
        let mut wire = memory::connect(&server).unwrap();
        wire.send(r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#);
        assert!(wire.next().await.contains("\"result\":{}"));
        wire.send(hello(&revision.to_string()));
        assert!(wire.next().await.contains(&format!("\"protocolVersion\":\"{revision}\"")));
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), ["ping", "initialize"]);
    }
    let hurried = Server::new("s", "1").layer(RateLimit::new(1, Duration::from_secs(10)));
    let mut wire = memory::connect(&hurried).unwrap();
    for refused in [false, true] {
        wire.send(hello("2025-11-25"));
        assert_eq!(wire.next().await.contains("\"error\""), refused);
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limit_refuses_until_time_has_passed() {
    let server = Server::new("s", "1")
        .tool(tool("t"))
        .layer(RateLimit::new(2, Duration::from_secs(10)).per_principal());
    let mut ada = RawClient::connect_as(&server, Principal::new("ada"), STATELESS, json!({})).await;
    let mut eve = RawClient::connect_as(&server, Principal::new("eve"), STATELESS, json!({})).await;
    assert!(ada.call("t", json!({})).await.get("result").is_some());
    assert!(ada.call("t", json!({})).await.get("result").is_some());
    let refused = ada.call("t", json!({})).await;
    assert_eq!(refused["error"]["data"]["retryAfterMs"], 5_000, "{refused}");
    assert!(eve.call("t", json!({})).await.get("result").is_some(), "everybody has their own count");
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(ada.call("t", json!({})).await.get("result").is_some());
    assert!(ada.call("t", json!({})).await.get("error").is_some());
}

#[tokio::test(start_paused = true)]
async fn concurrency_limit_queues_calls() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (running.clone(), most.clone());
    let busy = Tool::new("busy").handler(move || {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            // The first poll of a handler needs no permit.
            tokio::task::yield_now().await;
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            "done"
        }
    });
    for server in [
        Server::new("s", "1").tool(busy.clone()).layer(ConcurrencyLimit::new(3)),
        Server::new("s", "1").tool(busy).max_concurrent_handlers(3),
    ] {
        most.store(0, Ordering::SeqCst);
        let mut peer = peer(&server, STATELESS).await;
        let ids: Vec<_> = (0..10).map(|_| peer.send_request("tools/call", json!({"name": "busy"}))).collect();
        for id in ids {
            assert!(peer.wait_for_response(id).await.get("result").is_some());
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn tool_timeout_excludes_time_spent_on_questions() {
    struct Name;
    impl Form for Name {
        fn schema() -> tsugite::protocol::form::FormSchema {
            Default::default()
        }

        fn read(_: &tsugite::protocol::OrderedMap<tsugite::server::FieldValue>) -> Result<Self, String> {
            Ok(Self)
        }
    }
    let slow = Tool::new("slow").timeout(Duration::from_secs(5)).handler(|| async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        "late"
    });
    let asks = Tool::new("asks").timeout(Duration::from_secs(5)).handler(|cx: Context| async move {
        cx.ask::<Name>("?").await?;
        Ok::<_, HandlerError>("answered")
    });
    let server = Server::new("s", "1").tool(slow).tool(asks);
    let mut peer = RawClient::connect(&server, revision("2025-11-25"), json!({"elicitation": {}})).await;
    let late = peer.call("slow", json!({})).await;
    assert_eq!(late["result"]["isError"], true, "{late}");
    assert_eq!(late["result"]["content"][0]["text"], "the tool took longer than 5s");
    let id = peer.send_request("tools/call", json!({"name": "asks"}));
    let question = peer.next().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    peer.send(
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}),
    );
    assert_eq!(peer.wait_for_response(id).await["result"]["content"][0]["text"], "answered");
}

#[tokio::test(start_paused = true)]
async fn invalid_item_is_not_added_to_a_running_server() {
    #[derive(Clone)]
    struct Store;
    let needs = |name: &str| Tool::new(name).handler(|_: tsugite::server::State<Store>| async { "stored" });
    let server = Server::new("s", "1").tool(tool("first"));
    let mut client = peer(&server, STATELESS).await;
    // The builder cannot return the error: it is logged, and the item is not offered.
    let _ = server.clone().tool(needs("late")).tool(Tool::new("empty")).tool(tool("second"));
    assert!(server.add(needs("added")).is_err());
    assert!(server.change(|changes| changes.add(needs("changed"))).is_err());
    let listed = client.request("tools/list", json!({})).await;
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["first", "second"]);
    // Serving it again fails, with each mistake by name.
    let error = memory::connect(&server).map(drop).unwrap_err().to_string();
    assert!(error.contains("late") && error.contains("empty"), "{error}");
    // With the state it can be added.
    let server = Server::new("s", "1").tool(tool("first"));
    let mut client = peer(&server, STATELESS).await;
    let _ = server.clone().state(Store).tool(needs("late"));
    assert_eq!(client.request("tools/list", json!({})).await["result"]["tools"][1]["name"], "late");
}

#[tokio::test(start_paused = true)]
async fn running_server_refuses_a_wrong_tool_when_it_is_added() {
    let server = Server::new("s", "1").tool(tool("one"));
    let mut client = peer(&server, revision("2025-11-25")).await;
    let with_schema = |schema: Value| {
        Tool::new("two").input_schema(tsugite::protocol::Schema::from(schema)).raw_handler(|_, _| async {})
    };
    let wrong = || {
        [
            ("a name twice", tool("one")),
            ("no schema", with_schema(json!({"type": "thing"}))),
            ("no object", with_schema(json!({"type": "string"}))),
            ("the network", with_schema(json!({"type": "object", "$ref": "http://example.com/schema"}))),
            ("no handler", Tool::new("two")),
        ]
    };
    for (why, tool) in wrong() {
        let error = server.add(tool).unwrap_err();
        assert!(error.is_registration(), "{why}: {error}");
    }
    for (why, tool) in wrong() {
        let refused = server.change(|changes| changes.add(tool));
        assert!(refused.is_err_and(|error| error.is_registration()), "{why}");
    }
    // A wrong tool does not undo the rest of a change.
    server.change(|changes| {
        assert!(changes.add(tool("one")).is_err());
        changes.add(tool("three")).unwrap();
    });
    let listed = client.request("tools/list", json!({})).await;
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["one", "three"]);
    assert_eq!(client.notifications.len(), 1, "{:?}", client.notifications);
}
