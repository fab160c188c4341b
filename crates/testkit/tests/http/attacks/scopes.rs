//! Tokens with too few scopes.

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tsugite::prelude::*;
use tsugite::protocol::TaskSupport;
use tsugite::server::ListKind;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, TestServer, initialize_request};

use super::{Count, OLD, counting, request, text};
use crate::protected::{Issuer, call, open_session, with_token};

const METADATA: &str = "resource_metadata=\"https://notes.example/.well-known/oauth-protected-resource/mcp\"";

/// A server with a tool that needs two scopes, and one that needs none.
fn notes(count: &Count) -> Server {
    let writer = counting("write", count).scope("notes:read").scope("notes:write");
    Server::new("s", "1")
        .tool(writer)
        .tool(counting("open", count))
        .http(Http::new().public_url("https://notes.example/mcp"))
        .authorize(Issuer::named())
}

#[tokio::test]
async fn missing_scope_is_challenged_in_every_era() {
    // A-05, ARS-020, ARS-021, ARS-022, ARS-023
    let count = Count::default();
    let serving = TestServer::start(&notes(&count)).await;
    let token = "sub=ann;scope=notes:read+profile+offline_access";
    // Clients of 2026-07-28 add scopes to those that they have; older ones would lose them.
    let (needed, united) = ("notes:read notes:write", "notes:read notes:write profile");
    let mut requests = vec![(Request::stateless(call("write")), needed)];
    for revision in OLD {
        let session = open_session(&serving, revision, token).await;
        requests.push((Request::post(&call("write")).session(&session), united));
    }
    for (request, scopes) in requests {
        let refused = serving.send(with_token(request.clone(), token)).await;
        assert_eq!(refused.status, 403, "{request:?} {refused:?}");
        let expected = format!("Bearer error=\"insufficient_scope\", scope=\"{scopes}\", {METADATA}");
        assert_eq!(refused.header("www-authenticate"), Some(&*expected));
        assert!(refused.json().get("id").is_none_or(Value::is_null), "{refused:?}");
        let stepped_up = serving.send(with_token(request, "sub=ann;scope=notes:write+notes:read")).await;
        assert_eq!(text(&stepped_up), "ran");
    }
    assert_eq!(count.get(), 1 + OLD.len());
}

#[tokio::test]
async fn missing_scope_is_challenged_without_sessions() {
    // ARS-024, SEC-027
    let http = Http::new().sessions(false).public_url("https://notes.example/mcp");
    let serving = TestServer::start(&notes(&Count::default()).http(http)).await;
    for revision in OLD {
        let asked = Request::post(&call("write")).header("MCP-Protocol-Version", revision);
        let refused = serving.send(with_token(asked, "sub=ann")).await;
        let challenge = refused.header("www-authenticate").unwrap_or_default();
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(challenge.contains("scope=\"notes:read notes:write\""), "{challenge}");
    }
}

#[tokio::test]
async fn missing_scope_is_challenged_over_http_sse() {
    let count = Count::default();
    let http = Http::new().http_sse().public_url("https://notes.example/mcp");
    let serving = TestServer::start(&notes(&count).http(http)).await;
    let mut stream = serving.connect().await;
    let opening = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    assert_eq!(stream.send(with_token(opening, "sub=ann")).await.status, 200);
    let path = stream.next_event().await.unwrap().data;
    let post = |message: &Value, token: &str| with_token(Request::post(message).path(&path), token);
    assert_eq!(serving.send(post(&initialize_request("2024-11-05", json!({})), "sub=ann")).await.status, 202);
    stream.next_message().await.unwrap();
    let refused = serving.send(post(&call("write"), "sub=ann")).await;
    let challenge = refused.header("www-authenticate").unwrap_or_default();
    assert!(refused.status == 403 && challenge.contains("scope=\"notes:read notes:write\""), "{refused:?}");
    let granted = "sub=ann;scope=notes:read+notes:write";
    assert_eq!(serving.send(post(&call("write"), granted)).await.status, 202);
    assert!(stream.next_message().await.unwrap().to_string().contains("ran"));
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn item_that_needs_a_scope_stays_listed() {
    let serving = TestServer::start(&notes(&Count::default())).await;
    let list = Request::stateless(request(1, "tools/list", json!({})));
    let listed = serving.send(with_token(list, "sub=ann")).await;
    assert!(listed.body.contains("\"write\"") && listed.body.contains("\"open\""), "{listed:?}");
}

#[tokio::test]
async fn result_of_a_task_needs_the_scopes_of_its_tool() {
    let writer = counting("write", &Count::default()).scope("notes:write").task(TaskSupport::Required);
    let server = Server::new("s", "1").tool(writer).authorize(Issuer::named());
    let serving = TestServer::start(&server.http(Http::new().public_url("https://notes.example/mcp"))).await;
    let granted = "sub=ann;scope=notes:write";
    let session = open_session(&serving, "2025-11-25", granted).await;
    let send = |message: Value, token: &'static str| {
        serving.send(with_token(Request::post(&message).session(&session), token))
    };
    let params = json!({"name": "write", "arguments": {}, "task": {}});
    let created = send(request(1, "tools/call", params), granted).await;
    let id = json!({"taskId": created.json()["result"]["task"]["taskId"].as_str().unwrap()});
    for method in ["tasks/get", "tasks/result"] {
        let refused = send(request(2, method, id.clone()), "sub=ann").await;
        let challenge = refused.header("www-authenticate").unwrap_or_default();
        assert!(refused.status == 403 && challenge.contains("notes:write"), "{method} {refused:?}");
    }
    let fetched = send(request(3, "tasks/result", id), granted).await;
    assert!(fetched.status == 200 && fetched.body.contains("ran"), "{fetched:?}");
}

/// Creates a task of a tool, and returns the params with its id.
async fn create_task(serving: &TestServer, session: &str, tool: &str, token: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}, "task": {}});
    let post = Request::post(&request(1, "tools/call", params)).session(session);
    let created = serving.send(with_token(post, token)).await;
    let id = created.json()["result"]["task"]["taskId"].as_str().map(str::to_owned);
    json!({"taskId": id.unwrap_or_else(|| panic!("{created:?}"))})
}

#[tokio::test]
async fn task_of_a_mounted_or_removed_tool_needs_its_scopes() {
    //
    let writer = |name| counting(name, &Count::default()).scope("notes:write").task(TaskSupport::Required);
    // An own tool has the name that the mounted one has in its server.
    let plain = counting("write", &Count::default());
    let server = Server::new("s", "1").tool(plain).mount("n", Server::new("n", "1").tool(writer("write")));
    let server = server.tool(writer("gone")).authorize(Issuer::named());
    let server = server.http(Http::new().public_url("https://notes.example/mcp"));
    let serving = TestServer::start(&server).await;
    let granted = "sub=ann;scope=notes:write";
    let session = open_session(&serving, "2025-11-25", granted).await;
    let tasks = [
        create_task(&serving, &session, "n_write", granted).await,
        create_task(&serving, &session, "gone", granted).await,
    ];
    assert!(server.remove(ListKind::Tool, "gone"));
    for id in tasks {
        for method in ["tasks/get", "tasks/result"] {
            let post = || Request::post(&request(2, method, id.clone())).session(&session);
            let refused = serving.send(with_token(post(), "sub=ann")).await;
            let challenge = refused.header("www-authenticate").unwrap_or_default();
            assert!(refused.status == 403 && challenge.contains("notes:write"), "{method} {refused:?}");
            let fetched = serving.send(with_token(post(), granted)).await;
            assert!(fetched.status == 200 && fetched.json()["error"].is_null(), "{fetched:?}");
        }
    }
}

#[tokio::test]
async fn task_of_a_hidden_tool_is_unknown() {
    // F-32
    let writer = counting("write", &Count::default()).task(TaskSupport::Required);
    let server = Server::new("s", "1")
        .tool(writer)
        .tool(counting("open", &Count::default()).task(TaskSupport::Required))
        .visible(|who, item| item.name != "write" || who.is_some_and(|who| who.has_scope("notes:write")))
        .authorize(Issuer::named());
    let server = server.http(Http::new().public_url("https://notes.example/mcp"));
    let serving = TestServer::start(&server).await;
    let granted = "sub=ann;scope=notes:write";
    let session = open_session(&serving, "2025-11-25", granted).await;
    let id = create_task(&serving, &session, "write", granted).await;
    let open = create_task(&serving, &session, "open", granted).await;
    let send = |method: &'static str, params: Value, token: &'static str| {
        serving.send(with_token(Request::post(&request(2, method, params)).session(&session), token))
    };
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let unknown = send(method, id.clone(), "sub=ann").await;
        assert_eq!(unknown.json()["error"]["code"], -32602, "{method} {unknown:?}");
    }
    let listed = |response: tsugite_testkit::http::Response| {
        let tasks = response.json()["result"]["tasks"].as_array().unwrap().clone();
        tasks.into_iter().map(|task| json!({"taskId": task["taskId"]})).collect::<Vec<_>>()
    };
    assert_eq!(listed(send("tasks/list", json!({}), "sub=ann").await), [open]);
    assert_eq!(listed(send("tasks/list", json!({}), granted).await).len(), 2);
}

#[tokio::test]
async fn only_the_element_of_a_batch_fails() {
    let count = Count::default();
    let serving = TestServer::start(&notes(&count)).await;
    let session = open_session(&serving, "2025-03-26", "sub=ann").await;
    let element = |id: u32, name: &str| request(id, "tools/call", json!({"name": name, "arguments": {}}));
    let batch = json!([element(1, "open"), element(2, "write")]);
    let answered = serving.send(with_token(Request::post(&batch).session(&session), "sub=ann")).await;
    assert_eq!((answered.status, answered.header("www-authenticate")), (200, None));
    let responses = answered.json();
    let by_id = |id| responses.as_array().unwrap().iter().find(|response| response["id"] == id).unwrap();
    assert_eq!(by_id(1)["result"]["content"][0]["text"], "ran");
    assert_eq!(by_id(2)["error"]["code"], -32602);
    assert_eq!(by_id(2)["error"]["data"], json!({"scopes": ["notes:read", "notes:write"]}));
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn missing_scope_is_an_error_off_http() {
    // ARS-003: no token is needed there.
    let count = Count::default();
    let server = notes(&count);
    let ann = |scopes: &[&str]| Principal::new("ann").with_scopes(scopes.iter().copied());
    for client in [Client::in_process(&server), Client::in_process(&server).principal(ann(&["notes:read"]))] {
        let client = client.await.unwrap();
        let error = client.call::<String>("write", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("notes:write"), "{error}");
    }
    let client = Client::in_process(&server).principal(ann(&["notes:read", "notes:write"])).await.unwrap();
    assert_eq!(client.call::<String>("write", json!({})).await.unwrap(), "ran");
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn broader_scope_includes_the_needed_one() {
    // A-06, ARS-025
    let server = notes(&Count::default())
        .scope_implies(|granted, needed| granted == "notes:*" && needed.starts_with("notes:"));
    let serving = TestServer::start(&server).await;
    let call = || Request::stateless(call("write"));
    assert_eq!(text(&serving.send(with_token(call(), "sub=ann;scope=notes:*")).await), "ran");
    assert_eq!(serving.send(with_token(call(), "sub=ann;scope=files:*")).await.status, 403);
}

#[tokio::test]
async fn hidden_item_is_unknown_whatever_its_scopes() {
    //
    let count = Count::default();
    let server = notes(&count)
        .visible(|who, item| item.name == "open" || who.is_some_and(|who| who.subject() == "root"));
    let serving = TestServer::start(&server).await;
    for token in ["sub=eve", "sub=eve;scope=notes:read+notes:write"] {
        let hidden = serving.send(with_token(Request::stateless(call("write")), token)).await;
        let absent = serving.send(with_token(Request::stateless(call("nosuch")), token)).await;
        assert_eq!((hidden.status, hidden.header("www-authenticate")), (absent.status, None));
        assert_eq!(hidden.body.replace("write", "nosuch"), absent.body);
    }
    let root = "sub=root;scope=notes:read+notes:write";
    assert_eq!(text(&serving.send(with_token(Request::stateless(call("write")), root)).await), "ran");
    assert_eq!(count.get(), 1);
}

/// A server with resources and a prompt that need a scope.
fn library() -> Server {
    let page = Resource::template("page://{number}")
        .complete("number", ["1", "2"])
        .handler(|Args(page): Args<std::collections::HashMap<String, String>>| async move {
            page["number"].clone()
        })
        .scope("read");
    let review = Prompt::new("review").handler(async || "Review it.").scope("read");
    Server::new("s", "1")
        .resource(Resource::text("text://open", "a"))
        .resource(Resource::text("text://closed", "b").scope("read"))
        .resource(page)
        .prompt(review)
        .authorize(Issuer::unnamed())
}

#[tokio::test]
async fn resources_prompts_and_completions_need_their_scopes() {
    // ARS-013
    let serving = TestServer::start(&library()).await;
    let complete = json!({"ref": {"type": "ref/resource", "uri": "page://{number}"}, "argument": {"name": "number", "value": ""}});
    for (method, params) in [
        ("resources/read", json!({"uri": "text://closed"})),
        ("resources/read", json!({"uri": "page://3"})),
        ("prompts/get", json!({"name": "review"})),
        ("completion/complete", complete),
    ] {
        let asked = Request::stateless(request(1, method, params));
        let refused = serving.send(with_token(asked.clone(), "sub=ann")).await;
        let challenge = refused.header("www-authenticate");
        assert_eq!(
            (refused.status, challenge),
            (403, Some("Bearer error=\"insufficient_scope\", scope=\"read\""))
        );
        let served = serving.send(with_token(asked, "sub=ann;scope=read")).await;
        assert!(served.status == 200 && served.json().get("error").is_none(), "{method}: {served:?}");
    }
}

#[tokio::test]
async fn changes_of_a_resource_need_its_scope() {
    let server = library();
    let serving = TestServer::start(&server).await;
    let session = open_session(&serving, "2025-11-25", "sub=ann").await;
    let subscribe = |uri: &str| {
        let asked = request(1, "resources/subscribe", json!({"uri": uri}));
        with_token(Request::post(&asked).session(&session), "sub=ann")
    };
    assert_eq!(serving.send(subscribe("text://closed")).await.status, 403);
    assert_eq!(serving.send(subscribe("text://open")).await.status, 200);

    let filter = json!({"notifications": {"resourceSubscriptions": ["text://closed", "text://open"]}});
    let mut listening = serving.connect().await;
    let listen = Request::stateless(request(2, "subscriptions/listen", filter));
    assert_eq!(listening.send(with_token(listen, "sub=ann")).await.status, 200);
    let granted = listening.next_message().await.unwrap();
    let granted = &granted["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*granted, json!(["text://open"]));
}

#[tokio::test]
async fn updates_stop_when_the_scope_is_gone() {
    let server = library();
    let serving = TestServer::start(&server).await;
    let with = |request: Request, scope: &str| with_token(request, &format!("sub=ann;scope={scope}"));
    let session = open_session(&serving, "2025-11-25", "sub=ann;scope=read").await;
    let mut stream = serving.connect().await;
    assert_eq!(stream.send(with(Request::get_stream(&session), "read")).await.status, 200);
    for uri in ["text://closed", "text://open"] {
        let asked = request(1, "resources/subscribe", json!({"uri": uri}));
        assert_eq!(serving.send(with(Request::post(&asked).session(&session), "read")).await.status, 200);
    }
    let ping = Request::post(&request(2, "ping", json!({}))).session(&session);
    assert_eq!(serving.send(with(ping, "other")).await.status, 200);
    server.notify_resource_updated("text://closed");
    server.notify_resource_updated("text://open");
    assert_eq!(stream.next_message().await.unwrap()["params"]["uri"], "text://open");
}

#[tokio::test]
async fn resumed_stream_needs_the_scopes_of_its_tool() {
    static GATE: Semaphore = Semaphore::const_new(0);
    let slow = Tool::new("slow").scope("notes:read").handler(|cx: Context| async move {
        cx.progress(1).await;
        GATE.acquire().await.unwrap().forget();
        "secret"
    });
    let serving = TestServer::start(&Server::new("s", "1").tool(slow).authorize(Issuer::unnamed())).await;
    let (able, unable) = ("sub=ann;scope=notes:read", "sub=ann;scope=other");
    let session = open_session(&serving, "2025-11-25", able).await;
    let mut asked = call("slow");
    asked["params"]["_meta"] = json!({"progressToken": 1});
    let mut stream = serving.connect().await;
    assert_eq!(stream.send(with_token(Request::post(&asked).session(&session), able)).await.status, 200);
    let event = stream.next_event().await.unwrap().id.unwrap();
    drop(stream);
    GATE.add_permits(1);
    let resume = || Request::get_stream(&session).header("Last-Event-ID", &event);
    let refused = serving.send(with_token(resume(), unable)).await;
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"notes:read other\"";
    assert_eq!((refused.status, refused.header("www-authenticate")), (403, Some(challenge)));
    assert!(!refused.body.contains("secret"));
    let mut resumed = serving.connect().await;
    assert_eq!(resumed.send(with_token(resume(), able)).await.status, 200);
    let mut last = resumed.next_message().await.unwrap();
    while last.get("result").is_none() {
        last = resumed.next_message().await.unwrap();
    }
    assert!(last.to_string().contains("secret"), "{last}");
}
