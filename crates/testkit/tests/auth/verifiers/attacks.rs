//! Forged, foreign and stale tokens: each gets 401, and reaches no handler.

use serde_json::json;
use tsugite::base64::{encode, encode_url};
use tsugite_auth::resource::Jwt;

use super::issuer::{Protected, TestIssuer, TestKey, now, sign_hmac, text};

async fn start() -> (TestIssuer, TestKey, Protected) {
    let issuer = TestIssuer::start().await;
    let key = issuer.add_key("k1");
    let protected = Protected::start(Jwt::issuer(&issuer.url)).await;
    let good = key.sign(&json!({}), &protected.claims(&issuer, &json!({"scope": "a b"})));
    let expected = format!("{} ann app a,b", issuer.url);
    assert_eq!(text(&protected.call(&good).await), expected);
    (issuer, key, protected)
}

#[tokio::test]
async fn token_for_another_audience_is_refused() {
    // A-02, ARS-015
    let (issuer, key, protected) = start().await;
    for audience in [json!("https://other.example/mcp"), json!(["a", "b"]), json!(issuer.url), json!(null)] {
        let claims = protected.claims(&issuer, &json!({ "aud": audience }));
        protected.assert_refused(&key.sign(&json!({}), &claims), "audience").await;
    }
}

#[tokio::test]
async fn token_of_a_resource_with_the_same_prefix_is_refused() {
    let (issuer, key, protected) = start().await;
    for suffix in ["2", "/", "/admin", "?x=1", "#x", ".evil.example"] {
        let claims = protected.claims(&issuer, &json!({"aud": format!("{}{suffix}", protected.url)}));
        protected.assert_refused(&key.sign(&json!({}), &claims), "audience").await;
    }
    let port = protected.serving.address.port();
    for audience in [format!("http://localhost:{port}"), format!("http://localhost:{port}1/mcp")] {
        let claims = protected.claims(&issuer, &json!({ "aud": audience }));
        protected.assert_refused(&key.sign(&json!({}), &claims), "audience").await;
    }
}

#[tokio::test]
async fn token_without_a_valid_signature_is_refused() {
    // A-01, ARS-014, ARS-016, ARS-033
    let (issuer, key, protected) = start().await;
    let claims = protected.claims(&issuer, &json!({}));
    let good = key.sign(&json!({}), &claims);
    let (input, signature) = good.rsplit_once('.').unwrap();
    let payload = encode_url(claims.to_string().as_bytes());
    for alg in ["none", "None", "NONE", ""] {
        let header = encode_url(json!({ "alg": alg, "kid": "k1" }).to_string().as_bytes());
        for signature in ["", signature] {
            let response = protected.call(&format!("{header}.{payload}.{signature}")).await;
            assert_eq!(response.status, 401, "{alg} {signature}");
        }
    }
    protected.assert_refused(&TestKey::new("k1").sign(&json!({}), &claims), "signature").await;
    protected.assert_refused(&format!("{input}.{}", "A".repeat(86)), "signature").await;
    let other = encode_url(protected.claims(&issuer, &json!({"sub": "root"})).to_string().as_bytes());
    let header = input.split('.').next().unwrap();
    protected.assert_refused(&format!("{header}.{other}.{signature}"), "signature").await;
    for malformed in ["x", "a.b.c", input, &format!("{good}.x"), &format!("{good}="), &format!("{input}.")] {
        protected.assert_refused(malformed, "JWT").await;
    }
}

#[tokio::test]
async fn public_key_is_not_taken_for_a_shared_secret() {
    // A-01
    let (issuer, key, protected) = start().await;
    let (claims, jwk) = (protected.claims(&issuer, &json!({})), key.jwk());
    let jwks = json!({ "keys": [jwk] }).to_string();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        encode(jwk["x"].as_str().unwrap().as_bytes())
    );
    for secret in [jwk.to_string(), jwks, jwk["x"].as_str().unwrap().to_owned(), pem, String::new()] {
        for header in [json!({"alg": "HS256", "kid": "k1"}), json!({"alg": "HS256"})] {
            protected.assert_refused(&sign_hmac(secret.as_bytes(), &header, &claims), "algorithm").await;
        }
        // The code under the name of an algorithm that is accepted.
        let token = sign_hmac(secret.as_bytes(), &json!({"alg": "ES256", "kid": "k1"}), &claims);
        protected.assert_refused(&token, "signature").await;
    }
}

#[tokio::test]
async fn token_outside_of_its_times_is_refused() {
    // A-01, ARS-016
    let (issuer, key, protected) = start().await;
    let sign = |changes| key.sign(&json!({}), &protected.claims(&issuer, &changes));
    protected.assert_refused(&sign(json!({"exp": now() - 61})), "expired").await;
    protected.assert_refused(&sign(json!({"exp": 0})), "expired").await;
    protected.assert_refused(&sign(json!({"exp": null})), "expiry").await;
    protected.assert_refused(&sign(json!({"nbf": now() + 120})), "not valid yet").await;
    assert_eq!(protected.call(&sign(json!({"exp": now() - 30, "nbf": now() + 30}))).await.status, 200);
}

#[tokio::test]
async fn token_of_another_issuer_is_refused() {
    // A-01
    let (issuer, key, protected) = start().await;
    let before = issuer.seen("/jwks").len();
    for other in
        [json!("https://evil.example"), json!(format!("{}/", issuer.url)), json!(null), json!([issuer.url])]
    {
        let claims = protected.claims(&issuer, &json!({ "iss": other }));
        protected.assert_refused(&key.sign(&json!({"kid": "new"}), &claims), "issuer").await;
    }
    assert_eq!(issuer.seen("/jwks").len(), before, "a token of another issuer causes no request");
}

#[tokio::test]
async fn keys_that_the_token_brings_are_ignored() {
    let (issuer, _, protected) = start().await;
    let (evil, claims) = (TestKey::new("evil"), protected.claims(&issuer, &json!({})));
    let trap = TestIssuer::start().await;
    let jwks = format!("{}/jwks", trap.url);
    for header in [
        json!({"jwk": evil.jwk()}),
        json!({"jwk": evil.jwk(), "kid": "k1"}),
        json!({"jwk": evil.jwk(), "kid": null}),
        json!({"jku": jwks}),
        json!({"x5u": jwks, "kid": "k1"}),
        json!({"x5c": [encode(b"certificate")]}),
    ] {
        assert_eq!(protected.call(&evil.sign(&header, &claims)).await.status, 401, "{header}");
    }
    assert!(trap.seen("/jwks").is_empty());
}

#[tokio::test]
async fn critical_extension_is_refused() {
    let (issuer, key, protected) = start().await;
    let claims = protected.claims(&issuer, &json!({}));
    for header in [json!({"crit": ["exp"]}), json!({"crit": []}), json!({"crit": ["b64"], "b64": false})] {
        protected.assert_refused(&key.sign(&header, &claims), "extension").await;
    }
}

#[tokio::test]
async fn member_that_is_named_twice_is_refused() {
    let (issuer, key, protected) = start().await;
    let header = r#"{"alg":"ES256","kid":"k1","typ":"at+jwt"}"#;
    let claims = protected.claims(&issuer, &json!({})).to_string();
    assert_eq!(protected.call(&key.sign_text(header, &claims)).await.status, 200);
    let end = claims.trim_end_matches('}');
    for twice in [r#""aud":"https://other.example""#, r#""sub":"root""#, r#""cnf":{"jkt":"a","jkt":"b"}"#] {
        protected.assert_refused(&key.sign_text(header, &format!("{end},{twice}}}")), "claims").await;
    }
    let twice = r#"{"alg":"none","kid":"k1","alg":"ES256"}"#;
    protected.assert_refused(&key.sign_text(twice, &claims), "JWT").await;
}

#[tokio::test]
async fn oversized_token_is_refused() {
    let (issuer, key, protected) = start().await;
    let sized = |bytes: usize| {
        let claims = protected.claims(&issuer, &json!({"x": "x".repeat(bytes)}));
        key.sign(&json!({}), &claims)
    };
    assert_eq!(protected.call(&sized(11_000)).await.status, 200);
    let large = sized(13_000);
    assert!(large.len() > 16 << 10);
    protected.assert_refused(&large, "16 KiB").await;
}

#[tokio::test]
async fn token_of_another_type_is_refused() {
    let (issuer, key, protected) = start().await;
    let claims = protected.claims(&issuer, &json!({}));
    for typ in ["dpop+jwt", "logout+jwt", "oauth-id-jag+jwt", "secevent+jwt", ""] {
        protected.assert_refused(&key.sign(&json!({ "typ": typ }), &claims), "type").await;
    }
    for typ in [json!("JWT"), json!("application/at+jwt"), json!(null)] {
        assert_eq!(protected.call(&key.sign(&json!({ "typ": typ }), &claims)).await.status, 200, "{typ}");
    }
    let strict = Protected::start(Jwt::issuer(&issuer.url).token_type("at+jwt")).await;
    let claims = strict.claims(&issuer, &json!({}));
    strict.assert_refused(&key.sign(&json!({"typ": "JWT"}), &claims), "type").await;
    assert_eq!(strict.call(&key.sign(&json!({}), &claims)).await.status, 200);
}

#[tokio::test]
async fn token_that_names_nobody_is_refused() {
    let (issuer, key, protected) = start().await;
    let claims = protected.claims(&issuer, &json!({"sub": null, "client_id": null}));
    protected.assert_refused(&key.sign(&json!({}), &claims), "subject").await;
    let claims = protected.claims(&issuer, &json!({"sub": null}));
    let response = protected.call(&key.sign(&json!({}), &claims)).await;
    assert_eq!(text(&response), format!("{}  app ", issuer.url));
}
