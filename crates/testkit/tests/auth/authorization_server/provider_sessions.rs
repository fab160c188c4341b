//! Tokens that come of a login at an OpenID provider: the provider is asked before they are refreshed, and they end with it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tsugite::server::{SealKey, SealKeys};
use tsugite_auth::authorization_server::{AuthorizationServer, OpenIdProvider};
use tsugite_store::{FileStore, MemoryStore};

use super::openid_provider::Provider;
use super::{Visitor, verify};
use crate::verifiers::issuer::TestKey;

const THEIRS: &str = "their-refresh-token-1";

/// Lets time pass. It stands still only now: paused time runs ahead of answers from sockets.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// A browser that has logged in at the provider for a client, and the tokens of the client.
async fn logged_in(provider: &Provider, server: &AuthorizationServer) -> (Visitor, String, Value) {
    let mut browser = Visitor::new(server);
    let client = browser.public_client().await;
    let code = provider.log_in(&mut browser, &client).await.code();
    let tokens = browser.exchange(&client, &code, &[]).await.json();
    (browser, client, tokens)
}

fn refresh_token(tokens: &Value) -> &str {
    tokens["refresh_token"].as_str().unwrap_or_else(|| panic!("{tokens}"))
}

fn answer(provider: &Provider, status: u16, body: Value) {
    *provider.refreshed.lock().unwrap() = (status, body);
}

#[tokio::test]
async fn provider_is_asked_before_tokens_are_refreshed() {
    // ARS-031
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let server = provider.server();
    let (mut program, client, first) = logged_in(&provider, &server).await;
    answer(
        &provider,
        200,
        json!({"access_token": "a", "token_type": "Bearer", "refresh_token": "their-second"}),
    );
    // Not within a minute after the login or the last question.
    let second = program.refresh(&client, refresh_token(&first)).await.json();
    assert_eq!(provider.refreshes().len(), 0);
    pass(61).await;
    let third = program.refresh(&client, refresh_token(&second)).await.json();
    let fourth = program.refresh(&client, refresh_token(&third)).await.json();
    assert_eq!(provider.refreshes().len(), 1);
    assert!(provider.refreshes()[0].contains(THEIRS), "{:?}", provider.refreshes());
    // Its refresh token was replaced, and an answer without one keeps it.
    answer(
        &provider,
        200,
        json!({"access_token": "a", "token_type": "Bearer", "id_token": provider.id_token()}),
    );
    pass(61).await;
    let fifth = program.refresh(&client, refresh_token(&fourth)).await.json();
    pass(61).await;
    program.refresh(&client, refresh_token(&fifth)).await.json();
    for asked in &provider.refreshes()[1..] {
        assert!(asked.contains("their-second"), "{asked}");
    }
    assert_eq!(provider.refreshes().len(), 3);
}

#[tokio::test]
async fn provider_is_asked_before_a_code_is_exchanged() {
    // ARS-031
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let (mut browser, client, _) = logged_in(&provider, &provider.server()).await;
    pass(61).await;
    let code = browser.authorize(&client, &[]).await.code();
    answer(&provider, 500, json!({}));
    assert_eq!(browser.exchange(&client, &code, &[]).await.status, 503);
    // The code is not used up by that.
    answer(&provider, 200, json!({"access_token": "a", "token_type": "Bearer"}));
    assert_eq!(browser.exchange(&client, &code, &[]).await.status, 200);
    pass(61).await;
    let code = browser.authorize(&client, &[]).await.code();
    answer(&provider, 400, json!({"error": "invalid_grant"}));
    let refused = browser.exchange(&client, &code, &[]).await;
    assert_eq!((refused.status, refused.error()), (400, "invalid_grant".to_owned()));
    assert_eq!(browser.authorize(&client, &[]).await.status, 200);
}

#[tokio::test]
async fn nobody_gets_tokens_while_the_provider_does_not_answer() {
    // ARS-031
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let (program, client, tokens) = logged_in(&provider, &provider.server()).await;
    let renewed = json!({"access_token": "a", "token_type": "Bearer", "refresh_token": "their-second"});
    answer(&provider, 200, renewed);
    let held = provider.answering.lock().await;
    pass(61).await;
    let refresh = |mut program: Visitor| {
        let (client, token) = (client.clone(), refresh_token(&tokens).to_owned());
        tokio::spawn(async move { program.refresh(&client, &token).await })
    };
    let first = refresh(program.clone());
    while provider.refreshes().is_empty() {
        tokio::task::yield_now().await;
    }
    let second = refresh(program.clone()).await.unwrap();
    assert_eq!((second.status, second.error()), (503, "temporarily_unavailable".to_owned()));
    drop(held);
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(provider.refreshes().len(), 1);
    // Then the answer counts for all.
    assert_eq!(refresh(program).await.unwrap().status, 200);
}

#[tokio::test]
async fn account_that_is_lost_at_the_provider_ends_all_tokens() {
    // ARS-031
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let other_user = {
        *provider.changes.lock().unwrap() = json!({"sub": "bob"});
        provider.id_token()
    };
    *provider.changes.lock().unwrap() = json!({});
    let renewed = json!({"access_token": "a", "token_type": "Bearer", "id_token": other_user});
    for (status, body) in [(400, json!({"error": "invalid_grant"})), (200, renewed)] {
        let server = provider.server();
        let (mut program, client, tokens) = logged_in(&provider, &server).await;
        assert_eq!(program.authorize(&client, &[]).await.status, 303);
        answer(&provider, status, body);
        pass(61).await;
        let refused = program.refresh(&client, refresh_token(&tokens)).await;
        assert_eq!((refused.status, refused.error()), (400, "invalid_grant".to_owned()));
        assert!(verify(&server, &tokens["access_token"]).await.is_err());
        // The browser is logged out, too.
        assert_eq!(program.authorize(&client, &[]).await.status, 200);
    }
}

#[tokio::test]
async fn provider_that_fails_stops_refreshing_for_a_while() {
    // ARS-032
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let server = provider.server();
    let (mut program, client, tokens) = logged_in(&provider, &server).await;
    pass(61).await;
    for (status, body) in
        [(500, json!({})), (401, json!({"error": "invalid_client"})), (200, json!({"x": 1}))]
    {
        answer(&provider, status, body);
        let failed = program.refresh(&client, refresh_token(&tokens)).await;
        assert_eq!((failed.status, failed.error()), (503, "temporarily_unavailable".to_owned()));
        assert_eq!(failed.header("retry-after"), "5");
    }
    assert!(verify(&server, &tokens["access_token"]).await.is_ok());
    answer(&provider, 200, json!({"access_token": "a", "token_type": "Bearer"}));
    assert_eq!(program.refresh(&client, refresh_token(&tokens)).await.status, 200);
    assert_eq!(provider.refreshes().len(), 4);
}

/// The provider replaces its refresh token, and signs with a key that it does not publish yet.
fn answer_with_a_new_key(provider: &Provider) {
    let id_token = provider.id_token_of(&TestKey::new("not published"));
    let answered = json!({
        "access_token": "a", "token_type": "Bearer", "refresh_token": "their-second", "id_token": id_token,
    });
    answer(provider, 200, answered);
}

#[tokio::test]
async fn new_provider_token_is_kept_if_verification_fails() {
    // ARS-032
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let server = provider.server();
    let (mut program, client, tokens) = logged_in(&provider, &server).await;
    pass(61).await;
    answer_with_a_new_key(&provider);
    assert_eq!(program.refresh(&client, refresh_token(&tokens)).await.status, 503);
    answer(&provider, 200, json!({"access_token": "a", "token_type": "Bearer"}));
    assert_eq!(program.refresh(&client, refresh_token(&tokens)).await.status, 200);
    let asked = provider.refreshes();
    assert!(asked.len() == 2 && asked[1].contains("their-second"), "{asked:?}");
}

#[tokio::test]
async fn new_provider_token_is_kept_if_the_client_leaves() {
    // ARS-032
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let server = provider.server();
    let (mut program, client, tokens) = logged_in(&provider, &server).await;
    pass(61).await;
    answer_with_a_new_key(&provider);
    let until = async |is_reached: &dyn Fn() -> bool| {
        let reached = async {
            while !is_reached() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reached).await.unwrap();
    };
    let fetched = provider.key_fetches.load(Ordering::Relaxed);
    let held = provider.answering.lock().await;
    let (mut leaving, its_client, its_tokens) = (program.clone(), client.clone(), tokens.clone());
    let request = tokio::spawn(async move {
        leaving.refresh(&its_client, refresh_token(&its_tokens)).await;
    });
    until(&|| !provider.refreshes().is_empty()).await;
    request.abort();
    assert!(request.await.is_err());
    drop(held);
    // The keys are fetched after the new token was kept.
    until(&|| provider.key_fetches.load(Ordering::Relaxed) > fetched).await;
    answer(&provider, 200, json!({"access_token": "a", "token_type": "Bearer"}));
    pass(61).await;
    assert_eq!(program.refresh(&client, refresh_token(&tokens)).await.status, 200);
    let asked = provider.refreshes();
    assert!(asked.len() == 2 && asked[1].contains("their-second"), "{asked:?}");
}

#[tokio::test]
async fn renewed_id_token_may_leave_out_the_address() {
    // ARS-031
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    for (changes, status) in [
        (json!({}), 200),
        (json!({"email": "ann@example.com"}), 200),
        (json!({"email_verified": false}), 400),
        (json!({"email": "other@example.com"}), 400),
    ] {
        let by_address = OpenIdProvider::new(provider.issuer.clone(), "our-id", "our-secret")
            .allow_email_domain("example.com");
        let server = provider.builder("ann").provider(by_address).build().unwrap();
        *provider.changes.lock().unwrap() = json!({"email": "ann@example.com", "email_verified": true});
        let (mut program, client, tokens) = logged_in(&provider, &server).await;
        *provider.changes.lock().unwrap() = changes.clone();
        let renewed = json!({"access_token": "a", "token_type": "Bearer", "id_token": provider.id_token()});
        answer(&provider, 200, renewed);
        pass(61).await;
        let refreshed = program.refresh(&client, refresh_token(&tokens)).await;
        assert_eq!(refreshed.status, status, "{changes}");
    }
}

#[tokio::test]
async fn login_without_a_refresh_token_of_the_provider_ends() {
    // ARS-031, ARS-032
    let provider = Provider::start().await;
    let server = provider.builder("ann").session_ttl(Duration::from_secs(3_600)).build().unwrap();
    let (mut program, client, first) = logged_in(&provider, &server).await;
    pass(3_000).await;
    let second = program.refresh(&client, refresh_token(&first)).await.json();
    pass(601).await;
    assert_eq!(program.refresh(&client, refresh_token(&second)).await.error(), "invalid_grant");
    assert!(provider.refreshes().is_empty());
}

#[tokio::test]
async fn rules_of_the_operator_hold_for_earlier_logins() {
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let store = std::sync::Arc::new(MemoryStore::new().shared());
    let start = |builder: tsugite_auth::authorization_server::AuthorizationServerBuilder| {
        builder.store(store.clone()).seal_keys(SealKeys::new(SealKey::new([7; 32]))).build().unwrap()
    };
    let (mut program, client, tokens) = logged_in(&provider, &start(provider.builder("ann"))).await;
    let other = Provider::start().await;
    for changed in [provider.builder("bob"), other.builder("ann"), super::builder()] {
        program.server = start(changed);
        let page = program.authorize(&client, &[]).await;
        assert_eq!((page.status, page.header("location")), (200, ""));
    }
    program.server = start(other.builder("ann"));
    assert_eq!(program.refresh(&client, refresh_token(&tokens)).await.error(), "invalid_grant");
    // The refresh token of one provider is not sent to another.
    assert!(other.refreshes().is_empty());
}

#[tokio::test]
async fn tokens_of_the_provider_are_stored_sealed() {
    // ARS-032
    let provider = Provider::start().await;
    *provider.refresh_token.lock().unwrap() = Some(THEIRS);
    let path = std::env::temp_dir().join(format!("tsugite-as-provider-{}.redb", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let store = FileStore::open(&path).unwrap();
    let server = provider.builder("ann").store(store).seal_keys(SealKeys::new(SealKey::new([7; 32])));
    logged_in(&provider, &server.build().unwrap()).await;
    let bytes = std::fs::read(&path).unwrap();
    for text in [THEIRS, &provider.issuer] {
        assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "the file contains {text}");
    }
    std::fs::remove_file(&path).unwrap();
}
