//! Sessions that are stolen, guessed, used after their end, or opened without limit.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tsugite::prelude::*;
use tsugite::transport::http::Http;
use tsugite_testkit::http::{Request, TestServer, initialize_request, open_session};

use super::guard::{Direct, Guarded, by, next};
use super::{Count, OLD, Stops, call, counted, counting, notice, refused, request, text};

#[tokio::test]
async fn session_id_alone_does_not_authorize() {
    // S-01, S-02, SESS-013, SEC-017
    let (server, count) = counted();
    let guarded = Guarded::start(&server).await;
    for revision in OLD {
        let session = guarded.open("ada@one", revision, json!({})).await;
        let stolen = |who: &str, request: Request| match who {
            "" => request,
            who => by(who, request),
        };
        let unknown = "A".repeat(session.len());
        for who in ["", "eve@one", "ada@two", "ada", "Ada@one"] {
            for request in [
                Request::post(&call("ran", json!({}))),
                Request::post(&notice("notifications/initialized", json!({}))),
                Request::post(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
                Request::new("GET").header("Accept", "text/event-stream"),
                Request::new("GET").header("Accept", "text/event-stream").header("Last-Event-ID", "0-1"),
                Request::new("DELETE"),
            ] {
                let mut connection = guarded.connect().await;
                let mut answer = connection.send(stolen(who, request.clone().session(&session))).await;
                assert_eq!(answer.status, 404, "{who}: {request:?}");
                answer.body = connection.read_body().await;
                // a session of another principal looks like an unknown one.
                let unknown_response = guarded.send(stolen(who, request.session(&unknown))).await;
                assert_eq!((answer.status, &answer.body), (unknown_response.status, &unknown_response.body));
                assert_eq!(answer.headers.len(), unknown_response.headers.len());
            }
        }
        let before = count.get();
        let own = Request::post(&call("ran", json!({}))).session(&session);
        assert_eq!(text(&guarded.send(by("ada@one", own.clone())).await), "ran");
        // Another token of the same user opens it as well.
        assert_eq!(text(&guarded.send(by("ada@one+more", own)).await), "ran");
        assert_eq!(count.get(), before + 2);
    }
}

#[tokio::test]
async fn anonymous_session_is_closed_to_authenticated_callers() {
    // S-02
    let (server, _) = counted();
    let guarded = Guarded::start(&server).await;
    let opened = guarded.send(Request::post(&initialize_request("2025-11-25", json!({})))).await;
    let session = opened.header("mcp-session-id").unwrap();
    let request = Request::post(&call("ran", json!({}))).session(session);
    assert_eq!(guarded.send(by("eve", request.clone())).await.status, 404);
    assert_eq!(text(&guarded.send(request).await), "ran");
}

#[tokio::test]
async fn http_sse_stream_belongs_to_its_principal() {
    // S-01, S-02, S-03, S-04 for HTTP+SSE
    let (server, count) = counted();
    let guarded = Guarded::start(&server.http(Http::new().http_sse())).await;
    let opens = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    let mut stream = guarded.connect().await;
    stream.send(by("ada", opens.clone())).await;
    let endpoint = stream.next_event().await.unwrap().data;
    let (path, id) = endpoint.split_once("?sessionId=").unwrap();
    assert!(id.len() * 6 >= 128 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    let post = |message: Value| Request::post(&message).path(&endpoint);
    for request in [by("eve", post(call("ran", json!({})))), post(call("ran", json!({})))] {
        assert_eq!(guarded.send(request).await.status, 404);
    }
    for path in
        [path.to_owned(), format!("{path}?sessionId="), format!("{path}?sessionId={}", "A".repeat(32))]
    {
        let answer = guarded.send(by("ada", post(call("ran", json!({}))).path(&path))).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    assert_eq!(guarded.send(by("ada", post(initialize_request("2024-11-05", json!({}))))).await.status, 202);
    assert_eq!(stream.next_message().await.unwrap()["id"], 0, "another message came before");
    assert_eq!(count.get(), 0);
    // The session ends with its stream, once the server notices.
    drop(stream);
    while guarded.send(by("ada", post(request(8, "ping", json!({}))))).await.status != 404 {}
}

#[tokio::test]
async fn session_ids_cannot_be_guessed() {
    // S-03, SESS-002, SESS-003, SEC-016
    let (server, _) = counted();
    let direct = Direct::new(&server);
    let hello = Request::post(&initialize_request("2025-11-25", json!({})));
    let mut ids = Vec::new();
    for _ in 0..10_000 {
        let opened = direct.send(&hello).await;
        ids.push(opened.header("mcp-session-id").unwrap().to_owned());
    }
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    assert!(ids.iter().all(|id| id.bytes().all(|byte| (0x21..=0x7e).contains(&byte))));
    // The entropy of each position of the id, in bits.
    let length = ids[0].len();
    assert!(ids.iter().all(|id| id.len() == length));
    let bits = |at: usize| {
        let mut seen = [0_u32; 256];
        ids.iter().for_each(|id| seen[usize::from(id.as_bytes()[at])] += 1);
        let share = |count: u32| f64::from(count) / 10_000.0;
        seen.into_iter()
            .filter(|count| *count > 0)
            .map(|count| -share(count) * share(count).log2())
            .sum::<f64>()
    };
    let all: f64 = (0..length).map(bits).sum();
    assert!(all > 128.0, "{all} bits");
    // No position depends on the same position of the previous id.
    for at in 0..length {
        let same = ids.windows(2).filter(|two| two[0].as_bytes()[at] == two[1].as_bytes()[at]).count();
        assert!(same < 1000, "position {at} stays the same {same} times");
    }
}

#[tokio::test]
async fn deleted_session_releases_its_calls_and_streams() {
    // S-04, SESS-008, SESS-012
    let (begun, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, stops) = (begun.clone(), stopped.clone());
    let waits = Tool::new("waits").handler(move |cx: Context| {
        let (begins, stops) = (begins.clone(), Stops(stops.clone()));
        async move {
            cx.progress(1).await;
            begins.notify_one();
            std::future::pending::<()>().await;
            drop(stops);
        }
    });
    let serving = TestServer::start(&Server::new("s", "1").tool(waits)).await;
    for revision in OLD {
        let session = open_session(&serving, revision, json!({})).await;
        let mut news = serving.connect().await;
        news.send(Request::get_stream(&session)).await;
        let mut calling = serving.connect().await;
        let params = json!({"name": "waits", "arguments": {}, "_meta": {"progressToken": 1}});
        let waits = request(7, "tools/call", params);
        calling.send(Request::post(&waits).session(&session)).await;
        let mut last = None;
        while let Some(event) = calling.next_event().await {
            last = event.id.or(last);
            if !event.data.is_empty() {
                break;
            }
        }
        begun.notified().await;
        assert_eq!(serving.send(Request::new("DELETE").session(&session)).await.status, 200);
        // Running calls are dropped, and every stream ends.
        stopped.notified().await;
        assert_eq!(calling.next_message().await, None, "{revision}");
        while news.next_event().await.is_some() {}
        let resumes = Request::get_stream(&session).header("Last-Event-ID", &last.unwrap());
        for late in [Request::post(&waits).session(&session), Request::get_stream(&session), resumes] {
            assert_eq!(serving.send(late).await.status, 404, "{revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn idle_session_expires() {
    // S-04, S-06
    let (server, count) = counted();
    let minute = Duration::from_secs(60);
    let direct = Direct::new(&server.http(Http::new().session_idle_timeout(30 * minute).max_sessions(2)));
    let hello = Request::post(&initialize_request("2025-11-25", json!({})));
    let idle = direct.send(&hello).await.header("mcp-session-id").unwrap().to_owned();
    let used = direct.send(&hello).await.header("mcp-session-id").unwrap().to_owned();
    let (_, mut stream) = direct.begin(&Request::get_stream(&used)).await;
    assert!(next(&mut stream).await.is_some());
    tokio::time::sleep(29 * minute).await;
    assert_eq!(direct.send(&hello).await.status, 503, "both sessions still exist");
    tokio::time::sleep(3 * minute).await;
    let ran = Request::post(&call("ran", json!({})));
    assert_eq!(direct.send(&ran.clone().session(&idle)).await.status, 404);
    // An open stream counts as use.
    assert_eq!(text(&direct.send(&ran.clone().session(&used)).await), "ran");
    assert_eq!(direct.send(&hello).await.status, 200, "a session has expired");
    drop(stream);
    tokio::time::sleep(32 * minute).await;
    assert_eq!(direct.send(&ran.session(&used)).await.status, 404);
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn request_without_a_session_creates_none() {
    // S-05, SESS-006
    let (server, count) = counted();
    let serving = TestServer::start(&server.http(Http::new().max_sessions(1))).await;
    for message in [
        call("ran", json!({})),
        request(7, "ping", json!({})),
        request(7, "resources/subscribe", json!({"uri": "a://b"})),
        notice("notifications/initialized", json!({})),
    ] {
        let answer = serving.send(Request::post(&message)).await;
        assert_eq!((answer.status, answer.header("mcp-session-id")), (400, None), "{message}");
    }
    // A failed handshake creates no session either.
    for params in [json!({}), json!({"protocolVersion": 7}), json!({"protocolVersion": "2025-11-25"})] {
        let answer = serving.send(Request::post(&request(0, "initialize", params))).await;
        assert!(answer.error_code().is_some() && answer.header("mcp-session-id").is_none(), "{answer:?}");
    }
    assert_eq!(count.get(), 0);
    open_session(&serving, "2025-11-25", json!({})).await;
}

#[tokio::test]
async fn session_limits_evict_no_session() {
    // S-06
    let (server, _) = counted();
    let guarded = Guarded::start(&server.http(Http::new().max_sessions(3).max_sessions_per_caller(2))).await;
    let hello = || Request::post(&initialize_request("2025-11-25", json!({})));
    let first = guarded.open("ada", "2025-11-25", json!({})).await;
    let second = guarded.open("ada", "2025-11-25", json!({})).await;
    let third = guarded.send(by("ada", hello())).await;
    assert_eq!(refused(&third), (429, -32600));
    assert_eq!(third.header("mcp-session-id"), None);
    // Another token is the same user, another issuer is another user.
    assert_eq!(guarded.send(by("ada+scope", hello())).await.status, 429);
    let other = guarded.open("ada@elsewhere", "2025-11-25", json!({})).await;
    let full = guarded.send(by("eve", hello())).await;
    assert_eq!(refused(&full), (503, -32600));
    assert_eq!(guarded.send(hello()).await.status, 503);
    for (who, session) in [("ada", &first), ("ada", &second), ("ada@elsewhere", &other)] {
        let request = Request::post(&call("ran", json!({}))).session(session);
        assert_eq!(text(&guarded.send(by(who, request)).await), "ran");
    }
    assert_eq!(guarded.send(by("ada", Request::new("DELETE").session(&first))).await.status, 200);
    guarded.open("ada", "2025-11-25", json!({})).await;
    assert_eq!(guarded.send(by("eve", hello())).await.status, 503);
}

/// A tool that reports that it has started, waits for a permit, and returns its caller.
fn held(begun: &Arc<Notify>, go: &Arc<Semaphore>) -> Tool {
    let (begun, go) = (begun.clone(), go.clone());
    Tool::new("held").handler(move |who: Principal| {
        let (begun, go) = (begun.clone(), go.clone());
        async move {
            begun.notify_one();
            go.acquire().await.unwrap().forget();
            who.subject().to_owned()
        }
    })
}

#[tokio::test]
async fn other_users_cannot_cancel_a_request() {
    // S-16
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let guarded = Guarded::start(&Server::new("s", "1").tool(held(&begun, &go))).await;
    let cancel = Request::post(&notice("notifications/cancelled", json!({"requestId": 7})));
    let ada = guarded.open("ada", "2025-11-25", json!({})).await;
    let eve = guarded.open("eve", "2025-11-25", json!({})).await;
    let second = guarded.open("ada", "2025-11-25", json!({})).await;
    let modern = |request: Request| request.header("MCP-Protocol-Version", "2026-07-28");
    for calls in [
        by("ada", Request::post(&call("held", json!({}))).session(&ada)),
        by("ada", Request::stateless(call("held", json!({})))),
    ] {
        let mut calling = guarded.connect().await;
        calling.write_request(&calls).await;
        begun.notified().await;
        for (request, status) in [
            (by("eve", cancel.clone().session(&eve)), 202),
            (by("ada", cancel.clone().session(&second)), 202),
            (by("eve", cancel.clone().session(&ada)), 404),
            (by("eve", modern(cancel.clone())), 202),
            (by("ada", modern(cancel.clone())), 202),
            (by("eve", cancel.clone()), 400),
        ] {
            assert_eq!(guarded.send(request.clone()).await.status, status, "{request:?}");
        }
        go.add_permits(1);
        let mut answer = calling.read_head().await.unwrap();
        answer.body = calling.read_body().await;
        assert_eq!(text(&answer), "ada");
    }
}

#[tokio::test]
async fn other_users_cannot_answer_a_server_request() {
    // S-17
    let asks = Tool::new("asks")
        .handler(|cx: Context| async move { cx.roots().await.map(|roots| roots.len().to_string()) });
    let guarded = Guarded::start(&Server::new("s", "1").tool(asks)).await;
    let roots = |id: &Value, count: usize| {
        let roots = vec![json!({"uri": "file:///a"}); count];
        Request::post(&json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}}))
    };
    for revision in OLD {
        let can = json!({"roots": {}});
        let mut streams = Vec::new();
        for who in ["ada", "eve"] {
            let session = guarded.open(who, revision, can.clone()).await;
            let mut stream = guarded.connect().await;
            stream.send(by(who, Request::post(&call("asks", json!({}))).session(&session))).await;
            let question = stream.next_message().await.unwrap();
            streams.push((who, session, stream, question["id"].clone()));
        }
        let [(_, ada, mut to_ada, asked), (_, eve, mut to_eve, own)] =
            <[_; 2]>::try_from(streams).ok().unwrap();
        // If both questions have the same id, this answers her own.
        assert_eq!(guarded.send(by("eve", roots(&asked, 1).session(&eve))).await.status, 202);
        assert_eq!(guarded.send(by("eve", roots(&asked, 0).session(&ada))).await.status, 404);
        assert_eq!(guarded.send(by("eve", roots(&own, 1).session(&eve))).await.status, 202);
        assert_eq!(guarded.send(by("ada", roots(&asked, 2).session(&ada))).await.status, 202);
        assert_eq!(super::result_text(&to_eve.next_message().await.unwrap()), "1", "{revision}");
        assert_eq!(super::result_text(&to_ada.next_message().await.unwrap()), "2", "{revision}");
    }
}

#[tokio::test]
async fn stateless_requests_are_independent() {
    // S-13, LIFE-028: neither a handshake nor an earlier request on the same connection is remembered.
    let sees = Tool::new("sees").handler(|who: Option<Principal>, cx: Context| async move {
        let can = cx.client_capabilities();
        let who = who.map_or_else(|| "anonymous".to_owned(), |who| who.subject().to_owned());
        format!("{who} {} {}", can.elicitation.is_some(), cx.client().is_some())
    });
    let guarded = Guarded::start(&Server::new("s", "1").tool(sees)).await;
    let session = guarded.open("ada", "2025-11-25", json!({"elicitation": {}})).await;
    let mut connection = guarded.connect().await;
    let mut full = call("sees", json!({}));
    full["params"]["_meta"] = json!({
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    });
    let bare = Request::stateless(call("sees", json!({})));
    for (request, seen) in [
        (by("ada", Request::post(&call("sees", json!({}))).session(&session)), "ada true true"),
        (by("ada", Request::stateless(full)), "ada true true"),
        (bare.clone(), "anonymous false false"),
        (by("eve", bare.clone()), "eve false false"),
        (by("ada", bare.session(&session)), "ada false false"),
    ] {
        let mut answer = connection.send(request).await;
        answer.body = connection.read_body().await;
        assert_eq!(text(&answer), seen);
    }
}

#[tokio::test]
async fn users_of_one_connection_are_isolated() {
    // S-14, F-31
    let count = Count::default();
    let says = Tool::new("says").handler(|who: Option<Principal>, cx: Context| async move {
        let who = who.map_or_else(|| "anonymous".to_owned(), |who| who.subject().to_owned());
        cx.log(Level::Error, &who).await;
        cx.progress(1).message(&who).await;
        tokio::task::yield_now().await;
        who
    });
    let server = Server::new("s", "1").tool(says).tool(counting("ran", &count));
    let guarded = Guarded::start(&server).await;
    let mut connection = guarded.connect().await;
    let params = |token: &str| {
        let meta = json!({"progressToken": token, "io.modelcontextprotocol/logLevel": "debug"});
        json!({"name": "says", "arguments": {}, "_meta": meta})
    };
    let ada = guarded.open("ada", "2025-11-25", json!({})).await;
    let eve = guarded.open("eve", "2025-11-25", json!({})).await;
    for (who, session) in
        [("ada", Some(&ada)), ("eve", Some(&eve)), ("ada", None), ("eve", None), ("ada", Some(&ada))]
    {
        let message = request(7, "tools/call", params(who));
        let asked = match session {
            Some(session) => Request::post(&message).session(session),
            None => Request::stateless(message),
        };
        let mut answer = connection.send(by(who, asked)).await;
        answer.body = connection.read_body().await;
        let events: Vec<_> = answer.events().into_iter().filter(|event| !event.data.is_empty()).collect();
        assert_eq!(events.len(), 3, "{answer:?}");
        assert_eq!(events[0].json()["params"]["data"], who);
        assert_eq!(
            (&events[1].json()["params"]["progressToken"], &events[1].json()["params"]["message"]),
            (&json!(who), &json!(who))
        );
        assert_eq!(super::result_text(&events[2].json()), who);
    }
}

#[tokio::test]
async fn request_ids_are_scoped_to_their_client() {
    // S-15
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let guarded = Guarded::start(&Server::new("s", "1").tool(held(&begun, &go))).await;
    let mut waiting = Vec::new();
    let ada = guarded.open("ada", "2025-11-25", json!({})).await;
    let eve = guarded.open("eve", "2025-11-25", json!({})).await;
    for (who, session) in [("ada", None), ("eve", None), ("ada", Some(&ada)), ("eve", Some(&eve))] {
        let request = match session {
            Some(session) => Request::post(&call("held", json!({}))).session(session),
            None => Request::stateless(call("held", json!({}))),
        };
        let mut connection = guarded.connect().await;
        connection.write_request(&by(who, request)).await;
        begun.notified().await;
        waiting.push((who, connection));
    }
    go.add_permits(waiting.len());
    for (who, mut connection) in waiting {
        let mut answer = connection.read_head().await.unwrap();
        answer.body = connection.read_body().await;
        assert_eq!((text(&answer).as_str(), &answer.json()["id"]), (who, &json!(7)));
    }
}
