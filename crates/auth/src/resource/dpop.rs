//! [`Dpop`]: accepts tokens that are bound to a key, with proofs of that key (RFC 9449).

use std::fmt;
use std::sync::Arc;

use tsugite::store::{MemoryStore, Store};
use tsugite::transport::http::{
    ProtectedResource, TokenRequest, Verified, VerifiedProof, VerifyError, VerifyFuture, VerifyToken,
};

use crate::dpop::{NonceKey, ProvenRequest, now, use_once, verify_proof};
use crate::error::Result;
use crate::jose::Algorithm;
use crate::purge_timer::PurgeTimer;

/// Adds proofs of possession to a verifier: a token that is bound to a key (`cnf.jkt`) is accepted with a proof that its
/// sender holds the key, so a stolen token is useless.
///
/// A proof is for one method, one URL and one token, is valid for 5 minutes, and is accepted once. The proofs that were used
/// are recorded in a store. If it fails, clients get 503. Tokens that are not bound to a key are
/// accepted as before, unless [`required`](Self::required) is set; a bound token is never accepted without a proof.
///
/// # Several replicas
///
/// Replicas must share the store, with [`store`](Self::store): that of [`Server::store`](tsugite::Server::store), for example.
/// Without it each process remembers the proofs that it has seen itself, and accepts those that were used at another one.
///
/// ```
/// use tsugite::Server;
/// use tsugite_auth::resource::{Dpop, Jwt};
///
/// let server = Server::new("notes", "1.0.0").authorize(Dpop::new(Jwt::issuer("https://idp.example")).required());
/// # let _ = server;
/// ```
#[doc(alias("proof of possession", "sender-constrained"))]
pub struct Dpop<V> {
    inner: V,
    store: Arc<dyn Store>,
    purge_timer: PurgeTimer,
    algorithms: Vec<Algorithm>,
    nonce_key: Option<NonceKey>,
    is_required: bool,
}

impl<V: VerifyToken> Dpop<V> {
    /// Accepts proofs for the tokens of a verifier. The proofs that were used are remembered by this process alone; several
    /// replicas need a shared [`store`](Self::store).
    pub fn new(inner: V) -> Self {
        let store = Arc::new(MemoryStore::new());
        let (algorithms, purge_timer) = (Algorithm::ALL.to_vec(), PurgeTimer::default());
        Self { inner, store, purge_timer, algorithms, nonce_key: None, is_required: false }
    }

    /// Records the proofs that were used in this store. Replicas share it.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Accepts proofs with these algorithms only; all of [`Algorithm::ALL`] unless set.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Refuses tokens that are not bound to a key.
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Accepts only proofs with a nonce of this server, so that none can be made in advance. A client learns the nonce from
    /// the first response. Nonces are valid for 5 to 10 minutes. Fails if this machine has no source of random numbers.
    pub fn require_nonce(mut self) -> Result<Self> {
        self.nonce_key = Some(NonceKey::random()?);
        Ok(self)
    }

    /// Does the same with a secret of 32 unpredictable bytes, which replicas share.
    pub fn require_nonce_from(mut self, secret: [u8; 32]) -> Self {
        self.nonce_key = Some(NonceKey::new(&secret));
        self
    }

    async fn verify_token(&self, request: &TokenRequest) -> Result<Verified, VerifyError> {
        let verified = self.inner.verify(request).await?;
        match self.is_required && verified.key_thumbprint().is_none() {
            true => Err(VerifyError::invalid_token().with_description("the token is not bound to a key")),
            false => Ok(verified),
        }
    }

    async fn check_proof(
        &self,
        request: &TokenRequest,
        verified: &Verified,
        now: u64,
    ) -> Result<VerifiedProof, VerifyError> {
        let [proof] = request.proofs.as_slice() else {
            return Err(VerifyError::invalid_proof("the request must have one DPoP header"));
        };
        let proven =
            ProvenRequest { method: &request.http_method, url: &request.url, token: Some(&request.token) };
        let proof = verify_proof(proof, &proven, &self.algorithms, now)
            .map_err(|error| VerifyError::invalid_proof(error.0))?;
        if verified.key_thumbprint() != Some(&*proof.thumbprint) {
            return Err(VerifyError::invalid_proof("the token is bound to another key"));
        }
        let next_nonce = match &self.nonce_key {
            None => None,
            Some(key) => match proof.nonce.as_deref().filter(|nonce| key.accepts(nonce, now)) {
                None => return Err(VerifyError::use_nonce(key.nonce(now))),
                Some(nonce) => key.is_old(nonce, now).then(|| key.nonce(now)),
            },
        };
        self.purge_timer.purge(&self.store, now);
        // Last, so that only holders of the key can fill the store.
        match use_once(&*self.store, &proof, now).await {
            Ok(true) => Ok(next_nonce.into_iter().fold(VerifiedProof::new(), VerifiedProof::next_nonce)),
            Ok(false) => Err(VerifyError::invalid_proof("the proof was used before")),
            Err(error) => Err(VerifyError::unavailable(error)),
        }
    }
}

impl<V: VerifyToken> VerifyToken for Dpop<V> {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        Box::pin(self.verify_token(request))
    }

    fn verify_proof<'a>(
        &'a self,
        request: &'a TokenRequest,
        verified: &'a Verified,
    ) -> VerifyFuture<'a, VerifiedProof> {
        Box::pin(self.check_proof(request, verified, now()))
    }

    fn key_headers(&self) -> Vec<String> {
        self.inner.key_headers()
    }

    fn resource(&self) -> ProtectedResource {
        let names = self.algorithms.iter().map(|algorithm| algorithm.name());
        let described = self.inner.resource().dpop_algorithms(names);
        if self.is_required { described.dpop_required() } else { described }
    }
}

impl<V: fmt::Debug> fmt::Debug for Dpop<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpop")
            .field("inner", &self.inner)
            .field("required", &self.is_required)
            .finish_non_exhaustive()
    }
}
