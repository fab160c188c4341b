//! Logouts: the token is forgotten, and the authorization server is asked to revoke it.

use serde_json::json;
use tsugite_auth::{ClientCredentials, Login, Logout, MemoryStore, Store};

use super::world::{Changes, Clicks, Reply, Seen, World};

#[tokio::test]
async fn logout_forgets_the_token() {
    let world = World::start(Changes::default()).await;
    let (clicks, store) = (Clicks::default(), MemoryStore::new());
    let login = clicks.login().store(store.clone());
    world.try_login(&login).await.unwrap();
    assert_eq!(login.logout(&world.mcp).await.unwrap(), Logout::Unsupported);
    assert_eq!(login.logout(&world.mcp).await.unwrap(), Logout::NoToken);
    assert!(store.read().await.unwrap().tokens.is_empty());
    world.try_login(&login).await.unwrap();
    assert_eq!((clicks.pages().len(), world.at("/register").len()), (2, 1));
}

/// An authorization server with a revocation endpoint, which answers with `reply`.
fn revoking(reply: impl Fn(&World, &Seen) -> Option<Reply> + Send + Sync + 'static) -> Changes {
    Changes {
        metadata: Box::new(|world, document| {
            document["revocation_endpoint"] = json!(format!("{}/revoke", world.issuer));
        }),
        reply: Box::new(move |world, seen| (seen.path == "/revoke").then(|| reply(world, seen)).flatten()),
        ..Changes::default()
    }
}

#[tokio::test]
async fn logout_revokes_both_tokens() {
    let world = World::start(revoking(|_, _| None)).await;
    let login = Clicks::default().login();
    world.try_login(&login).await.unwrap();
    assert_eq!(login.logout(&world.mcp).await.unwrap(), Logout::Revoked);
    let revoked: Vec<_> = world
        .at("/revoke")
        .iter()
        .map(|seen| ["token", "token_type_hint", "client_id"].map(|name| seen.form(name).unwrap()))
        .collect();
    assert_eq!(
        revoked,
        [["refresh-2", "refresh_token", "registered"], ["access-2", "access_token", "registered"]]
    );
}

#[tokio::test]
async fn confidential_client_revokes_its_token_with_its_secret() {
    let world = World::start(revoking(|_, _| None)).await;
    let store = MemoryStore::new();
    let login = Login::client_credentials(ClientCredentials::secret("service", "secret"));
    let login = login.store(store.clone());
    world.try_login(&login).await.unwrap();
    // Without its credentials the client cannot revoke the token, and says so.
    let outcome = Clicks::default().login().store(store.clone()).logout(&world.mcp).await.unwrap();
    assert!(
        matches!(&outcome, Logout::Failed(error) if error.to_string().contains("service")),
        "{outcome:?}"
    );
    assert!(world.at("/revoke").is_empty() && store.read().await.unwrap().tokens.is_empty());
    world.try_login(&login.clone().scopes(["other"])).await.unwrap();
    assert_eq!(login.logout(&world.mcp).await.unwrap(), Logout::Revoked);
    assert!(world.at("/revoke").iter().all(|seen| seen.header("authorization").starts_with("Basic ")));
}

#[tokio::test]
async fn token_is_forgotten_also_if_it_cannot_be_revoked() {
    let refused =
        |code: &'static str| move |_: &World, _: &Seen| Some(Reply::json(400, &json!({"error": code})));
    let redirected = |_: &World, _: &Seen| Some(Reply::redirect(307, "http://127.0.0.1:1/"));
    for (changes, reason) in [
        (revoking(refused("invalid_client")), "invalid_client"),
        (revoking(|_, _| Some(Reply::status(503))), "503"),
        (revoking(redirected), "redirect"),
    ] {
        let world = World::start(changes).await;
        let (clicks, store) = (Clicks::default(), MemoryStore::new());
        let login = clicks.login().store(store.clone());
        world.try_login(&login).await.unwrap();
        let outcome = login.logout(&world.mcp).await.unwrap();
        assert!(
            matches!(&outcome, Logout::Failed(error) if error.to_string().contains(reason)),
            "{outcome:?}"
        );
        assert!(!format!("{outcome:?}").contains("refresh-2"));
        assert!(store.read().await.unwrap().tokens.is_empty());
        world.try_login(&login).await.unwrap();
        assert_eq!(clicks.pages().len(), 2);
    }
    // Access tokens that are checked by their signature cannot be revoked; the refresh token can.
    let world = World::start(revoking(|_, seen| {
        let is_access = seen.form("token_type_hint").as_deref() == Some("access_token");
        is_access.then(|| Reply::json(400, &json!({"error": "unsupported_token_type"})))
    }))
    .await;
    let login = Clicks::default().login();
    world.try_login(&login).await.unwrap();
    assert_eq!(login.logout(&world.mcp).await.unwrap(), Logout::Revoked);
}

#[tokio::test]
async fn revocation_endpoint_passes_the_guard() {
    let world = World::start(Changes {
        metadata: Box::new(|_, document| {
            document["revocation_endpoint"] = json!("http://example.com/revoke")
        }),
        ..Changes::default()
    })
    .await;
    let login = Clicks::default().login();
    world.try_login(&login).await.unwrap();
    let outcome = login.logout(&world.mcp).await.unwrap();
    assert!(
        matches!(&outcome, Logout::Failed(error) if error.to_string().contains("not https")),
        "{outcome:?}"
    );
}
