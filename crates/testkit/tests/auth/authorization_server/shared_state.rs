//! The state in a store: shared by replicas, kept over a restart, and readable for no one else.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tsugite::server::{SealKey, SealKeys};
use tsugite_auth::authorization_server::AuthorizationServer;
#[cfg(unix)]
use tsugite_redis::Redis;
use tsugite_store::{FileStore, MemoryStore, Store};
#[cfg(unix)]
use tsugite_testkit::replicas::RedisServer;

use super::{Visitor, builder, verify};

fn keys() -> SealKeys {
    SealKeys::new(SealKey::new([7; 32]))
}

/// Two replicas that share a store.
fn replicas<S: Store>(connect: impl Fn() -> S) -> [AuthorizationServer; 2] {
    let replica = || builder().store(connect()).seal_keys(keys()).build().unwrap();
    [replica(), replica()]
}

/// A browser at another replica.
fn at(browser: &Visitor, server: &AuthorizationServer) -> Visitor {
    Visitor { server: server.clone(), ..browser.clone() }
}

#[tokio::test]
async fn replicas_share_everything() {
    let store = Arc::new(MemoryStore::new().shared());
    share_everything(replicas(|| store.clone())).await;
}

#[tokio::test]
#[cfg(unix)]
async fn replicas_share_everything_in_redis() {
    let redis = RedisServer::start().unwrap();
    share_everything(replicas(|| Redis::at(&redis.url()).unwrap())).await;
}

async fn share_everything([one, two]: [AuthorizationServer; 2]) {
    // Registration, login and consent: each step at the other replica.
    let mut browser = Visitor::new(&one);
    let client = browser.public_client().await;
    let page = at(&browser, &two).authorize(&client, &[]).await;
    assert_eq!(page.status, 200, "{}", page.body);
    let page = browser.authorize(&client, &[]).await;
    let mut elsewhere = at(&browser, &two);
    let page = elsewhere.log_in(&page, "ann").await;
    let mut browser = at(&elsewhere, &one);
    let code = browser.decide(&page, "allow").await.code();
    let tokens = elsewhere.exchange(&client, &code, &[]).await.json();
    assert!(verify(&one, &tokens["access_token"]).await.is_ok());
    // The consent, too.
    elsewhere.authorize(&client, &[]).await.code();
    // A code that was used at one is used at the other, and revokes the family at both.
    assert_eq!(browser.exchange(&client, &code, &[]).await.error(), "invalid_grant");
    assert!(verify(&two, &tokens["access_token"]).await.is_err());
    let refresh = |tokens: &Value| tokens["refresh_token"].as_str().unwrap().to_owned();
    assert_eq!(elsewhere.refresh(&client, &refresh(&tokens)).await.error(), "invalid_grant");
    // Refresh tokens are replaced and repeated at either.
    let first = browser.tokens(&client).await;
    let second = elsewhere.refresh(&client, &refresh(&first)).await.json();
    let again = browser.refresh(&client, &refresh(&first)).await.json();
    assert_eq!(refresh(&second), refresh(&again));
    let (mut here, mut there) = (browser.clone(), elsewhere.clone());
    let token = refresh(&second);
    let (third, same) = tokio::join!(here.refresh(&client, &token), there.refresh(&client, &token));
    let (third, same) = (third.json(), same.json());
    assert_eq!(refresh(&third), refresh(&same));
    let fourth = browser.refresh(&client, &refresh(&third)).await.json();
    // An old one that is used at the other replica revokes the family at both.
    assert_eq!(elsewhere.refresh(&client, &refresh(&second)).await.error(), "invalid_grant");
    assert_eq!(browser.refresh(&client, &refresh(&fourth)).await.error(), "invalid_grant");
    assert!(verify(&one, &fourth["access_token"]).await.is_err());
    // Limits count together: 20 registrations an hour.
    let mut registered = 1;
    while registered < 40 {
        let program = if registered % 2 == 0 { &mut browser } else { &mut elsewhere };
        let metadata = serde_json::json!({"redirect_uris": [super::CALLBACK]});
        match program.post_json("/register", &metadata).await.status {
            201 => registered += 1,
            429 => break,
            status => panic!("{status}"),
        }
    }
    assert_eq!(registered, 20);
    let keys = [browser.get("/jwks").await.body, elsewhere.get("/jwks").await.body];
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn replicas_rotate_their_keys_together() {
    let store = Arc::new(MemoryStore::new().shared());
    rotate_keys(|| store.clone()).await;
}

#[tokio::test]
#[cfg(unix)]
async fn replicas_rotate_their_keys_together_in_redis() {
    let redis = RedisServer::start().unwrap();
    rotate_keys(|| Redis::at(&redis.url()).unwrap()).await;
}

async fn rotate_keys<S: Store>(connect: impl Fn() -> S) {
    let day = Duration::from_secs(24 * 60 * 60);
    let replica = || {
        let server = builder().store(connect()).seal_keys(keys()).key_rotation_interval(day);
        Visitor::new(&server.build().unwrap())
    };
    let (mut one, mut two) = (replica(), replica());
    let client = one.public_client().await;
    let kid = |tokens: &Value| super::decode_token(&tokens["access_token"]).0["kid"].clone();
    let before = one.tokens(&client).await;
    assert_eq!(kid(&before), kid(&two.tokens(&client).await));
    pass(day).await;
    // Both find that a key is due at the same time, and make one together.
    let (mut here, mut there) = (one.clone(), two.clone());
    let (published, same) = tokio::join!(here.get("/jwks"), there.get("/jwks"));
    let published = published.json();
    assert_eq!(published, same.json());
    assert_eq!(published["keys"].as_array().unwrap().len(), 2);
    // The old key signs until verifiers know the new one.
    assert_eq!(kid(&before), kid(&one.tokens(&client).await));
    pass(Duration::from_secs(17 * 60)).await;
    let (here, there) = (one.tokens(&client).await, two.tokens(&client).await);
    assert!(kid(&here) == kid(&there) && kid(&here) != kid(&before));
    assert!(verify(&two.server, &here["access_token"]).await.is_ok());
}

/// Lets time pass. It stands still only now: paused time runs ahead of answers from sockets.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test(start_paused = true)]
async fn revocation_outlasts_tokens_of_longer_settings() {
    // Such as those of before a restart.
    let store = Arc::new(MemoryStore::new().shared());
    let with_ttl = |seconds| {
        let server = builder().store(store.clone()).seal_keys(keys());
        Visitor::new(&server.access_token_ttl(Duration::from_secs(seconds)).build().unwrap())
    };
    let (mut before, mut after) = (with_ttl(3_600), with_ttl(60));
    let client = before.public_client().await;
    let tokens = before.tokens(&client).await;
    let form = [("token", tokens["access_token"].as_str().unwrap()), ("client_id", &*client)];
    assert_eq!(after.post("/revoke", &form).await.status, 200);
    tokio::time::advance(Duration::from_secs(3_000)).await;
    assert!(verify(&after.server, &tokens["access_token"]).await.is_err());
}

#[tokio::test]
async fn server_goes_on_without_an_old_seal_key() {
    let store = Arc::new(MemoryStore::new().shared());
    let with = |byte| {
        let server = builder().store(store.clone()).seal_keys(SealKeys::new(SealKey::new([byte; 32])));
        Visitor::new(&server.build().unwrap())
    };
    let (mut old, mut new) = (with(7), with(8));
    let before = old.get("/jwks").await.json();
    let after = new.get("/jwks").await;
    assert_eq!(after.status, 200, "{}", after.body);
    assert_ne!(before, after.json());
    let client = new.public_client().await;
    let tokens = new.tokens(&client).await;
    assert!(verify(&new.server, &tokens["access_token"]).await.is_ok());
    // Replicas with the old key go on, too.
    assert_eq!(before, old.get("/jwks").await.json());
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
    // Windows removes no file that the thread of the store still holds.
    let _ = std::fs::remove_dir_all(&folder);
}
