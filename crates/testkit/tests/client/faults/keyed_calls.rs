//! Calls of tools that run once for each idempotency key: which calls have a key, and which of them are sent again.

use serde_json::{Value, json};
use tsugite::client::{Client, ClientBuilder, FormResponse};

use super::raw::{AfterResponse, Raw, ReceivedRequest, answer_handshake};
use super::within;

const KEY: &str = "dev.tsugite/idempotency-key";
const EXTENSION: &str = "dev.tsugite/idempotency";

/// A server that loses the first call, and answers the others.
fn server(tool_meta: Value) -> Raw {
    let lost = std::sync::atomic::AtomicBool::new(false);
    Raw::start(move |request, writer| {
        let answer = match request.method() {
            "tools/call" if !lost.swap(true, std::sync::atomic::Ordering::SeqCst) => {
                return AfterResponse::Close;
            }
            "tools/call" => request.answer("done"),
            "tools/list" => {
                let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": tool_meta});
                request.result(
                    json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
                )
            }
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        };
        writer.json(&answer);
        AfterResponse::Keep
    })
}

fn durable(retention_ms: u64) -> Value {
    json!({EXTENSION: {"retentionMs": retention_ms, "durable": true}})
}

fn enabled(raw: &Raw) -> ClientBuilder {
    raw.stateless_client().repeat_keyed_calls(true)
}

fn keys(raw: &Raw) -> Vec<Value> {
    let calls = raw.requests().into_iter().filter(ReceivedRequest::is_call);
    calls.map(|call| call.body["params"]["_meta"][KEY].clone()).collect()
}

async fn call(client: &Client) -> bool {
    let called = within(client.call::<String>("t", json!({}))).await;
    if let Err(error) = &called {
        assert!(error.is_connection_lost() && error.may_have_run(), "{error}");
    }
    called.is_ok()
}

#[tokio::test]
async fn lost_call_is_sent_again_with_its_key() {
    for builder in [enabled, |raw: &Raw| raw.client().repeat_keyed_calls(true)] {
        let raw = server(durable(3_600_000));
        let client = within(builder(&raw)).await.unwrap();
        within(client.list_tools()).await.unwrap();
        assert!(call(&client).await && call(&client).await);
        let keys = keys(&raw);
        let [first, again, other] = &keys[..] else { panic!("{keys:?}") };
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_eq!(first.as_str().unwrap().len(), 32, "128 random bits");
    }
}

/// A server that says of the first call that it still runs, and answers the others.
fn busy_server() -> Raw {
    let told = std::sync::atomic::AtomicBool::new(false);
    Raw::start(move |request, writer| {
        let answer = match request.method() {
            "tools/call" if !told.swap(true, std::sync::atomic::Ordering::SeqCst) => {
                let error = json!({"code": -32603, "message": "it runs", "data": {EXTENSION: "running"}});
                json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error})
            }
            "tools/call" => request.answer("done"),
            "tools/list" => {
                let tool =
                    json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": durable(3_600_000)});
                request.result(
                    json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
                )
            }
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        };
        writer.json(&answer);
        AfterResponse::Keep
    })
}

#[tokio::test]
async fn call_that_still_runs_is_sent_again_with_its_key() {
    let raw = busy_server();
    let client = within(enabled(&raw)).await.unwrap();
    within(client.list_tools()).await.unwrap();
    assert!(call(&client).await);
    let keys = keys(&raw);
    assert!(keys.len() == 2 && keys[0].is_string() && keys[0] == keys[1], "{keys:?}");
}

#[tokio::test]
async fn call_that_still_runs_is_an_error_unless_enabled() {
    let raw = busy_server();
    let client = within(raw.stateless_client()).await.unwrap();
    within(client.list_tools()).await.unwrap();
    let error = within(client.call::<String>("t", json!({}))).await.unwrap_err();
    assert!(error.to_string().contains("it runs"), "{error}");
    assert_eq!(keys(&raw).len(), 1);
}

#[tokio::test]
async fn rounds_of_a_call_have_one_key() {
    let raw = Raw::start(|request, writer| {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let params = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
        let question = json!({"name": {"method": "elicitation/create", "params": params}});
        let answer = match request.method() {
            "tools/call" if request.body["params"]["requestState"] == "one" => request.answer("done"),
            "tools/call" => request.result(
                json!({"resultType": "input_required", "inputRequests": question, "requestState": "one"}),
            ),
            "tools/list" => {
                let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": durable(1)});
                request.result(
                    json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
                )
            }
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        };
        writer.json(&answer);
        AfterResponse::Keep
    });
    let answering =
        raw.stateless_client().on_elicit_form(async |_| FormResponse::accept(json!({"name": "Ada"})));
    let client = within(answering).await.unwrap();
    within(client.list_tools()).await.unwrap();
    assert!(call(&client).await);
    let keys = keys(&raw);
    assert!(keys.len() == 2 && keys[0].is_string() && keys[0] == keys[1], "{keys:?}");
}

#[tokio::test]
async fn lost_call_is_not_sent_again_unless_enabled() {
    let raw = server(durable(3_600_000));
    let client = within(raw.stateless_client()).await.unwrap();
    within(client.list_tools()).await.unwrap();
    assert!(!call(&client).await);
    let keys = keys(&raw);
    assert!(keys.len() == 1 && keys[0].is_string(), "{keys:?}");
}

#[tokio::test]
async fn only_calls_that_the_server_remembers_are_sent_again() {
    for (meta, has_key) in [
        // The server forgets when it restarts, which is one way to lose a call.
        (json!({EXTENSION: {"retentionMs": 3_600_000}}), true),
        // It has forgotten already.
        (durable(0), true),
        (json!({}), false),
        (json!({EXTENSION: true}), false),
        (json!({EXTENSION: {"retentionMs": -1, "durable": true}}), false),
    ] {
        let raw = server(meta.clone());
        let client = within(enabled(&raw)).await.unwrap();
        within(client.list_tools()).await.unwrap();
        assert!(!call(&client).await, "{meta}");
        assert_eq!(keys(&raw).iter().map(Value::is_string).collect::<Vec<_>>(), [has_key], "{meta}");
    }
}

/// A server that replaces its tool during the first call, which it loses: the new one does not look at keys unless `kept`.
fn changing_server(kept: bool) -> Raw {
    let lost = std::sync::atomic::AtomicBool::new(false);
    Raw::start(move |request, writer| {
        let order = std::sync::atomic::Ordering::SeqCst;
        let answer = match request.method() {
            "tools/call" if !lost.swap(true, order) => {
                let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                writer.stream();
                writer.event(None, &changed);
                return AfterResponse::Close;
            }
            "tools/call" => request.answer("done"),
            "tools/list" => {
                let meta = if kept || !lost.load(order) { durable(3_600_000) } else { json!({}) };
                let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": meta});
                request.result(
                    json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
                )
            }
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        };
        writer.json(&answer);
        AfterResponse::Keep
    })
}

#[tokio::test]
async fn changed_tool_is_looked_at_before_a_repeat() {
    for (kept, calls) in [(true, 2), (false, 1)] {
        let raw = changing_server(kept);
        let client = within(enabled(&raw)).await.unwrap();
        within(client.list_tools()).await.unwrap();
        assert_eq!(call(&client).await, kept);
        assert_eq!(keys(&raw).len(), calls);
        assert_eq!(raw.count(|request| request.method() == "tools/list"), 2);
    }
}

#[tokio::test]
async fn unlisted_tool_is_looked_up_if_repeats_are_enabled() {
    let raw = server(durable(3_600_000));
    let client = within(enabled(&raw)).await.unwrap();
    assert!(call(&client).await && call(&client).await);
    let keys = keys(&raw);
    assert!(keys.len() == 3 && keys[0].is_string() && keys[0] == keys[1] && keys[1] != keys[2], "{keys:?}");
    assert_eq!(raw.count(|request| request.method() == "tools/list"), 1);
}

#[tokio::test]
async fn unlisted_tool_gets_no_key_unless_repeats_are_enabled() {
    let raw = server(durable(3_600_000));
    let client = within(raw.stateless_client()).await.unwrap();
    assert!(!call(&client).await);
    assert_eq!(keys(&raw), [Value::Null]);
    assert_eq!(raw.count(|request| request.method() == "tools/list"), 0);
}

#[tokio::test]
async fn unreadable_list_fails_a_call_before_it_runs() {
    let raw = Raw::start(|request, writer| {
        match request.method() {
            "tools/list" => writer.status(500, "", "broken"),
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        }
        AfterResponse::Keep
    });
    let client = within(enabled(&raw)).await.unwrap();
    let error = within(client.call::<String>("t", json!({}))).await.unwrap_err();
    assert!(!error.may_have_run(), "{error}");
    assert_eq!(keys(&raw).len(), 0);
}

/// A server that fails these calls one after another, and answers the others: `None` closes the connection, and a status is one
/// of a proxy.
fn restarting_server(retention_ms: u64, failures: &'static [Option<u16>]) -> Raw {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    Raw::start(move |request, writer| {
        let answer = match request.method() {
            "tools/call" => match failures.get(calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst)) {
                Some(None) => return AfterResponse::Close,
                Some(Some(status)) => {
                    writer.status(*status, "", "starting");
                    return AfterResponse::Keep;
                }
                None => request.answer("done"),
            },
            "tools/list" => {
                let tool =
                    json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": durable(retention_ms)});
                request.result(
                    json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
                )
            }
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        };
        writer.json(&answer);
        AfterResponse::Keep
    })
}

#[tokio::test]
async fn call_with_a_key_outlives_a_restart_of_its_server() {
    let failures: &[_] = &[None, Some(502), None, Some(504)];
    for builder in [enabled, |raw: &Raw| raw.client().repeat_keyed_calls(true)] {
        let raw = restarting_server(3_600_000, failures);
        let client = within(builder(&raw)).await.unwrap();
        within(client.list_tools()).await.unwrap();
        assert!(call(&client).await);
        let keys = keys(&raw);
        assert!(keys.len() == 5 && keys.iter().all(|key| key.is_string() && *key == keys[0]), "{keys:?}");
    }
}

#[tokio::test]
async fn call_whose_key_may_be_forgotten_is_not_sent_again() {
    let raw = restarting_server(250, &[None; 8]);
    let client = within(enabled(&raw)).await.unwrap();
    within(client.list_tools()).await.unwrap();
    assert!(!call(&client).await);
    // The pauses are 100 and 200 milliseconds.
    let keys = keys(&raw);
    assert!((1..=2).contains(&keys.len()), "{keys:?}");
}

#[tokio::test]
async fn repeats_for_a_key_end_with_the_call() {
    let raw = restarting_server(3_600_000, &[None; 64]);
    let client = within(enabled(&raw)).await.unwrap();
    within(client.list_tools()).await.unwrap();
    let limit = std::time::Duration::from_secs(1);
    let error = within(client.call::<String>("t", json!({})).total_timeout(limit)).await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    let keys = keys(&raw);
    assert!((1..=4).contains(&keys.len()), "{keys:?}");
}

#[tokio::test]
async fn key_of_the_application_is_kept() {
    let raw = server(durable(3_600_000));
    let client = within(enabled(&raw)).await.unwrap();
    within(client.list_tools()).await.unwrap();
    let called = client.call::<String>("t", json!({})).meta(KEY, "the-key-of-an-application");
    assert_eq!(within(called).await.unwrap(), "done");
    assert_eq!(keys(&raw), ["the-key-of-an-application", "the-key-of-an-application"]);
}
