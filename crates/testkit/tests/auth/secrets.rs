//! Tokens and secrets are in no error, no log, no trace and no `Debug` output.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::Level;
use tsugite_auth::{Assertion, ClientCredentials, EnterpriseIdp, Login, MemoryStore, Store};
use tsugite_testkit::log::Warnings;

use super::world::{Changes, Clicks, Reply, World};
use super::{call, within};

const SECRET: &str = "hunter2";

#[tokio::test]
async fn errors_of_the_token_endpoint_show_no_secret() {
    let world = World::start(Changes {
        reply: Box::new(|_, seen| {
            // A hostile authorization server repeats the request.
            let body = json!({"error": "invalid_request", "error_description": "no"});
            (seen.path == "/token").then(|| Reply::json(400, &body))
        }),
        ..Changes::default()
    })
    .await;
    let login = Clicks::default().login().client(ClientCredentials::secret("id", SECRET));
    let error = world.try_login(&login).await.unwrap_err();
    assert!(
        error.contains("issued no token") && !error.contains(SECRET) && !error.contains("code-"),
        "{error}"
    );
}

#[tokio::test]
async fn debug_output_shows_no_secret() {
    let client = ClientCredentials::secret("id", SECRET);
    let idp = EnterpriseIdp::new("https://idp/token", client.clone(), Assertion::fixed(SECRET));
    let login = Login::enterprise(client.clone(), idp.clone());
    let shown = format!("{client:?} {idp:?} {login:?} {:?}", Assertion::fixed(SECRET));
    assert!(!shown.contains(SECRET), "{shown}");
    let world = World::start(Changes::default()).await;
    let store = MemoryStore::new();
    world.try_login(&Clicks::default().login().store(store.clone()).dpop()).await.unwrap_err();
    world.try_login(&Clicks::default().login().store(store.clone())).await.unwrap();
    let vault = store.read().await.unwrap();
    let shown = format!("{store:?} {vault:?}");
    assert!(vault.tokens.len() == 1 && !shown.contains("access-") && !shown.contains("refresh-"), "{shown}");
}

#[tokio::test]
async fn wire_trace_shows_no_token() {
    let world = World::start(Changes::default()).await;
    let lines = Arc::new(Mutex::new(String::new()));
    let trace = Arc::clone(&lines);
    let builder = world.client(&Clicks::default().login());
    let client =
        within(builder.on_wire(move |_, message| trace.lock().unwrap().push_str(message))).await.unwrap();
    call(&client).await.unwrap();
    let lines = lines.lock().unwrap().clone();
    assert!(lines.contains("tools/call") && !lines.contains("access-"), "{lines}");
}

#[tokio::test]
async fn log_shows_no_token_and_no_secret() {
    let log = Warnings::capture_from(Level::TRACE);
    let world = World::start(Changes::default()).await;
    let login = Clicks::default().login().client(ClientCredentials::secret("id", SECRET));
    let client = within(world.client(&login)).await.unwrap();
    call(&client).await.unwrap();
    world.expire_tokens();
    world.revoke_refresh_tokens();
    call(&client).await.unwrap();
    let lines = log.take_with_fields().join("\n");
    assert!(lines.contains("the refresh token is not valid any more"), "{lines}");
    for secret in [SECRET, "access-", "refresh-", "code-", "state="] {
        assert!(!lines.contains(secret), "{secret}: {lines}");
    }
}

#[tokio::test]
async fn token_is_not_sent_to_another_server_after_a_redirect() {
    let other = World::start(Changes::default()).await;
    let target = other.mcp.clone();
    let world = World::start(Changes {
        reply: Box::new(move |_, seen| {
            let is_call = !seen.at_issuer && seen.path == "/mcp" && !seen.header("authorization").is_empty();
            is_call.then(|| Reply::redirect(307, target.clone()))
        }),
        ..Changes::default()
    })
    .await;
    let error = world.try_login(&Clicks::default().login()).await.unwrap_err();
    assert!(error.contains("refused a redirect"), "{error}");
    assert!(other.seen().is_empty());
}
