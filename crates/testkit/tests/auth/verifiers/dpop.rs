//! Tokens that are bound to a key, and the proofs that come with them.

use serde_json::{Value, json};
use tsugite::base64::encode_url;
use tsugite::store::{
    Committed, Conflict, Field, LogRead, MemoryStore, Position, Received, SpendLimit, Store, StoreFuture,
    StoreResult, StoreScope, Write,
};
use tsugite_auth::Algorithm;
use tsugite_auth::resource::{Dpop, Jwt};
use tsugite_testkit::http::Response;

use super::issuer::{Protected, TestIssuer, TestKey, changed, now, text};

/// A protected server, a token that is bound to a key, and the key.
struct Bound {
    issuer: TestIssuer,
    signer: TestKey,
    holder: TestKey,
    protected: Protected,
    token: String,
}

impl Bound {
    async fn start(change: impl FnOnce(Dpop<Jwt>) -> Dpop<Jwt>) -> Self {
        let issuer = TestIssuer::start().await;
        let (signer, holder) = (issuer.add_key("k1"), TestKey::new("holder"));
        let protected = Protected::start(change(Dpop::new(Jwt::issuer(&issuer.url)))).await;
        let cnf = json!({"cnf": {"jkt": holder.thumbprint()}});
        let token = signer.sign(&json!({}), &protected.claims(&issuer, &cnf));
        Self { issuer, signer, holder, protected, token }
    }

    /// A proof for a call of the tool, with changes.
    fn proof(&self, header: &Value, claims: &Value) -> String {
        let header = changed(json!({"typ": "dpop+jwt", "kid": null, "jwk": self.holder.jwk()}), header);
        let digest = ring::digest::digest(&ring::digest::SHA256, self.token.as_bytes());
        let base = json!({
            "jti": format!("{}", JTI.fetch_add(1, std::sync::atomic::Ordering::SeqCst)),
            "htm": "POST", "htu": self.protected.url, "iat": now(), "ath": encode_url(digest.as_ref()),
        });
        self.holder.sign(&header, &changed(base, claims))
    }

    async fn send(&self, proof: &str) -> Response {
        self.protected.send(&format!("DPoP {}", self.token), &[proof]).await
    }
}

static JTI: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Asserts 401 with a challenge for DPoP that says why.
fn assert_challenge(response: &Response, code: &str, reason: &str) {
    let challenge = response.header("www-authenticate").unwrap_or_default();
    assert_eq!(response.status, 401, "{reason}: {response:?}");
    assert!(
        challenge.starts_with("DPoP ") && challenge.contains(&format!("error=\"{code}\"")),
        "{challenge}"
    );
    assert!(challenge.contains(reason), "{challenge}");
}

#[tokio::test]
async fn proof_is_accepted_once() {
    // P-13, ARS-035
    let bound = Bound::start(|dpop| dpop).await;
    let proof = bound.proof(&json!({}), &json!({}));
    assert!(text(&bound.send(&proof).await).contains("ann"));
    assert_challenge(&bound.send(&proof).await, "invalid_dpop_proof", "used before");
    assert_eq!(bound.send(&bound.proof(&json!({}), &json!({}))).await.status, 200);
}

#[tokio::test]
async fn replicas_with_one_store_accept_a_proof_once() {
    let store = std::sync::Arc::new(MemoryStore::new());
    let one = Bound::start(|dpop| dpop.store(store.clone())).await;
    let two =
        Protected::start(Dpop::new(Jwt::issuer(&one.issuer.url).audience(&one.protected.url)).store(store))
            .await;
    let proof = one.proof(&json!({}), &json!({"htu": two.url}));
    let authorization = format!("DPoP {}", one.token);
    assert_eq!(two.send(&authorization, &[&proof]).await.status, 200);
    assert_eq!(two.send(&authorization, &[&proof]).await.status, 401);
    // The same id at the other server.
    let id = proof_id(&proof);
    assert_challenge(
        &one.send(&one.proof(&json!({}), &json!({"jti": id}))).await,
        "invalid_dpop_proof",
        "used before",
    );
}

fn proof_id(proof: &str) -> Value {
    let claims = tsugite::base64::decode_url(proof.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice::<Value>(&claims).unwrap()["jti"].clone()
}

#[tokio::test]
async fn bound_token_needs_its_proof() {
    let bound = Bound::start(|dpop| dpop).await;
    let proof = || bound.proof(&json!({}), &json!({}));
    bound.protected.assert_refused(&bound.token, "proof").await;
    let bearer = format!("Bearer {}", bound.token);
    assert_eq!(bound.protected.send(&bearer, &[&proof()]).await.status, 401);
    let dpop = format!("DPoP {}", bound.token);
    for proofs in [&[][..], &[&*proof(), &*proof()], &[""]] {
        assert_challenge(&bound.protected.send(&dpop, proofs).await, "invalid_dpop_proof", "");
    }
    // A token without a key is for `Bearer`.
    let free = bound.signer.sign(&json!({}), &bound.protected.claims(&bound.issuer, &json!({})));
    assert_eq!(bound.protected.call(&free).await.status, 200);
    assert_eq!(bound.protected.send(&format!("DPoP {free}"), &[&proof()]).await.status, 401);
}

#[tokio::test]
async fn proof_for_something_else_is_refused() {
    // P-13, ARS-035
    let bound = Bound::start(|dpop| dpop).await;
    let other = TestKey::new("other");
    for (header, claims, reason) in [
        (json!({}), json!({"htm": "GET"}), "method"),
        (json!({}), json!({"htu": format!("{}2", bound.protected.url)}), "URL"),
        (json!({}), json!({"htu": "https://evil.example/mcp"}), "URL"),
        (json!({}), json!({"ath": "x"}), "token"),
        (json!({}), json!({"ath": null}), "token"),
        (json!({}), json!({"iat": now() - 310}), "5 minutes"),
        (json!({}), json!({"iat": now() + 310}), "5 minutes"),
        (json!({}), json!({"jti": null}), "id"),
        (json!({"typ": "JWT"}), json!({}), "type"),
        (json!({"alg": "none"}), json!({}), "algorithm"),
        (json!({"alg": "HS256"}), json!({}), "algorithm"),
        (json!({"jwk": other.jwk()}), json!({}), "signature"),
        (json!({"jwk": changed(bound.holder.jwk(), &json!({"d": "eA"}))}), json!({}), "private key"),
    ] {
        let response = bound.send(&bound.proof(&header, &claims)).await;
        assert_challenge(&response, "invalid_dpop_proof", reason);
    }
    // A valid proof of a key that the token is not bound to.
    let stolen = Bound { holder: other, ..bound };
    let response = stolen.send(&stolen.proof(&json!({}), &json!({}))).await;
    assert_challenge(&response, "invalid_dpop_proof", "another key");
}

#[tokio::test]
async fn bound_token_must_still_be_for_this_server() {
    // ARS-036
    let mut bound = Bound::start(|dpop| dpop).await;
    let changes = json!({"cnf": {"jkt": bound.holder.thumbprint()}, "aud": "https://other.example/mcp"});
    bound.token = bound.signer.sign(&json!({}), &bound.protected.claims(&bound.issuer, &changes));
    let response = bound.send(&bound.proof(&json!({}), &json!({}))).await;
    assert_challenge(&response, "invalid_token", "audience");
}

#[tokio::test]
async fn nonce_is_asked_for_and_accepted() {
    let bound = Bound::start(|dpop| dpop.require_nonce().unwrap()).await;
    let response = bound.send(&bound.proof(&json!({}), &json!({}))).await;
    assert_challenge(&response, "use_dpop_nonce", "");
    let nonce = response.header("dpop-nonce").unwrap().to_owned();
    assert_eq!(bound.send(&bound.proof(&json!({}), &json!({"nonce": nonce}))).await.status, 200);
    for wrong in [json!("x"), json!(1), json!(format!("{nonce}A"))] {
        let response = bound.send(&bound.proof(&json!({}), &json!({ "nonce": wrong }))).await;
        assert_challenge(&response, "use_dpop_nonce", "");
    }
    // Another server with another key.
    let other = Bound::start(|dpop| dpop.require_nonce_from([7; 32])).await;
    assert_eq!(other.send(&other.proof(&json!({}), &json!({"nonce": nonce}))).await.status, 401);
}

#[tokio::test]
async fn unbound_tokens_are_refused_where_keys_are_required() {
    let bound = Bound::start(|dpop| dpop.required().algorithms([Algorithm::Es256])).await;
    assert_eq!(bound.send(&bound.proof(&json!({}), &json!({}))).await.status, 200);
    let free = bound.signer.sign(&json!({}), &bound.protected.claims(&bound.issuer, &json!({})));
    bound.protected.assert_refused(&free, "bound").await;
}

#[tokio::test]
async fn nothing_is_accepted_while_the_store_fails() {
    let bound = Bound::start(|dpop| dpop.store(BrokenStore::default())).await;
    let response = bound.send(&bound.proof(&json!({}), &json!({}))).await;
    assert_eq!(response.status, 503, "{response:?}");
    assert!(!response.body.contains("disk"), "{response:?}");
}

#[tokio::test]
async fn expired_proofs_are_removed_from_the_store() {
    let store = BrokenStore::default();
    let purged = store.purged.clone();
    let bound = Bound::start(|dpop| dpop.store(store)).await;
    bound.send(&bound.proof(&json!({}), &json!({}))).await;
    tokio::time::timeout(std::time::Duration::from_secs(60), purged.notified()).await.unwrap();
}

/// A store whose every operation fails, and which tells when expired entries are removed.
#[derive(Default)]
struct BrokenStore {
    purged: std::sync::Arc<tokio::sync::Notify>,
}

fn broken<T>() -> StoreResult<T> {
    StoreFuture::Ready(Err("the disk is broken".into()))
}

impl Store for BrokenStore {
    fn scope(&self) -> StoreScope {
        StoreScope::Process
    }

    fn read(&self, _: &str, _: &[&str]) -> StoreResult<Option<Vec<Option<Field>>>> {
        broken()
    }

    fn list(&self, _: &str, _: &str, _: usize) -> StoreResult<Vec<(String, Field)>> {
        broken()
    }

    fn commit(&self, _: &[Write<'_>]) -> StoreResult<Result<Committed, Conflict>> {
        broken()
    }

    fn take(&self, _: &str) -> StoreResult<Option<Vec<(String, bytes::Bytes)>>> {
        broken()
    }

    fn spend(&self, _: &str, _: u32, _: SpendLimit) -> StoreResult<Result<(), std::time::Duration>> {
        broken()
    }

    fn read_log(&self, _: &str, _: u64) -> StoreResult<Option<LogRead>> {
        broken()
    }

    fn receive(&self, _: &str, _: &Position) -> StoreResult<Received> {
        broken()
    }

    fn inbox(&self, _: &str) -> StoreResult<Vec<bytes::Bytes>> {
        broken()
    }

    fn renew_lease(&self, _: &str, _: std::time::Duration, _: &Position) -> StoreResult<()> {
        broken()
    }

    fn has_lease(&self, _: &str) -> StoreResult<bool> {
        broken()
    }

    fn end_lease(&self, _: &str) -> StoreResult<()> {
        broken()
    }

    fn purge_expired(&self) {
        self.purged.notify_one();
    }
}
