//! Handlers that ask the client, in handshake revisions and in the rounds of 2026-07-28.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::Role;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::form::FormSchema;
use tsugite::protocol::sampling::{CreateMessageParams, SamplingMessage};
use tsugite::server::{FieldValue, FormField, SealKey, SealKeys};
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;

/// Every revision, newest first.
fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

struct Confirm {
    sure: bool,
}

impl Form for Confirm {
    fn schema() -> FormSchema {
        FormSchema::new().required_field("sure", bool::field().description("Delete anyway?"))
    }

    fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String> {
        Ok(Self { sure: bool::read("sure", content.get("sure"))? })
    }
}

struct Name {
    name: String,
}

impl Form for Name {
    fn schema() -> FormSchema {
        FormSchema::new().required_field("name", String::field())
    }

    fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String> {
        Ok(Self { name: String::read("name", content.get("name"))? })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Path {
    path: String,
}

fn elicits() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
}

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

/// The `allow_delete` tool of the design, and how often it counted.
fn delete() -> (Server, Arc<AtomicUsize>) {
    let counted = Arc::new(AtomicUsize::new(0));
    let counter = counted.clone();
    let delete =
        Tool::new("delete").destructive(true).handler(move |Args(Path { path }): Args<Path>, cx: Context| {
            let counter = counter.clone();
            async move {
                let count = async {
                    counter.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, std::io::Error>(3)
                };
                let files = cx.once("count", count).await?;
                if files > 0 && !cx.ask::<Confirm>(format!("{path} holds {files} files.")).await?.sure {
                    return Ok("kept".to_owned());
                }
                Ok::<_, HandlerError>(format!("deleted {path}"))
            }
        });
    (Server::new("files", "1.0.0").tool(delete), counted)
}

#[tokio::test(start_paused = true)]
async fn one_handler_asks_in_every_revision() {
    // ELIC-005, MRTR-001, ELIC-007
    for revision in revisions() {
        for (sure, expected) in [(true, "deleted /tmp/x"), (false, "kept")] {
            let (server, counted) = delete();
            let mut peer =
                RawClient::connect(&server, revision, elicits()).await.on_request(move |method, params| {
                    assert_eq!(method, "elicitation/create");
                    assert_eq!(params["message"], "/tmp/x holds 3 files.");
                    accept(json!({"sure": sure}))
                });
            let response = peer.call("delete", json!({"path": "/tmp/x"})).await;
            if revision.has_elicitation() {
                assert_eq!(text(&response), expected, "{revision}");
                assert_eq!(response["result"].get("isError"), None, "{revision}");
                assert_eq!(peer.received_requests.len(), 1, "{revision}");
            } else {
                assert_eq!(response["result"]["isError"], true, "{revision}: {response}");
                assert!(text(&response).contains("elicitation"), "{response}");
                assert!(peer.received_requests.is_empty());
            }
            assert_eq!(counted.load(Ordering::Relaxed), 1, "{revision}: counted once, whatever the rounds");
        }
    }
}

fn sampling(question: &str) -> CreateMessageParams {
    CreateMessageParams::new(vec![SamplingMessage::new(Role::User, SamplingBlock::text(question))], 100_u64)
}

fn host(method: &str, params: &Value) -> Value {
    match method {
        "elicitation/create" => accept(json!({"name": "Ada"})),
        "sampling/createMessage" => json!({
            "role": "assistant", "model": "m", "content": {"type": "text", "text":
                format!("re: {}", params["messages"][0]["content"]["text"].as_str().unwrap_or_default())},
        }),
        "roots/list" => json!({"roots": [{"uri": "file:///home/ada", "name": "home"}]}),
        other => panic!("{other}"),
    }
}

fn curious() -> Server {
    let all = Tool::new("all").handler(|cx: Context| async move {
        let (name, model, roots) =
            tokio::join!(cx.ask::<Name>("Who?").key("user_name"), cx.sample(sampling("Hi")), cx.roots());
        let said = match &model?.content.as_slice()[0] {
            SamplingBlock::Text(text) => text.text.clone(),
            other => format!("{other:?}"),
        };
        Ok::<_, HandlerError>(format!("{} {said} {}", name?.name, roots?[0].uri))
    });
    let steps = Tool::new("steps").handler(|cx: Context| async move {
        let first = cx.ask::<Name>("first").await?.name;
        tokio::task::yield_now().await;
        let second = cx.ask::<Name>("second").await?.name;
        let third = cx.ask::<Name>("second").await?.name;
        Ok::<_, HandlerError>(format!("{first} {second} {third}"))
    });
    Server::new("curious", "1").tool(all).tool(steps)
}

#[tokio::test(start_paused = true)]
async fn sequential_questions_take_one_round_each() {
    // MRTR-008
    for revision in revisions().filter(|revision| revision.has_elicitation()) {
        let mut count = 0;
        let mut peer = RawClient::connect(&curious(), revision, elicits()).await.on_request(move |_, _| {
            count += 1;
            accept(json!({"name": format!("n{count}")}))
        });
        let response = peer.call("steps", json!({})).await;
        assert_eq!(text(&response), "n1 n2 n3", "{revision}");
        if revision.is_stateless() {
            assert_eq!(peer.rounds, 4);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn state_is_bound_to_its_request_and_caller() {
    // MRTR-010, MRTR-011, MRTR-012, ELIC-034, ELIC-045, and M-01 to M-04 of the list of attacks.
    let key = SealKey::new([7; 32]);
    let (server, _) = delete();
    let other =
        Tool::new("other").handler(|cx: Context| async move { cx.ask::<Confirm>("?").await.map(|_| "done") });
    let server = server.tool(other).seal_keys(key.clone());
    let mut ada = RawClient::connect_as(&server, Principal::new("ada"), STATELESS, elicits()).await;
    let call = json!({"name": "delete", "arguments": {"path": "/tmp/x", "more": 1}});
    let asked = ada.request_once("tools/call", call.clone()).await;
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    let question = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let again = |call: &Value, state: Value| {
        let mut call = call.clone();
        call["requestState"] = state;
        call["inputResponses"] = json!({&question: accept(json!({"sure": true}))});
        call
    };
    // The same request, its members in another order.
    let same = json!({"arguments": {"more": 1, "path": "/tmp/x"}, "name": "delete"});
    let done = ada.request_once("tools/call", again(&same, json!(state))).await;
    assert_eq!(text(&done), "deleted /tmp/x");

    let mut flipped = state.clone().into_bytes();
    flipped[40] = if flipped[40] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    let elsewhere = json!({"name": "delete", "arguments": {"path": "/", "more": 1}});
    let other_tool = json!({"name": "other", "arguments": {"path": "/tmp/x", "more": 1}});
    for (call, state, why) in [
        (&call, json!(flipped), "forged"),
        (&call, json!(format!("{state}A")), "longer"),
        (&call, json!(""), "empty"),
        (&call, json!(7), "no string"),
        (&call, json!("x".repeat(100_000)), "huge"),
        (&elsewhere, json!(state), "other arguments"),
        (&other_tool, json!(state), "another tool"),
    ] {
        let refused = ada.request_once("tools/call", again(call, state)).await;
        assert_eq!(refused["error"]["code"], -32602, "{why}: {refused}");
    }
    let mut eve = RawClient::connect_as(&server, Principal::new("eve"), STATELESS, elicits()).await;
    let refused = eve.request_once("tools/call", again(&call, json!(state))).await;
    assert_eq!(refused["error"]["code"], -32602, "another caller: {refused}");
    let mut anonymous = RawClient::connect(&server, STATELESS, elicits()).await;
    let refused = anonymous.request_once("tools/call", again(&call, json!(state))).await;
    assert_eq!(refused["error"]["code"], -32602, "anonymous: {refused}");
    // A key that was rotated out still opens, another server's does not.
    let (replica, _) = delete();
    let replica = replica.seal_keys(SealKeys::new(SealKey::new([8; 32])).older(key));
    let mut ada = RawClient::connect_as(&replica, Principal::new("ada"), STATELESS, elicits()).await;
    assert_eq!(text(&ada.request_once("tools/call", again(&call, json!(state))).await), "deleted /tmp/x");
    let (stranger, _) = delete();
    let mut ada = RawClient::connect_as(&stranger, Principal::new("ada"), STATELESS, elicits()).await;
    let refused = ada.request_once("tools/call", again(&call, json!(state))).await;
    assert_eq!(refused["error"]["code"], -32602, "another server: {refused}");
}

#[tokio::test(start_paused = true)]
async fn expired_state_is_refused() {
    // MRTR-012, M-03
    let (server, _) = delete();
    let server = server.state_ttl(Duration::ZERO);
    let mut peer = RawClient::connect(&server, STATELESS, elicits())
        .await
        .on_request(|_, _| accept(json!({"sure": true})));
    let refused = peer.call("delete", json!({"path": "x"})).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert!(refused["error"]["message"].as_str().unwrap().contains("expired"), "{refused}");
}

#[tokio::test]
async fn unasked_input_responses_are_not_kept_in_the_state() {
    // MRTR-022
    let tool = Tool::new("introduce").handler(|cx: Context| async move {
        let first = cx.ask::<Name>("Who are you?").key("first").await?;
        let second = cx.ask::<Name>("And who else?").key("second").await?;
        Ok::<_, AskError>(format!("{} and {}", first.name, second.name))
    });
    let server = Server::new("s", "1").tool(tool).max_state_bytes(1000);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await;
    let call = |answers: Value| json!({"name": "introduce", "arguments": {}, "inputResponses": answers});
    let both = json!({"first": accept(json!({"name": "Ann"})), "second": accept(json!({"name": "Bob"})), "third": 3});
    let answered = peer.request_once("tools/call", call(both)).await;
    assert_eq!(answered["result"]["content"][0]["text"], "Ann and Bob", "{answered}");
    let one = json!({"first": accept(json!({"name": "Ann"})), "third": "x".repeat(2000)});
    let asked = peer.request_once("tools/call", call(one)).await;
    assert!(asked["result"]["inputRequests"].get("second").is_some(), "{asked}");
    let mut rest = call(json!({"second": accept(json!({"name": "Bob"}))}));
    rest["requestState"] = asked["result"]["requestState"].clone();
    let answered = peer.request_once("tools/call", rest).await;
    assert_eq!(answered["result"]["content"][0]["text"], "Ann and Bob", "{answered}");
    let refused = peer.request_once("tools/call", call(json!({"first": 12345}))).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn handler_that_diverges_between_rounds_is_an_error() {
    let runs = Arc::new(AtomicUsize::new(0));
    let fickle = Tool::new("fickle").handler(move |cx: Context| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move { cx.ask::<Name>(format!("question {run}")).await.map(|name| name.name) }
    });
    let io = Arc::new(AtomicUsize::new(0));
    let slow = Tool::new("slow").handler(move |cx: Context| {
        let run = io.fetch_add(1, Ordering::Relaxed);
        async move {
            let late = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                cx.ask::<Name>("late").key("late").await
            };
            let early = cx.ask::<Name>("early").key(format!("early {}", run.min(1)));
            let (early, late) = tokio::join!(early, late);
            Ok::<_, AskError>(format!("{} {}", early?.name, late?.name))
        }
    });
    let server = Server::new("s", "1").tool(fickle).tool(slow);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    let refused = peer.call("fickle", json!({})).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("something else"), "{refused}");
    // An unused response is waited for only until the round timeout.
    let refused = peer.call("slow", json!({})).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn rounds_and_state_size_are_limited() {
    let endless = Tool::new("endless").handler(|cx: Context| async move {
        let mut round = 0;
        loop {
            round += 1;
            cx.ask::<Name>(format!("{round}")).await?;
            if false {
                return Ok::<_, HandlerError>("never");
            }
        }
    });
    let heavy = Tool::new("heavy").handler(|cx: Context| async move {
        cx.once("blob", async { Ok::<_, HandlerError>("x".repeat(100_000)) }).await?;
        cx.ask::<Name>("?").await.map(|name| name.name).map_err(HandlerError::from)
    });
    let server = Server::new("s", "1").tool(endless).tool(heavy).max_rounds(3);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    let refused = peer.call("endless", json!({})).await;
    assert_eq!((refused["error"]["code"].clone(), peer.rounds), (json!(-32603), 4), "{refused}");
    let refused = peer.call("heavy", json!({})).await;
    assert_eq!((refused["error"]["code"].clone(), peer.rounds), (json!(-32603), 1), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn misused_once_and_ask_are_internal_errors() {
    let twice = Tool::new("twice").handler(|cx: Context| async move {
        cx.once("k", async { Ok::<_, HandlerError>(1) }).await?;
        cx.once("k", async { Ok::<_, HandlerError>(2) }).await
    });
    let nested = Tool::new("nested").handler(|cx: Context| async move {
        let inner = cx.clone();
        cx.once("k", async move { inner.ask::<Name>("?").await.map(|name| name.name) }).await
    });
    let same_key = Tool::new("same_key").handler(|cx: Context| async move {
        let (a, b) = tokio::join!(cx.ask::<Name>("a").key("k"), cx.ask::<Name>("b").key("k"));
        Ok::<_, AskError>(format!("{} {}", a?.name, b?.name))
    });
    struct Secret;
    impl Form for Secret {
        fn schema() -> FormSchema {
            FormSchema::new().required_field("password", String::field())
        }

        fn read(_: &OrderedMap<FieldValue>) -> Result<Self, String> {
            Ok(Self)
        }
    }
    let secret =
        Tool::new("secret").handler(|cx: Context| async move { cx.ask::<Secret>("?").await.map(|_| "told") });
    let server = Server::new("s", "1").tool(twice).tool(nested).tool(same_key).tool(secret);
    for revision in revisions().filter(|revision| revision.has_elicitation()) {
        for tool in ["twice", "nested", "same_key", "secret"] {
            let mut peer = RawClient::connect(&server, revision, elicits()).await.on_request(host);
            let refused = peer.call(tool, json!({})).await;
            if tool == "same_key" && !revision.is_stateless() {
                assert_eq!(text(&refused), "Ada Ada", "keys name nothing there");
                continue;
            }
            assert_eq!(refused["error"]["code"], -32603, "{tool} on {revision}: {refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn question_in_a_spawned_task_ends_with_the_round() {
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let spawning = Tool::new("spawning").handler(move |cx: Context| {
        let told = told.clone();
        async move {
            let mut tasks = tokio::task::JoinSet::new();
            let inner = cx.clone();
            tasks.spawn(async move {
                let answer = inner.ask::<Name>("?").await;
                told.send(format!("{:?}", answer.as_ref().err())).unwrap();
                answer
            });
            match tasks.join_next().await {
                Some(Ok(answer)) => answer.map(|name| name.name),
                _ => Ok("no task".to_owned()),
            }
        }
    });
    let server = Server::new("s", "1").tool(spawning);
    for revision in revisions().filter(|revision| revision.has_elicitation()) {
        let mut peer = RawClient::connect(&server, revision, elicits()).await.on_request(host);
        assert_eq!(text(&peer.call("spawning", json!({})).await), "Ada", "{revision}");
        if revision.is_stateless() {
            // The first round's task: either it hears that the round is over, or its set was dropped with it.
            while let Ok(said) = heard.try_recv() {
                assert!(said == "None" || said == "Some(Suspended)", "{said}");
            }
        }
        while heard.try_recv().is_ok() {}
    }
}

#[tokio::test(start_paused = true)]
async fn timer_beside_a_question_does_not_skip_it() {
    let racing = Tool::new("racing").handler(|cx: Context| async move {
        tokio::select! {
            name = cx.ask::<Name>("?") => name.map(|name| name.name),
            () = tokio::time::sleep(Duration::from_millis(1)) => Ok("no answer".to_owned()),
        }
    });
    let server = Server::new("s", "1").tool(racing);
    let mut peer = RawClient::connect(&server, STATELESS, elicits()).await.on_request(host);
    assert_eq!(text(&peer.call("racing", json!({})).await), "Ada");
}

#[tokio::test(start_paused = true)]
async fn unanswered_question_times_out_and_is_cancelled() {
    let patient = Tool::new("patient").handler(|cx: Context| async move {
        cx.ask::<Name>("?").timeout(Duration::from_secs(5)).await.map(|name| name.name)
    });
    let server = Server::new("s", "1").tool(patient);
    let mut peer = RawClient::connect(&server, "2025-11-25".parse().unwrap(), elicits()).await;
    let id = peer.send_request("tools/call", json!({"name": "patient"}));
    let question = peer.next().await;
    assert_eq!(question["method"], "elicitation/create");
    let cancelled = peer.next().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    let response = peer.wait_for_response(id).await;
    assert_eq!(response["result"]["isError"], true);
    assert!(text(&response).contains("in time"), "{response}");
    // A late answer, and one to a question never asked, have no effect.
    peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accept(json!({"name": "late"}))}));
    peer.send(&json!({"jsonrpc": "2.0", "id": 4711, "result": {}}));
    peer.send(&json!({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "m"}}));
    assert!(peer.request("ping", json!({})).await.get("result").is_some());
}
