//! Servers that want more scopes.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::world::{Changes, Clicks, Reply, World, answer_message};
use super::{call, within};

#[tokio::test]
async fn step_up_asks_for_all_scopes() {
    // ACL-053, ACL-055, C-19
    let world = World::start(Changes {
        challenge_scope: Some("read"),
        call_scope: Some("write"),
        resource: Box::new(|_, document| document["scopes_supported"] = json!(["read", "profile"])),
        ..Changes::default()
    })
    .await;
    let clicks = Clicks::default();
    let client = within(world.client(&clicks.login())).await.unwrap();
    within(client.list_tools()).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(call(&client).await.unwrap(), "in");
    let asked: Vec<String> = world.at("/authorize").iter().map(|seen| seen.query["scope"].clone()).collect();
    assert_eq!(asked, ["read", "read write"]);
    // The challenge of the second request was enough: no login was tried with the same scopes.
    assert_eq!(clicks.pages().len(), 2);
}

#[tokio::test]
async fn step_ups_of_an_operation_are_limited() {
    // ACL-056, C-18
    let count = AtomicUsize::new(0);
    let world = World::start(Changes {
        reply: Box::new(move |_, seen| {
            let is_call = !seen.at_issuer
                && seen.json()["method"] == "tools/call"
                && !seen.header("authorization").is_empty();
            let scope = format!("scope{}", count.load(Ordering::SeqCst));
            is_call.then(|| {
                count.fetch_add(1, Ordering::SeqCst);
                Reply::challenge(403, format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""))
            })
        }),
        ..Changes::default()
    })
    .await;
    let clicks = Clicks::default();
    let client = within(world.client(&clicks.login())).await.unwrap();
    for _ in 0..4 {
        assert!(call(&client).await.is_err());
    }
    // The first login, and three attempts to get more.
    assert_eq!(clicks.pages().len(), 4);
}

#[tokio::test]
async fn same_scopes_are_not_asked_for_twice() {
    // ACL-056, C-18, SEC-028
    let world = World::start(Changes {
        reply: Box::new(|_, seen| {
            let is_call = !seen.at_issuer && seen.path == "/mcp" && !seen.header("authorization").is_empty();
            is_call.then(|| Reply::challenge(403, "Bearer error=\"insufficient_scope\", scope=\"a\""))
        }),
        ..Changes::default()
    })
    .await;
    let clicks = Clicks::default();
    let client = within(world.client(&clicks.login())).await.unwrap();
    for _ in 0..3 {
        assert!(call(&client).await.is_err());
    }
    assert_eq!(clicks.pages().len(), 2);
}

#[tokio::test]
async fn challenge_counts_whatever_the_body_says() {
    let world = World::start(Changes {
        reply: Box::new(|world, seen| {
            if seen.at_issuer || seen.path != "/mcp" {
                return None;
            }
            let mut reply = answer_message(&seen.json());
            let url = format!("{}/.well-known/oauth-protected-resource/mcp", world.origin());
            match seen.header("authorization") {
                "" => {
                    reply.status = 401;
                    reply.headers.push(("www-authenticate", format!("Bearer resource_metadata=\"{url}\"")));
                }
                "Bearer access-2" => {
                    reply.status = 403;
                    let header = "Bearer error=\"insufficient_scope\", scope=\"more\"".to_owned();
                    reply.headers.push(("www-authenticate", header));
                }
                _ => {}
            }
            Some(reply)
        }),
        ..Changes::default()
    })
    .await;
    assert_eq!(world.try_login(&Clicks::default().login()).await.unwrap(), "in");
    assert_eq!(world.messages().len(), 3);
}

#[tokio::test]
async fn offline_access_is_asked_for_where_offered() {
    // ACL-059
    for (offered, expected) in [(true, "read offline_access"), (false, "read")] {
        let world = World::start(Changes {
            challenge_scope: Some("read"),
            metadata: Box::new(move |_, document| {
                document["scopes_supported"] =
                    if offered { json!(["read", "offline_access"]) } else { json!(["read"]) };
            }),
            ..Changes::default()
        })
        .await;
        world.try_login(&Clicks::default().login()).await.unwrap();
        let authorize = &world.at("/authorize")[0];
        assert_eq!(authorize.query["scope"], expected);
        assert_eq!(authorize.query.get("prompt").map(String::as_str), offered.then_some("consent"));
        let refused = Clicks::default().login().offline_access(false).scopes(["mine"]);
        world.try_login(&refused).await.unwrap();
        assert_eq!(world.at("/authorize")[1].query["scope"], "mine");
    }
}
