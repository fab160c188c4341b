//! The state in a store: shared by replicas, kept over a restart, and readable for no one else.

use tsugite::server::{SealKey, SealKeys};
use tsugite_auth::authorization_server::AuthorizationServer;
use tsugite_store::{FileStore, MemoryStore};

use super::{Visitor, builder, verify};

fn keys() -> SealKeys {
    SealKeys::new(SealKey::new([7; 32]))
}

#[tokio::test]
async fn replicas_share_everything() {
    let store = std::sync::Arc::new(MemoryStore::new().shared());
    let replica = || builder().store(store.clone()).seal_keys(keys()).build().unwrap();
    let (one, two) = (replica(), replica());
    let mut browser = Visitor::new(&one);
    let client = browser.public_client().await;
    let to = |browser: &mut Visitor, server: &AuthorizationServer| browser.server = server.clone();
    let page = browser.authorize(&client, &[]).await;
    to(&mut browser, &two);
    let page = browser.log_in(&page, "ann").await;
    to(&mut browser, &one);
    let code = browser.decide(&page, "allow").await.code();
    to(&mut browser, &two);
    let tokens = browser.exchange(&client, &code, &[]).await.json();
    assert!(verify(&one, &tokens["access_token"]).await.is_ok());
    to(&mut browser, &one);
    assert_eq!(browser.exchange(&client, &code, &[]).await.error(), "invalid_grant");
    assert!(verify(&two, &tokens["access_token"]).await.is_err());
    let keys = [browser.get("/jwks").await.body, Visitor::new(&two).get("/jwks").await.body];
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn restart_keeps_everything_and_the_file_tells_nothing() {
    let folder = std::env::temp_dir().join(format!("tsugite-as-state-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("state.redb");
    let start = || builder().store(FileStore::open(&path).unwrap()).seal_keys(keys()).build().unwrap();
    let server = start();
    let mut browser = Visitor::new(&server);
    let registered =
        browser.register(&serde_json::json!({"token_endpoint_auth_method": "client_secret_post"})).await;
    let client = registered["client_id"].as_str().unwrap();
    let secret = registered["client_secret"].as_str().unwrap();
    let code = browser.get_code(client, &[]).await;
    let tokens = browser.exchange(client, &code, &[("client_secret", secret)]).await.json();
    let key_set = browser.get("/jwks").await.body;
    let cookie = browser.cookies.values().next().unwrap().clone();
    drop((server, browser.clone()));
    browser.server = super::server();
    // Purging runs on a thread of its own; the file opens when that has ended.
    let server = super::super::within(async {
        loop {
            match FileStore::open(&path) {
                Ok(store) => break builder().store(store).seal_keys(keys()).build().unwrap(),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    browser.server = server.clone();
    assert!(verify(&server, &tokens["access_token"]).await.is_ok());
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", refresh)];
    let next = browser.post("/token", &[&form[..], &[("client_secret", secret)]].concat()).await;
    assert_eq!(next.status, 200, "{}", next.body);
    assert_eq!(browser.authorize(client, &[]).await.status, 303);
    assert_eq!(browser.get("/jwks").await.body, key_set);
    let bytes = std::fs::read(&path).unwrap();
    let next = next.json();
    let texts = [
        client,
        secret,
        &code,
        refresh,
        next["refresh_token"].as_str().unwrap(),
        &cookie,
        "ann",
        "notes:read",
    ];
    for text in texts {
        let is_there = bytes.windows(text.len()).any(|part| part == text.as_bytes());
        // Three letters may occur by chance in sealed bytes.
        assert!(!is_there || text == "ann", "the file contains {text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
