//! Our client against our server, over every transport and on every revision.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tsugite::client::TransportKind;
use tsugite::client::{
    Caching, Change, ChangeFilter, Client, Command, Direction, ErrorKind, FormResponse, ProbeRecord,
};
use tsugite::jsonrpc::RawJson;
use tsugite::prelude::*;
use tsugite::protocol::{CacheScope, PromptArgument, Reference};
use tsugite::server::CompletionRequest;
use tsugite_testkit::fixture;
use tsugite_testkit::http::TestServer;
use tsugite_testkit::log::Warnings;

async fn tour(client: &Client, revision: Revision) -> tsugite::Result<()> {
    assert_eq!(client.revision(), revision);
    let tools = client.list_tools().await?;
    assert!(tools.iter().any(|tool| tool.name == "add"), "{tools:?}");
    let sum: i64 = client.call("add", json!({"a": 1, "b": 2})).await?;
    assert_eq!(sum, 3);
    Ok(())
}

#[tokio::test]
async fn calls_work_in_memory_on_every_revision() {
    for revision in Revision::ALL {
        let client = Client::in_process(&fixture::server()).revision(revision).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
    }
    let client = Client::in_process(&fixture::server()).await.unwrap();
    tour(&client, Revision::NEWEST).await.unwrap();
}

#[tokio::test]
async fn calls_work_over_http_on_every_revision() {
    // LIFE-034
    let serving = TestServer::start(&fixture::server()).await;
    let url = format!("http://{}/mcp", serving.address);
    for revision in Revision::ALL {
        let client = Client::connect(&*url).revision(revision).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
    }
    let client = Client::connect(&*url).await.unwrap();
    tour(&client, Revision::NEWEST).await.unwrap();
    serving.stop().await.unwrap();
}

fn fixture_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fixture"))
}

#[tokio::test]
async fn calls_work_over_stdio_on_every_revision() {
    // LIFE-034, STDIO-001, STDIO-002
    for revision in Revision::ALL {
        let client = Client::spawn(fixture_command()).revision(revision).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
    }
    let client = Client::spawn(fixture_command()).await.unwrap();
    tour(&client, Revision::NEWEST).await.unwrap();
    assert_eq!(client.probe_record(), Some(ProbeRecord::new(Revision::NEWEST, TransportKind::Stdio)));
}

#[tokio::test]
async fn newest_common_revision_is_negotiated() {
    for revision in Revision::ALL {
        let server = fixture::server().revisions(Revisions::from_iter([revision]));
        let client = Client::in_process(&server).await.unwrap();
        tour(&client, revision).await.unwrap();
        let serving = TestServer::start(&server).await;
        let client = Client::connect(format!("http://{}/mcp", serving.address)).await.unwrap();
        tour(&client, revision).await.unwrap();
        client.close().await;
        serving.stop().await.unwrap();
    }
}

#[tokio::test]
async fn known_revision_skips_the_probe_and_may_be_stale() {
    // VER-031
    let old = fixture::server().revisions(Revisions::ALL.handshake());
    let verdict = Client::in_process(&old).await.unwrap().probe_record().unwrap();
    assert_eq!(verdict.revision, Revision::NEWEST_HANDSHAKE);
    // The known revision is right.
    let client = Client::in_process(&old).probe_record(verdict).await.unwrap();
    tour(&client, Revision::NEWEST_HANDSHAKE).await.unwrap();
    // The server was upgraded: the known revision still works.
    let client = Client::in_process(&fixture::server()).probe_record(verdict).await.unwrap();
    tour(&client, Revision::NEWEST_HANDSHAKE).await.unwrap();
    // The server was downgraded.
    for serving in [None, Some(TestServer::start(&old).await)] {
        let connecting = match &serving {
            None => Client::in_process(&old)
                .probe_record(ProbeRecord::new(Revision::NEWEST, TransportKind::Stdio)),
            Some(serving) => Client::connect(format!("http://{}/mcp", serving.address))
                .probe_record(ProbeRecord::new(Revision::NEWEST, TransportKind::StreamableHttp)),
        };
        let client = connecting.await.unwrap();
        assert_eq!(client.revision(), Revision::NEWEST);
        let sum: i64 = client.call("add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!((sum, client.revision()), (3, Revision::NEWEST_HANDSHAKE));
        assert_eq!(client.probe_record().unwrap().revision, Revision::NEWEST_HANDSHAKE);
    }
}

#[tokio::test]
async fn error_names_revisions_if_none_is_common() {
    let old = fixture::server().revisions(Revisions::ALL.handshake());
    let new = fixture::server().revisions(Revisions::ALL.stateless());
    let error = Client::in_process(&old).stateless_only().await.unwrap_err();
    assert!(error.to_string().contains("2025-11-25"), "{error}");
    let error = Client::in_process(&new).handshake_only().await.unwrap_err();
    assert!(error.to_string().contains("2026-07-28"), "{error}");
}

#[tokio::test]
async fn closed_client_does_not_answer_from_its_cache() {
    let server = fixture::server().cache(std::time::Duration::from_secs(60), CacheScope::Private);
    let client = Client::in_process(&server).await.unwrap();
    client.list_tools().await.unwrap();
    client.close().await;
    let error = client.list_tools().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
}

#[tokio::test]
async fn panicking_handler_does_not_break_other_calls() {
    let ask = Tool::new("ask").handler(|cx: Context| async move {
        cx.progress(1).await;
        cx.log(Level::Error, "careful").await;
        cx.ask::<Sure>("?").await.map(|sure| sure.sure)
    });
    let server = Server::new("asks", "1").tool(ask);
    for revision in [Revision::NEWEST_HANDSHAKE, Revision::V2025_06_18] {
        let client = Client::in_process(&server)
            .revision(revision)
            .on_log(|_| panic!("over a log"))
            .on_elicit_form(async |_| panic!("over a form"))
            .await
            .unwrap();
        for _ in 0..3 {
            let result =
                client.call_raw("ask", json!({})).on_progress(|_| panic!("over progress")).await.unwrap();
            assert_eq!(result.is_error, Some(true));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn total_time_of_all_rounds_is_limited() {
    async fn ask_for_ever(cx: Context) -> Result<String, AskError> {
        let mut round = 0;
        loop {
            round += 1;
            tokio::time::sleep(std::time::Duration::from_secs(20)).await;
            cx.ask::<Sure>(format!("{round}?")).await?;
        }
    }

    let again = Tool::new("again").handler(ask_for_ever);
    let server = Server::new("asks", "1").tool(again);
    let client =
        Client::in_process(&server).on_elicit_form(async |_| FormResponse::accept_defaults()).await.unwrap();
    let start = tokio::time::Instant::now();
    let call = client.call_raw("again", json!({})).total_timeout(std::time::Duration::from_secs(50));
    let error = call.await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(start.elapsed() <= std::time::Duration::from_secs(51), "{:?}", start.elapsed());
}

#[tokio::test]
async fn client_names_itself_with_a_pair() {
    async fn caller(cx: Context) -> String {
        cx.client().map(|client| format!("{} {}", client.name, client.version)).unwrap_or_default()
    }

    let server = Server::new("names", "1").tool(Tool::new("caller").handler(caller));
    for revision in Revision::ALL {
        let client =
            Client::in_process(&server).revision(revision).client_info(("my-app", "2.0")).await.unwrap();
        assert_eq!(client.call::<String>("caller", ()).await.unwrap(), "my-app 2.0", "{revision}");
    }
}

#[tokio::test]
async fn completion_takes_a_value_and_its_context() {
    async fn titles(typing: CompletionRequest) -> Vec<String> {
        vec![format!("{} on {}", typing.value, typing.argument("day").unwrap_or("any day"))]
    }

    let plan = Prompt::new("plan")
        .argument(PromptArgument::new("day"))
        .argument(PromptArgument::new("title"))
        .complete("title", titles)
        .handler(async || "Make a plan.");
    let server = Server::new("plans", "1").prompt(plan);
    for revision in Revision::ALL {
        let client = Client::in_process(&server).revision(revision).await.unwrap();
        let complete = || client.complete(Reference::prompt("plan"), "title", "n");
        assert_eq!(complete().await.unwrap().completion.values, ["n on any day"], "{revision}");
        let knows_context = revision >= Revision::V2025_06_18;
        let expected = if knows_context { "n on Monday" } else { "n on any day" };
        let completed = complete().context([("day", "Monday")]).await.unwrap();
        assert_eq!(completed.completion.values, [expected], "{revision}");
    }
}

#[tokio::test]
async fn content_that_fits_no_form_fails_the_request() {
    async fn ask(cx: Context) -> Result<String, AskError> {
        cx.ask::<Sure>("Go on?").await.map(|Sure { sure }| sure.to_string())
    }

    let server = Server::new("asks", "1").tool(Tool::new("ask").handler(ask));
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = Client::in_process(&server).revision(revision);
        let client = client.on_elicit_form(async |_| FormResponse::accept("yes")).await.unwrap();
        let error = client.call::<String>("ask", ()).await.unwrap_err().to_string();
        assert!(error.contains("not an object of form fields"), "{revision}: {error}");
    }
}

#[derive(Form)]
struct Sure {
    /// Are you?
    #[form(default = true)]
    sure: bool,
}

#[tokio::test]
async fn wire_observer_sees_every_message() {
    let serving = TestServer::start(&fixture::server()).await;
    let url = format!("http://{}/mcp", serving.address);
    for revision in Revision::ALL {
        for connecting in [Client::in_process(&fixture::server()), Client::connect(&*url)] {
            let passed = Arc::new(Mutex::new(Vec::new()));
            let heard = Arc::clone(&passed);
            let client = connecting
                .revision(revision)
                .on_wire(move |direction, message| {
                    let message: Value = serde_json::from_str(message).unwrap();
                    heard.lock().unwrap().push((direction, message));
                })
                .await
                .unwrap();
            let _: i64 = client.call("add", json!({"a": 1, "b": 2})).await.unwrap();
            client.close().await;
            let passed = passed.lock().unwrap();
            let of = |direction| passed.iter().filter(move |(went, _)| *went == direction);
            let calls: Vec<_> =
                of(Direction::Sent).filter(|(_, sent)| sent["method"] == "tools/call").collect();
            let [(_, call)] = calls[..] else { panic!("{revision}: {passed:?}") };
            let answers = of(Direction::Received).filter(|(_, received)| received["id"] == call["id"]);
            assert_eq!(answers.count(), 1, "{revision}: {passed:?}");
        }
    }
    serving.stop().await.unwrap();
}

/// A server whose tool declares the output schema `promise` and returns `gives`.
fn promising(promise: &Value, gives: &Value) -> Command {
    let tool = json!({"name": "promise", "inputSchema": {"type": "object"}, "outputSchema": promise});
    let list = json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "tools": [tool]}});
    let result = json!({"resultType": "complete", "content": [], "structuredContent": gives});
    let answer = json!({"jsonrpc": "2.0", "id": 2, "result": result});
    Command::from([env!("CARGO_BIN_EXE_helper"), "replies", &list.to_string(), &answer.to_string()])
}

#[tokio::test]
async fn output_validation_is_optional_and_fetches_nothing() {
    // TOOL-024, TOOL-035, F-08
    let number =
        json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]});
    for (promise, gives, fits) in [
        (number.clone(), json!({"n": 7}), true),
        (number.clone(), json!({"n": 0}), false),
        (number.clone(), json!({"n": "seven"}), false),
        (number, json!({}), false),
        (json!({"type": "object", "$ref": "http://127.0.0.1:1/schema.json"}), json!({}), false),
    ] {
        let client = Client::spawn(promising(&promise, &gives)).revision(Revision::NEWEST).await.unwrap();
        let checked = client.call_checked("promise", json!({})).await;
        assert_eq!(checked.is_ok(), fits, "{promise} {gives} {checked:?}");
        if let Err(error) = checked {
            assert!(matches!(error.kind(), ErrorKind::MalformedResult { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn each_call_chooses_its_cache_mode() {
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    let server = fixture::server().cache(std::time::Duration::from_secs(60), CacheScope::Private);
    let client = Client::in_process(&server)
        .on_wire(move |direction, message| {
            if direction == Direction::Sent && message.contains("tools/list") {
                *counted.lock().unwrap() += 1;
            }
        })
        .await
        .unwrap();
    let asked = || *asked.lock().unwrap();
    client.list_tools().caching(Caching::Bypass).await.unwrap();
    assert_eq!(asked(), 1);
    client.list_tools().await.unwrap();
    assert_eq!(asked(), 2, "nothing was cached");
    client.list_tools().await.unwrap();
    assert_eq!(asked(), 2, "the cached result is used");
    client.list_tools().caching(Caching::Refresh).await.unwrap();
    client.list_tools().header("x-who", "else").await.unwrap();
    assert_eq!(asked(), 4);
    server.add(Tool::new("new").handler(async || 1)).unwrap();
    let mut changes = client.listen(ChangeFilter::new().tools()).await.unwrap();
    server.add(Tool::new("newer").handler(async || 1)).unwrap();
    assert_eq!(changes.next().await.unwrap().unwrap(), Change::Tools);
    client.list_tools().await.unwrap();
    assert_eq!(asked(), 5, "a change invalidates the cache");
}

#[tokio::test]
async fn call_has_its_own_headers_and_meta() {
    let seen = Tool::new("seen")
        .handler(|headers: Headers| async move { headers.get("x-trace").unwrap_or("none").to_owned() });
    let serving = TestServer::start(&Server::new("seen", "1").tool(seen)).await;
    for revision in [Revision::NEWEST, Revision::NEWEST_HANDSHAKE] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&notes);
        let client = Client::connect(format!("http://{}/mcp", serving.address))
            .revision(revision)
            .header("x-trace", "every")
            .on_wire(move |direction, message| {
                let message: Value = serde_json::from_str(message).unwrap();
                if direction == Direction::Sent && message["method"] == "tools/call" {
                    noted.lock().unwrap().push(message["params"]["_meta"]["example.com/note"].clone());
                }
            })
            .await
            .unwrap();
        let plain: String = client.call("seen", json!({})).await.unwrap();
        assert_eq!(plain, "every");
        let own =
            client.call::<String>("seen", json!({})).header("x-trace", "one").meta("example.com/note", "hi");
        assert_eq!(own.await.unwrap(), "one");
        assert_eq!(*notes.lock().unwrap(), [Value::Null, json!("hi")]);
    }
    serving.stop().await.unwrap();
}

#[tokio::test]
async fn meta_keys_that_a_caller_must_not_set_are_refused() {
    // SCHM-002, SCHM-003, SCHM-005, SCHM-006, TRAC-002
    let sent = Arc::new(Mutex::new(0));
    let count = Arc::clone(&sent);
    let client = Client::in_process(&fixture::server())
        .on_wire(move |direction, message| {
            if direction == Direction::Sent && message.contains("tools/call") {
                *count.lock().unwrap() += 1;
            }
        })
        .await
        .unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let arguments = || json!({"a": 1, "b": 2});
    let raw = |key: &str, value: &str| {
        let params = json!({"name": "add", "arguments": arguments(), "_meta": {key: value}});
        RawJson::from_value(&params).unwrap()
    };
    for (key, value) in
        [("com.example/x", "x"), ("com.example.mcp/x", "x"), ("plain", "x"), ("traceparent", parent)]
    {
        let sum: i64 = client.call("add", arguments()).meta(key, value).await.unwrap();
        assert_eq!(sum, 3, "{key}");
        client.request_raw("tools/call", Some(raw(key, value))).await.unwrap();
    }
    assert_eq!(std::mem::take(&mut *sent.lock().unwrap()), 8);
    for (key, value) in [
        ("com.example-/x", "x"),
        ("com.example/x.", "x"),
        ("modelcontextprotocol.io/x", "x"),
        ("io.modelcontextprotocol/x", "x"),
        ("traceparent", "x"),
        ("baggage", "x"),
    ] {
        let refused = client.call::<i64>("add", arguments()).meta(key, value).await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Config(text) if text.contains(key)), "{refused}");
        let refused = client.request_raw("tools/call", Some(raw(key, value))).await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Config(text) if text.contains(key)), "{refused}");
    }
    assert_eq!(*sent.lock().unwrap(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn subscription_says_what_the_server_granted() {
    // SUBS-006, SUBS-008
    let warnings = Warnings::capture();
    let server = fixture::by_name("only_tools").unwrap();
    let client = Client::in_process(&server).revision(Revision::NEWEST).await.unwrap();
    let mut tools = client.listen(ChangeFilter::new().tools()).await.unwrap();
    assert_eq!(tools.acknowledged(), Some(ChangeFilter::new().tools()));
    warnings.take();
    let mut more = client.listen(ChangeFilter::new().tools().prompts().resource("x:y")).await.unwrap();
    assert_eq!(more.acknowledged(), Some(ChangeFilter::new().tools()));
    assert_eq!(warnings.take(), ["the server reports only some of the changes"]);
    // Both are open at the same time, and both report the change.
    server.add(Tool::new("new").handler(async || "new")).unwrap();
    assert_eq!(tools.next().await.unwrap().unwrap(), Change::Tools);
    assert_eq!(more.next().await.unwrap().unwrap(), Change::Tools);
    let older = Client::in_process(&server).revision(Revision::NEWEST_HANDSHAKE).await.unwrap();
    let older = older.listen(ChangeFilter::new().tools()).await.unwrap();
    assert_eq!(older.acknowledged(), None);
}

#[tokio::test]
async fn call_during_a_round_carries_nothing_of_it() {
    // M-10
    let sent = Arc::new(Mutex::new(Vec::<Value>::new()));
    let (log, slot) = (Arc::clone(&sent), Arc::new(std::sync::OnceLock::<Client>::new()));
    let other = Arc::clone(&slot);
    let client = Client::in_process(&fixture::by_name("asking").unwrap())
        .revision(Revision::NEWEST)
        .on_wire(move |direction, message| {
            let message: Value = serde_json::from_str(message).unwrap();
            if direction == Direction::Sent && message["method"] == "tools/call" {
                log.lock().unwrap().push(message["params"].clone());
            }
        })
        .on_elicit_form(move |_| {
            let client = other.get().unwrap().clone();
            async move {
                client.call::<String>("t", json!({})).await.unwrap();
                FormResponse::Decline
            }
        })
        .await
        .unwrap();
    slot.set(client.clone()).ok().unwrap();
    client.call_raw("outcome", json!({})).await.unwrap();
    let sent = sent.lock().unwrap();
    let names: Vec<_> = sent.iter().map(|params| params["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["outcome", "t", "outcome"]);
    let carries =
        |params: &Value| params.get("requestState").is_some() || params.get("inputResponses").is_some();
    assert!(!carries(&sent[1]) && carries(&sent[2]), "{sent:?}");
}

#[tokio::test]
async fn panic_of_the_wire_callback_does_not_end_the_connection() {
    let server = fixture::server();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = Client::in_process(&server)
            .revision(revision)
            .on_wire(|_, message| assert!(!message.contains("\"add\""), "a mistake in the callback"))
            .await
            .unwrap();
        let sum: i64 = client.call("add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(sum, 3);
    }
}
