//! Tokens that only the authorization server can read.

use serde_json::{Value, json};
use tsugite::base64;
use tsugite_auth::resource::Introspection;
use tsugite_auth::{Algorithm, ClientCredentials, SigningKey};
use tsugite_testkit::log::Warnings;

use super::issuer::{Protected, TestIssuer, now, text};

async fn start() -> (TestIssuer, Protected) {
    let issuer = TestIssuer::start().await;
    let client = ClientCredentials::secret("server", "s3cret&");
    let protected = Protected::start(Introspection::new(&issuer.url, client)).await;
    (issuer, protected)
}

/// The answer for a valid token, with changes.
fn active(issuer: &TestIssuer, protected: &Protected, changes: &Value) -> Value {
    let base = json!({"active": true, "scope": "a b"});
    let mut answer = protected.claims(issuer, changes);
    answer.as_object_mut().unwrap().extend(base.as_object().unwrap().clone());
    answer
}

#[tokio::test]
async fn active_token_is_accepted() {
    // ARS-034
    let (issuer, protected) = start().await;
    issuer.set_introspection(200, active(&issuer, &protected, &json!({})));
    assert_eq!(text(&protected.call("opaque+token").await), format!("{} ann app a,b", issuer.url));
    let (header, body) = issuer.seen("/introspect").remove(0);
    assert_eq!(header, format!("Basic {}", base64::encode(b"server:s3cret%26")));
    assert_eq!(body, "token=opaque%2Btoken&token_type_hint=access_token&client_id=server");
    // `iss` and `exp` are optional.
    issuer.set_introspection(200, active(&issuer, &protected, &json!({"iss": null, "exp": null})));
    assert_eq!(text(&protected.call("other").await), format!("{} ann app a,b", issuer.url));
}

#[tokio::test]
async fn inactive_and_foreign_tokens_are_refused() {
    let (issuer, protected) = start().await;
    let answer = |changes: Value| active(&issuer, &protected, &changes);
    let mut texts = answer(json!({}));
    texts["active"] = json!("true");
    for (number, (answer, reason)) in [
        (json!({"active": false}), "not active"),
        (json!({}), "not active"),
        (texts, "not active"),
        (answer(json!({"aud": "https://other.example"})), "audience"),
        (answer(json!({"aud": null})), "audience"),
        (answer(json!({"iss": "https://other.example"})), "issuer"),
        (answer(json!({"token_type": "refresh_token"})), "access token"),
        (answer(json!({"exp": now() - 100})), "expired"),
        (answer(json!({"nbf": now() + 100})), "not valid yet"),
        (answer(json!({"sub": null, "client_id": null})), "subject"),
    ]
    .into_iter()
    .enumerate()
    {
        issuer.set_introspection(200, answer);
        protected.assert_refused(&format!("token-{number}"), reason).await;
    }
    let seen = issuer.seen("/introspect").len();
    protected.assert_refused(&"x".repeat(17_000), "16 KiB").await;
    assert_eq!(issuer.seen("/introspect").len(), seen);
}

#[tokio::test]
async fn failing_endpoint_is_503() {
    let logged = Warnings::capture_from(tracing::Level::TRACE);
    let (issuer, protected) = start().await;
    // 401: the credentials of this server are wrong, which is no fault of the client.
    for (status, body) in [(500, json!({})), (401, json!({"error": "invalid_client"})), (200, json!([]))] {
        issuer.set_introspection(status, body);
        let response = protected.call("opaque").await;
        assert_eq!(response.status, 503, "{status}: {response:?}");
    }
    // The reason is logged, without the token and the secret of this server.
    let logged = logged.take_with_fields().join("\n");
    assert!(logged.contains("/introspect cannot be asked"), "{logged}");
    assert!(!logged.contains("opaque") && !logged.contains("s3cret"), "{logged}");
    issuer.set_introspection(200, active(&issuer, &protected, &json!({})));
    assert_eq!(protected.call("opaque").await.status, 200);
}

#[tokio::test]
async fn server_authenticates_as_the_issuer_supports() {
    let pem = include_str!("../../../../auth/tests/data/p256.pem");
    let key = SigningKey::from_pem(pem, Algorithm::Es256).unwrap();
    for (client, expected) in [
        (ClientCredentials::secret("server", "s3cret").secret_in_body(), "client_secret=s3cret"),
        (ClientCredentials::key("server", key), "client_assertion=ey"),
    ] {
        let issuer = TestIssuer::start().await;
        let endpoint = format!("{}/introspect", issuer.url);
        let protected = Protected::start(Introspection::new(&issuer.url, client).endpoint(endpoint)).await;
        issuer.set_introspection(200, active(&issuer, &protected, &json!({})));
        assert_eq!(protected.call("opaque").await.status, 200);
        let (header, body) = issuer.seen("/introspect").remove(0);
        assert!(header.is_empty() && body.contains("client_id=server") && body.contains(expected), "{body}");
    }
}
