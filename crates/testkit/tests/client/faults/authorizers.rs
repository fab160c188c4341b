//! The seam between a client and its authorizer: what the authorizer is told, and what the client does with its answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tsugite::client::{
    Authorizer, AuthorizerFuture, Challenge, ChallengeKind, Credentials, ErrorKind, Identity, RequestInfo,
    ResponseInfo,
};

use super::raw::{AfterResponse, Raw, ReceivedRequest, answer_handshake, welcome};
use super::{Running, call, until, within};

/// A secret that must not appear anywhere.
const SECRET: &str = "hunter2-is-the-secret";

/// Accepts every challenge with a new token, and records what it was told.
#[derive(Default)]
struct Willing {
    challenges: Mutex<Vec<Challenge>>,
    told: Mutex<Vec<String>>,
    user: Mutex<Option<String>>,
    /// Each challenge waits for it, if there is one.
    login: Option<Arc<Notify>>,
}

impl Willing {
    fn kinds(&self) -> Vec<ChallengeKind> {
        self.challenges.lock().unwrap().iter().map(|challenge| challenge.kind).collect()
    }
}

impl Authorizer for Willing {
    fn authorize<'a>(&'a self, request: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials> {
        let RequestInfo { server, verb, url, method, name, .. } = request;
        assert_eq!(server, url);
        let line = format!("{verb} {} {}", method.unwrap_or("-"), name.unwrap_or("-"));
        self.told.lock().unwrap().push(line);
        let number = self.challenges.lock().unwrap().len();
        Box::pin(async move { Ok(Credentials::bearer(format!("{SECRET}-{number}")).header("dpop", "proof")) })
    }

    fn observe(&self, _: RequestInfo<'_>, response: ResponseInfo<'_>) {
        let nonce = response.header("dpop-nonce").unwrap_or("-");
        self.told.lock().unwrap().push(format!("{} {nonce}", response.status));
    }

    fn handle_challenge<'a>(
        &'a self,
        _: RequestInfo<'a>,
        rejected: &'a Credentials,
        challenge: &'a Challenge,
    ) -> AuthorizerFuture<'a, bool> {
        assert!(rejected.get("authorization").unwrap().contains(SECRET));
        self.challenges.lock().unwrap().push(challenge.clone());
        Box::pin(async {
            if let Some(login) = &self.login {
                login.notified().await;
            }
            Ok(true)
        })
    }

    fn identity(&self, _: &str) -> Option<Identity> {
        let subject = self.user.lock().unwrap().clone()?;
        Some(Identity { subject, scopes: String::new() })
    }

    fn extensions(&self, _: &str) -> Vec<(String, Value)> {
        vec![("com.example/login".to_owned(), json!({"a": 1}))]
    }
}

#[tokio::test]
async fn authorizer_is_called_and_its_token_is_sent() {
    let raw = Raw::after_handshake(|request, writer| {
        match request.header("authorization") {
            Some(token) if token == format!("Bearer {SECRET}-1") => writer.json(&request.answer("in")),
            _ => writer.status(401, "www-authenticate: Bearer scope=\"a\"\r\n", ""),
        }
        AfterResponse::Keep
    });
    let willing = Arc::new(Willing::default());
    let client = within(raw.client().authorizer(Arc::clone(&willing))).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "in");
    assert_eq!(call(&client, "t").await.unwrap(), "in");
    let challenges = willing.challenges.lock().unwrap().clone();
    assert_eq!(challenges.len(), 1);
    assert_eq!(challenges[0].www_authenticate, ["Bearer scope=\"a\""]);
    assert_eq!(challenges[0].remote_address, Some(raw.address.ip()));
    let all: Vec<_> = raw.requests().into_iter().filter(ReceivedRequest::is_call).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0].body, all[1].body, "the same message with other credentials");
    // Credentials are sent with every request, the first one included.
    for request in raw.requests() {
        assert!(request.header("authorization").is_some() && request.header("dpop").is_some());
    }
}

#[tokio::test]
async fn authorizer_is_called_at_most_twice_per_request() {
    // C-24
    for status in [401, 403] {
        let raw = Raw::after_handshake(move |_, writer| {
            writer.status(status, "www-authenticate: Bearer\r\n", "");
            AfterResponse::Keep
        });
        let willing = Arc::new(Willing::default());
        let client = within(raw.client().authorizer(Arc::clone(&willing))).await.unwrap();
        let error = call(&client, "t").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unauthorized(_)), "{error}");
        assert!(!format!("{error} {error:?} {:?}", error.kind()).contains(SECRET));
        assert_eq!((raw.calls(), willing.kinds().len()), (3, 2));
    }
}

#[tokio::test]
async fn challenges_are_counted_by_kind() {
    use ChallengeKind::{DpopNonce, InsufficientScope, Unauthorized};
    // Expired, nonce, step-up, nonce: each is a reason of its own, whatever the body says.
    let headers = [
        (401, "Bearer error=\"invalid_token\""),
        (401, "DPoP error=\"use_dpop_nonce\""),
        (403, "Bearer error=\"insufficient_scope\", scope=\"a\""),
        (401, "DPoP error=\"use_dpop_nonce\""),
        (401, "Bearer"),
    ];
    let count = AtomicUsize::new(0);
    let raw = Raw::after_handshake(move |request, writer| {
        match headers.get(count.fetch_add(1, Ordering::SeqCst)) {
            Some((status, header)) => {
                let json = "content-type: application/json\r\n";
                let error = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": 1, "message": "no"}});
                writer.status(*status, &format!("{json}www-authenticate: {header}\r\n"), &error.to_string());
            }
            None => writer.json(&request.answer("in")),
        }
        AfterResponse::Keep
    });
    let willing = Arc::new(Willing::default());
    let client = within(raw.client().authorizer(Arc::clone(&willing))).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "in");
    let expected = [Unauthorized, DpopNonce, InsufficientScope, DpopNonce, Unauthorized];
    assert_eq!(willing.kinds(), expected);
}

#[tokio::test]
async fn authorizer_is_told_of_requests_and_responses() {
    let raw = Raw::after_handshake(|request, writer| {
        writer.json_with("dpop-nonce: n1\r\n", &request.answer("in"));
        AfterResponse::Keep
    });
    let willing = Arc::new(Willing::default());
    let client =
        within(raw.client().authorizer(Arc::clone(&willing)).standalone_stream(false)).await.unwrap();
    call(&client, "t").await.unwrap();
    let told = willing.told.lock().unwrap().clone();
    let expected = ["POST initialize -", "200 -", "POST - -", "202 -", "POST tools/call t", "200 n1"];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn extensions_of_the_authorizer_are_announced() {
    // ACL-064
    let raw = Raw::after_handshake(|request, writer| {
        writer.json(&request.answer("in"));
        AfterResponse::Keep
    });
    let declared = |request: &ReceivedRequest| match request.method() {
        "initialize" => request.body["params"]["capabilities"]["extensions"].clone(),
        _ => request.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
            .clone(),
    };
    let extensions = json!({"com.example/login": {"a": 1}});
    let _client = within(raw.client().authorizer(Willing::default())).await.unwrap();
    assert_eq!(declared(&raw.requests()[0]), extensions);
    let stateless = within(raw.stateless_client().authorizer(Willing::default())).await.unwrap();
    call(&stateless, "t").await.unwrap();
    assert_eq!(declared(raw.requests().last().unwrap()), extensions);
}

#[tokio::test]
async fn session_ends_when_the_identity_changes() {
    // The session of one user is not used with the token of another.
    let sessions = AtomicUsize::new(0);
    let raw = Raw::start(move |request, writer| {
        if request.method() == "initialize" {
            let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
            writer.json_with(&format!("mcp-session-id: s{number}\r\n"), &welcome(request));
            return AfterResponse::Keep;
        }
        if let Some(then) = answer_handshake(request, writer) {
            return then;
        }
        writer.json(&request.answer(request.header("mcp-session-id").unwrap_or_default()));
        AfterResponse::Keep
    });
    let willing = Arc::new(Willing::default());
    let client = within(raw.client().authorizer(Arc::clone(&willing))).await.unwrap();
    let as_user = async |name: Option<&str>| {
        *willing.user.lock().unwrap() = name.map(str::to_owned);
        call(&client, "t").await.unwrap()
    };
    assert_eq!(as_user(None).await, "s1");
    assert_eq!(as_user(Some("ann")).await, "s1", "the first login keeps the session");
    assert_eq!(as_user(Some("bob")).await, "s2");
    assert_eq!(as_user(Some("bob")).await, "s2");
    assert_eq!(as_user(None).await, "s3");
}

#[tokio::test]
async fn timeouts_stand_while_a_person_logs_in() {
    let raw = Raw::start(|request, writer| {
        match request.header("authorization") {
            Some(token) if token.ends_with("-0") => writer.status(401, "", ""),
            _ => match answer_handshake(request, writer) {
                Some(then) => return then,
                None => writer.json(&request.answer("in")),
            },
        }
        AfterResponse::Keep
    });
    let login = Arc::new(Notify::new());
    let willing = Arc::new(Willing { login: Some(Arc::clone(&login)), ..Willing::default() });
    let limit = Duration::from_millis(50);
    let builder = raw.client().authorizer(Arc::clone(&willing)).timeout(limit).total_timeout(limit);
    let connecting = Running::new(async { builder.await });
    until(|| !willing.kinds().is_empty()).await;
    // A call of another client times out meanwhile.
    let silent = Raw::start(|_, writer| {
        writer.closed();
        AfterResponse::Close
    });
    let error = within(silent.client().timeout(limit * 4)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    login.notify_one();
    let client = connecting.end().await.unwrap();
    assert!(client.is_connected());
}
