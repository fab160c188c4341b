//! The table of repeated requests in `docs/client.md`, row by row: what arrives, how often a request is sent, and how it
//! fails; for a client in both eras and over HTTP+SSE, for a host and for a bridge.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::bridge::Bridge;
use tsugite::client::{Client, ClientBuilder, ClientError, ErrorKind, Host, UrlResponse};

use super::raw::{AfterResponse, Raw, ReceivedRequest, ResponseWriter, answer_handshake, welcome};
use super::within;

/// What the server does with a tool call or a read; the number counts its attempts from 0.
type Serve = Arc<dyn Fn(&ReceivedRequest, &mut ResponseWriter, usize) -> AfterResponse + Send + Sync>;

/// How a client talks to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Handshake,
    Stateless,
    HttpSse,
}

use Over::{Handshake, HttpSse, Stateless};

/// One case of a row of the documented table.
struct Case {
    /// The first column of the table.
    row: &'static str,
    /// What arrives here.
    arrives: String,
    over: &'static [Over],
    serve: Serve,
    call: Expected,
    harmless: Expected,
    /// The timeout of the request.
    timeout: Duration,
}

/// How often the server receives a request, the outcome, and whether an error says that it may have run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expected {
    times: usize,
    outcome: Outcome,
    may_have_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The JSON-RPC error of the server.
    ErrorResponse,
    Status(u16),
    Unauthorized(u16),
    Lost,
    Protocol,
    TimedOut,
    Connect,
    Other,
}

use Outcome::{Connect, Done, ErrorResponse, Lost, Other, Protocol, Status, TimedOut, Unauthorized};

const EVERYWHERE: &[Over] = &[Handshake, Stateless, HttpSse];
const STREAMABLE: &[Over] = &[Handshake, Stateless];
/// The code of the server's own error.
const REFUSED: i64 = 1_234;
const JSON: &str = "content-type: application/json\r\n";

fn did_not_run(times: usize, outcome: Outcome) -> Expected {
    Expected { times, outcome, may_have_run: false }
}

fn may_have_run(times: usize, outcome: Outcome) -> Expected {
    Expected { times, outcome, may_have_run: true }
}

fn done(times: usize) -> Expected {
    did_not_run(times, Done)
}

fn serve(
    serve: impl Fn(&ReceivedRequest, &mut ResponseWriter) -> AfterResponse + Send + Sync + 'static,
) -> Serve {
    Arc::new(move |request, writer, _| serve(request, writer))
}

/// Always the same response.
fn status(status: u16, headers: &'static str, body: &'static str) -> Serve {
    serve(move |_, writer| {
        writer.status(status, headers, body);
        AfterResponse::Keep
    })
}

/// An error under the id of the request, with this HTTP status.
fn error_under_the_id(status: u16, headers: &'static str, error: Value) -> Serve {
    serve(move |request, writer| {
        let response = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error});
        writer.status(status, &format!("{JSON}{headers}"), &response.to_string());
        AfterResponse::Keep
    })
}

/// An error that names no request.
fn anonymous_error(status: u16, headers: &'static str) -> Serve {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": refused()}).to_string();
    serve(move |_, writer| {
        writer.status(status, &format!("{JSON}{headers}"), &body);
        AfterResponse::Keep
    })
}

/// The first attempt fares like this; the next one succeeds.
fn first(first: Serve) -> Serve {
    Arc::new(move |request, writer, attempt| match attempt {
        0 => first(request, writer, 0),
        _ => {
            writer.json(&success(request));
            AfterResponse::Keep
        }
    })
}

fn success(request: &ReceivedRequest) -> Value {
    match request.is_call() {
        true => request.answer("done"),
        false => request.result(json!({"contents": [{"uri": "a://b", "text": "done"}],
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})),
    }
}

fn refused() -> Value {
    json!({"code": REFUSED, "message": "no valid session"})
}

fn case(
    row: &'static str,
    arrives: impl Into<String>,
    over: &'static [Over],
    serve: Serve,
    call: Expected,
    harmless: Expected,
) -> Case {
    Case { row, arrives: arrives.into(), over, serve, call, harmless, timeout: super::PATIENCE }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let row = "a result or an error under the id of the request, with any HTTP status";
    for code in [400, 429, 500, 503] {
        let error = error_under_the_id(code, "retry-after: 0\r\n", refused());
        let expected = did_not_run(1, ErrorResponse);
        cases.push(case(row, format!("an error with {code}"), EVERYWHERE, error, expected.clone(), expected));
    }
    let result = serve(|request, writer| {
        writer.status(500, JSON, &success(request).to_string());
        AfterResponse::Keep
    });
    cases.push(case(row, "a result with 500", EVERYWHERE, result, done(1), done(1)));

    let row = "`input_required`, or -32020, -32022, -32042: they are part of the exchange";
    let input_required = serve(|request, writer| {
        writer.json(&request.result(json!({"resultType": "input_required", "requestState": "s"})));
        AfterResponse::Keep
    });
    cases.push(case(row, "input_required", &[Stateless], first(input_required), done(2), done(2)));
    let mismatch = error_under_the_id(400, "", json!({"code": -32020, "message": "header mismatch"}));
    // The headers of a read do not depend on a list that could be read again.
    let read = did_not_run(1, ErrorResponse);
    cases.push(case(row, "-32020", &[Stateless], first(mismatch), done(2), read));
    let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
    let version =
        error_under_the_id(400, "", json!({"code": -32022, "message": "unsupported", "data": data}));
    cases.push(case(row, "-32022", &[Stateless], first(version), done(2), done(2)));

    let row = "nothing: the connection or the stream was lost";
    let (lost, read) = (may_have_run(1, Lost), may_have_run(3, Lost));
    let reset = serve(|_, _| AfterResponse::Reset);
    cases.push(case(row, "a reset", EVERYWHERE, reset, lost.clone(), read.clone()));
    let stream = serve(|_, writer| {
        writer.stream();
        AfterResponse::Close
    });
    cases.push(case(row, "an empty stream", STREAMABLE, stream, lost, read));

    let row = "nothing in time";
    let silence = serve(|_, writer| {
        writer.closed();
        AfterResponse::Close
    });
    let expected = may_have_run(1, TimedOut);
    let mut timeout = case(row, "nothing", EVERYWHERE, silence, expected.clone(), expected);
    timeout.timeout = Duration::from_millis(100);
    cases.push(timeout);

    let row = "404 in a session";
    let expected = did_not_run(3, Lost);
    let unknown = status(404, "", "");
    cases.push(case(row, "404", &[Handshake, HttpSse], unknown, expected.clone(), expected.clone()));
    let unknown = error_under_the_id(404, "", refused());
    cases.push(case(row, "404, error", &[Handshake, HttpSse], unknown, expected.clone(), expected));
    cases.push(case(row, "404 once", &[Handshake, HttpSse], first(status(404, "", "")), done(2), done(2)));

    let row = "401, or 403 with `WWW-Authenticate`, whatever the body";
    for code in [401, 403] {
        let challenge = status(code, "www-authenticate: Bearer\r\n", "");
        let expected = did_not_run(1, Unauthorized(code));
        cases.push(case(row, code.to_string(), EVERYWHERE, challenge, expected.clone(), expected));
    }

    let row = "421 or 425";
    for code in [421, 425] {
        let expected = did_not_run(4, Status(code));
        let refusal = status(code, "", "");
        cases.push(case(row, code.to_string(), EVERYWHERE, refusal, expected.clone(), expected));
        let refusal = first(status(code, "", ""));
        cases.push(case(row, format!("{code} once"), EVERYWHERE, refusal, done(2), done(2)));
    }

    let row = "307 or 308 to the same server";
    for code in [307, 308] {
        let redirect = first(status(code, "location: /elsewhere\r\n", ""));
        cases.push(case(row, code.to_string(), EVERYWHERE, redirect, done(2), done(2)));
    }
    let row = "301 or 302 to the same server";
    for code in [301, 302] {
        let redirect = first(status(code, "location: /elsewhere\r\n", ""));
        let call = may_have_run(1, Status(code));
        cases.push(case(row, code.to_string(), EVERYWHERE, redirect, call, done(2)));
    }

    let row = "429 or 503";
    for code in [429, 503] {
        let (call, read) = (may_have_run(1, Status(code)), may_have_run(4, Status(code)));
        let busy = status(code, "retry-after: 0\r\n", "later");
        cases.push(case(row, code.to_string(), EVERYWHERE, busy, call.clone(), read.clone()));
        // An error that names no request is not the outcome of one.
        let busy = anonymous_error(code, "retry-after: 0\r\n");
        cases.push(case(row, format!("{code}, error without id"), EVERYWHERE, busy, call, read));
    }

    let row = "403, 404, 405, 413, 415, 431";
    for code in [403, 405, 413, 415, 431] {
        let expected = did_not_run(1, Status(code));
        let refusal = status(code, "", "");
        cases.push(case(row, code.to_string(), EVERYWHERE, refusal, expected.clone(), expected));
    }
    let expected = did_not_run(1, Status(404));
    cases.push(case(row, "404", &[Stateless], status(404, "", ""), expected.clone(), expected));

    let row = "400 to 499 except 429, with a JSON-RPC error that has no id";
    for code in [400, 406, 422] {
        let expected = did_not_run(1, ErrorResponse);
        let error = anonymous_error(code, "");
        cases.push(case(row, code.to_string(), EVERYWHERE, error, expected.clone(), expected));
    }

    let row = "a 200 that is no response to the request: no JSON-RPC message, an empty body, another id";
    for (arrives, headers, body) in [
        ("HTML", "content-type: text/html\r\n", "<p>welcome</p>"),
        ("an empty list", JSON, "[]"),
        ("an empty body", JSON, ""),
        ("another id", JSON, r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#),
        ("a notification", JSON, r#"{"jsonrpc":"2.0","method":"notifications/message"}"#),
    ] {
        let expected = may_have_run(1, Protocol);
        cases.push(case(row, arrives, STREAMABLE, status(200, headers, body), expected.clone(), expected));
    }

    let row = "any other HTTP status";
    for code in [400, 408, 500, 502, 504] {
        let expected = may_have_run(1, Status(code));
        let failure = status(code, "", "failed");
        cases.push(case(row, code.to_string(), EVERYWHERE, failure, expected.clone(), expected));
    }
    cases
}

/// A server that answers the handshake on every transport, and serves calls and reads as the case says.
fn server(case: &Case) -> Raw {
    let (serve, attempts) = (Arc::clone(&case.serve), AtomicUsize::new(0));
    // The answers of the HTTP+SSE streams, under their numbers.
    let mail = Mutex::new(Vec::<(String, Value)>::new());
    let discovered = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}},
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    // Only a client whose application allows it repeats calls with a key.
    let idempotency = json!({"dev.tsugite/idempotency": {"retentionMs": 3_600_000, "durable": true}});
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": idempotency});
    let listed = json!({"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    Raw::start(move |request, writer| {
        let stream = request.path.strip_prefix("/messages?").map(str::to_owned);
        let answer = match request.method() {
            "tools/call" | "resources/read" => {
                return serve(request, writer, attempts.fetch_add(1, Ordering::SeqCst));
            }
            "initialize" => welcome(request),
            "tools/list" => request.result(listed.clone()),
            "server/discover" => request.result(discovered.clone()),
            _ if request.verb == "GET" && request.path == "/sse" => {
                let own = request.connection.to_string();
                writer.stream();
                writer.write(format!("event: endpoint\ndata: /messages?{own}\n\n"));
                loop {
                    let next = {
                        let mut mail = mail.lock().unwrap();
                        let at = mail.iter().position(|(to, _)| *to == own);
                        at.map(|at| mail.remove(at))
                    };
                    match next {
                        Some((_, message)) => drop(writer.event(None, &message)),
                        // Writing notices a client that has disconnected.
                        None if !writer.write(":\n\n") => return AfterResponse::Close,
                        None => std::thread::yield_now(),
                    }
                }
            }
            _ => return answer_handshake(request, writer).unwrap_or(AfterResponse::Keep),
        };
        match stream {
            Some(stream) => {
                mail.lock().unwrap().push((stream, answer));
                writer.status(202, "", "");
            }
            None if request.method() == "initialize" => writer.json_with("mcp-session-id: one\r\n", &answer),
            None => writer.json(&answer),
        }
        AfterResponse::Keep
    })
}

fn builder(raw: &Raw, over: Over) -> ClientBuilder {
    match over {
        Handshake => raw.client(),
        Stateless => raw.stateless_client(),
        HttpSse => Client::connect(format!("http://{}/sse", raw.address)).http_sse(),
    }
}

/// The number of calls and reads that the server received.
fn attempts(raw: &Raw) -> usize {
    raw.count(|request| matches!(request.method(), "tools/call" | "resources/read"))
}

fn outcome(error: &ClientError) -> Outcome {
    match error.kind() {
        ErrorKind::ErrorResponse { .. } => ErrorResponse,
        ErrorKind::Status { status, may_have_run, .. } => {
            assert_eq!(*may_have_run, error.may_have_run(), "{error}");
            Status(*status)
        }
        ErrorKind::Unauthorized(challenge) => Unauthorized(challenge.status),
        ErrorKind::ConnectionLost { may_have_run, .. } => {
            assert_eq!(*may_have_run, error.may_have_run(), "{error}");
            Lost
        }
        ErrorKind::Protocol(_) => Protocol,
        ErrorKind::TimedOut { .. } => TimedOut,
        ErrorKind::Connect { .. } => Connect,
        _ => Other,
    }
}

/// What happened to a request, in the terms of the table.
fn found(times: usize, result: &Result<String, ClientError>) -> Expected {
    match result {
        Ok(text) => {
            assert_eq!(text, "done");
            done(times)
        }
        Err(error) => {
            assert_eq!(error.to_string().contains("may have run"), error.may_have_run(), "{error}");
            Expected { times, outcome: outcome(error), may_have_run: error.may_have_run() }
        }
    }
}

/// Whether a call with a key goes on until it times out: the server may be starting again.
fn waits_for_server(harmless: &Expected) -> bool {
    harmless.may_have_run && matches!(harmless.outcome, Lost | Status(429 | 502 | 503 | 504))
}

/// The total timeout of such a call.
const KEYED_TIMEOUT: Duration = Duration::from_millis(250);

#[tokio::test]
async fn client_repeats_what_the_table_says() {
    // JRPC-038; HTTP-096: 413 and 431 are not repeated, and the error says that the call did not run.
    for case in cases() {
        for over in case.over {
            let name = format!("{}: {}, {over:?}", case.row, case.arrives);
            let raw = server(&case);
            let client = within(builder(&raw, *over)).await.unwrap();
            let called = within(client.call::<String>("t", json!({})).timeout(case.timeout)).await;
            assert_eq!(found(attempts(&raw), &called), case.call, "{name}: {called:?}");

            let raw = server(&case);
            let client = within(builder(&raw, *over)).await.unwrap();
            let read = within(client.read_resource("a://b").timeout(case.timeout)).await;
            let read = read.map(|result| result.text());
            assert_eq!(found(attempts(&raw), &read), case.harmless, "{name}, read: {read:?}");

            // The application says that a call does no harm.
            let raw = server(&case);
            let client = within(builder(&raw, *over)).await.unwrap();
            let marked = client.call::<String>("t", json!({})).idempotent().timeout(case.timeout);
            let marked = within(marked).await;
            let expected = if case.call.outcome == Done { &case.call } else { &case.harmless };
            assert_eq!(&found(attempts(&raw), &marked), expected, "{name}, idempotent: {marked:?}");

            // The server knows the call by its key.
            let raw = server(&case);
            let client = within(builder(&raw, *over).repeat_keyed_calls(true)).await.unwrap();
            within(client.list_tools()).await.unwrap();
            let keyed = client.call::<String>("t", json!({})).timeout(case.timeout);
            if waits_for_server(expected) {
                let error = within(keyed.total_timeout(KEYED_TIMEOUT)).await.unwrap_err();
                assert!(error.may_have_run() && attempts(&raw) > 0, "{name}, keyed: {error}");
                continue;
            }
            let keyed = within(keyed).await;
            assert_eq!(&found(attempts(&raw), &keyed), expected, "{name}, keyed: {keyed:?}");
        }
    }
}

#[tokio::test]
async fn host_repeats_what_the_table_says() {
    for case in cases() {
        for over in case.over {
            let raw = server(&case);
            // The timeout also limits the handshake, which takes a while on a busy machine.
            let builder = builder(&raw, *over).timeout(case.timeout.max(Duration::from_secs(1)));
            let host = within(Host::builder().server("s", builder).connect()).await;
            within(host.list_tools()).await;
            let called: Result<String, ClientError> = within(host.call("s_t", json!({}))).await;
            let name = format!("{}: {}, {over:?}", case.row, case.arrives);
            assert_eq!(found(attempts(&raw), &called), case.call, "{name}: {called:?}");
        }
    }
}

#[tokio::test]
async fn bridge_repeats_what_the_table_says() {
    for case in cases() {
        for over in case.over {
            let raw = server(&case);
            let bridge = Bridge::to(builder(&raw, *over)).timeout(case.timeout);
            let client = within(Client::in_process(&bridge.server())).await.unwrap();
            let called = within(client.call::<String>("t", json!({}))).await;
            let name = format!("{}: {}, {over:?}", case.row, case.arrives);
            assert_eq!(attempts(&raw), case.call.times, "{name}: {called:?}");
            check_bridged(&name, &case.call, &called);
            within(client.close()).await;
            within(bridge.close()).await;
        }
    }
}

/// The bridge reports the outcome as an error response, which says in words and in `data` what is known.
fn check_bridged(name: &str, expected: &Expected, called: &Result<String, ClientError>) {
    if expected.outcome == Done {
        return assert_eq!(called.as_deref().ok(), Some("done"), "{name}: {called:?}");
    }
    let error = called.as_ref().unwrap_err();
    let ErrorKind::ErrorResponse { error, .. } = error.kind() else { panic!("{name}: {error}") };
    if expected.outcome == ErrorResponse {
        // It is the server's own.
        assert_eq!((error.code, &*error.message), (REFUSED, "no valid session"), "{name}");
        return;
    }
    let mut data = json!({"mayHaveRun": expected.may_have_run});
    if let Status(status) | Unauthorized(status) = expected.outcome {
        data["status"] = status.into();
    }
    if let Status(429 | 503) = expected.outcome {
        data["retryAfterMs"] = 0.into();
    }
    let found: Value = error.data.as_ref().expect(name).read().unwrap();
    assert_eq!((error.code, found), (-32603, data), "{name}: {error}");
    let words = error.message.ends_with("; the call may have run");
    assert_eq!(words, expected.may_have_run, "{name}: {error}");
}

/// Rows that need another server than those of the cases, with a test below.
const OTHER_ROWS: [&str; 2] =
    ["nothing, and none of the request was sent", "the server could not be reached"];

#[test]
fn documented_table_has_a_test_for_each_row() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/client.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, table) = page.split_once("| what arrived | a harmless request | any other request |").unwrap();
    let documented: Vec<_> = table
        .lines()
        .skip(2)
        .map_while(|line| line.strip_prefix("| ")?.split_once(" |"))
        .map(|(first, _)| first)
        .collect();
    let mut tested: Vec<_> = cases().iter().map(|case| case.row).collect();
    tested.dedup();
    tested.extend(OTHER_ROWS);
    let missing: Vec<_> = documented.iter().filter(|row| !tested.contains(row)).collect();
    assert!(missing.is_empty() && documented.len() == tested.len(), "{missing:?} {documented:?} {tested:?}");
}

/// A closed port.
fn unreachable() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/mcp", listener.local_addr().unwrap())
}

#[tokio::test]
async fn unreachable_server_did_not_run_a_call() {
    let url = unreachable();
    let builder = || Client::connect(&*url).revision(tsugite::prelude::Revision::NEWEST);
    let client = within(builder()).await.unwrap();
    let expected = did_not_run(0, Connect);
    assert_eq!(found(0, &within(client.call::<String>("t", json!({}))).await), expected);
    let read = within(client.read_resource("a://b")).await.map(|result| result.text());
    assert_eq!(found(0, &read), expected);
    let host = within(Host::builder().server("s", builder()).connect()).await;
    let called: Result<String, ClientError> = within(host.call("s_t", json!({}))).await;
    assert_eq!(found(0, &called), expected);
    let bridge = Bridge::to(builder());
    let near = Client::in_process(&bridge.server()).revision(tsugite::prelude::Revision::NEWEST);
    let client = within(near).await.unwrap();
    check_bridged("unreachable", &expected, &within(client.call::<String>("t", json!({}))).await);
    within(bridge.close()).await;
}

#[tokio::test]
async fn request_that_was_not_sent_is_sent() {
    // The server closes each connection after one response without a word, so the client finds its idle one closed.
    let server = || {
        Raw::start(|request, writer| {
            writer.json(&success(request));
            AfterResponse::Close
        })
    };
    let raw = server();
    let client = within(raw.stateless_client()).await.unwrap();
    for times in 1..4 {
        let called = within(client.call::<String>("t", json!({}))).await;
        assert_eq!(found(attempts(&raw), &called), done(times));
        raw.wait_for_closed(times).await;
    }
    let read = within(client.read_resource("a://b")).await.map(|result| result.text());
    assert_eq!(found(attempts(&raw), &read), done(4));

    let raw = server();
    let host = within(Host::builder().server("s", raw.stateless_client()).connect()).await;
    for times in 1..4 {
        let called: Result<String, ClientError> = within(host.call("s_t", json!({}))).await;
        assert_eq!(found(attempts(&raw), &called), done(times));
        raw.wait_for_closed(times).await;
    }

    let raw = server();
    let bridge = Bridge::to(raw.stateless_client());
    let near = Client::in_process(&bridge.server()).revision(tsugite::prelude::Revision::NEWEST);
    let client = within(near).await.unwrap();
    for times in 1..4 {
        let called = within(client.call::<String>("t", json!({}))).await;
        assert_eq!(found(attempts(&raw), &called), done(times));
        raw.wait_for_closed(times).await;
    }
    within(bridge.close()).await;
}

#[tokio::test]
async fn call_is_repeated_after_a_required_web_page() {
    let page =
        json!({"mode": "url", "message": "Pay", "url": "https://pay.example/1", "elicitationId": "e1"});
    let error = json!({"code": -32042, "message": "visit a page", "data": {"elicitations": [page]}});
    let serve = first(serve(move |request, writer| {
        writer.stream();
        let complete = json!({"elicitationId": "e1"});
        writer.event(
            None,
            &json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": complete}),
        );
        writer.event(None, &json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}));
        AfterResponse::Close
    }));
    let case = case("", "-32042", &[Handshake], serve, done(2), done(2));
    let builder = |raw: &Raw| builder(raw, Handshake).on_elicit_url(async |_| UrlResponse::Accept);
    let raw = server(&case);
    let client = within(builder(&raw)).await.unwrap();
    let called = within(client.call::<String>("t", json!({}))).await;
    assert_eq!(found(attempts(&raw), &called), case.call, "{called:?}");
    let raw = server(&case);
    let host = within(Host::builder().server("s", builder(&raw)).connect()).await;
    let called: Result<String, ClientError> = within(host.call("s_t", json!({}))).await;
    assert_eq!(found(attempts(&raw), &called), case.call, "{called:?}");
    // Through a bridge the page is shown by the client of the bridge, whatever its revision.
    for near in [super::HANDSHAKE, tsugite::prelude::Revision::NEWEST] {
        let raw = server(&case);
        let bridge = Bridge::to(self::builder(&raw, Handshake));
        let pages = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&pages);
        let client = Client::in_process(&bridge.server()).revision(near).on_elicit_url(move |page| {
            shown.lock().unwrap().push(page.url);
            async { UrlResponse::Accept }
        });
        let client = within(client).await.unwrap();
        let called = within(client.call::<String>("t", json!({}))).await;
        assert_eq!(found(attempts(&raw), &called), case.call, "{near}: {called:?}");
        assert_eq!(*pages.lock().unwrap(), ["https://pay.example/1"], "{near}");
        within(client.close()).await;
        within(bridge.close()).await;
    }
}
