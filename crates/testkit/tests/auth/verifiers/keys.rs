//! The keys of an issuer: rotation, floods of unknown key ids, and an issuer that is down or lies.

use std::time::Duration;

use serde_json::json;
use tsugite::prelude::*;
use tsugite_auth::Algorithm;
use tsugite_auth::resource::{AnyOf, ApiKeys, Jwt};

use super::issuer::{Protected, TestIssuer, TestKey};

#[tokio::test]
async fn rotated_keys_are_fetched() {
    let issuer = TestIssuer::start().await;
    let old = issuer.add_key("old");
    let protected = Protected::start(Jwt::issuer(&issuer.url).refresh_interval(Duration::ZERO)).await;
    let claims = protected.claims(&issuer, &json!({}));
    assert_eq!(protected.call(&old.sign(&json!({}), &claims)).await.status, 200);
    issuer.remove_keys();
    let new = issuer.add_key("new");
    assert_eq!(protected.call(&new.sign(&json!({}), &claims)).await.status, 200);
    // With the new set, the old key is no longer known.
    let claims = protected.claims(&issuer, &json!({"jti": "2"}));
    protected.assert_refused(&old.sign(&json!({}), &claims), "key").await;
    // Without ids the signature decides.
    issuer.remove_keys();
    let unnamed = issuer.add_key("unnamed");
    assert_eq!(protected.call(&unnamed.sign(&json!({"kid": null}), &claims)).await.status, 200);
}

#[tokio::test]
async fn flood_of_unknown_key_ids_costs_one_fetch() {
    let issuer = TestIssuer::start().await;
    let key = issuer.add_key("k1");
    let protected = Protected::start(Jwt::issuer(&issuer.url)).await;
    let claims = protected.claims(&issuer, &json!({}));
    let stranger = TestKey::new("x");
    let flood = (0..50).map(|number| {
        let token = stranger.sign(&json!({"kid": format!("{number}")}), &claims);
        let protected = &protected;
        async move { protected.call(&token).await.status }
    });
    let statuses = futures_util::future::join_all(flood).await;
    assert!(statuses.iter().all(|status| *status == 401), "{statuses:?}");
    assert_eq!(
        (issuer.seen("/jwks").len(), protected.call(&key.sign(&json!({}), &claims)).await.status),
        (1, 200)
    );
    for number in 0..10 {
        let token = stranger.sign(&json!({"kid": format!("later {number}")}), &claims);
        assert_eq!(protected.call(&token).await.status, 401);
    }
    assert_eq!(issuer.seen("/jwks").len(), 1);
}

#[tokio::test]
async fn server_starts_while_the_issuer_is_down() {
    let issuer = TestIssuer::start().await;
    let key = issuer.add_key("k1");
    issuer.set_down(true);
    let protected = Protected::start(Jwt::issuer(&issuer.url).refresh_interval(Duration::ZERO)).await;
    let token = key.sign(&json!({}), &protected.claims(&issuer, &json!({})));
    let response = protected.call(&token).await;
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")), "{response:?}");
    assert!(!response.body.contains(&issuer.url), "the reason is logged and not sent: {response:?}");
    issuer.set_down(false);
    assert_eq!(protected.call(&token).await.status, 200);
    // Keys that are known stay in use.
    issuer.set_down(true);
    let token = key.sign(&json!({}), &protected.claims(&issuer, &json!({"jti": "2"})));
    assert_eq!(protected.call(&token).await.status, 200);
}

#[tokio::test]
async fn down_issuer_is_not_asked_for_every_token() {
    let issuer = TestIssuer::start().await;
    let key = issuer.add_key("k1");
    issuer.set_down(true);
    let protected = Protected::start(Jwt::issuer(&issuer.url)).await;
    let claims = protected.claims(&issuer, &json!({}));
    for _ in 0..5 {
        let response = protected.call(&key.sign(&json!({}), &claims)).await;
        let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
        assert!(response.status == 503 && (25..=30).contains(&wait), "{response:?}");
    }
    assert_eq!(issuer.seen("/.well-known/oauth-authorization-server").len(), 1);
}

#[tokio::test]
async fn metadata_must_name_the_issuer_exactly() {
    let issuer = TestIssuer::start().await;
    let key = issuer.add_key("k1");
    issuer.change_metadata("issuer", json!(format!("{}/", issuer.url)));
    let protected = Protected::start(Jwt::issuer(&issuer.url)).await;
    let token = key.sign(&json!({}), &protected.claims(&issuer, &json!({})));
    assert_eq!(protected.call(&token).await.status, 503);
    assert!(issuer.seen("/jwks").is_empty());
}

#[tokio::test]
async fn keys_can_be_given_or_at_another_url() {
    let (issuer, elsewhere) = (TestIssuer::start().await, TestIssuer::start().await);
    let key = elsewhere.add_key("k1");
    let at = Jwt::issuer(&issuer.url).keys_at(format!("{}/jwks", elsewhere.url));
    let given = Jwt::issuer(&issuer.url).keys(&json!({ "keys": [key.jwk()] }).to_string()).unwrap();
    for verifier in [at, given] {
        let protected = Protected::start(verifier).await;
        let claims = protected.claims(&issuer, &json!({}));
        assert_eq!(protected.call(&key.sign(&json!({}), &claims)).await.status, 200);
        assert_eq!(protected.call(&TestKey::new("k1").sign(&json!({}), &claims)).await.status, 401);
    }
    assert!(issuer.seen("/jwks").is_empty() && elsewhere.seen("/jwks").len() == 1);
    for wrong in ["", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"eA"}]}"#] {
        assert!(Jwt::issuer(&issuer.url).keys(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn algorithms_that_are_not_listed_are_refused() {
    let issuer = TestIssuer::start().await;
    let key = issuer.add_key("k1");
    let protected = Protected::start(Jwt::issuer(&issuer.url).algorithms([Algorithm::Rs256])).await;
    let token = key.sign(&json!({}), &protected.claims(&issuer, &json!({})));
    protected.assert_refused(&token, "algorithm").await;
    assert!(issuer.seen("/jwks").is_empty());
}

#[tokio::test]
async fn each_issuer_sees_its_own_tokens_only() {
    let (one, two, third) = (TestIssuer::start().await, TestIssuer::start().await, TestIssuer::start().await);
    let (key_one, key_two) = (one.add_key("a"), two.add_key("a"));
    let keys = ApiKeys::new().add("s3cret", Principal::new("build"));
    let verifier = AnyOf::new().jwt(Jwt::issuer(&one.url)).jwt(Jwt::issuer(&two.url)).or(keys);
    let protected = Protected::start(verifier).await;
    let claims = protected.claims(&one, &json!({}));
    assert_eq!(protected.call(&key_one.sign(&json!({}), &claims)).await.status, 200);
    assert!(two.seen("/jwks").is_empty());
    // The key of one issuer does not sign for the other.
    protected.assert_refused(&key_two.sign(&json!({}), &claims), "signature").await;
    let claims = protected.claims(&two, &json!({}));
    assert_eq!(protected.call(&key_two.sign(&json!({}), &claims)).await.status, 200);
    let claims = protected.claims(&third, &json!({}));
    assert_eq!(protected.call(&key_two.sign(&json!({}), &claims)).await.status, 401);
    assert_eq!(protected.call("s3cret").await.status, 200);
    assert_eq!(protected.call("s3cre").await.status, 401);
}
