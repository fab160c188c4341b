//! Our verifiers at a protected server, with an issuer whose answers each test can change.

mod api_keys;
mod attacks;
mod dpop;
mod introspection;
pub(super) mod issuer;
mod keys;

#[allow(dead_code, unreachable_pub, reason = "an example has a `main` that is not called here")]
#[path = "../../../../auth/examples/protected.rs"]
mod protected;

#[tokio::test]
async fn example_is_protected_by_its_issuer() {
    let issuer = issuer::TestIssuer::start().await;
    let key = issuer.add_key("k1");
    let protected = issuer::Protected::serve(&protected::server(&issuer.url)).await;
    let claims = protected.claims(&issuer, &serde_json::json!({}));
    let token = key.sign(&serde_json::json!({}), &claims);
    assert_eq!(issuer::text(&protected.call(&token).await), "ann");
    assert_eq!(protected.call("other").await.status, 401);
}
