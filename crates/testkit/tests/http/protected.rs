//! A protected server whose tokens say what they are: `sub=ann;scope=notes:read+notes:write;ttl=60`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::transport::http::{
    ProtectedResource, TokenRequest, Verified, VerifiedProof, VerifyError, VerifyFuture, VerifyToken,
};
use tsugite_testkit::http::{Request, TestServer, initialize_request};

/// The verifier of such tokens. `aud` is their audience, `jkt` the key that they are bound to, `cache` the seconds that the
/// answer is kept.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) resource: ProtectedResource,
    verified: Arc<AtomicUsize>,
    proofs: Arc<AtomicUsize>,
}

impl Issuer {
    /// An issuer that is named to clients.
    pub(crate) fn named() -> Self {
        let resource = ProtectedResource::new().authorization_server("https://login.example");
        Self { resource, ..Self::unnamed() }
    }

    /// An issuer whose tokens clients have got elsewhere.
    pub(crate) fn unnamed() -> Self {
        Self { resource: ProtectedResource::new(), verified: Arc::default(), proofs: Arc::default() }
    }

    /// How many tokens were verified.
    pub(crate) fn verified(&self) -> usize {
        self.verified.load(Ordering::SeqCst)
    }

    /// How many proofs were verified.
    pub(crate) fn proofs(&self) -> usize {
        self.proofs.load(Ordering::SeqCst)
    }
}

fn member<'a>(token: &'a str, name: &str) -> Option<&'a str> {
    token.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

impl VerifyToken for Issuer {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        self.verified.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            tokio::task::yield_now().await;
            let token = &*request.token;
            let is_ours = member(token, "aud").is_none_or(|audience| audience == request.resource);
            if !is_ours || member(token, "bad").is_some() {
                return Err(VerifyError::invalid_token().with_description("not for this server"));
            }
            let text = |name| member(token, name).unwrap_or_default();
            let seconds =
                |name| member(token, name).map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
            let mut principal =
                Principal::new(text("sub")).with_client_id(text("client")).with_issuer(text("iss"));
            principal = principal.with_scopes(text("scope").split('+').filter(|scope| !scope.is_empty()));
            if let Some(ttl) = seconds("ttl") {
                principal = principal.with_expiry(SystemTime::now() + ttl);
            }
            let verified = Verified::new(principal).cache_for(seconds("cache").unwrap_or_default());
            Ok(match member(token, "jkt") {
                Some(key) => verified.bound_to_key(key),
                None => verified,
            })
        })
    }

    /// A proof is `KEY METHOD URL`, with ` NONCE` once a nonce was demanded.
    fn verify_proof<'a>(
        &'a self,
        request: &'a TokenRequest,
        verified: &'a Verified,
    ) -> VerifyFuture<'a, VerifiedProof> {
        self.proofs.fetch_add(1, Ordering::SeqCst);
        let key = verified.key_thumbprint().unwrap_or_default();
        let expected = format!("{key} {} {}", request.http_method, request.url);
        let result = match &request.proofs[..] {
            [proof] if *proof == format!("{expected} nonce") => Ok(VerifiedProof::new().next_nonce("next")),
            [proof] if *proof == expected => Err(VerifyError::use_nonce("nonce")),
            _ => Err(VerifyError::invalid_proof("another key, method or URL")),
        };
        Box::pin(std::future::ready(result))
    }

    fn resource(&self) -> ProtectedResource {
        self.resource.clone()
    }
}

/// Adds a token.
pub(crate) fn with_token(request: Request, token: &str) -> Request {
    request.header("Authorization", &format!("Bearer {token}"))
}

/// Opens a session with a token and completes its handshake.
pub(crate) async fn open_session(serving: &TestServer, revision: &str, token: &str) -> String {
    let opening = Request::post(&initialize_request(revision, json!({})));
    let opened = serving.send(with_token(opening, token)).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = serving.send(with_token(Request::post(&ready).session(&id), token)).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    id
}

pub(crate) fn call(name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": {}}})
}
