//! Requests that a server must not send, or must send differently.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tsugite::client::{Client, ClientBuilder, ErrorKind, FormResponse};
use tsugite::prelude::*;
use tsugite_testkit::script::ScriptFile;

use super::raw::{AfterResponse, Raw, answer_handshake};
use super::script::{noted, script, spawn, spawn_modern};
use super::{HANDSHAKE, call, kind, until, within};

const FORM: &str = r#"{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}"#;

/// The responses that a child has read, with the ids of its requests, once there are `count` of them.
async fn answers(client: &Client, count: usize) -> Vec<(Value, Value)> {
    until(|| known_answers(client).len() >= count).await;
    known_answers(client)
}

fn known_answers(client: &Client) -> Vec<(Value, Value)> {
    let said = client.stderr();
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter(|message| message.get("method").is_none())
        .map(|message| (message["id"].clone(), message))
        .collect()
}

/// A client whose form handler counts its calls and waits for a permit.
fn client_with_form_handler(
    script: &str,
    count: &Arc<AtomicUsize>,
    go: &Arc<tokio::sync::Semaphore>,
) -> ClientBuilder {
    let (count, go) = (Arc::clone(count), Arc::clone(go));
    spawn(script).max_elicitations_per_minute(1_000).on_elicit_form(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        let go = Arc::clone(&go);
        async move {
            go.acquire().await.unwrap().forget();
            FormResponse::accept_defaults()
        }
    })
}

#[tokio::test]
async fn server_request_with_an_id_in_use_is_refused() {
    let ask =
        format!(r#"send_line '{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{FORM}}}'"#);
    let script = format!("handshake; read_line; {ask}; {ask}; read_line; answer 2 yes; drain");
    let (count, go) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let client = within(client_with_form_handler(&script, &count, &go)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
    assert_eq!(answers(&client, 1).await[0].1["error"]["code"], -32600);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    go.add_permits(2);
    assert_eq!(answers(&client, 2).await[1].1["result"]["action"], "accept");
}

#[tokio::test]
async fn cancelled_server_request_gets_no_response_and_restarts_the_clock() {
    let script = format!(
        r#"handshake; read_line
        send_line '{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{FORM}}}'
        send_line '{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"no such"}}}}'
        send_line '{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{}}}}'
        send_line '{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"q"}}}}'
        send_line '{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"q"}}}}'
        send_line '{{"jsonrpc":"2.0","id":"p","method":"ping"}}'
        drain"#
    );
    let (count, go) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let client =
        within(client_with_form_handler(&script, &count, &go).timeout(std::time::Duration::from_millis(500)))
            .await
            .unwrap();
    // The request is cancelled, so the call no longer waits for it.
    assert!(call(&client, "t").await.unwrap_err().is_timeout());
    noted(&client, r#""id":"p""#).await;
    go.add_permits(1);
    noted(&client, "notifications/cancelled").await;
    let answers = known_answers(&client);
    assert!(answers.iter().all(|(id, _)| id == "p"), "{answers:?}");
    assert_eq!(go.available_permits(), 1, "the handler was not dropped");
}

#[tokio::test]
async fn excess_server_requests_are_refused() {
    let ask = format!(r#"{{"jsonrpc":"2.0","id":$n,"method":"elicitation/create","params":{FORM}}}"#);
    let read = ScriptFile::new();
    let script = format!(
        "handshake; read_line; repeat 1000 {{ send_line '{ask}' }}
        repeat 1000 {{ read_line; append {read} $line }}; answer 2 yes; drain"
    );
    let (count, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let client = within(client_with_form_handler(&script, &count, &go)).await.unwrap();
    let calling = {
        let client = client.clone();
        super::Running::new(async move { call(&client, "t").await })
    };
    until(|| read.text().matches("-32600").count() == 1000 - 64).await;
    assert_eq!(count.load(Ordering::SeqCst), 64);
    go.add_permits(64);
    assert_eq!(calling.end().await.unwrap(), "yes");
}

#[tokio::test]
async fn undeclared_server_requests_are_refused() {
    let script = r#"
        handshake; read_line
        send_line '{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}'
        send_line '{"jsonrpc":"2.0","id":2,"method":"roots/list"}'
        send_line '{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x/","elicitationId":"e"}}'
        send_line '{"jsonrpc":"2.0","id":4,"method":"elicitation/create","params":{"mode":"other","message":"m"}}'
        send_line '{"jsonrpc":"2.0","id":5,"method":"elicitation/create"}'
        send_line '{"jsonrpc":"2.0","id":6,"method":"tools/list"}'
        send_line '{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}'
        send_line '{"jsonrpc":"2.0","id":8,"method":""}'
        read_line; read_line; read_line; read_line; read_line; read_line; read_line; read_line; answer 2 yes; drain"#;
    let (count, go) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(9)));
    let client = within(client_with_form_handler(script, &count, &go)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
    let answers = answers(&client, 8).await;
    assert_eq!(answers.len(), 8);
    assert!(answers.iter().all(|(_, answer)| answer["error"]["code"].is_i64()), "{answers:?}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn server_request_before_the_handshake_does_not_disturb_it() {
    let ask = format!(
        r#"send_line '{{"jsonrpc":"2.0","id":"early","method":"elicitation/create","params":{FORM}}}'; send_line '{{"jsonrpc":"2.0","id":1,"method":"ping"}}'"#
    );
    // Before anything was sent, after `initialize` arrived, and after its response. Responses and other lines may mix.
    for script in [
        format!("{ask}; read_line; read_line; read_line; welcome; read_line; read_line; answer 2 yes; drain"),
        format!("read_line; {ask}; read_line; read_line; welcome; read_line; read_line; answer 2 yes; drain"),
        format!("read_line; welcome; {ask}; read_line; read_line; read_line; read_line; answer 2 yes; drain"),
    ] {
        let (count, go) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(9)));
        let client = within(client_with_form_handler(&script, &count, &go)).await.unwrap();
        assert_eq!(call(&client, "t").await.unwrap(), "yes");
        let answers = answers(&client, 2).await;
        assert_eq!(answers.len(), 2, "{answers:?}");
    }
}

#[tokio::test]
async fn requests_of_stateless_servers_are_ignored() {
    // JRPC-040, HTTP-012, F-42
    let script = format!(
        r#"read_line
        send_line '{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{FORM}}}'
        send_line '{{"jsonrpc":"2.0","id":"p","method":"ping"}}'
        send_line '{{"jsonrpc":"2.0","id":"r","method":"roots/list"}}'
        send_line '{{"jsonrpc":"2.0","id":"s","method":"no/such"}}'
        answer 1 first; read_line; answer 2 second; drain"#
    );
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let client = spawn_modern(&script).roots([]).on_elicit_form(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { FormResponse::accept_defaults() }
    });
    let client = within(client).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "first");
    assert_eq!(call(&client, "t").await.unwrap(), "second");
    assert_eq!(known_answers(&client), []);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    // The same over HTTP.
    let raw = Raw::start(|request, writer| {
        writer.stream();
        for method in ["ping", "roots/list", "elicitation/create"] {
            writer.event(None, &json!({"jsonrpc": "2.0", "id": method, "method": method}));
        }
        writer.event(None, &request.answer("yes"));
        AfterResponse::Close
    });
    let client = within(raw.stateless_client().roots([])).await.unwrap();
    for _ in 0..3 {
        assert_eq!(call(&client, "t").await.unwrap(), "yes");
    }
    assert!(raw.requests().iter().all(super::raw::ReceivedRequest::is_call), "{:?}", raw.requests());
}

#[tokio::test]
async fn invalid_input_requests_are_not_followed() {
    // M-11
    let raw = Raw::start(|request, writer| {
        let method = request.body["params"]["arguments"]["method"].clone();
        let input_requests = json!({"q": {"method": method, "params": {"name": "x"}}});
        writer.json(&request.result(
            json!({"resultType": "input_required", "inputRequests": input_requests, "requestState": "s"}),
        ));
        AfterResponse::Keep
    });
    let client = within(raw.stateless_client()).await.unwrap();
    for method in
        ["tools/call", "initialize", "ping", "", "sampling/createMessage", "roots/list", "elicitation/create"]
    {
        let outcome = within(client.call::<String>("t", json!({"method": method}))).await;
        assert!(
            matches!(kind(outcome), ErrorKind::InputRequired(_) | ErrorKind::MalformedResult { .. }),
            "{method}"
        );
    }
    assert_eq!(raw.calls(), 7, "no call was sent again");
}

#[tokio::test]
async fn server_request_on_a_call_stream_is_answered_separately() {
    let answered = Arc::new(tokio::sync::Semaphore::new(0));
    let go = Arc::clone(&answered);
    let raw = Raw::start(move |request, writer| {
        if request.is_call() {
            writer.stream();
            writer.event(None, &json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}));
            while go.try_acquire().is_err() {
                std::thread::yield_now();
            }
            writer.event(None, &request.answer("yes"));
            return AfterResponse::Close;
        }
        if request.body["id"] == "q" {
            // A server that refuses a response affects only itself.
            writer.status(500, "", "");
            go.add_permits(1);
            return AfterResponse::Keep;
        }
        answer_handshake(request, writer).unwrap()
    });
    let client = within(raw.client().roots([])).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
}

#[tokio::test]
async fn child_exit_ends_its_open_requests() {
    let script = format!(
        r#"handshake; read_line; send_line '{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{FORM}}}'; read_line; exit 1"#
    );
    let (count, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let client = within(client_with_form_handler(&script, &count, &go)).await.unwrap();
    let calling = {
        let client = client.clone();
        super::Running::new(async move { call(&client, "t").await })
    };
    until(|| count.load(Ordering::SeqCst) == 1).await;
    // The child exits on any input.
    within(client.notify_roots_changed()).await.unwrap();
    assert!(matches!(kind(calling.end().await), ErrorKind::ConnectionLost { may_have_run: true, .. }));
    // The handler was dropped: its response would have no receiver.
    until(|| Arc::strong_count(&go) == 2).await;
}

#[tokio::test]
async fn invalid_form_is_refused() {
    for form in [
        r#"{"message":7,"requestedSchema":{"type":"object","properties":{}}}"#,
        r#"{"message":"m","requestedSchema":{"type":"array"}}"#,
        r#"{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"object"}}}}"#,
        r#"{"message":"m"}"#,
    ] {
        let text = format!(
            r#"handshake; read_line; send_line '{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{form}}}'; read_line; answer 2 yes; drain"#
        );
        let command =
            Client::spawn(script(&text)).revision(HANDSHAKE).on_elicit_form(async |_| FormResponse::Decline);
        let client = within(command).await.unwrap();
        assert_eq!(call(&client, "t").await.unwrap(), "yes");
        assert_eq!(answers(&client, 1).await[0].1["error"]["code"], -32602, "{form}");
    }
}

#[tokio::test]
async fn stateless_server_cannot_end_a_call_by_cancelling() {
    let script = r#"read_line
        send_line '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
        answer 1 yes; drain"#;
    let client = within(spawn_modern(script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
}

#[tokio::test]
async fn only_files_are_sent_as_roots() {
    // F-11
    use tsugite::protocol::roots::Root;

    let server = Server::new("s", "1").tool(Tool::new("roots").handler(async |cx: Context| {
        let roots = cx.roots().await?;
        Ok::<_, HandlerError>(roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(" "))
    }));
    for uri in ["https://example.com/", "/srv", "file:/srv", ""] {
        let error = within(Client::in_process(&server).roots([Root::new("file:///a"), Root::new(uri)])).await;
        let error = error.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Config(_)) && error.to_string().contains(uri), "{error}");
        for revision in [Revision::V2025_11_25, Revision::NEWEST] {
            let builder = Client::in_process(&server).revision(revision);
            let builder =
                builder.on_roots(move || async move { vec![Root::new("file:///a"), Root::new(uri)] });
            let client = within(builder).await.unwrap();
            assert!(call(&client, "roots").await.is_err(), "{uri}");
        }
    }
    let client = within(Client::in_process(&server).roots([Root::new("file:///a")])).await.unwrap();
    assert_eq!(call(&client, "roots").await.unwrap(), "file:///a");
    // A client without roots is not request for any.
    let client = within(Client::in_process(&server)).await.unwrap();
    assert!(call(&client, "roots").await.is_err());
}
