//! Our authorization server, called as a service: the flows that work, and the attacks that do not.

mod attacks;
mod consent_attacks;
mod documents;
mod flows;
mod machines;
mod openid_provider;
mod our_client;
mod parameters;
mod provider;
mod provider_sessions;
mod refresh_tokens;
mod shared_state;
mod token_proofs;

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;

use http::{HeaderMap, Request};
use http_body::Body;
use serde_json::{Value, json};
use tower_service::Service;
use tsugite::base64;
use tsugite::transport::http::{ClientAddr, TokenRequest, Verified, VerifyError, VerifyToken};
use tsugite_auth::Secret;
use tsugite_auth::authorization_server::{
    AuthorizationServer, AuthorizationServerBuilder, User, UserFuture, Users,
};

pub(super) const ISSUER: &str = "https://auth.example";
pub(super) const RESOURCE: &str = "https://notes.example/mcp";
pub(super) const CALLBACK: &str = "https://app.example/callback";
const VERIFIER: &str = "a-verifier-of-forty-three-or-more-characters-";
/// The SHA-256 digest of the verifier, in base64url.
const CHALLENGE: &str = "Hm7oAWGhSmNl8adw2MC1tbdHBQVSe7rViH-gjWkr6NM";

/// Ann and Bob, whose passwords are their names, twice.
#[derive(Clone)]
pub(super) struct TwoUsers;

impl Users for TwoUsers {
    fn check_password(&self, name: String, password: Secret) -> UserFuture<Option<User>> {
        let is_right = ["ann", "bob"].contains(&name.as_str()) && password.expose() == name.repeat(2);
        Box::pin(std::future::ready(Ok(is_right.then(|| User::new(name)))))
    }

    fn generation(&self, _: String) -> UserFuture<Option<String>> {
        Box::pin(std::future::ready(Ok(Some(String::new()))))
    }
}

pub(super) fn builder() -> AuthorizationServerBuilder {
    AuthorizationServer::builder(ISSUER)
        .resource(RESOURCE)
        .scope("notes:read", "Read your notes")
        .scope("notes:write", "Change your notes")
        .users(TwoUsers)
}

pub(super) fn server() -> AuthorizationServer {
    builder().build().unwrap()
}

/// The response to a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.body))
    }

    /// The sealed request of a form.
    pub(super) fn sealed(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"request\" value=\"").unwrap_or_else(|| {
            panic!("no form: {} {}", self.status, self.body);
        });
        rest.split('"').next().unwrap().to_owned()
    }

    /// A parameter of the redirect.
    pub(super) fn redirect_param(&self, name: &str) -> Option<String> {
        let (_, query) = self.header("location").split_once('?')?;
        super::world::decode(query).remove(name)
    }

    pub(super) fn code(&self) -> String {
        assert_eq!(self.status, 303, "{}", self.body);
        self.redirect_param("code").unwrap_or_else(|| panic!("{}", self.header("location")))
    }

    pub(super) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }
}

/// A browser, or a program without cookies.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) server: AuthorizationServer,
    pub(super) cookies: HashMap<String, String>,
    pub(super) address: IpAddr,
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Visitor {
    pub(super) fn new(server: &AuthorizationServer) -> Self {
        let address = IpAddr::from([192, 0, 2, 1]);
        Self { server: server.clone(), cookies: HashMap::new(), address, headers: Vec::new() }
    }

    pub(super) fn at(mut self, address: [u8; 4]) -> Self {
        self.address = address.into();
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) async fn get(&mut self, url: &str) -> Answer {
        self.send("GET", url, "", String::new()).await
    }

    pub(super) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Answer {
        self.send("POST", path, "application/x-www-form-urlencoded", encode_form(form)).await
    }

    pub(super) async fn post_json(&mut self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, "application/json", body.to_string()).await
    }

    pub(super) async fn send(&mut self, method: &str, url: &str, content_type: &str, body: String) -> Answer {
        let mut request = Request::builder().method(method).uri(url).header("content-type", content_type);
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(body).unwrap();
        request.extensions_mut().insert(ClientAddr(self.address));
        let response = self.server.call(request).await.unwrap();
        let (head, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        for cookie in head.headers.get_all("set-cookie") {
            let (pair, _) = cookie.to_str().unwrap().split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(bytes).unwrap(),
        }
    }

    /// Opens `/authorize` for a client, with these changes of its parameters.
    pub(super) async fn authorize(&mut self, client_id: &str, changes: &[(&str, &str)]) -> Answer {
        let mut params = vec![
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", CALLBACK),
            ("state", "the state"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("resource", RESOURCE),
        ];
        for (name, value) in changes {
            params.retain(|(known, _)| known != name);
            params.push((name, value));
        }
        params.retain(|(_, value)| !value.is_empty());
        self.get(&format!("/authorize?{}", encode_form(&params))).await
    }

    /// Submits the form of a login page.
    pub(super) async fn log_in(&mut self, page: &Answer, name: &str) -> Answer {
        let (sealed, password) = (page.sealed(), name.repeat(2));
        self.post("/login", &[("request", &sealed), ("name", name), ("password", &password)]).await
    }

    /// Submits the form of a consent page.
    pub(super) async fn decide(&mut self, page: &Answer, action: &str) -> Answer {
        let sealed = page.sealed();
        self.post("/consent", &[("request", &sealed), ("action", action)]).await
    }

    /// From the request of a client to a code, as Ann.
    pub(super) async fn get_code(&mut self, client_id: &str, changes: &[(&str, &str)]) -> String {
        let mut page = self.authorize(client_id, changes).await;
        if page.body.contains("name=\"password\"") {
            page = self.log_in(&page, "ann").await;
        }
        match page.status {
            303 => page.code(),
            _ => self.decide(&page, "allow").await.code(),
        }
    }

    pub(super) async fn register(&mut self, changes: &Value) -> Value {
        let mut metadata = json!({
            "client_name": "Test app", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        });
        for (name, value) in changes.as_object().unwrap() {
            metadata[name] = value.clone();
        }
        let answer = self.post_json("/register", &metadata).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()
    }

    /// The id of a new public client.
    pub(super) async fn public_client(&mut self) -> String {
        self.register(&json!({})).await["client_id"].as_str().unwrap().to_owned()
    }

    pub(super) async fn exchange(&mut self, client_id: &str, code: &str, changes: &[(&str, &str)]) -> Answer {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("client_id", client_id),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        for (name, value) in changes {
            form.retain(|(known, _)| known != name);
            form.push((name, value));
        }
        self.post("/token", &form).await
    }

    pub(super) async fn refresh(&mut self, client_id: &str, token: &str) -> Answer {
        let form = [("grant_type", "refresh_token"), ("client_id", client_id), ("refresh_token", token)];
        self.post("/token", &form).await
    }

    /// Tokens of Ann for a public client.
    pub(super) async fn tokens(&mut self, client_id: &str) -> Value {
        let code = self.get_code(client_id, &[]).await;
        let answer = self.exchange(client_id, &code, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }
}

/// Verifies a token as the protected server does.
pub(super) async fn verify(server: &AuthorizationServer, token: &Value) -> Result<Verified, VerifyError> {
    server.verifier().verify(&TokenRequest::new(token.as_str().unwrap(), RESOURCE)).await
}

/// The header and the claims of a token, which is not verified.
pub(super) fn decode_token(token: &Value) -> (Value, Value) {
    let mut parts = token.as_str().unwrap().split('.');
    let mut part = || serde_json::from_slice(&base64::decode_url(parts.next().unwrap()).unwrap()).unwrap();
    (part(), part())
}

fn encode_form(params: &[(&str, &str)]) -> String {
    let pairs = params.iter().map(|(name, value)| format!("{name}={}", super::world::encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}
