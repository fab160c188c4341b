//! A hostile or helpful OpenID provider on loopback, whose answers each test can change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tsugite_auth::authorization_server::{AuthorizationServer, AuthorizationServerBuilder, OpenIdProvider};

use super::{Answer, ISSUER, RESOURCE, Visitor};
use crate::verifiers::issuer::{TestKey, changed};
use crate::world::decode;

/// A provider whose users are always logged in and have consented: it answers without a page.
#[derive(Clone)]
pub(super) struct Provider {
    pub(super) issuer: String,
    key: Arc<TestKey>,
    nonce: Arc<Mutex<String>>,
    /// Changes of the ID token.
    pub(super) changes: Arc<Mutex<Value>>,
    /// The forms that arrived at the token endpoint.
    pub(super) forms: Arc<Mutex<Vec<String>>>,
    /// The refresh token that a login gets, if any.
    pub(super) refresh_token: Arc<Mutex<Option<&'static str>>>,
    /// The status and the answer to a refresh token.
    pub(super) refreshed: Arc<Mutex<(u16, Value)>>,
    /// Further members of the metadata.
    pub(super) metadata: Arc<Mutex<Value>>,
    /// While this is held, refresh tokens get no answer.
    pub(super) answering: Arc<tokio::sync::Mutex<()>>,
    /// How often the keys were fetched.
    pub(super) key_fetches: Arc<AtomicUsize>,
}

impl Provider {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Self {
            issuer: format!("http://{}", listener.local_addr().unwrap()),
            key: Arc::new(TestKey::new("op")),
            nonce: Arc::default(),
            changes: Arc::new(Mutex::new(json!({}))),
            forms: Arc::default(),
            refresh_token: Arc::default(),
            refreshed: Arc::new(Mutex::new((500, json!({})))),
            metadata: Arc::new(Mutex::new(json!({}))),
            answering: Arc::default(),
            key_fetches: Arc::default(),
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
        let mut status = 200;
        let answer = match head.uri.path() {
            "/.well-known/openid-configuration" => changed(
                json!({
                    "issuer": self.issuer, "jwks_uri": format!("{}/jwks", self.issuer),
                    "authorization_endpoint": format!("{}/auth", self.issuer),
                    "token_endpoint": format!("{}/token", self.issuer),
                }),
                &self.metadata.lock().unwrap(),
            ),
            "/jwks" => {
                self.key_fetches.fetch_add(1, Ordering::Relaxed);
                json!({"keys": [self.key.jwk()]})
            }
            "/token" if body.contains("grant_type=refresh_token") => {
                self.forms.lock().unwrap().push(body);
                drop(self.answering.lock().await);
                let (refused, answer) = self.refreshed.lock().unwrap().clone();
                status = refused;
                answer
            }
            "/token" => {
                self.forms.lock().unwrap().push(body);
                let refresh_token = *self.refresh_token.lock().unwrap();
                let base = json!({
                    "access_token": "opaque", "token_type": "Bearer", "id_token": self.id_token(),
                });
                changed(base, &json!({"refresh_token": refresh_token}))
            }
            _ => return Response::builder().status(404).body(Body::empty()).unwrap(),
        };
        Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(Body::from(answer.to_string()))
            .unwrap()
    }

    pub(super) fn id_token(&self) -> String {
        self.id_token_of(&self.key)
    }

    /// An ID token that another key has signed.
    pub(super) fn id_token_of(&self, key: &TestKey) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.issuer, "sub": "ann", "aud": "our-id", "exp": now + 300, "iat": now,
            "nonce": *self.nonce.lock().unwrap(),
        });
        let changes = self.changes.lock().unwrap().clone();
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        key.sign(&json!({"typ": "JWT"}), &claims)
    }

    pub(super) fn server(&self) -> AuthorizationServer {
        self.builder("ann").build().unwrap()
    }

    /// A server at which this user of the provider may log in.
    pub(super) fn builder(&self, subject: &str) -> AuthorizationServerBuilder {
        let provider =
            OpenIdProvider::new(self.issuer.clone(), "our-id", "our-secret").allow_subject(subject);
        AuthorizationServer::builder(ISSUER)
            .resource(RESOURCE)
            .scope("notes:read", "Read your notes")
            .provider(provider.name("Example login").scopes(["openid", "profile"]))
    }

    /// Logs a browser in for a client, and returns the response with the code.
    pub(super) async fn log_in(&self, browser: &mut Visitor, client: &str) -> Answer {
        let page = browser.authorize(client, &[]).await;
        let answer = browser.decide(&page, "allow").await;
        let state = self.visit(answer.header("location"))["state"].clone();
        browser.get(&format!("/callback?code=x&state={state}")).await
    }

    /// The forms with a refresh token that have arrived.
    pub(super) fn refreshes(&self) -> Vec<String> {
        let forms = self.forms.lock().unwrap();
        forms.iter().filter(|form| form.contains("grant_type=refresh_token")).cloned().collect()
    }

    /// The query of a redirect to this provider; the provider remembers the nonce.
    pub(super) fn visit(&self, location: &str) -> std::collections::HashMap<String, String> {
        let query = location.strip_prefix(&format!("{}/auth?", self.issuer));
        let params = decode(query.unwrap_or_else(|| panic!("{location}")));
        *self.nonce.lock().unwrap() = params["nonce"].clone();
        params
    }
}
