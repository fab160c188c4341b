//! A protected server and an authorization server on loopback. Each test changes what they answer.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tsugite::client::{Client, ClientBuilder, FetchRequest, Fetcher};
use tsugite::prelude::Revision;
use tsugite_auth::{Login, LoginPage, UserAgent, UserAgentFuture};

/// A request that one of the two servers has received.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Whether the authorization server received it.
    pub(crate) at_issuer: bool,
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Seen {
    /// A parameter of the form in the body.
    pub(crate) fn form(&self, name: &str) -> Option<String> {
        decode(&self.body).remove(name)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    fn is_at(&self, path: &str) -> bool {
        self.at_issuer && self.path == path
    }
}

/// The answer to a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: body.to_string().into_bytes() }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(crate) fn redirect(status: u16, location: impl Into<String>) -> Self {
        Self { headers: vec![("location", location.into())], ..Self::status(status) }
    }

    pub(crate) fn challenge(status: u16, header: impl Into<String>) -> Self {
        Self { headers: vec![("www-authenticate", header.into())], ..Self::status(status) }
    }
}

type Edit = Box<dyn Fn(&World, &mut Value) + Send + Sync>;
type EditAnswer = Box<dyn Fn(&World, &mut Vec<(String, String)>) + Send + Sync>;
type Override = Box<dyn Fn(&World, &Seen) -> Option<Reply> + Send + Sync>;

/// The changes of a test.
pub(crate) struct Changes {
    /// Changes the metadata of the protected server.
    pub(crate) resource: Edit,
    /// Changes the metadata of the authorization server.
    pub(crate) metadata: Edit,
    /// Changes the answer to the login.
    pub(crate) answer: EditAnswer,
    /// Answers a request in another way.
    pub(crate) reply: Override,
    /// Whether refresh tokens are issued.
    pub(crate) refresh: bool,
    /// The lifetime of tokens.
    pub(crate) expires_in: Option<u64>,
    /// The scopes of the challenge.
    pub(crate) challenge_scope: Option<&'static str>,
    /// The scope that `tools/call` needs.
    pub(crate) call_scope: Option<&'static str>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            resource: Box::new(|_, _| {}),
            metadata: Box::new(|_, _| {}),
            answer: Box::new(|_, _| {}),
            reply: Box::new(|_, _| None),
            refresh: true,
            expires_in: Some(3_600),
            challenge_scope: None,
            call_scope: None,
        }
    }
}

/// Both servers.
#[derive(Clone)]
pub(crate) struct World {
    /// The URL of the protected server.
    pub(crate) mcp: String,
    pub(crate) issuer: String,
    shared: Arc<Shared>,
}

struct Shared {
    changes: Changes,
    seen: Mutex<Vec<Seen>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    count: usize,
    /// The scopes of each code and of each token.
    codes: HashMap<String, String>,
    tokens: HashMap<String, String>,
    refresh_tokens: HashMap<String, String>,
    used: HashSet<String>,
    reuses: usize,
}

impl World {
    pub(crate) async fn start(changes: Changes) -> Self {
        let (mcp, issuer) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let world = Self {
            mcp: format!("http://{}/mcp", mcp.local_addr().unwrap()),
            issuer: format!("http://{}", issuer.local_addr().unwrap()),
            shared: Arc::new(Shared { changes, seen: Mutex::default(), state: Mutex::default() }),
        };
        for (listener, at_issuer) in [(mcp, false), (issuer, true)] {
            let world = world.clone();
            let router = Router::new().fallback(move |request: Request| {
                let world = world.clone();
                async move { world.serve(request, at_issuer).await }
            });
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        world
    }

    /// A stateless client with a login.
    pub(crate) fn client(&self, login: &Login) -> ClientBuilder {
        Client::connect(self.mcp.clone()).revision(Revision::NEWEST).login(login.clone())
    }

    /// Connects, calls the tool, and returns the outcome.
    pub(crate) async fn try_login(&self, login: &Login) -> Result<String, String> {
        let client = super::within(self.client(login)).await.map_err(|error| error.to_string())?;
        super::call(&client).await.map_err(|error| error.to_string())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The requests to a path of the authorization server.
    pub(crate) fn at(&self, path: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.is_at(path)).collect()
    }

    /// The token requests with a grant type.
    pub(crate) fn grants(&self, grant_type: &str) -> Vec<Seen> {
        let tokens = self.at("/token").into_iter();
        tokens.filter(|seen| seen.form("grant_type").as_deref() == Some(grant_type)).collect()
    }

    /// The requests to the endpoint of the protected server.
    pub(crate) fn messages(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| !seen.at_issuer && seen.path == "/mcp").collect()
    }

    /// The origin of the protected server.
    pub(crate) fn origin(&self) -> &str {
        self.mcp.strip_suffix("/mcp").unwrap()
    }

    /// Makes every access token invalid.
    pub(crate) fn expire_tokens(&self) {
        self.shared.state.lock().unwrap().tokens.clear();
    }

    /// Makes every refresh token invalid.
    pub(crate) fn revoke_refresh_tokens(&self) {
        self.shared.state.lock().unwrap().refresh_tokens.clear();
    }

    /// Issues a refresh token outside of a login.
    pub(crate) fn add_refresh_token(&self, token: &str) {
        self.shared.state.lock().unwrap().refresh_tokens.insert(token.to_owned(), String::new());
    }

    /// How often a refresh token was used a second time.
    pub(crate) fn reuses(&self) -> usize {
        self.shared.state.lock().unwrap().reuses
    }

    async fn serve(&self, request: Request, at_issuer: bool) -> Response {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        let seen = Seen {
            at_issuer,
            verb: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: decode(head.uri.query().unwrap_or_default()),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
                .collect(),
            body: String::from_utf8(body.to_vec()).unwrap(),
        };
        self.shared.seen.lock().unwrap().push(seen.clone());
        let reply = match (self.shared.changes.reply)(self, &seen) {
            Some(reply) => reply,
            None if at_issuer => self.answer_as_issuer(&seen),
            None => self.serve_mcp(&seen),
        };
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response.body(Body::from(reply.body)).unwrap()
    }

    fn serve_mcp(&self, seen: &Seen) -> Reply {
        let changes = &self.shared.changes;
        if seen.path == "/.well-known/oauth-protected-resource/mcp" {
            let mut document = json!({"resource": self.mcp, "authorization_servers": [self.issuer]});
            (changes.resource)(self, &mut document);
            return Reply::json(200, &document);
        }
        if seen.path != "/mcp" {
            return Reply::status(404);
        }
        let token = seen.header("authorization").split_once(' ').map(|(_, token)| token).unwrap_or_default();
        let scopes = self.shared.state.lock().unwrap().tokens.get(token).cloned();
        let Some(scopes) = scopes else {
            let url = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin());
            let scope =
                changes.challenge_scope.map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
            return Reply::challenge(401, format!("Bearer resource_metadata=\"{url}\"{scope}"));
        };
        let message = seen.json();
        if let Some(needed) = changes.call_scope.filter(|_| message["method"] == "tools/call")
            && !scopes.split(' ').any(|scope| scope == needed)
        {
            return Reply::challenge(403, format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\""));
        }
        answer_message(&message)
    }

    /// The answer of the authorization server to a request, wherever it arrived.
    pub(crate) fn answer_as_issuer(&self, seen: &Seen) -> Reply {
        match (seen.verb.as_str(), seen.path.as_str()) {
            ("GET", "/.well-known/oauth-authorization-server") => Reply::json(200, &self.metadata()),
            ("POST", "/register") => {
                let mut client = seen.json();
                client["client_id"] = json!("registered");
                Reply::json(201, &client)
            }
            ("GET", "/authorize") => self.authorize(seen),
            ("POST", "/token") => self.issue(seen),
            ("POST", "/revoke") => Reply::status(200),
            _ => Reply::status(404),
        }
    }

    pub(crate) fn metadata(&self) -> Value {
        let issuer = &self.issuer;
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": format!("{issuer}/register"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        });
        (self.shared.changes.metadata)(self, &mut document);
        document
    }

    fn authorize(&self, seen: &Seen) -> Reply {
        let code = {
            let mut state = self.shared.state.lock().unwrap();
            state.count += 1;
            let code = format!("code-{}", state.count);
            state.codes.insert(code.clone(), seen.query.get("scope").cloned().unwrap_or_default());
            code
        };
        let mut answer = vec![("code".to_owned(), code), ("state".to_owned(), seen.query["state"].clone())];
        (self.shared.changes.answer)(self, &mut answer);
        let query: Vec<String> =
            answer.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        Reply::redirect(302, format!("{}?{}", seen.query["redirect_uri"], query.join("&")))
    }

    fn issue(&self, seen: &Seen) -> Reply {
        let refused = |code: &str| Reply::json(400, &json!({"error": code}));
        let changes = &self.shared.changes;
        let mut state = self.shared.state.lock().unwrap();
        let scope = match seen.form("grant_type").as_deref() {
            Some("authorization_code") => {
                let scope = state.codes.remove(&seen.form("code").unwrap_or_default());
                match scope.filter(|_| seen.form("code_verifier").is_some()) {
                    Some(scope) => scope,
                    None => return refused("invalid_grant"),
                }
            }
            Some("refresh_token") => {
                let token = seen.form("refresh_token").unwrap_or_default();
                if state.used.contains(&token) {
                    state.reuses += 1;
                }
                match state.refresh_tokens.remove(&token) {
                    Some(scope) => {
                        state.used.insert(token);
                        scope
                    }
                    None => return refused("invalid_grant"),
                }
            }
            _ => seen.form("scope").unwrap_or_default(),
        };
        state.count += 1;
        let number = state.count;
        let mut token = json!({"access_token": format!("access-{number}"), "token_type": "Bearer"});
        state.tokens.insert(format!("access-{number}"), scope.clone());
        if let Some(seconds) = changes.expires_in {
            token["expires_in"] = json!(seconds);
        }
        if changes.refresh {
            token["refresh_token"] = json!(format!("refresh-{number}"));
            state.refresh_tokens.insert(format!("refresh-{number}"), scope);
        }
        Reply::json(200, &token)
    }
}

/// Answers a message like a server whose only tool returns a text.
pub(crate) fn answer_message(message: &Value) -> Reply {
    let result = match message["method"].as_str().unwrap_or_default() {
        "tools/call" => json!({"content": [{"type": "text", "text": "in"}], "resultType": "complete"}),
        "tools/list" => {
            json!({"tools": [], "ttlMs": 60_000, "cacheScope": "private", "resultType": "complete"})
        }
        _ => return Reply::status(202),
    };
    Reply::json(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

/// A browser that follows the redirect to the listener, as the user agent of a person who has a session already.
#[derive(Clone, Default)]
pub(crate) struct Clicks {
    pub(crate) pages: Arc<Mutex<Vec<LoginPage>>>,
    /// The person waits for it before each click.
    pub(crate) gate: Option<Arc<Notify>>,
}

impl Clicks {
    /// The pages that were opened.
    pub(crate) fn pages(&self) -> Vec<LoginPage> {
        self.pages.lock().unwrap().clone()
    }

    pub(crate) fn login(&self) -> Login {
        Login::with_agent("test app", self.clone())
    }
}

impl UserAgent for Clicks {
    fn open(&self, page: LoginPage) -> UserAgentFuture<'_> {
        self.pages.lock().unwrap().push(page.clone());
        Box::pin(async move {
            if let Some(gate) = &self.gate {
                gate.notified().await;
            }
            let location = fetch(&page.url).await.1;
            fetch(&location).await;
            Ok(None)
        })
    }
}

/// The status and the redirect of a page; 0 if nothing listens there.
pub(crate) async fn fetch(url: &str) -> (u16, String) {
    match Fetcher::new().fetch(FetchRequest::get(url)).await {
        Ok(response) => (response.status, response.header("location").unwrap_or_default().to_owned()),
        Err(_) => (0, String::new()),
    }
}

pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

pub(crate) fn decode(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}
