//! Items that are visible to one user and hidden from another.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::caching::CacheScope;
use tsugite_testkit::http::Request;

use super::guard::{Guarded, by};
use super::{Count, OLD, call, counting, refused, request};

fn office(count: &Count) -> Server {
    Server::new("s", "1")
        .tool(counting("open", count))
        .tool(counting("secret", count).tag("admin"))
        .resource(Resource::text("text://open", "a"))
        .resource(Resource::text("text://secret", "b").tag("admin"))
        .cache(Duration::from_secs(60), CacheScope::Public)
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.subject() == "root"))
}

fn names(list: &Value) -> Vec<&str> {
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn caller_dependent_list_is_private() {
    // F-27, S-14
    let guarded = Guarded::start(&office(&Count::default())).await;
    let mut connection = guarded.connect().await;
    let list = Request::stateless(request(7, "tools/list", json!({})));
    for (request, seen) in [
        (by("root", list.clone()), &["open", "secret"][..]),
        (by("eve", list.clone()), &["open"]),
        (list.clone(), &["open"]),
        (by("root", list), &["open", "secret"]),
    ] {
        let mut answer = connection.send(request).await;
        answer.body = connection.read_body().await;
        let answer = answer.json();
        assert_eq!(names(&answer), seen);
        assert_eq!(answer["result"]["cacheScope"], "private", "{answer}");
    }
}

#[tokio::test]
async fn hidden_items_look_like_unknown_items() {
    // F-28, A-11
    let count = Count::default();
    let guarded = Guarded::start(&office(&count)).await;
    let read = |uri: &str| request(7, "resources/read", json!({"uri": uri}));
    let mut pairs = vec![
        (Request::stateless(call("secret", json!({}))), Request::stateless(call("nosuch", json!({})))),
        (Request::stateless(read("text://secret")), Request::stateless(read("text://nosuch"))),
    ];
    for revision in OLD {
        let session = guarded.open("eve", revision, json!({})).await;
        let post = |message: Value| Request::post(&message).session(&session);
        pairs.push((post(call("secret", json!({}))), post(call("nosuch", json!({})))));
        pairs.push((post(read("text://secret")), post(read("text://nosuch"))));
    }
    for (hidden, absent) in pairs {
        let hidden = guarded.send(by("eve", hidden)).await;
        let absent = guarded.send(by("eve", absent)).await;
        assert_eq!(refused(&hidden), refused(&absent));
        assert_eq!(hidden.body.replace("secret", "nosuch"), absent.body);
    }
    assert_eq!(count.get(), 0);
    let root = by("root", Request::stateless(call("secret", json!({}))));
    assert_eq!(super::text(&guarded.send(root).await), "ran");
}

#[tokio::test]
async fn hidden_resources_send_no_updates() {
    // F-24
    let server = office(&Count::default());
    let guarded = Guarded::start(&server).await;
    let wish = json!({"notifications": {"resourceSubscriptions": ["text://secret", "text://open"]}});
    let listen = Request::stateless(request(7, "subscriptions/listen", wish));
    let mut streams = Vec::new();
    for (who, granted) in [("eve", json!(["text://open"])), ("root", json!(["text://secret", "text://open"]))]
    {
        let mut stream = guarded.connect().await;
        stream.send(by(who, listen.clone())).await;
        let acknowledged = stream.next_message().await.unwrap();
        assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], granted, "{who}");
        streams.push(stream);
    }
    for revision in OLD {
        let session = guarded.open("eve", revision, json!({})).await;
        let subscribe = request(7, "resources/subscribe", json!({"uri": "text://secret"}));
        let answer = guarded.send(by("eve", Request::post(&subscribe).session(&session))).await;
        assert_eq!(refused(&answer), (200, -32002), "{revision}");
    }
    server.notify_resource_updated("text://secret");
    server.notify_resource_updated("text://open");
    assert_eq!(streams[1].next_message().await.unwrap()["params"]["uri"], "text://secret");
    assert_eq!(streams[0].next_message().await.unwrap()["params"]["uri"], "text://open");
}

#[tokio::test]
async fn each_request_is_authorized_by_its_own_token() {
    // A-13, S-01: the permissions at the start of the session do not apply to later requests.
    let count = Count::default();
    let server = Server::new("s", "1")
        .tool(counting("secret", &count).tag("admin"))
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")));
    let guarded = Guarded::start(&server).await;
    for revision in OLD {
        let session = guarded.open("ada+admin", revision, json!({})).await;
        let secret = Request::post(&call("secret", json!({}))).session(&session);
        assert_eq!(refused(&guarded.send(by("ada", secret.clone())).await), (200, -32602), "{revision}");
        assert_eq!(super::text(&guarded.send(by("ada+admin", secret)).await), "ran");
    }
    assert_eq!(count.get(), OLD.len());
}

fn scoped_office() -> Server {
    Server::new("s", "1")
        .resource(Resource::text("text://open", "a"))
        .resource(Resource::text("text://secret", "b").tag("admin"))
        .visible(|who, item| !item.has_tag("admin") || who.is_some_and(|who| who.has_scope("admin")))
}

#[tokio::test]
async fn changes_are_judged_by_the_newest_token_of_a_session() {
    let server = scoped_office();
    let guarded = Guarded::start(&server).await;
    for revision in OLD {
        let session = guarded.open("ada+admin", revision, json!({})).await;
        for uri in ["text://secret", "text://open"] {
            let subscribe = Request::post(&request(1, "resources/subscribe", json!({"uri": uri})));
            assert_eq!(guarded.send(by("ada+admin", subscribe.session(&session))).await.status, 200);
        }
        let mut stream = guarded.connect().await;
        let opened = stream.send(by("ada+admin", Request::get_stream(&session))).await;
        assert_eq!(opened.status, 200, "{opened:?}");
        let ping = Request::post(&request(2, "ping", json!({}))).session(&session);
        for (token, heard) in [
            ("ada", &["text://open"][..]),
            ("ada+admin", &["text://secret", "text://open"]),
            ("ada", &["text://open"]),
        ] {
            assert_eq!(guarded.send(by(token, ping.clone())).await.status, 200);
            server.notify_resource_updated("text://secret");
            server.notify_resource_updated("text://open");
            for uri in heard {
                let message = stream.next_message().await.unwrap();
                assert_eq!(message["params"]["uri"], *uri, "{revision} {token}");
            }
        }
    }
}

#[tokio::test]
async fn other_token_of_a_caller_keeps_its_http_sse_stream() {
    let server = scoped_office().http(tsugite::transport::http::Http::new().http_sse());
    let guarded = Guarded::start(&server).await;
    let mut stream = guarded.connect().await;
    let connect = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
    assert_eq!(stream.send(by("ada", connect)).await.status, 200);
    let endpoint = stream.next_event().await.unwrap().data;
    let post = |who: &str, message: Value| {
        let post = Request::new("POST").path(&endpoint).header("Content-Type", "application/json");
        by(who, post.body(message.to_string()))
    };
    let open = tsugite_testkit::http::initialize_request("2024-11-05", json!({}));
    for other in ["eve", "ada@elsewhere"] {
        assert_eq!(guarded.send(post(other, open.clone())).await.status, 404, "{other}");
    }
    assert_eq!(guarded.send(post("ada", open)).await.status, 202);
    assert!(stream.next_message().await.unwrap()["result"].is_object());
    let read = request(1, "resources/read", json!({"uri": "text://secret"}));
    // Each message is authorized by its own token.
    for (token, allowed) in [("ada", false), ("ada+admin", true), ("ada", false)] {
        assert_eq!(guarded.send(post(token, read.clone())).await.status, 202, "{token}");
        let answer = stream.next_message().await.unwrap();
        assert_eq!(answer["result"].is_object(), allowed, "{token} {answer}");
    }
    let subscribe = request(2, "resources/subscribe", json!({"uri": "text://secret"}));
    assert_eq!(guarded.send(post("ada+admin", subscribe)).await.status, 202);
    assert!(stream.next_message().await.unwrap()["result"].is_object());
    server.notify_resource_updated("text://secret");
    assert_eq!(stream.next_message().await.unwrap()["params"]["uri"], "text://secret");
    // A narrower token stops the updates that it does not allow; a wider one resumes them.
    let subscribe = request(3, "resources/subscribe", json!({"uri": "text://open"}));
    assert_eq!(guarded.send(post("ada", subscribe)).await.status, 202);
    assert!(stream.next_message().await.unwrap()["result"].is_object());
    for (token, heard) in [
        ("ada", &["text://open"][..]),
        ("ada+admin", &["text://secret", "text://open"]),
        ("ada", &["text://open"]),
    ] {
        assert_eq!(guarded.send(post(token, request(4, "ping", json!({})))).await.status, 202);
        assert_eq!(stream.next_message().await.unwrap()["id"], 4);
        server.notify_resource_updated("text://secret");
        server.notify_resource_updated("text://open");
        for uri in heard {
            assert_eq!(stream.next_message().await.unwrap()["params"]["uri"], *uri, "{token}");
        }
    }
}
