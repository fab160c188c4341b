//! Logins of a person: what is requested, what is sent, and who waits for it.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Notify;
use tsugite_auth::{AuthError, Browser, Login, MemoryStore, Prompt, Store};

use super::world::{Changes, Clicks, World, fetch};
use super::{call, until, within};

#[tokio::test]
async fn client_logs_in_after_a_challenge() {
    // ACL-004, ACL-008, ACL-031, ACL-035, ACL-036
    let world = World::start(Changes::default()).await;
    let clicks = Clicks::default();
    let client = within(world.client(&clicks.login())).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(clicks.pages().len(), 1);
    let authorize = &world.at("/authorize")[0];
    let token = &world.grants("authorization_code")[0];
    assert_eq!(authorize.query["resource"], world.mcp);
    assert_eq!(token.form("resource").unwrap(), world.mcp);
    assert_eq!(token.form("redirect_uri").unwrap(), authorize.query["redirect_uri"]);
    assert!(token.form("code_verifier").is_some() && authorize.query.contains_key("code_challenge"));
    let messages = world.messages();
    let sent: Vec<&str> = messages.iter().map(|message| message.header("authorization")).collect();
    assert_eq!(sent, ["", "Bearer access-2", "Bearer access-2"]);
    assert!(world.seen().iter().all(|seen| !seen.query.values().any(|value| value.contains("access-"))));
}

#[tokio::test]
async fn all_callers_wait_for_one_login() {
    let world = World::start(Changes::default()).await;
    let gate = Arc::new(Notify::new());
    let clicks = Clicks { gate: Some(Arc::clone(&gate)), ..Clicks::default() };
    let client = within(world.client(&clicks.login())).await.unwrap();
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(call(&client))).collect();
    until(|| !clicks.pages().is_empty()).await;
    // A call that is dropped does not end the login of the others.
    calls[0].abort();
    gate.notify_one();
    for (number, call) in calls.into_iter().enumerate() {
        match number {
            0 => assert!(call.await.unwrap_err().is_cancelled()),
            _ => assert_eq!(within(call).await.unwrap().unwrap(), "in"),
        }
    }
    assert_eq!((clicks.pages().len(), world.grants("authorization_code").len()), (1, 1));
}

#[tokio::test]
async fn login_goes_on_when_its_only_call_is_dropped() {
    let world = World::start(Changes::default()).await;
    let gate = Arc::new(Notify::new());
    let clicks = Clicks { gate: Some(Arc::clone(&gate)), ..Clicks::default() };
    let client = within(world.client(&clicks.login())).await.unwrap();
    let dropped = tokio::spawn(call(&client));
    until(|| !clicks.pages().is_empty()).await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    gate.notify_one();
    assert_eq!(call(&client).await.unwrap(), "in");
    assert_eq!(clicks.pages().len(), 1);
}

#[tokio::test]
async fn one_login_keeps_the_tokens_of_servers_apart() {
    // ACL-015, ACL-037, C-20
    let (one, two) = (World::start(Changes::default()).await, World::start(Changes::default()).await);
    let login = Clicks::default().login();
    // The second server issues other tokens than the first.
    two.try_login(&Clicks::default().login()).await.unwrap();
    for world in [&one, &two, &one] {
        assert_eq!(world.try_login(&login).await.unwrap(), "in");
    }
    let sent = |world: &World| -> Vec<String> {
        let all = world.messages().into_iter().map(|message| message.header("authorization").to_owned());
        all.filter(|header| !header.is_empty()).collect()
    };
    assert_eq!(sent(&one), ["Bearer access-2", "Bearer access-2"]);
    assert_eq!(sent(&two), ["Bearer access-2", "Bearer access-4"]);
}

#[tokio::test]
async fn failed_login_does_not_open_one_page_after_another() {
    let world = World::start(Changes {
        answer: Box::new(|_, answer| answer[0] = ("error".to_owned(), "access_denied".to_owned())),
        ..Changes::default()
    })
    .await;
    let clicks = Clicks::default();
    let login = clicks.login();
    for _ in 0..2 {
        let error = world.try_login(&login).await.unwrap_err();
        assert!(error.contains("access_denied"), "{error}");
    }
    assert_eq!(clicks.pages().len(), 1);
}

#[tokio::test]
async fn answer_may_be_pasted_without_a_browser() {
    let world = World::start(Changes::default()).await;
    let prompt = Prompt::new(|page| async move {
        let (_, location) = fetch(&page.url).await;
        Ok(Some(format!("  {location}\n")))
    });
    assert_eq!(world.try_login(&Login::with_agent("app", prompt)).await.unwrap(), "in");
    let evil = Prompt::new(|page| async move {
        let (_, location) = fetch(&page.url).await;
        Ok(Some(location.replace("127.0.0.1", "evil.example.com")))
    });
    let error = world.try_login(&Login::with_agent("app", evil)).await.unwrap_err();
    assert!(error.contains("no answer to this login"), "{error}");
}

#[tokio::test]
async fn browser_gets_the_url_as_one_argument() {
    // C-13, SEC-024
    let world = World::start(Changes {
        metadata: Box::new(|world, document| {
            let endpoint = format!("{}/authorize?a=$(id)&b=';calc'&c=&&d=*", world.issuer);
            document["authorization_endpoint"] = json!(endpoint);
        }),
        ..Changes::default()
    })
    .await;
    let login = Login::with_agent("app", Browser::program(env!("CARGO_BIN_EXE_helper")));
    let client = within(world.client(&login)).await.unwrap();
    assert_eq!(call(&client).await.unwrap(), "in");
    let query = &world.at("/authorize")[0].query;
    for (name, value) in [("a", "$(id)"), ("b", "';calc'"), ("c", ""), ("d", "*"), ("response_type", "code")]
    {
        assert_eq!(query[name], value, "{query:?}");
    }
}

#[tokio::test]
async fn login_can_come_before_any_call() {
    let world = World::start(Changes { challenge_scope: Some("read"), ..Changes::default() }).await;
    let (clicks, store) = (Clicks::default(), MemoryStore::new());
    let login = clicks.login().store(store.clone());
    login.log_in(&world.mcp).await.unwrap();
    assert_eq!(world.try_login(&login).await.unwrap(), "in");
    assert_eq!((clicks.pages().len(), world.at("/authorize")[0].query["scope"].as_str()), (1, "read"));
    // Once more, for example as another user.
    login.log_in(&world.mcp).await.unwrap();
    assert_eq!(world.try_login(&login).await.unwrap(), "in");
    assert_eq!((clicks.pages().len(), store.read().await.unwrap().tokens.len()), (2, 1));
}

#[tokio::test]
async fn without_a_person_only_stored_tokens_are_used() {
    let world = World::start(Changes::default()).await;
    let (clicks, store) = (Clicks::default(), MemoryStore::new());
    let quiet = clicks.login().store(store.clone()).ask_user(false);
    let error = world.try_login(&quiet).await.unwrap_err();
    assert!(error.contains("requires credentials (401"), "{error}");
    assert!(world.at("/register").is_empty() && clicks.pages().is_empty());
    Clicks::default().login().store(store).log_in(&world.mcp).await.unwrap();
    assert_eq!(world.try_login(&quiet).await.unwrap(), "in");
    world.expire_tokens();
    assert_eq!(world.try_login(&quiet).await.unwrap(), "in");
    assert_eq!((clicks.pages().len(), world.grants("refresh_token").len()), (0, 1));
}

#[tokio::test]
async fn error_of_the_user_agent_reaches_the_caller() {
    let world = World::start(Changes::default()).await;
    let prompt = Prompt::new(|_| async { Err(AuthError::login("there is no display")) });
    let error = world.try_login(&Login::with_agent("app", prompt)).await.unwrap_err();
    assert_eq!(error, "there is no display");
}

#[tokio::test]
async fn login_has_a_time_limit() {
    let world = World::start(Changes::default()).await;
    let clicks = Clicks { gate: Some(Arc::new(Notify::new())), ..Clicks::default() };
    let login = clicks.login().login_timeout(std::time::Duration::from_millis(50));
    let error = world.try_login(&login).await.unwrap_err();
    assert!(error.contains("no login within"), "{error}");
}
