//! Requirements on questions to the client: forms, web pages, sampling and the rounds of 2026-07-28.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::Role;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema, TextFormat};
use tsugite::protocol::sampling::{CreateMessageParams, ModelPreferences, SamplingMessage};
use tsugite::server::UrlElicitation;
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;

fn revisions() -> impl Iterator<Item = Revision> {
    Revisions::ALL.newest_first()
}

/// The revisions with URL elicitation and tools in sampling.
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

fn sampling_result(text: &str) -> Value {
    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": text}})
}

fn user(text: &str) -> SamplingMessage {
    SamplingMessage::new(Role::User, SamplingBlock::text(text))
}

fn question() -> CreateMessageParams {
    CreateMessageParams::new(vec![user("?")], 100_u64)
}

/// A tool that asks the model; its failure is that of the call.
fn sampler(name: &str, params: CreateMessageParams) -> Tool {
    Tool::new(name).handler(move |cx: Context| {
        let params = params.clone();
        async move {
            let answer = cx.sample(params).await?;
            Ok::<_, HandlerError>(answer.model)
        }
    })
}

/// A tool that asks for a form; its failure is that of the call.
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

/// Whether the call failed, as an error or as a failed result.
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

/// The call again, with its state and the response to its only question.
fn again(call: &Value, asked: &Value, answer: Value) -> Value {
    let mut call = call.clone();
    call["requestState"] = asked["result"]["requestState"].clone();
    call["inputResponses"] = json!({only_key(asked): answer});
    call
}

#[tokio::test(start_paused = true)]
async fn malformed_sampling_results_are_refused() {
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

/// A server whose tool sends the user to a web page, and the list of those pages.
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
async fn elicitation_mode_must_be_declared() {
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
async fn elicitation_id_is_unique_and_names_its_completion() {
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
async fn only_an_accepted_form_lets_the_handler_continue() {
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
    // Hundreds of abandoned calls do not delay others.
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
async fn accepting_a_page_does_not_mean_it_was_visited() {
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
    // Accepted but not visited: the page is requested again.
    let second = peer.request_once("tools/call", again(&call, &first, json!({"action": "accept"}))).await;
    assert_eq!(second["result"]["resultType"], "input_required", "{second}");
    there.store(true, Ordering::SeqCst);
    let third = peer.request_once("tools/call", again(&call, &second, json!({"action": "accept"}))).await;
    assert_eq!(text(&third), "logged in");
}

#[tokio::test(start_paused = true)]
async fn form_content_is_validated() {
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

#[tokio::test(start_paused = true)]
async fn tampered_state_is_refused_and_missing_response_is_not() {
    // MRTR-027
    let call = json!({"name": "form"});
    let yes = || accept(json!({"x": "yes"}));
    let (server, _) = visiting();
    let mut peer = RawClient::connect(&server, STATELESS, able()).await;
    let asked = peer.request_once("tools/call", call.clone()).await;
    let state = asked["result"]["requestState"].as_str().unwrap();
    // Changing any single letter is detected.
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
async fn state_does_not_authenticate_its_holder() {
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
    // Authorization is checked again when the call is resumed.
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
async fn secret_fields_are_refused_in_forms() {
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
async fn model_priorities_lie_between_0_and_1() {
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
                let mut peer = RawClient::connect(&server, revision, able())
                    .await
                    .on_request(|_, _| sampling_result("hi"));
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
async fn page_url_is_hidden_from_clients_without_url_mode() {
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
async fn only_calls_reads_and_prompts_ask_for_input() {
    // MRTR-003: the handler of a completion cannot ask, and the library asks in no other request.
    let complete = |_: tsugite::server::CompletionRequest, cx: Context| async move {
        let roots = cx.roots().await.map(|roots| vec![roots.len().to_string()]);
        roots.unwrap_or_else(|error| vec![format!("{error}")])
    };
    let prompt = Prompt::new("p")
        .argument(tsugite::protocol::prompts::PromptArgument::new("a"))
        .complete("a", complete);
    let asks = Tool::new("asks").handler(|cx: Context| async move { cx.roots().await.map(|_| "asked") });
    let server = Server::new("s", "1")
        .tool(asks)
        .prompt(prompt.handler(|| async { "p" }))
        .resource(Resource::text("x:y", "z"));
    let mut peer = RawClient::connect(&server, STATELESS, able()).await;
    let asked = peer.request_once("tools/call", json!({"name": "asks", "arguments": {}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let completion =
        json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
    let completed = peer.request_once("completion/complete", completion).await;
    let values = completed["result"]["completion"]["values"][0].as_str();
    assert!(values.is_some_and(|text| text.contains("cannot ask the client")), "{completed}");
    for method in
        ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"]
    {
        let answer = peer.request_once(method, json!({})).await;
        assert_eq!(answer["result"]["resultType"], "complete", "{method}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn web_pages_are_https_except_on_the_loopback() {
    // ELIC-039
    let visit = Tool::new("visit").handler(|cx: Context, Args(url): Args<Url>| async move {
        match cx.url_elicitation(url.url) {
            Ok(page) => page.ask().await.map(|()| "opened".to_owned()),
            Err(error) => Ok(error.to_string()),
        }
    });
    let server = Server::new("s", "1").tool(visit);
    for revision in newer() {
        let mut peer = RawClient::connect(&server, revision, able()).await.on_request(|_, params| {
            let url = params["url"].as_str().unwrap();
            assert!(
                url.starts_with("https://") || url.contains("localhost") || url.contains("127.0.0.1"),
                "{url}"
            );
            json!({"action": "accept"})
        });
        for url in ["https://example.com/a", "http://localhost:8080/", "http://127.0.0.1/"] {
            assert_eq!(text(&peer.call("visit", json!({"url": url})).await), "opened", "{revision} {url}");
        }
        for url in [
            "http://example.com/",
            "http://localhost.example.com/",
            "http://192.168.0.1/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "example.com",
            "https://bank.example@evil.example/",
        ] {
            let refused = peer.call("visit", json!({"url": url})).await;
            assert!(text(&refused).contains("must"), "{revision} {url}: {refused}");
        }
    }
}

#[derive(serde::Deserialize, JsonSchema)]
struct Url {
    url: String,
}
