//! Servers that redirect their clients or require credentials.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use tsugite::client::{Client, ClientError, ConnectStep, ErrorKind};

use super::raw::{AfterResponse, Raw, ReceivedRequest, answer_handshake};
use super::{call, kind, until, within};

/// A secret that must not appear anywhere.
const SECRET: &str = "hunter2-is-the-secret";

#[tokio::test]
async fn redirect_to_another_server_is_not_followed() {
    // T-21
    let other = Raw::start(|request, writer| {
        writer.json(&request.answer("stolen"));
        AfterResponse::Keep
    });
    let (port, stranger) = (other.address.port(), other.url());
    let raw = Raw::after_handshake(move |request, writer| {
        let here = request.header("host").unwrap();
        let location = match request.body["params"]["arguments"]["to"].as_str().unwrap() {
            "url" => stranger.clone(),
            "host" => stranger.replace("http:", ""),
            "tls" => format!("https://{here}/mcp"),
            "user" => format!("http://{here}@127.0.0.1:{port}/mcp"),
            "backslash" => format!("/\\127.0.0.1:{port}/mcp"),
            "scheme" => "javascript:alert(1)".to_owned(),
            "file" => "file:///etc/passwd".to_owned(),
            _ => String::new(),
        };
        writer.status(307, &format!("location: {location}\r\n"), "");
        AfterResponse::Keep
    });
    let client = within(raw.client().bearer(SECRET).header("x-key", SECRET)).await.unwrap();
    // These are read as paths of the same server.
    let odd = ["backslash", "scheme"];
    for to in ["url", "host", "tls", "user", "backslash", "scheme", "file", "nowhere"] {
        let error = within(client.call::<String>("t", json!({"to": to}))).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Connect { step: ConnectStep::Http, .. })
                || (odd.contains(&to) && matches!(error.kind(), ErrorKind::Status { .. })),
            "{to}: {error}"
        );
        hides_secret(&error);
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

#[tokio::test]
async fn redirect_on_the_same_server_keeps_message_and_credentials() {
    for status in [301, 302, 307, 308] {
        let raw = Raw::after_handshake(move |request, writer| {
            match request.path.as_str() {
                "/mcp" => writer.status(status, "location: /elsewhere/mcp?x=1\r\n", ""),
                _ => writer.json(&request.answer("yes")),
            }
            AfterResponse::Keep
        });
        let client = within(raw.client().bearer(SECRET)).await.unwrap();
        let called = within(client.call::<String>("t", json!({})).idempotent()).await;
        assert_eq!(called.unwrap(), "yes");
        let last = raw.requests().pop().unwrap();
        assert_eq!((last.verb.as_str(), last.path.as_str()), ("POST", "/elsewhere/mcp?x=1"));
        assert!(last.header("authorization").unwrap().ends_with(SECRET));
    }
}

#[tokio::test]
async fn endpoint_on_another_server_is_refused() {
    // HSSE-013, T-22
    let other = Raw::start(|_, _| AfterResponse::Close);
    let address = other.address;
    for endpoint in [
        format!("http://{address}/messages"),
        format!("//{address}/messages"),
        "https://127.0.0.1/m".into(),
        "http://[".into(),
    ] {
        let raw = Raw::start(move |_, writer| {
            writer.stream();
            writer.write(format!("event: endpoint\ndata: {endpoint}\n\n"));
            writer.closed();
            AfterResponse::Close
        });
        let error = within(Client::connect(raw.url()).http_sse().bearer(SECRET)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Connect { step: ConnectStep::Handshake, .. }), "{error}");
        assert!(error.to_string().contains("another server"), "{error}");
        assert_eq!(raw.requests().len(), 1, "nothing was posted anywhere");
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn missing_endpoint_event_times_out() {
    for said in [
        "",
        ": comment\n\n",
        "data: /messages\n\n",
        "event: other\ndata: /messages\n\n",
        "event: endpoint\ndata: /messages\n",
    ] {
        let raw = Raw::start(move |_, writer| {
            writer.stream();
            writer.write(said);
            writer.closed();
            AfterResponse::Close
        });
        let connecting = Client::connect(raw.url()).http_sse().probe_timeout(Duration::from_millis(100));
        assert!(
            matches!(kind(within(connecting).await), ErrorKind::Connect { step: ConnectStep::Handshake, .. }),
            "{said}"
        );
        // The client closes the stream.
        raw.wait_for_closed(1).await;
    }
}

#[tokio::test]
async fn broken_http_sse_stream_fails_its_calls_and_reopens() {
    // HSSE-003
    let raw = http_sse_server();
    let client = within(Client::connect(raw.url()).http_sse()).await.unwrap();
    check_reopening(&raw, &client).await;
    assert_eq!(raw.count(|request| request.path == "/mcp" && request.verb == "POST"), 0);
}

#[tokio::test]
async fn detected_http_sse_is_used_for_the_whole_connection() {
    // HSSE-011: a POST decides nothing after the first `endpoint` event, also when the stream is opened again.
    let raw = http_sse_server();
    for client in [Client::connect(raw.url()), raw.client()] {
        let before = raw.requests().len();
        let client = within(client).await.unwrap();
        check_reopening(&raw, &client).await;
        let seen = raw.requests().split_off(before);
        let first = seen.iter().position(|request| request.verb == "GET").unwrap();
        let is_probe = |request: &ReceivedRequest| request.verb == "POST" && request.path == "/mcp";
        assert!(first > 0 && seen[..first].iter().all(is_probe), "{seen:?}");
        assert!(!seen[first..].iter().any(is_probe), "{seen:?}");
        within(client.close()).await;
    }
}

/// A server that has only HTTP+SSE: other POSTs are refused. The tool `breaks` ends the stream.
fn http_sse_server() -> Raw {
    let mail = Mutex::new(Vec::<(String, ReceivedRequest)>::new());
    Raw::start(move |request, writer| {
        if request.verb == "POST" {
            match request.path.strip_prefix("/messages?s=") {
                Some(session) => {
                    mail.lock().unwrap().push((session.to_owned(), request.clone()));
                    writer.status(202, "", "");
                }
                None => writer.status(405, "", ""),
            }
            return AfterResponse::Keep;
        }
        let session = request.connection.to_string();
        writer.stream();
        writer.write(format!("event: endpoint\ndata: /messages?s={session}\n\n"));
        loop {
            let mut mail = mail.lock().unwrap();
            let Some(at) = mail.iter().position(|(to, _)| *to == session) else {
                drop(mail);
                std::thread::yield_now();
                // Writing notices a client that has disconnected.
                if !writer.write(":\n\n") {
                    return AfterResponse::Close;
                }
                continue;
            };
            let (_, message) = mail.remove(at);
            drop(mail);
            match (message.method(), message.body["params"]["name"].as_str()) {
                ("initialize", _) => drop(writer.event(None, &super::raw::welcome(&message))),
                ("tools/call", Some("breaks")) => return AfterResponse::Close,
                ("tools/call", _) => drop(writer.event(None, &message.answer("yes"))),
                _ => {}
            }
        }
    })
}

/// Calls a tool, breaks the stream with another one, and calls the first again.
async fn check_reopening(raw: &Raw, client: &Client) {
    let gets = || raw.count(|request| request.verb == "GET");
    let breaks = || raw.count(|request| request.body["params"]["name"] == "breaks");
    let before = (gets(), breaks());
    assert_eq!(call(client, "works").await.unwrap(), "yes");
    assert!(matches!(
        kind(call(client, "breaks").await),
        ErrorKind::ConnectionLost { may_have_run: true, .. }
    ));
    assert_eq!(call(client, "works").await.unwrap(), "yes");
    // The first stream may have been opened by the connection before.
    assert_eq!((gets() - before.0, breaks() - before.1), (1, 1));
}

#[tokio::test]
async fn https_fails_if_tls_fails() {
    let raw = Raw::start(|_, writer| {
        writer.write("HTTP/1.1 400 Bad Request\r\n\r\n");
        AfterResponse::Close
    });
    let url = format!("https://{}/mcp?key={SECRET}", raw.address);
    let error = within(Client::connect(url).bearer(SECRET)).await.unwrap_err();
    // Without the feature it is a configuration error; with it, the server's fault.
    match error.kind() {
        ErrorKind::Config(what) => assert!(what.contains("feature `tls`"), "{what}"),
        ErrorKind::Connect { step: ConnectStep::Tls, .. } => {}
        other => panic!("{other:?}"),
    }
    hides_secret(&error);
    assert!(!raw.requests().iter().any(|request| request.header("authorization").is_some()));
}

#[tokio::test]
async fn unauthorized_without_an_authorizer_reports_the_challenge() {
    for status in [401, 403] {
        let raw = Raw::after_handshake(move |_, writer| {
            writer.status(
                status,
                "www-authenticate: Bearer resource_metadata=\"http://x/\"\r\nwww-authenticate: Basic\r\n",
                "no",
            );
            AfterResponse::Keep
        });
        let url = format!("{}?token={SECRET}", raw.url());
        for client in [
            Client::connect(&*url).revision(super::HANDSHAKE),
            Client::connect(&*url).revision(tsugite::prelude::Revision::NEWEST),
        ] {
            let client = within(client.bearer(SECRET)).await.unwrap();
            let error = call(&client, "t").await.unwrap_err();
            hides_secret(&error);
            match error.into_kind() {
                ErrorKind::Unauthorized(challenge) => {
                    assert_eq!((challenge.status, challenge.url), (status, raw.url()));
                    assert_eq!(
                        challenge.www_authenticate,
                        ["Bearer resource_metadata=\"http://x/\"", "Basic"]
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(raw.calls(), 2);
        // The same for the first request.
        let raw = Raw::start(move |_, writer| {
            writer.status(status, "", "");
            AfterResponse::Keep
        });
        for connecting in [raw.client(), Client::connect(raw.url()), Client::connect(raw.url()).http_sse()] {
            // Without a challenge the status may mean something else, so the body is reported.
            match (status, kind(within(connecting).await)) {
                (401, ErrorKind::Unauthorized(_)) | (403, ErrorKind::Status { status: 403, .. }) => {}
                (_, other) => panic!("{other:?}"),
            }
        }
        assert_eq!(raw.requests().len(), 3, "an authorization error does not decide the era");
    }
}

#[tokio::test]
async fn errors_contain_no_secrets() {
    // A server that is unreachable, silent, broken, or busy.
    let ways: [fn(&ReceivedRequest, &mut super::raw::ResponseWriter) -> AfterResponse; 5] = [
        |_, _| AfterResponse::Close,
        |_, writer| {
            writer.closed();
            AfterResponse::Close
        },
        |_, writer| {
            writer.write("garbage\r\n\r\n");
            AfterResponse::Close
        },
        |_, writer| {
            writer.status(503, "retry-after: 999\r\n", "");
            AfterResponse::Keep
        },
        |_, writer| {
            writer.json(&json!({"jsonrpc": "2.0", "id": "?", "result": 7}));
            AfterResponse::Keep
        },
    ];
    for way in ways {
        let raw = Raw::start(way);
        let url = format!("{}?key={SECRET}#{SECRET}", raw.url());
        for connecting in [
            Client::connect(&*url),
            Client::connect(&*url).handshake_only(),
            Client::connect(&*url).http_sse(),
        ] {
            let connecting =
                connecting.bearer(SECRET).header("x-key", SECRET).timeout(Duration::from_millis(100));
            hides_secret(&within(connecting).await.unwrap_err());
        }
        let client = Client::connect(&*url).stateless_only().revision(tsugite::prelude::Revision::NEWEST);
        let client = within(client.bearer(SECRET).timeout(Duration::from_millis(100))).await.unwrap();
        hides_secret(&call(&client, "t").await.unwrap_err());
        assert!(!format!("{client:?}").contains(SECRET));
    }
    for url in [
        format!("http://user:{SECRET}@127.0.0.1/mcp"),
        format!("ftp://127.0.0.1/{SECRET}?k={SECRET}").replace(&format!("/{SECRET}"), "/x"),
    ] {
        hides_secret(&within(Client::connect(url)).await.unwrap_err());
    }
    let unfit = Client::connect("http://127.0.0.1:1/").header("x-key", format!("{SECRET}\r\nx: y"));
    hides_secret(&within(unfit).await.unwrap_err());
}

#[tokio::test]
async fn session_id_is_sent_unchanged_and_never_shown() {
    // SESS-004
    let raw = Raw::start(|request, writer| {
        if request.method() == "initialize" {
            writer.json_with(&format!("mcp-session-id: {SECRET}\r\n"), &super::raw::welcome(request));
            return AfterResponse::Keep;
        }
        assert_eq!(request.header("mcp-session-id"), Some(SECRET));
        match answer_handshake(request, writer) {
            Some(then) => then,
            None => {
                writer.status(500, "", "");
                AfterResponse::Keep
            }
        }
    });
    let client = within(raw.client()).await.unwrap();
    hides_secret(&call(&client, "t").await.unwrap_err());
    assert!(!format!("{client:?}").contains(SECRET));
    drop(client);
    until(|| raw.count(|request| request.verb == "DELETE") == 1).await;
}

fn hides_secret(error: &ClientError) {
    for shown in [format!("{error}"), format!("{error:?}"), format!("{:?}", error.kind())] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}
