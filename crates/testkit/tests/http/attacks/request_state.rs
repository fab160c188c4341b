//! Sealed request states that come back altered, expired, from another caller, or for another call (2026-07-28).

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::server::{SealKey, SealKeys};
use tsugite_testkit::http::{Request, Response};

use super::guard::{Guarded, by};
use super::{refused, request, text};

#[derive(Form)]
struct Sure {
    sure: bool,
}

#[derive(serde::Deserialize, JsonSchema)]
struct Path {
    path: String,
}

fn server() -> Server {
    let ask = |name: &str| {
        Tool::new(name).handler(|Args(Path { path }): Args<Path>, cx: Context| async move {
            let sure = cx.ask::<Sure>("Sure?").key("sure").await?.sure;
            Ok::<_, HandlerError>(format!("{path} {sure}"))
        })
    };
    let visit = Tool::new("visit").handler(|cx: Context| async move {
        cx.url_elicitation("https://example.com/")?.message("Go.").ask().await?;
        Ok::<_, HandlerError>("went")
    });
    Server::new("s", "1").tool(ask("delete")).tool(ask("erase")).tool(visit)
}

/// A call of the stateless era by a client that declares elicitation.
fn asks(name: &str, path: &str, state: Option<&str>, answers: Option<Value>) -> Request {
    let can = json!({"elicitation": {"form": {}}});
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": can});
    let mut params = json!({"name": name, "arguments": {"path": path}, "_meta": meta});
    if let Some(state) = state {
        params["requestState"] = json!(state);
    }
    if let Some(answers) = answers {
        params["inputResponses"] = answers;
    }
    Request::stateless(request(7, "tools/call", params))
}

fn sure() -> Option<Value> {
    Some(json!({"sure": {"action": "accept", "content": {"sure": true}}}))
}

#[track_caller]
fn state(asked: &Response) -> String {
    let result = &asked.json()["result"];
    assert_eq!((asked.status, &result["resultType"]), (200, &json!("input_required")), "{asked:?}");
    result["requestState"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn altered_request_state_is_refused() {
    // M-01, MRTR-011, MRTR-027
    let guarded = Guarded::start(&server()).await;
    let elsewhere = Guarded::start(&server()).await;
    let sealed = state(&guarded.send(asks("delete", "/a", None, None)).await);
    let foreign = state(&elsewhere.send(asks("delete", "/a", None, None)).await);
    let middle = sealed.len() / 2;
    let flipped = |at: usize| {
        let letter = if sealed.as_bytes()[at] == b'A' { "B" } else { "A" };
        format!("{}{letter}{}", &sealed[..at], &sealed[at + 1..])
    };
    for state in [
        flipped(0),
        flipped(middle),
        flipped(sealed.len() - 2),
        format!("{sealed}A"),
        format!("{sealed}{sealed}"),
        sealed[..middle].to_owned(),
        String::new(),
        "nonsense".to_owned(),
        foreign,
    ] {
        let answer = guarded.send(asks("delete", "/a", Some(&state), sure())).await;
        assert_eq!(refused(&answer), (200, -32602), "{state}");
    }
    for state in [json!(7), json!(null), json!({})] {
        let mut message = serde_json::from_slice::<Value>(&asks("delete", "/a", None, sure()).body).unwrap();
        message["params"]["requestState"] = state.clone();
        let answer = guarded.send(Request::stateless(message)).await;
        // Null counts as absent.
        assert!(state.is_null() || refused(&answer) == (200, -32602), "{state}: {answer:?}");
    }
    assert_eq!(text(&guarded.send(asks("delete", "/a", Some(&sealed), sure())).await), "/a true");
}

#[tokio::test]
async fn request_state_is_bound_to_its_caller_and_call() {
    // M-02, M-04, S-11
    let guarded = Guarded::start(&server()).await;
    let sealed = state(&guarded.send(by("ada@one", asks("delete", "/a", None, None))).await);
    let again = asks("delete", "/a", Some(&sealed), sure());
    for request in [
        by("eve@one", again.clone()),
        by("ada@two", again.clone()),
        again.clone(),
        by("ada@one", asks("erase", "/a", Some(&sealed), sure())),
        by("ada@one", asks("delete", "/b", Some(&sealed), sure())),
    ] {
        assert_eq!(refused(&guarded.send(request.clone()).await), (200, -32602), "{request:?}");
    }
    assert_eq!(text(&guarded.send(by("ada@one", again)).await), "/a true");
}

#[tokio::test]
async fn expired_request_state_is_refused() {
    // M-03
    let guarded = Guarded::start(&server().state_ttl(Duration::ZERO)).await;
    let sealed = state(&guarded.send(asks("delete", "/a", None, None)).await);
    let answer = guarded.send(asks("delete", "/a", Some(&sealed), sure())).await;
    assert_eq!(refused(&answer), (200, -32602));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("expired"), "{answer:?}");
}

#[tokio::test]
async fn unrequested_input_responses_are_ignored() {
    // M-06
    let guarded = Guarded::start(&server()).await;
    let sealed = state(&guarded.send(asks("delete", "/a", None, None)).await);
    let send = |answers: Value| guarded.send(asks("delete", "/a", Some(&sealed), Some(answers)));
    let stray = json!({"other": {"action": "accept", "content": {"sure": true}}});
    for missing in [stray, json!({})] {
        let asked = send(missing.clone()).await;
        assert!(asked.json()["result"]["inputRequests"].get("sure").is_some(), "{missing}: {asked:?}");
    }
    for wrong in [
        json!({"sure": null}),
        json!({"sure": 7}),
        json!({"sure": {"action": "maybe"}}),
        json!({"sure": {"action": "accept", "content": {"sure": "yes"}}}),
        json!({"sure": {"action": "accept", "content": {}}}),
        json!({"sure": {"roots": []}}),
        json!([]),
        json!("sure"),
    ] {
        let answer = send(wrong.clone()).await;
        assert_eq!(refused(&answer), (200, -32602), "{wrong}");
    }
}

#[tokio::test]
async fn undeclared_capabilities_are_not_requested() {
    // M-07, MRTR-006
    let guarded = Guarded::start(&server()).await;
    let call = |name: &str, can: Value| {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": can});
        let params = json!({"name": name, "arguments": {"path": "/a"}, "_meta": meta});
        guarded.send(Request::stateless(request(7, "tools/call", params)))
    };
    for (name, can) in [
        ("delete", json!({})),
        ("delete", json!({"sampling": {}, "roots": {}})),
        ("delete", json!({"elicitation": {"url": {}}})),
        ("visit", json!({})),
        ("visit", json!({"elicitation": {"form": {}}})),
        ("visit", json!({"elicitation": {}})),
    ] {
        let answer = call(name, can.clone()).await;
        assert_eq!(refused(&answer), (400, -32021), "{name} {can}");
        assert!(answer.json()["error"]["data"]["requiredCapabilities"].get("elicitation").is_some());
    }
    state(&call("delete", json!({"elicitation": {}})).await);
    state(&call("visit", json!({"elicitation": {"url": {}}})).await);
}

#[tokio::test]
async fn sealing_key_may_rotate_during_elicitation() {
    // M-12
    let (old, new) = (|| SealKey::new([1; 32]), || SealKey::new([2; 32]));
    let before = Guarded::start(&server().seal_keys(old())).await;
    let during = Guarded::start(&server().seal_keys(SealKeys::new(new()).older(old()))).await;
    let after = Guarded::start(&server().seal_keys(new())).await;
    let first = state(&before.send(asks("delete", "/a", None, None)).await);
    let second = state(&during.send(asks("delete", "/a", None, None)).await);
    let send = |sealed: &str| asks("delete", "/a", Some(sealed), sure());
    assert_eq!(text(&during.send(send(&first)).await), "/a true");
    assert_eq!(text(&after.send(send(&second)).await), "/a true");
    assert_eq!(refused(&after.send(send(&first)).await), (200, -32602));
    assert_eq!(refused(&before.send(send(&second)).await), (200, -32602));
}
