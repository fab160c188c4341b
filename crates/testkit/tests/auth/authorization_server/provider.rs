//! Login at an OpenID provider, and the confused deputy: our server is one client there, for all its own clients.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tsugite_auth::authorization_server::{AuthorizationServer, OpenIdProvider};

use super::{ISSUER, RESOURCE, Visitor, decode_token};
use crate::verifiers::issuer::TestKey;
use crate::world::decode;

/// A provider whose users are always logged in and have consented: it answers without a page.
#[derive(Clone)]
struct Provider {
    issuer: String,
    key: Arc<TestKey>,
    nonce: Arc<Mutex<String>>,
    /// Changes of the ID token.
    changes: Arc<Mutex<Value>>,
    /// The forms that arrived at the token endpoint.
    forms: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Self {
            issuer: format!("http://{}", listener.local_addr().unwrap()),
            key: Arc::new(TestKey::new("op")),
            nonce: Arc::default(),
            changes: Arc::new(Mutex::new(json!({}))),
            forms: Arc::default(),
        };
        let serving = provider.clone();
        let router = Router::new().fallback(move |request: Request| {
            let provider = serving.clone();
            async move { provider.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let body = String::from_utf8(to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap();
        let answer = match head.uri.path() {
            "/.well-known/openid-configuration" => json!({
                "issuer": self.issuer, "jwks_uri": format!("{}/jwks", self.issuer),
                "authorization_endpoint": format!("{}/auth", self.issuer),
                "token_endpoint": format!("{}/token", self.issuer),
            }),
            "/jwks" => json!({"keys": [self.key.jwk()]}),
            "/token" => {
                self.forms.lock().unwrap().push(body);
                json!({"access_token": "opaque", "token_type": "Bearer", "id_token": self.id_token()})
            }
            _ => return Response::builder().status(404).body(Body::empty()).unwrap(),
        };
        Response::builder()
            .header("content-type", "application/json")
            .body(Body::from(answer.to_string()))
            .unwrap()
    }

    fn id_token(&self) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.issuer, "sub": "ann", "aud": "our-id", "exp": now + 300, "iat": now,
            "nonce": *self.nonce.lock().unwrap(),
        });
        let changes = self.changes.lock().unwrap().clone();
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        self.key.sign(&json!({"typ": "JWT"}), &claims)
    }

    fn server(&self) -> AuthorizationServer {
        let provider = OpenIdProvider::new(self.issuer.clone(), "our-id", "our-secret").allow_subject("ann");
        AuthorizationServer::builder(ISSUER)
            .resource(RESOURCE)
            .scope("notes:read", "Read your notes")
            .provider(provider.name("Example login").scopes(["openid", "profile"]))
            .build()
            .unwrap()
    }

    /// The query of a redirect to this provider; the provider remembers the nonce.
    fn visit(&self, location: &str) -> std::collections::HashMap<String, String> {
        let query = location.strip_prefix(&format!("{}/auth?", self.issuer));
        let params = decode(query.unwrap_or_else(|| panic!("{location}")));
        *self.nonce.lock().unwrap() = params["nonce"].clone();
        params
    }
}

#[tokio::test]
async fn provider_is_visited_after_consent_only() {
    // SEC-005, SEC-006, SEC-009, ARS-028, P-01
    let provider = Provider::start().await;
    let server = provider.server();
    let mut victim = Visitor::new(&server);
    let client = victim.public_client().await;
    // The victim is logged in at the provider, which would answer at once. Our page comes first.
    let page = victim.authorize(&client, &[]).await;
    assert_eq!((page.status, page.header("location")), (200, ""));
    for shown in
        ["Test app", "app.example", "127.0.0.1", "openid profile", "Example login", "Read your notes"]
    {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    let to_provider = victim.decide(&page, "allow").await;
    let params = provider.visit(to_provider.header("location"));
    assert_eq!(
        (&*params["client_id"], &*params["redirect_uri"]),
        ("our-id", "https://auth.example/callback")
    );
    assert_eq!((&*params["code_challenge_method"], params["state"].len()), ("S256", 43));
    let callback = format!("/callback?code=their-code&state={}", params["state"]);
    let answer = victim.get(&callback).await;
    let tokens = victim.exchange(&client, &answer.code(), &[]).await.json();
    // Namespaced by issuer: not the local Ann.
    assert_eq!(decode_token(&tokens["access_token"]).1["sub"], format!("{}|ann", provider.issuer));
    let form = provider.forms.lock().unwrap().concat();
    assert!(form.contains("code=their-code") && form.contains("code_verifier="), "{form}");
    // The consent is registered for this user and this client: neither page nor provider.
    victim.authorize(&client, &[]).await.code();
    // A client of an attacker needs consent of its own, though the victim is logged in here and there.
    let evil =
        victim.register(&json!({"redirect_uris": ["https://evil.example/cb"], "client_name": "Evil"})).await;
    let evil = evil["client_id"].as_str().unwrap();
    let page = victim.authorize(evil, &[("redirect_uri", "https://evil.example/cb")]).await;
    assert_eq!((page.status, page.header("location")), (200, ""));
    assert!(page.body.contains("evil.example") && page.body.contains("value=\"allow\""), "{}", page.body);
}

#[tokio::test]
async fn state_of_the_provider_exists_after_consent_and_once() {
    // SEC-009, P-05
    let provider = Provider::start().await;
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    // A state that no consent made.
    let skipped = browser.get("/callback?code=x&state=made-up").await;
    assert_eq!((skipped.status, skipped.header("location")), (400, ""));
    let page = browser.authorize(&client, &[]).await;
    let answer = browser.decide(&page, "allow").await;
    let callback = format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
    // The attacker has begun a login and sends its end to the victim.
    let mut victim = Visitor::new(&server);
    victim.authorize(&client, &[]).await;
    assert_eq!(victim.get(&callback).await.status, 400);
    // It was used up by that.
    assert_eq!(browser.get(&callback).await.status, 400);
    let answer = browser.decide(&page, "allow").await;
    let callback = format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
    browser.get(&callback).await.code();
    assert_eq!(browser.get(&callback).await.status, 400);
}

#[tokio::test]
async fn consent_for_one_client_is_none_for_another() {
    // P-04, SEC-005
    let provider = Provider::start().await;
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let (client, other) = (browser.public_client().await, browser.public_client().await);
    let page = browser.authorize(&client, &[]).await;
    let answer = browser.decide(&page, "allow").await;
    let callback = format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
    browser.get(&callback).await.code();
    assert_eq!(browser.authorize(&client, &[]).await.status, 303);
    let page = browser.authorize(&other, &[]).await;
    assert!(page.status == 200 && page.body.contains("value=\"allow\""), "{}", page.body);
    // The form of the first client is of no use for the second: it names its client inside the seal.
    let cookies = browser.cookies.clone();
    let mut stolen = Visitor { cookies, ..Visitor::new(&server) };
    assert!(stolen.authorize(&other, &[]).await.body.contains("value=\"allow\""));
}

#[tokio::test]
async fn unfit_id_tokens_are_refused() {
    let provider = Provider::start().await;
    let server = provider.server();
    for changes in [
        json!({"iss": "https://evil.example"}),
        json!({"aud": "another-client"}),
        json!({"aud": ["our-id", "another-client"]}),
        json!({"nonce": "another-login"}),
        json!({"nonce": null}),
        json!({"exp": 1}),
        json!({"sub": ""}),
        json!({"sub": "eve"}),
    ] {
        *provider.changes.lock().unwrap() = changes.clone();
        let mut browser = Visitor::new(&server);
        let client = browser.public_client().await;
        let page = browser.authorize(&client, &[]).await;
        let answer = browser.decide(&page, "allow").await;
        let callback =
            format!("/callback?code=x&state={}", provider.visit(answer.header("location"))["state"]);
        let answer = browser.get(&callback).await;
        assert!([403, 502].contains(&answer.status), "{changes}: {}", answer.status);
        assert_eq!(answer.header("location"), "", "{changes}");
    }
}

#[tokio::test]
async fn failure_at_the_provider_is_told_to_the_client() {
    let provider = Provider::start().await;
    let server = provider.server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[]).await;
    let answer = browser.decide(&page, "allow").await;
    let state = provider.visit(answer.header("location"))["state"].clone();
    let answer = browser.get(&format!("/callback?error=access_denied&state={state}")).await;
    assert_eq!(answer.redirect_param("error").unwrap(), "access_denied");
    // A provider that cannot be reached.
    let gone = OpenIdProvider::new("http://127.0.0.1:9", "our-id", "our-secret").allow_everyone();
    let server = AuthorizationServer::builder(ISSUER).resource(RESOURCE).provider(gone).build().unwrap();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[]).await;
    assert_eq!(browser.decide(&page, "allow").await.status, 502);
}
