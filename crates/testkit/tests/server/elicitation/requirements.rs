//! What the specification demands of a server that asks back: forms, pages, models, roots, and the rounds between.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::jsonrpc::RawJson;
use tsugite::prelude::*;
use tsugite::protocol::content::{SamplingBlock, ToolResult, ToolUse};
use tsugite::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema, TextFormat};
use tsugite::protocol::sampling::{
    CreateMessageParams, IncludeContext, ModelPreferences, SamplingMessage, ToolChoice,
};
use tsugite::protocol::{Role, Schema, tools};
use tsugite::server::UrlElicitation;
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

fn handshakes() -> impl Iterator<Item = Revision> {
    Revisions::ALL.handshake().newest_first()
}

/// Those with pages to visit and tools for the model.
fn newer() -> impl Iterator<Item = Revision> {
    revisions().filter(|revision| revision.has_url_elicitation())
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}})
}

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": text}})
}

fn user(text: &str) -> SamplingMessage {
    SamplingMessage::new(Role::User, SamplingBlock::text(text))
}

fn question() -> CreateMessageParams {
    CreateMessageParams::new(vec![user("?")], 100_u64)
}

/// A tool that asks the model; a failure is the call's.
fn sampler(name: &str, params: CreateMessageParams) -> Tool {
    Tool::new(name).handler(move |cx: Context| {
        let params = params.clone();
        async move {
            let answer = cx.sample(params).await?;
            Ok::<_, HandlerError>(answer.model)
        }
    })
}

/// A tool that asks for a form; a failure is the call's.
fn form(name: &str, form: FormSchema) -> Tool {
    Tool::new(name).handler(move |cx: Context| {
        let form = form.clone();
        async move {
            let content = cx.ask_form(form, "Please fill in.").await?;
            Ok::<_, HandlerError>(format!("{}", content.get("x").is_some()))
        }
    })
}

fn simple() -> FormSchema {
    FormSchema::new().required_field("x", Field::text())
}

/// Whether the call was refused, in one of the ways there are.
fn refused(response: &Value) -> bool {
    response.get("error").is_some() || response["result"]["isError"] == true
}

/// The key of the only question.
fn only_key(asked: &Value) -> String {
    let questions =
        asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("no question in {asked}"));
    assert_eq!(questions.len(), 1, "{asked}");
    questions.keys().next().unwrap().clone()
}

/// The call again, with what is needed to take it up.
fn again(call: &Value, asked: &Value, answer: Value) -> Value {
    let mut call = call.clone();
    call["requestState"] = asked["result"]["requestState"].clone();
    call["inputResponses"] = json!({only_key(asked): answer});
    call
}

#[tokio::test(start_paused = true)]
async fn a_model_is_asked_by_a_request_if_the_client_has_one_to_offer() {
    // SAMP-003, SAMP-034
    let server = Server::new("s", "1").tool(sampler("asks", question()));
    for revision in revisions() {
        let mut with = RawClient::connect(&server, revision, json!({"sampling": {}}))
            .await
            .on_request(|_, _| said("hi"));
        if revision.is_stateless() {
            let asked = with.request_once("tools/call", json!({"name": "asks"})).await;
            let asked = &asked["result"]["inputRequests"][only_key(&asked)];
            assert_eq!(asked["method"], "sampling/createMessage");
            assert_eq!(asked["params"]["maxTokens"], 100);
        } else {
            let id = with.send_request("tools/call", json!({"name": "asks"}));
            let asked = with.next().await;
            assert_eq!(asked["method"], "sampling/createMessage", "{revision}: {asked}");
            assert!(asked.get("id").is_some_and(|id| !id.is_null()));
            assert_eq!(asked["params"]["messages"][0]["content"], json!({"type": "text", "text": "?"}));
            assert_eq!(asked["params"]["maxTokens"], 100);
            with.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": said("hi")}));
            assert_eq!(text(&with.wait_for_response(id).await), "m");
        }
        assert_eq!(text(&with.call("asks", json!({})).await), "m", "{revision}");
        let mut without = RawClient::connect(&server, revision, json!({"roots": {}})).await;
        let answer = without.call("asks", json!({})).await;
        assert!(refused(&answer), "{revision}: {answer}");
        assert!(without.received_requests.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn tools_are_given_only_to_a_model_that_takes_them() {
    // SAMP-011
    let weather = tools::Tool::new("weather", Schema::from(json!({"type": "object"})));
    let server = Server::new("s", "1")
        .tool(sampler("tools", question().tools(vec![weather])))
        .tool(sampler("choice", question().tool_choice(ToolChoice::default())));
    for revision in newer() {
        for name in ["tools", "choice"] {
            let mut with = RawClient::connect(&server, revision, json!({"sampling": {"tools": {}}}))
                .await
                .on_request(|_, _| said("hi"));
            assert_eq!(text(&with.call(name, json!({})).await), "m", "{name} on {revision}");
            let sent = &with.received_requests[0].1;
            assert!(sent.get("tools").is_some() || sent.get("toolChoice").is_some(), "{sent}");
            let mut without = RawClient::connect(&server, revision, json!({"sampling": {}}))
                .await
                .on_request(|_, _| said("hi"));
            let answer = without.call(name, json!({})).await;
            for (_, sent) in &without.received_requests {
                assert!(
                    sent.get("tools").is_none() && sent.get("toolChoice").is_none(),
                    "{revision}: {sent}"
                );
            }
            if name == "tools" {
                assert!(refused(&answer), "{revision}: {answer}");
            }
            if revision.is_stateless() && answer.get("error").is_some() {
                assert_eq!(answer["error"]["code"], -32021, "{answer}");
                let required = &answer["error"]["data"]["requiredCapabilities"];
                assert_eq!(required["sampling"]["tools"], json!({}), "{answer}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn context_is_asked_for_only_where_it_is_offered() {
    // SAMP-021
    for context in [IncludeContext::ThisServer, IncludeContext::AllServers] {
        let server = Server::new("s", "1").tool(sampler("asks", question().include_context(context)));
        for revision in newer() {
            for (capability, offered) in [(json!({"context": {}}), true), (json!({}), false)] {
                let mut peer = RawClient::connect(&server, revision, json!({"sampling": capability}))
                    .await
                    .on_request(|_, _| said("hi"));
                peer.call("asks", json!({})).await;
                for (_, sent) in &peer.received_requests {
                    let wants = sent.get("includeContext").is_some_and(|context| context != "none");
                    assert!(offered || !wants, "{revision}: {sent}");
                }
                if offered {
                    assert_ne!(peer.received_requests[0].1["includeContext"], "none");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_model_says_is_checked() {
    // SAMP-028
    let server = Server::new("s", "1").tool(sampler("asks", question()));
    for revision in revisions() {
        for wrong in [
            json!({}),
            json!({"role": "assistant", "content": {"type": "text", "text": "x"}}),
            json!({"role": "robot", "model": "m", "content": {"type": "text", "text": "x"}}),
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": 7}}),
            json!({"role": "assistant", "model": "m", "content": {"type": "smell", "text": "x"}}),
            json!({"role": "assistant", "model": "m", "content": "x"}),
            json!({"role": "assistant", "model": 7, "content": {"type": "text", "text": "x"}}),
        ] {
            let answered = wrong.clone();
            let mut peer =
                RawClient::connect(&server, revision, able()).await.on_request(move |_, _| answered.clone());
            let answer = peer.call("asks", json!({})).await;
            assert!(refused(&answer), "{wrong} on {revision}: {answer}");
        }
    }
}

/// Sends the user to a page; notes down each visit.
fn visiting() -> (Server, Arc<Mutex<Vec<UrlElicitation>>>) {
    let visits: Arc<Mutex<Vec<UrlElicitation>>> = Arc::default();
    let kept = visits.clone();
    let login = Tool::new("login").handler(move |cx: Context| {
        let kept = kept.clone();
        async move {
            let visit = cx.url_elicitation("https://example.com/login")?.message("Please log in.");
            kept.lock().unwrap().push(visit.clone());
            visit.ask().await?;
            Ok::<_, HandlerError>("agreed")
        }
    });
    (Server::new("s", "1").tool(login).tool(form("form", simple())), visits)
}

#[tokio::test(start_paused = true)]
async fn a_user_is_asked_only_in_a_way_the_client_can_show() {
    for revision in newer() {
        for (capability, forms, pages) in [
            (json!({}), true, false),
            (json!({"form": {}}), true, false),
            (json!({"url": {}}), false, true),
            (json!({"form": {}, "url": {}}), true, true),
        ] {
            let (server, _) = visiting();
            let mut peer = RawClient::connect(&server, revision, json!({"elicitation": capability}))
                .await
                .on_request(|_, params| {
                    if params["mode"] == "url" {
                        json!({"action": "accept"})
                    } else {
                        accept(json!({"x": "y"}))
                    }
                });
            for (name, fine, mode) in [("form", forms, "form"), ("login", pages, "url")] {
                let before = peer.received_requests.len();
                let answer = peer.call(name, json!({})).await;
                assert_eq!(refused(&answer), !fine, "{name} with {capability} on {revision}: {answer}");
                assert_eq!(peer.received_requests.len() - before, usize::from(fine));
                if !fine && revision.is_stateless() {
                    assert_eq!(answer["error"]["code"], -32021, "{answer}");
                    let required = &answer["error"]["data"]["requiredCapabilities"]["elicitation"];
                    // An empty one means forms.
                    let forms = mode == "form" && required == &json!({});
                    assert!(forms || required.get(mode).is_some(), "{answer}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_to_visit_has_a_name_of_its_own_and_its_end_is_told_under_it() {
    // ELIC-022, ELIC-025
    let (server, visits) = visiting();
    let mut peer = RawClient::connect(&server, Revision::NEWEST_HANDSHAKE, able())
        .await
        .on_request(|_, _| json!({"action": "accept"}));
    for _ in 0..5 {
        assert_eq!(text(&peer.call("login", json!({})).await), "agreed");
    }
    let mut ids: Vec<_> = peer
        .received_requests
        .iter()
        .map(|(method, params)| {
            assert_eq!((method.as_str(), &params["mode"]), ("elicitation/create", &json!("url")));
            assert_eq!(params["message"], "Please log in.");
            assert_eq!(params["url"], "https://example.com/login");
            assert_eq!(params.get("requestedSchema"), None);
            params["elicitationId"].as_str().unwrap().to_owned()
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    let visits = visits.lock().unwrap().clone();
    for visit in visits {
        assert!(visit.complete());
        let told = peer.next().await;
        assert_eq!(told["method"], "notifications/elicitation/complete");
        assert_eq!(told["params"]["elicitationId"], visit.id());
        assert!(ids.contains(&visit.id().to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_says_no_or_never_comes_back_is_not_taken_to_have_said_yes() {
    // ELIC-032, MRTR-007
    let done = Arc::new(AtomicUsize::new(0));
    let counter = done.clone();
    let asks = Tool::new("asks").handler(move |cx: Context| {
        let counter = counter.clone();
        async move {
            cx.ask_form(simple(), "Really?").await?;
            counter.fetch_add(1, Ordering::SeqCst);
            Ok::<_, HandlerError>("done")
        }
    });
    let server = Server::new("s", "1").tool(asks);
    let call = json!({"name": "asks"});
    let mut peer = RawClient::connect(&server, STATELESS, able()).await;
    for action in ["decline", "cancel"] {
        let asked = peer.request_once("tools/call", call.clone()).await;
        let answer = peer.request_once("tools/call", again(&call, &asked, json!({"action": action}))).await;
        assert!(refused(&answer), "{action}: {answer}");
    }
    // Hundreds who do not come back cost nothing and stop nobody.
    for _ in 0..500 {
        let asked = peer.request_once("tools/call", call.clone()).await;
        assert_eq!(asked["result"]["resultType"], "input_required");
    }
    tokio::time::advance(Duration::from_secs(24 * 3_600)).await;
    assert_eq!(done.load(Ordering::SeqCst), 0);
    let asked = peer.request_once("tools/call", call.clone()).await;
    let answer = peer.request_once("tools/call", again(&call, &asked, accept(json!({"x": "yes"})))).await;
    assert_eq!((text(&answer), done.load(Ordering::SeqCst)), ("done", 1));
}

#[tokio::test(start_paused = true)]
async fn agreeing_to_visit_a_page_is_not_having_been_there() {
    // ELIC-033
    let there = Arc::new(AtomicBool::new(false));
    let been = there.clone();
    let login = Tool::new("login").handler(move |cx: Context| {
        let been = been.clone();
        async move {
            for _ in 0..3 {
                if been.load(Ordering::SeqCst) {
                    return Ok::<_, HandlerError>("logged in");
                }
                cx.url_elicitation("https://example.com/login")?.message("Please log in.").ask().await?;
            }
            Err(HandlerError::new("not there yet"))
        }
    });
    let server = Server::new("s", "1").tool(login);
    let call = json!({"name": "login"});
    let mut peer = RawClient::connect(&server, STATELESS, able()).await;
    let first = peer.request_once("tools/call", call.clone()).await;
    // They agreed and were not there: asked again, with a state that holds that they agreed.
    let second = peer.request_once("tools/call", again(&call, &first, json!({"action": "accept"}))).await;
    assert_eq!(second["result"]["resultType"], "input_required", "{second}");
    there.store(true, Ordering::SeqCst);
    let third = peer.request_once("tools/call", again(&call, &second, json!({"action": "accept"}))).await;
    assert_eq!(text(&third), "logged in");
}

#[tokio::test(start_paused = true)]
async fn what_a_user_fills_in_is_checked_against_the_form() {
    // ELIC-046
    let number = |integer, minimum: u32, maximum: u32| FieldKind::Number {
        integer,
        minimum: Some(minimum.into()),
        maximum: Some(maximum.into()),
        default: None,
    };
    let words = |format| FieldKind::Text { min_length: Some(2), max_length: Some(20), format, default: None };
    let schema = FormSchema::new()
        .required_field("x", words(None))
        .field("mail", words(Some(TextFormat::Email)))
        .field("count", number(true, 1, 5))
        .field("share", number(false, 0, 1))
        .field("sure", Field::boolean())
        .field("color", Field::choice(ChoiceOptions::Plain(vec!["red".to_owned(), "blue".to_owned()])));
    let server = Server::new("s", "1").tool(form("asks", schema));
    for revision in revisions().filter(|revision| revision.has_elicitation()) {
        for (content, fine) in [
            (json!({"x": "yes"}), true),
            (
                json!({"x": "yes", "mail": "a@b.example", "count": 5, "share": 0.5, "sure": true, "color": "red"}),
                true,
            ),
            (json!({"x": "日本"}), true),
            (json!({}), false),
            (json!({"x": 7}), false),
            (json!({"x": "y"}), false),
            (json!({"x": "y".repeat(21)}), false),
            (json!({"x": "yes", "mail": "nobody"}), false),
            (json!({"x": "yes", "count": 6}), false),
            (json!({"x": "yes", "count": 1.5}), false),
            (json!({"x": "yes", "count": "3"}), false),
            (json!({"x": "yes", "share": 1.01}), false),
            (json!({"x": "yes", "sure": "true"}), false),
            (json!({"x": "yes", "color": "green"}), false),
            (json!({"x": null}), false),
            (json!([1]), false),
        ] {
            let given = content.clone();
            let mut peer = RawClient::connect(&server, revision, able())
                .await
                .on_request(move |_, _| accept(given.clone()));
            let answer = peer.call("asks", json!({})).await;
            assert_eq!(refused(&answer), !fine, "{content} on {revision}: {answer}");
        }
    }
}

fn places() -> Server {
    Server::new("s", "1").tool(Tool::new("places").handler(|cx: Context| async move {
        let roots = cx.roots().await?;
        Ok::<_, HandlerError>(roots.iter().map(|root| root.uri.clone()).collect::<Vec<_>>().join(" "))
    }))
}

#[tokio::test(start_paused = true)]
async fn roots_are_asked_for_where_they_are_declared_and_again_when_they_changed() {
    // ROOT-003, ROOT-007
    for revision in handshakes() {
        let mut count = 0;
        let mut with = RawClient::connect(&places(), revision, json!({"roots": {"listChanged": true}}))
            .await
            .on_request(move |method, _| {
                assert_eq!(method, "roots/list");
                count += 1;
                json!({"roots": [{"uri": format!("file:///home/{count}")}]})
            });
        assert_eq!(text(&with.call("places", json!({})).await), "file:///home/1", "{revision}");
        with.notify("notifications/roots/list_changed", json!({}));
        let seen = with.received_requests.len();
        let answer = with.call("places", json!({})).await;
        assert_eq!(text(&answer), format!("file:///home/{}", seen + 1), "{revision}");
        let mut without = RawClient::connect(&places(), revision, json!({"sampling": {}})).await;
        assert!(refused(&without.call("places", json!({})).await), "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_does_not_hold_is_an_error_and_a_missing_answer_is_not() {
    // MRTR-027
    let call = json!({"name": "form"});
    let yes = || accept(json!({"x": "yes"}));
    let (server, _) = visiting();
    let mut peer = RawClient::connect(&server, STATELESS, able()).await;
    let asked = peer.request_once("tools/call", call.clone()).await;
    let state = asked["result"]["requestState"].as_str().unwrap();
    // Each letter of it counts.
    for at in 0..state.len() {
        let mut letters = state.as_bytes().to_vec();
        letters[at] = if letters[at] == b'A' { b'B' } else { b'A' };
        let mut tampered = again(&call, &asked, yes());
        tampered["requestState"] = json!(String::from_utf8(letters).unwrap());
        let answer = peer.request_once("tools/call", tampered).await;
        assert_eq!(answer["error"]["code"], -32602, "letter {at}: {answer}");
    }
    let mut missing = again(&call, &asked, yes());
    missing.as_object_mut().unwrap().remove("inputResponses");
    let answer = peer.request_once("tools/call", missing).await;
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert_eq!(text(&peer.request_once("tools/call", again(&call, &asked, yes())).await), "true");
    let mut peer = RawClient::connect(&server.state_ttl(Duration::ZERO), STATELESS, able()).await;
    let asked = peer.request_once("tools/call", call.clone()).await;
    let answer = peer.request_once("tools/call", again(&call, &asked, yes())).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn holding_a_state_proves_nothing_about_who_holds_it() {
    // SEC-018, SEC-019
    let (server, _) = visiting();
    let call = json!({"name": "form"});
    let mut ada = RawClient::connect_as(&server, Principal::new("ada"), STATELESS, able()).await;
    let mut states = Vec::new();
    for _ in 0..100 {
        let asked = ada.request_once("tools/call", call.clone()).await;
        let retry = again(&call, &asked, accept(json!({"x": "yes"})));
        states.push(asked["result"]["requestState"].as_str().unwrap().to_owned());
        for other in
            [Principal::new("eve"), Principal::new("ada").with_issuer("elsewhere").with_scopes(["admin"])]
        {
            let mut other = RawClient::connect_as(&server, other, STATELESS, able()).await;
            let answer = other.request_once("tools/call", retry.clone()).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        assert_eq!(text(&ada.request_once("tools/call", retry).await), "true");
    }
    states.sort();
    states.dedup();
    assert_eq!(states.len(), 100, "no two are alike");
    // What was allowed when it was asked is looked at again when it is taken up.
    let guarded = Server::new("s", "1")
        .tool(form("form", simple()).tag("admin"))
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")));
    let admin = Principal::new("ada").with_issuer("i").with_scopes(["admin"]);
    let mut ada = RawClient::connect_as(&guarded, admin, STATELESS, able()).await;
    let asked = ada.request_once("tools/call", call.clone()).await;
    let retry = again(&call, &asked, accept(json!({"x": "yes"})));
    let demoted = Principal::new("ada").with_issuer("i");
    let mut demoted = RawClient::connect_as(&guarded, demoted, STATELESS, able()).await;
    let answer = demoted.request_once("tools/call", retry).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_wish_for_a_task_is_ignored_where_there_are_none_and_never_sent_to_who_has_none() {
    // TASK-002, TASK-011
    let server = Server::new("s", "1")
        .tool(sampler("samples", question()))
        .tool(form("form", simple()))
        .tool(Tool::new("t").handler(|| async { "t" }));
    let old = Revision::NEWEST_HANDSHAKE;
    let mut peer = RawClient::connect(&server, old, able()).await.on_request(|method, _| {
        if method == "elicitation/create" { accept(json!({"x": "y"})) } else { said("hi") }
    });
    let opened = json!({
        "protocolVersion": old.as_str(), "capabilities": able(), "clientInfo": {"name": "c", "version": "1"},
    });
    let opened = peer.request("initialize", opened).await;
    assert_eq!(opened["result"]["capabilities"].get("tasks"), None, "{opened}");
    peer.notify("notifications/initialized", json!({}));
    for (name, expected) in [("t", "t"), ("samples", "m"), ("form", "true")] {
        let answer = peer.request("tools/call", json!({"name": name, "task": {"ttl": 60_000}})).await;
        assert_eq!(text(&answer), expected, "{answer}");
        assert_eq!(answer["result"].get("task"), None);
    }
    assert_eq!(peer.received_requests.len(), 2);
    assert!(
        peer.received_requests.iter().all(|(_, params)| params.get("task").is_none()),
        "{:?}",
        peer.received_requests
    );
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_asked_for_in_a_form() {
    let fields = [
        "password",
        "Password",
        "user_password",
        "passwd",
        "apiKey",
        "api_key",
        "API-Key",
        "access_token",
        "accessToken",
        "token",
        "secret",
        "client_secret",
        "credit_card",
        "creditCardNumber",
        "card_number",
        "cvv",
        "private_key",
    ];
    let forms = fields
        .iter()
        .map(|field| FormSchema::new().required_field(*field, Field::text()))
        .chain([
            FormSchema::new().required_field("x", Field::text().title("Your password")),
            FormSchema::new().required_field("x", Field::text().title("API key")),
            FormSchema::new().field("fine", Field::text()).field("password", Field::text()),
        ])
        .collect::<Vec<_>>();
    for revision in revisions().filter(|revision| revision.has_elicitation()) {
        for schema in &forms {
            let server = Server::new("s", "1").tool(form("asks", schema.clone()));
            let mut peer = RawClient::connect(&server, revision, able())
                .await
                .on_request(|_, _| accept(json!({"x": "swordfish"})));
            let answer = peer.call("asks", json!({})).await;
            assert!(peer.received_requests.is_empty(), "{revision}: {:?}", peer.received_requests);
            assert!(refused(&answer), "{revision}: {answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_answers_of_every_kind_are_errors() {
    // MRTR-021
    let server = places().tool(sampler("samples", question())).tool(form("form", simple()));
    let mut peer = RawClient::connect(&server, STATELESS, able()).await;
    for (name, answer) in [
        ("form", json!({"action": "perhaps"})),
        ("form", accept(json!({"x": 7}))),
        ("samples", json!({"role": "assistant", "model": "m", "content": {"type": "smell"}})),
        ("samples", json!({"roots": []})),
        ("places", json!({"roots": 7})),
        ("places", json!({"roots": [{"name": "x"}]})),
        ("places", json!({"roots": [{"uri": "/etc"}]})),
        ("places", json!({"roots": [{"uri": "https://example.com/"}]})),
    ] {
        let call = json!({"name": name});
        let asked = peer.request_once("tools/call", call.clone()).await;
        let refused = peer.request_once("tools/call", again(&call, &asked, answer.clone())).await;
        assert_eq!(refused["error"]["code"], -32602, "{answer}: {refused}");
    }
}

fn tool_use(id: &str) -> SamplingBlock {
    SamplingBlock::ToolUse(ToolUse::new(id, "weather", RawJson::from_value(&json!({})).unwrap()))
}

fn tool_result(id: &str) -> SamplingBlock {
    SamplingBlock::ToolResult(ToolResult::new(id, vec![ContentBlock::text("sunny")]))
}

fn conversation(messages: Vec<SamplingMessage>) -> CreateMessageParams {
    CreateMessageParams::new(messages, 100_u64)
}

#[tokio::test(start_paused = true)]
async fn results_of_tools_stand_alone_in_their_message() {
    // SAMP-014
    let mixed = vec![
        user("?"),
        SamplingMessage::new(Role::Assistant, vec![tool_use("a")]),
        SamplingMessage::new(Role::User, vec![tool_result("a"), SamplingBlock::text("and then?")]),
    ];
    let server = Server::new("s", "1").tool(sampler("mixed", conversation(mixed)));
    for revision in newer() {
        let mut peer = RawClient::connect(&server, revision, able()).await.on_request(|_, _| said("hi"));
        let answer = peer.call("mixed", json!({})).await;
        assert!(peer.received_requests.is_empty(), "{revision}: {:?}", peer.received_requests);
        assert!(refused(&answer), "{revision}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_leaves_a_tool_unanswered_is_not_sent() {
    // SAMP-015
    let assistant = |blocks: Vec<SamplingBlock>| SamplingMessage::new(Role::Assistant, blocks);
    let answers = |blocks: Vec<SamplingBlock>| SamplingMessage::new(Role::User, blocks);
    let good = vec![
        user("?"),
        assistant(vec![tool_use("a"), tool_use("b")]),
        answers(vec![tool_result("b"), tool_result("a")]),
    ];
    let bad = [
        (
            "one is missing",
            vec![user("?"), assistant(vec![tool_use("a"), tool_use("b")]), answers(vec![tool_result("a")])],
        ),
        ("none is there", vec![user("?"), assistant(vec![tool_use("a")]), user("and?")]),
        ("another's", vec![user("?"), assistant(vec![tool_use("a")]), answers(vec![tool_result("z")])]),
        ("it ends there", vec![user("?"), assistant(vec![tool_use("a")])]),
    ];
    let server = Server::new("s", "1").tool(sampler("good", conversation(good)));
    for revision in newer() {
        let mut peer = RawClient::connect(&server, revision, able()).await.on_request(|_, _| said("hi"));
        assert_eq!(text(&peer.call("good", json!({})).await), "m", "{revision}");
        for (why, messages) in &bad {
            let server = Server::new("s", "1").tool(sampler("bad", conversation(messages.clone())));
            let mut peer = RawClient::connect(&server, revision, able()).await.on_request(|_, _| said("hi"));
            let answer = peer.call("bad", json!({})).await;
            assert!(peer.received_requests.is_empty(), "{why} on {revision}: {:?}", peer.received_requests);
            assert!(refused(&answer), "{why} on {revision}: {answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wishes_for_a_model_lie_between_0_and_1() {
    // SAMP-025
    let wish = |value: f64| {
        [
            ModelPreferences::default().cost_priority(value),
            ModelPreferences::default().speed_priority(value),
            ModelPreferences::default().intelligence_priority(value),
        ]
    };
    for revision in revisions() {
        for value in [0.0, 0.5, 1.0, -0.1, 1.5, 100.0] {
            for preferences in wish(value) {
                let server =
                    Server::new("s", "1").tool(sampler("asks", question().model_preferences(preferences)));
                let mut peer =
                    RawClient::connect(&server, revision, able()).await.on_request(|_, _| said("hi"));
                peer.call("asks", json!({})).await;
                if (0.0..=1.0).contains(&value) {
                    assert_eq!(peer.received_requests.len(), 1, "{value} on {revision}");
                }
                for (_, sent) in &peer.received_requests {
                    for wish in sent["modelPreferences"].as_object().into_iter().flat_map(|it| it.values()) {
                        assert!((0.0..=1.0).contains(&wish.as_f64().unwrap()), "{revision}: {sent}");
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_is_named_in_no_refusal_to_who_cannot_open_one() {
    // ELIC-004, LIFE-016
    let server = Server::new("s", "1").tool(Tool::new("login").handler(|cx: Context| async move {
        let page = cx.url_elicitation("https://example.com/login")?.message("Please log in.");
        Err::<(), HandlerError>(page.required_error())
    }));
    for revision in newer() {
        for capabilities in [json!({}), json!({"elicitation": {}}), json!({"elicitation": {"form": {}}})] {
            let answer = RawClient::connect(&server, revision, capabilities.clone())
                .await
                .call("login", json!({}))
                .await;
            assert!(refused(&answer), "{revision}: {answer}");
            assert!(
                !answer.to_string().contains("https://example.com"),
                "{capabilities} on {revision}: {answer}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_of_any_kind_are_not_asked_for_in_a_form() {
    // ELIC-018, ELIC-019
    for field in
        ["github_token", "api_token", "bearerToken", "session_token", "passcode", "credentials", "iban"]
    {
        for revision in revisions().filter(|revision| revision.has_elicitation()) {
            let schema = FormSchema::new().required_field(field, Field::text());
            let server = Server::new("s", "1").tool(form("asks", schema));
            let mut peer = RawClient::connect(&server, revision, able())
                .await
                .on_request(move |_, _| accept(json!({field: "swordfish"})));
            let answer = peer.call("asks", json!({})).await;
            assert!(
                peer.received_requests.is_empty() && refused(&answer),
                "{field} on {revision}: {:?}",
                peer.received_requests
            );
        }
    }
}
