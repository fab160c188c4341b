//! Servers that never stop: what the client reads from them and sends to them is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tsugite::client::{Client, ErrorKind, FormResponse, TimeoutKind};

use super::raw::{AfterResponse, Raw, ReceivedRequest, answer_handshake};
use super::script::spawn;
use super::{call, kind, until, within, without_growing};

/// So short that it expires at once.
const SHORT: Duration = Duration::from_millis(300);
/// The head of a chunked event stream.
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn note(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[tokio::test]
async fn endless_response_head_is_refused() {
    let raw = Raw::after_handshake(|request, writer| {
        writer.write("HTTP/1.1 200 OK\r\n");
        match request.body["params"]["name"].as_str() {
            Some("one") => writer.repeat_until_closed("x".repeat(1 << 16)),
            Some("many") => writer.repeat_until_closed("x-more: and more\r\n".repeat(1_000)),
            _ => writer
                .repeat_until_closed(format!("HTTP/1.1 100 Continue\r\nx: {}\r\n\r\n", "x".repeat(1_000))),
        }
    });
    let client = within(raw.stateless_client()).await.unwrap();
    for name in ["one", "many"] {
        let error = without_growing(call(&client, name)).await.unwrap_err();
        assert!(error.may_have_run(), "{name}: {error}");
    }
    // Interim responses are read until the timeout.
    let outcome = within(client.call::<String>("interim", ()).timeout(SHORT)).await;
    assert!(outcome.is_err());
    assert_eq!(raw.calls(), 3);
}

#[tokio::test]
async fn endless_response_body_is_too_large() {
    let raw = Raw::after_handshake(|_, writer| {
        writer.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n[");
        writer.repeat_until_closed("[".repeat(1 << 16))
    });
    for client in [raw.client(), raw.stateless_client()] {
        let client = within(client.max_message_bytes(1 << 20)).await.unwrap();
        assert!(matches!(kind(without_growing(call(&client, "t")).await), ErrorKind::TooLarge(_)));
    }
    assert_eq!(raw.calls(), 2);
}

#[tokio::test]
async fn endless_event_is_too_large() {
    let lines = ["data: ", "data: x\n", ": comment ", "id: ", "event: ", "x"];
    for line in lines {
        let raw = Raw::after_handshake(move |_, writer| {
            writer.stream();
            let more = if line.ends_with('\n') { line } else { "x" };
            writer.write(line);
            writer.repeat_until_closed(more.repeat(1 << 16))
        });
        for client in [raw.client(), raw.stateless_client()] {
            let client = within(client.max_message_bytes(1 << 20)).await.unwrap();
            assert!(
                matches!(kind(without_growing(call(&client, "t")).await), ErrorKind::TooLarge(_)),
                "{line}"
            );
        }
        assert_eq!(raw.calls(), 2);
    }
}

#[tokio::test]
async fn only_real_progress_extends_the_timeout() {
    // F-31
    let pieces: [fn(&ReceivedRequest) -> String; 5] = [
        |_| ": comment\n\n".into(),
        |_| "id: 1\ndata:\n\n".into(),
        |_| "data: no message\n\n".into(),
        |_| format!("data: {}\n\n", note("notifications/message", json!({"level": "info", "data": "x"}))),
        // Progress that stays the same, falls, or belongs to another call.
        |request| {
            let all = [(request.id(), 1.0), (request.id(), 0.5), (request.id() + 7, 2.0)];
            all.map(|(token, progress)| {
                format!(
                    "data: {}\n\n",
                    note("notifications/progress", json!({"progressToken": token, "progress": progress}))
                )
            })
            .concat()
        },
    ];
    for piece in pieces {
        let raw = Raw::after_handshake(move |request, writer| {
            writer.write(CHUNKED);
            let piece = piece(request).repeat(50);
            writer.repeat_until_closed(format!("{:x}\r\n{piece}\r\n", piece.len()))
        });
        for client in [raw.client(), raw.stateless_client()] {
            let client = within(client).await.unwrap();
            let call = client.call::<String>("t", ()).timeout(SHORT);
            match kind(without_growing(within(call)).await) {
                ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle } => assert_eq!(limit, SHORT),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn endless_progress_ends_at_the_total_timeout() {
    let raw = Raw::after_handshake(|request, writer| {
        writer.stream();
        for step in 0.. {
            if !writer.event(
                None,
                &note("notifications/progress", json!({"progressToken": request.id(), "progress": step})),
            ) {
                break;
            }
        }
        AfterResponse::Close
    });
    let told = Arc::new(AtomicUsize::new(0));
    let client = within(raw.stateless_client()).await.unwrap();
    let count = Arc::clone(&told);
    let call =
        client.call::<String>("t", ()).timeout(Duration::from_secs(50)).total_timeout(SHORT).on_progress(
            move |_| {
                count.fetch_add(1, Ordering::SeqCst);
            },
        );
    match kind(without_growing(within(call)).await) {
        ErrorKind::TimedOut { limit, kind: TimeoutKind::Total } => assert_eq!(limit, SHORT),
        other => panic!("{other:?}"),
    }
    assert!(told.load(Ordering::SeqCst) > 1);
}

#[tokio::test]
async fn endless_notifications_of_a_child_do_not_block_calls() {
    for note in [
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y"}}"#,
        r#"{"jsonrpc":"2.0","method":"no/such"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{}}"#,
    ] {
        // They come while the call is pending, and after its response.
        let client = within(spawn(&format!(
            "handshake; read_line; repeat 20000 {{ send_line '{note}' }}; answer 2 yes
            repeat forever {{ send_line '{note}' }}"
        )))
        .await
        .unwrap();
        assert_eq!(without_growing(call(&client, "t")).await.unwrap(), "yes");
        let late = within(client.call::<String>("t", ()).timeout(SHORT)).await.unwrap_err();
        assert!(late.is_timeout(), "{late}");
    }
}

#[tokio::test]
async fn endless_and_cyclic_pages_are_refused() {
    // F-30
    let raw = Raw::after_handshake(|request, writer| {
        let cursor = request.body["params"]["cursor"].as_str().unwrap_or("0").to_owned();
        let next = match request.method() {
            // An endless list of new pages.
            "tools/list" => (cursor.parse::<u64>().unwrap() + 1).to_string(),
            // Two that name each other.
            "prompts/list" => if cursor == "b" { "a" } else { "b" }.to_owned(),
            // One that names itself, and is empty, which a cursor may be.
            _ => String::new(),
        };
        let tool = json!({"name": format!("t{cursor}"), "inputSchema": {"type": "object"}});
        writer.json(&request.result(
            json!({"tools": [tool], "prompts": [{"name": "p"}], "resources": [], "nextCursor": next}),
        ));
        AfterResponse::Keep
    });
    for client in [raw.client(), raw.stateless_client()] {
        let client = within(client.max_pages(20)).await.unwrap();
        let of = |method: &'static str| raw.count(move |request| request.method() == method);
        let before = (of("tools/list"), of("prompts/list"), of("resources/list"));
        assert!(matches!(kind(within(client.list_tools()).await), ErrorKind::TooLarge(_)));
        assert_eq!(of("tools/list") - before.0, 20);
        assert!(matches!(kind(within(client.list_prompts()).await), ErrorKind::TooLarge(_)));
        assert!(of("prompts/list") - before.1 <= 3);
        assert!(matches!(kind(within(client.list_resources()).await), ErrorKind::TooLarge(_)));
        assert!(of("resources/list") - before.2 <= 2);
        // As a stream: all items, then the error, and nothing after it.
        let mut prompts = client.list_prompts();
        let mut heard = Vec::new();
        while let Some(prompt) = within(prompts.next()).await {
            heard.push(prompt.is_ok());
        }
        assert_eq!(heard.iter().filter(|is_ok| !**is_ok).count(), 1);
        assert_eq!(heard.last(), Some(&false), "{heard:?}");
    }
}

#[tokio::test]
async fn endless_rounds_are_refused() {
    // M-08
    let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "again?", "requestedSchema": {"type": "object", "properties": {}}}});
    let raw = Raw::start(move |request, writer| {
        let state =
            request.body["params"]["requestState"].as_str().unwrap_or("0").parse::<u64>().unwrap() + 1;
        let mut result = json!({"resultType": "input_required", "requestState": state.to_string()});
        if request.body["params"]["name"] == "asks" {
            result["inputRequests"] = json!({"q": form});
        }
        writer.json(&request.result(result));
        AfterResponse::Keep
    });
    let forms = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&forms);
    let client = raw.stateless_client().max_rounds(5).on_elicit_form(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { FormResponse::accept_defaults() }
    });
    let client = within(client).await.unwrap();
    // With an input request each time, and with only a state.
    for name in ["asks", "waits"] {
        let before = raw.calls();
        assert!(matches!(kind(call(&client, name).await), ErrorKind::InputRequired(_)));
        assert_eq!(raw.calls() - before, 6, "{name}");
    }
    assert!(forms.load(Ordering::SeqCst) <= 6);
}

#[tokio::test]
async fn endless_redirects_are_refused() {
    let raw = Raw::after_handshake(|request, writer| {
        let status = request.body["params"]["arguments"]["status"].as_u64().unwrap() as u16;
        let number: u64 = request.path.rsplit('/').next().unwrap().parse().unwrap_or(0);
        // To itself, or to a new path each time.
        let next = if status == 307 { "/mcp".to_owned() } else { format!("/mcp/{}", number + 1) };
        writer.status(status, &format!("location: {next}\r\n"), "");
        AfterResponse::Keep
    });
    let client = within(raw.client()).await.unwrap();
    for status in [301, 302, 307, 308] {
        let before = raw.calls();
        let outcome = within(client.call::<String>("t", json!({"status": status}))).await;
        assert!(matches!(kind(outcome), ErrorKind::Status { status: found, .. } if found == status));
        assert!(raw.calls() - before <= 5, "{}", raw.calls() - before);
    }
}

#[tokio::test]
async fn retries_of_a_busy_server_are_limited() {
    let raw = Raw::after_handshake(|request, writer| {
        let arguments = &request.body["params"]["arguments"];
        let after = arguments["after"].as_str().map(|after| format!("retry-after: {after}\r\n"));
        writer.status(arguments["status"].as_u64().unwrap() as u16, &after.unwrap_or_default(), "later");
        AfterResponse::Keep
    });
    let client = within(raw.client()).await.unwrap();
    let absurd =
        ["999999999", "99999999999999999999999999", "-1", "soon", "1.5", "", "Fri, 31 Dec 9999 23:59:59 GMT"];
    for status in [429, 503] {
        for after in ["0", "Thu, 01 Jan 1970 00:00:00 GMT"].iter().chain(&absurd) {
            let before = raw.calls();
            let outcome =
                within(client.call::<String>("t", json!({"status": status, "after": after})).idempotent())
                    .await;
            match kind(outcome) {
                ErrorKind::Status { status: found, body, .. } => {
                    assert_eq!((found, body.as_str()), (status, "later"))
                }
                other => panic!("{after}: {other:?}"),
            }
            let sent = raw.calls() - before;
            assert!(sent <= 4, "{after}: {sent}");
            assert!(sent == 1 || !absurd.contains(after), "an absurd Retry-After is not waited for: {after}");
        }
    }
    // Without `Retry-After` the client retries with backoff, up to a limit.
    let (before, start) = (raw.calls(), Instant::now());
    let outcome = within(client.call::<String>("t", json!({"status": 503})).idempotent()).await;
    assert!(matches!(kind(outcome), ErrorKind::Status { status: 503, .. }));
    assert_eq!(raw.calls() - before, 4);
    // 0.5, 1 and 2 seconds, each with up to a half less.
    assert!(start.elapsed() >= Duration::from_millis(1_750));
}

#[tokio::test]
async fn get_stream_that_closes_at_once_reopens_with_backoff() {
    // HTTP-032
    let raw = Raw::start(|request, writer| {
        if request.verb != "GET" {
            return answer_handshake(request, writer).unwrap();
        }
        writer.stream();
        writer.write("retry: 0\n\n");
        AfterResponse::Close
    });
    let start = Instant::now();
    let _client = within(raw.client()).await.unwrap();
    raw.wait_for_requests(5, |request| request.verb == "GET").await;
    // The backoff doubles each time, and does not start at zero.
    assert!(start.elapsed() >= Duration::from_millis(15 * 50), "four pauses in {:?}", start.elapsed());
}

#[tokio::test]
async fn get_stream_with_one_event_each_time_has_backoff() {
    let raw = Raw::start(|request, writer| {
        if request.verb != "GET" {
            return answer_handshake(request, writer).unwrap();
        }
        writer.stream();
        writer.write("retry: 0\n");
        writer.event(Some("x"), &note("notifications/message", json!({"level": "info", "data": "x"})));
        AfterResponse::Close
    });
    let start = Instant::now();
    let _client = within(raw.client()).await.unwrap();
    raw.wait_for_requests(11, |request| request.verb == "GET").await;
    assert!(start.elapsed() >= Duration::from_millis(500), "ten streams in {:?}", start.elapsed());
}

#[tokio::test]
async fn repeatedly_broken_call_stream_is_resumed_with_backoff() {
    let raw = Raw::start(|request, writer| {
        if request.is_call() || request.header("last-event-id").is_some() {
            writer.stream();
            writer.write("retry: 0\n");
            writer.event(Some("x"), &note("notifications/message", json!({"level": "info", "data": "x"})));
            return AfterResponse::Close;
        }
        answer_handshake(request, writer).unwrap()
    });
    let client = within(raw.client()).await.unwrap();
    let start = Instant::now();
    let late = within(client.call::<String>("t", ()).timeout(Duration::from_secs(1))).await.unwrap_err();
    assert!(late.may_have_run(), "{late}");
    let (seen, time) = (raw.requests().len() as u32, start.elapsed());
    assert!(Duration::from_millis(40) * seen < time + Duration::from_millis(500), "{seen} in {time:?}");
    assert_eq!(raw.calls(), 1);
}

#[tokio::test]
async fn broken_call_stream_is_resumed_after_the_retry_time() {
    // RESM-010: within the timeout of the first call an hour does not pass; in the second one a millisecond does.
    let is_resumption = |request: &ReceivedRequest| request.header("last-event-id").is_some();
    let raw = Raw::start(move |request, writer| {
        if request.is_call() {
            let retry = request.body["params"]["arguments"]["retry"].as_u64().unwrap();
            writer.stream();
            writer.write(format!("retry: {retry}\nid: {}\ndata:\n\n", request.id()));
            return AfterResponse::Close;
        }
        if is_resumption(request) {
            let id: i64 = request.header("last-event-id").unwrap().parse().unwrap();
            let content = json!([{"type": "text", "text": "resumed"}]);
            writer.stream();
            writer.event(None, &json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}));
            return AfterResponse::Close;
        }
        answer_handshake(request, writer).unwrap()
    });
    let client = within(raw.client()).await.unwrap();
    let late = within(client.call::<String>("t", json!({"retry": 3_600_000})).timeout(SHORT)).await;
    assert!(late.unwrap_err().is_timeout());
    assert_eq!(raw.count(is_resumption), 0, "the client did not wait");
    let resumed = within(client.call::<String>("t", json!({"retry": 1}))).await;
    assert_eq!(resumed.unwrap(), "resumed");
    assert_eq!((raw.count(is_resumption), raw.calls()), (1, 2));
}

#[tokio::test]
async fn long_retry_hint_is_limited_by_the_call_timeout() {
    let raw = Raw::start(|request, writer| {
        if request.is_call() {
            writer.stream();
            writer.write("retry: 18446744073709551615\nid: x\ndata:\n\n");
            return AfterResponse::Close;
        }
        if request.verb == "GET" {
            writer.stream();
            writer.write("retry: 18446744073709551615\n\n");
            return AfterResponse::Close;
        }
        answer_handshake(request, writer).unwrap()
    });
    let client = within(raw.client()).await.unwrap();
    let late = within(client.call::<String>("t", ()).timeout(SHORT)).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");
}

#[tokio::test]
async fn responses_to_endless_http_requests_have_limited_concurrency() {
    // Endless requests and pings, and the server never answers the responses to them.
    for question in ["ping", "roots/list", "no/such"] {
        let raw = Raw::start(move |request, writer| {
            if request.verb == "GET" {
                writer.stream();
                for id in 0..5_000 {
                    writer.event(None, &json!({"jsonrpc": "2.0", "id": id, "method": question}));
                }
                writer.closed();
                return AfterResponse::Close;
            }
            if request.is_call() {
                writer.json(&request.answer("yes"));
                return AfterResponse::Keep;
            }
            if request.method().is_empty() && request.verb == "POST" {
                writer.closed();
                return AfterResponse::Close;
            }
            answer_handshake(request, writer).unwrap()
        });
        let client = within(raw.client().roots([])).await.unwrap();
        raw.wait_for_requests(1, |request| request.verb == "POST" && request.method().is_empty()).await;
        for _ in 0..20 {
            assert_eq!(call(&client, "t").await.unwrap(), "yes");
        }
        let hanging = raw.count(|request| request.verb == "POST" && request.method().is_empty());
        assert!(hanging <= 128, "{hanging} connections at a time, for {question}");
    }
}

#[tokio::test]
async fn unanswered_notification_does_not_block_the_client() {
    let raw = Raw::start(|request, writer| {
        if request.method() == "notifications/initialized" {
            writer.closed();
            return AfterResponse::Close;
        }
        answer_handshake(request, writer).unwrap()
    });
    assert!(kind(within(raw.client().timeout(SHORT)).await).is_slow());
    // The same for the POSTs of HTTP+SSE.
    let raw = Raw::start(|_, writer| {
        writer.closed();
        AfterResponse::Close
    });
    let outcome = within(Client::connect(raw.url()).http_sse().timeout(SHORT)).await;
    assert!(kind(outcome).is_slow());
    let outcome = within(Client::connect(raw.url()).timeout(SHORT)).await;
    assert!(kind(outcome).is_slow());
    until(|| raw.count(|_| true) >= 2).await;
}

trait Slow {
    fn is_slow(&self) -> bool;
}

impl Slow for ErrorKind {
    fn is_slow(&self) -> bool {
        matches!(self, ErrorKind::TimedOut { .. } | ErrorKind::Connect { .. })
    }
}

/// Stands for 70 000 bytes in a message of a script.
const LARGE: &str = "LARGE";

/// The commands of a script that send a message.
fn send_large(message: &str) -> String {
    let (before, after) = message.split_once(LARGE).unwrap();
    let kilobyte = "x".repeat(1_000);
    format!("print '{before}'; repeat 70 {{ print {kilobyte} }}; send_line '{after}'")
}

#[tokio::test]
async fn oversized_response_of_a_child_fails_its_call_at_once() {
    let content = format!(r#"{{"content":[{{"type":"text","text":"{LARGE}"}}]}}"#);
    // Servers write the id first or, like the TypeScript SDK, last.
    for response in [
        format!(r#"{{"jsonrpc":"2.0","id":2,"result":{content}}}"#),
        format!(r#"{{"result":{content},"jsonrpc":"2.0","id":2}}"#),
    ] {
        let response = send_large(&response);
        let script = format!("handshake; read_line; {response}; read_line; answer 3 yes; drain");
        let client = within(spawn(&script).max_message_bytes(50_000)).await.unwrap();
        let ErrorKind::TooLarge(text) = kind(call(&client, "t").await) else { panic!("another error") };
        assert!(text.contains("50000") && text.contains("max_message_bytes"), "{text}");
        assert_eq!(call(&client, "t").await.unwrap(), "yes");
    }
}

#[tokio::test]
async fn oversized_message_that_is_no_response_fails_no_call() {
    // A request or a notification with an id in its params, a request whose id comes last, and a batch.
    for line in [
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"id":2,"data":"{LARGE}"}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"roots/list","params":{{"data":"{LARGE}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"roots/list","params":{{"data":"{LARGE}"}},"id":2}}"#),
        format!(r#"[{{"jsonrpc":"2.0","id":2,"result":{{"data":"{LARGE}"}}}}]"#),
    ] {
        let script = format!("handshake; read_line; {}; answer 2 yes; drain", send_large(&line));
        let client = within(spawn(&script).max_message_bytes(50_000)).await.unwrap();
        assert_eq!(call(&client, "t").await.unwrap(), "yes", "{}", &line[..40]);
    }
}

/// A server whose lists never end; each page has about 10 KB.
fn endless_list() -> Raw {
    Raw::after_handshake(|request, writer| {
        let cursor = request.body["params"]["cursor"].as_str().unwrap_or("0").parse::<u64>().unwrap();
        let tool = json!({"name": "t", "description": "x".repeat(10_000), "inputSchema": {"type": "object"}});
        let next = (cursor + 1).to_string();
        writer.json(&request.result(json!({"tools": [tool], "nextCursor": next, "resultType": "complete"})));
        AfterResponse::Keep
    })
}

#[tokio::test]
async fn list_is_limited_in_bytes() {
    let raw = endless_list();
    for client in [raw.client(), raw.stateless_client()] {
        let client = within(client.max_list_bytes(100_000).max_pages(50)).await.unwrap();
        let before = raw.count(|request| request.method() == "tools/list");
        let ErrorKind::TooLarge(text) = kind(within(client.list_tools()).await) else { panic!("no limit") };
        assert!(text.contains("100000") && text.contains("max_list_bytes"), "{text}");
        assert!(raw.count(|request| request.method() == "tools/list") - before <= 10);
    }
}

#[tokio::test]
async fn list_is_limited_in_time() {
    let raw = endless_list();
    let client = raw.stateless_client().total_timeout(SHORT).max_pages(usize::MAX).max_list_bytes(usize::MAX);
    let client = within(client).await.unwrap();
    match kind(within(client.list_tools()).await) {
        ErrorKind::TimedOut { limit, kind: TimeoutKind::Total } => assert_eq!(limit, SHORT),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn large_request_state_is_not_sent_back() {
    // M-09
    let raw = Raw::after_handshake(|request, writer| {
        match request.body["params"]["requestState"].as_str() {
            Some(_) => writer.json(&request.answer("done")),
            None => writer.json(&request.result(json!({
                "resultType": "input_required", "requestState": "x".repeat(2_000),
            }))),
        }
        AfterResponse::Keep
    });
    let client = within(raw.stateless_client().max_request_state_bytes(1_999)).await.unwrap();
    let ErrorKind::TooLarge(text) = kind(call(&client, "t").await) else { panic!("no limit") };
    assert!(text.contains("2000") && text.contains("max_request_state_bytes"), "{text}");
    assert_eq!(raw.calls(), 1);
    let client = within(raw.stateless_client().max_request_state_bytes(2_000)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn hostile_output_schema_is_bounded() {
    // SCHM-016, F-07: the output matches each schema, but none of them is enforced.
    let mut deep = json!({"type": "integer"});
    for _ in 0..70 {
        deep = json!({"not": deep});
    }
    let wide: Vec<_> = (0..20_000).map(|n| json!({"const": n})).collect();
    // Every level doubles the number of checks.
    let level =
        |n: u32| json!({"anyOf": [{"$ref": format!("#/$defs/l{n}")}, {"$ref": format!("#/$defs/l{n}")}]});
    let mut levels: serde_json::Map<String, Value> =
        (0..60).map(|n| (format!("l{n}"), level(n + 1))).collect();
    levels.insert("l60".to_owned(), json!({"type": "integer"}));
    let schemas = [
        json!({"type": "object", "properties": {"x": deep}}),
        json!({"type": "object", "properties": {"x": {"anyOf": wide}}}),
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/l0"}}, "$defs": levels}),
        json!({"type": "object", "properties": {"x": {"$ref": "http://169.254.169.254/"}}}),
    ];
    let reasons =
        ["deeper than 64 schemas", "larger than 256 KiB", "more than 64 schemas", "the same schema"];
    let raw = Raw::after_handshake(move |request, writer| {
        let tool = |(n, schema): (usize, &Value)| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}, "outputSchema": schema});
        let tools: Vec<_> = schemas.iter().enumerate().map(tool).collect();
        let result = match request.is_call() {
            true => json!({"content": [], "structuredContent": {"x": 1}, "resultType": "complete"}),
            false => json!({"tools": tools, "resultType": "complete", "ttlMs": 0}),
        };
        writer.json(&request.result(result));
        AfterResponse::Keep
    });
    for client in [raw.client(), raw.stateless_client()] {
        let client = within(client).await.unwrap();
        for (n, reason) in reasons.into_iter().enumerate() {
            let outcome = without_growing(within(client.call_checked(format!("t{n}"), json!({})))).await;
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
