//! An issuer on loopback with its keys, whose answers a test changes, and a server that accepts its tokens.
//!
//! Tokens are signed here with ring, apart from the code that is tested.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request as AxumRequest;
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tsugite::base64::encode_url;
use tsugite::prelude::*;
use tsugite::transport::http::VerifyToken;
use tsugite_testkit::http::{Request, Response, TestServer};

/// An issuer with a metadata document, a key set and an introspection endpoint.
#[derive(Clone)]
pub(crate) struct TestIssuer {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    keys: Vec<Value>,
    /// Changes of the metadata.
    metadata: Map<String, Value>,
    is_down: bool,
    /// The answer of the introspection endpoint: status and body.
    introspection: Option<(u16, Value)>,
    /// Path, `Authorization` header and body of each request.
    seen: Vec<(String, String, String)>,
}

impl TestIssuer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            state: Arc::new(Mutex::new(State::default())),
        };
        let serving = issuer.clone();
        let router = Router::new().fallback(move |request: AxumRequest| {
            let issuer = serving.clone();
            async move { issuer.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        issuer
    }

    async fn answer(&self, request: AxumRequest) -> axum::response::Response {
        let path = request.uri().path().to_owned();
        let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        let header = header.unwrap_or_default().to_owned();
        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let mut state = self.state.lock().unwrap();
        state.seen.push((path.clone(), header, String::from_utf8(body.to_vec()).unwrap()));
        let (status, body) = match path.as_str() {
            _ if state.is_down => (500, json!({})),
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = json!({
                    "issuer": self.url,
                    "jwks_uri": format!("{}/jwks", self.url),
                    "introspection_endpoint": format!("{}/introspect", self.url),
                });
                metadata.as_object_mut().unwrap().extend(state.metadata.clone());
                (200, metadata)
            }
            "/jwks" => (200, json!({ "keys": state.keys })),
            "/introspect" => state.introspection.clone().unwrap(),
            _ => (404, json!({})),
        };
        let response = axum::response::Response::builder().status(status);
        response.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
    }

    /// A new key that the issuer publishes.
    pub(crate) fn add_key(&self, id: &str) -> TestKey {
        let key = TestKey::new(id);
        self.state.lock().unwrap().keys.push(key.jwk());
        key
    }

    pub(crate) fn remove_keys(&self) {
        self.state.lock().unwrap().keys.clear();
    }

    pub(crate) fn change_metadata(&self, name: &str, value: Value) {
        self.state.lock().unwrap().metadata.insert(name.to_owned(), value);
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    pub(crate) fn set_introspection(&self, status: u16, body: Value) {
        self.state.lock().unwrap().introspection = Some((status, body));
    }

    /// The requests to a path: `Authorization` header and body.
    pub(crate) fn seen(&self, path: &str) -> Vec<(String, String)> {
        let state = self.state.lock().unwrap();
        let same = state.seen.iter().filter(|(seen, ..)| seen == path);
        same.map(|(_, header, body)| (header.clone(), body.clone())).collect()
    }
}

/// A key for ES256.
pub(crate) struct TestKey {
    id: String,
    pair: EcdsaKeyPair,
}

impl TestKey {
    pub(crate) fn new(id: &str) -> Self {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let der = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(kind, der.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair }
    }

    /// The public key.
    pub(crate) fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": encode_url(x), "y": encode_url(y)})
    }

    /// The thumbprint of the public key.
    pub(crate) fn thumbprint(&self) -> String {
        let jwk = self.jwk();
        let text = format!(r#"{{"crv":"P-256","kty":"EC","x":{},"y":{}}}"#, jwk["x"], jwk["y"]);
        encode_url(digest(&SHA256, text.as_bytes()).as_ref())
    }

    /// Signs a token. The members of `header` replace `alg`, `kid` and `typ`; null leaves one out.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let header = changed(json!({"alg": "ES256", "kid": self.id, "typ": "at+jwt"}), header);
        self.sign_text(&header.to_string(), &claims.to_string())
    }

    /// Signs a header and claims as they are written.
    pub(crate) fn sign_text(&self, header: &str, claims: &str) -> String {
        let input = format!("{}.{}", encode_url(header.as_bytes()), encode_url(claims.as_bytes()));
        let signature = self.pair.sign(&SystemRandom::new(), input.as_bytes()).unwrap();
        format!("{input}.{}", encode_url(signature.as_ref()))
    }
}

/// A token with a code of a shared secret instead of a signature.
pub(crate) fn sign_hmac(secret: &[u8], header: &Value, claims: &Value) -> String {
    let input = format!(
        "{}.{}",
        encode_url(header.to_string().as_bytes()),
        encode_url(claims.to_string().as_bytes())
    );
    let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), input.as_bytes());
    format!("{input}.{}", encode_url(code.as_ref()))
}

/// A protected server with the tool `whoami`.
pub(crate) struct Protected {
    pub(crate) serving: TestServer,
    /// The address that tokens name.
    pub(crate) url: String,
}

impl Protected {
    pub(crate) async fn start(verifier: impl VerifyToken) -> Self {
        let who = Tool::new("whoami").handler(|who: Principal| async move {
            format!("{} {} {} {}", who.issuer(), who.subject(), who.client_id(), who.scopes().join(","))
        });
        Self::serve(&Server::new("s", "1").tool(who).authorize(verifier)).await
    }

    pub(crate) async fn serve(server: &Server) -> Self {
        let serving = TestServer::start(server).await;
        let url = format!("http://localhost:{}/mcp", serving.address.port());
        Self { serving, url }
    }

    /// Valid claims of a token, with changes.
    pub(crate) fn claims(&self, issuer: &TestIssuer, changes: &Value) -> Value {
        let base = json!({
            "iss": issuer.url, "aud": self.url, "sub": "ann", "client_id": "app", "exp": now() + 300,
        });
        changed(base, changes)
    }

    /// Calls the tool with a token.
    pub(crate) async fn call(&self, token: &str) -> Response {
        self.send(&format!("Bearer {token}"), &[]).await
    }

    /// Calls the tool with this `Authorization` header and these `DPoP` headers.
    pub(crate) async fn send(&self, authorization: &str, proofs: &[&str]) -> Response {
        let params = json!({"name": "whoami", "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = Request::stateless(message).header("Authorization", authorization);
        let request = proofs.iter().fold(request, |request, proof| request.header("DPoP", proof));
        super::super::within(self.serving.send(request)).await
    }

    /// Asserts that a token is refused with 401 for a reason.
    pub(crate) async fn assert_refused(&self, token: &str, reason: &str) {
        let response = self.call(token).await;
        let challenge = response.header("www-authenticate").unwrap_or_default();
        assert_eq!(response.status, 401, "{reason}: {response:?}");
        assert!(challenge.contains("error=\"invalid_token\"") && challenge.contains(reason), "{challenge}");
        assert!(!response.body.contains(token) && !challenge.contains(token));
    }
}

/// The text of a successful call.
pub(crate) fn text(response: &Response) -> String {
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An object with other members; null leaves one out.
pub(crate) fn changed(mut base: Value, changes: &Value) -> Value {
    let all = base.as_object_mut().unwrap();
    all.extend(changes.as_object().unwrap().clone());
    all.retain(|_, value| !value.is_null());
    base
}
