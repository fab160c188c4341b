//! [`VerifyToken`]: decides to whom an access token belongs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::protected_resource::ProtectedResource;
use super::verify_error::VerifyError;
use crate::server::Principal;

/// Decides to whom an access token belongs, for [`Server::authorize`](crate::Server::authorize).
///
/// An async closure is one, and so is a [`StaticToken`](super::StaticToken). `tsugite-auth` has verifiers for the tokens of
/// an OAuth authorization server.
///
/// ```
/// use tsugite::prelude::*;
/// use tsugite::transport::http::VerifyError;
///
/// let server = Server::new("notes", "1.0.0").authorize(async |token: String| match token.as_str() {
///     "s3cret" => Ok(Principal::new("ann")),
///     _ => Err(VerifyError::invalid_token()),
/// });
/// # let _ = server;
/// ```
#[doc(alias("auth", "authorization", "TokenVerifier", "bearer"))]
pub trait VerifyToken: Send + Sync + 'static {
    /// Verifies the token of a request: that it is valid now, and was issued for
    /// [this server](TokenRequest::resource).
    ///
    /// The answer is kept for the time of [`Verified::cache_for`]; until then requests with the same token do not reach the
    /// verifier. The future may be dropped when the client disconnects.
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified>;

    /// Verifies that the sender of a token holds the key that the token is [bound to](Verified::bound_to_key).
    ///
    /// It is called for every request with such a token, also if the token itself was verified before, and only if the
    /// scheme is [`TokenScheme::Dpop`]. Unless implemented, no proof is valid.
    fn verify_proof<'a>(
        &'a self,
        request: &'a TokenRequest,
        verified: &'a Verified,
    ) -> VerifyFuture<'a, VerifiedProof> {
        let _ = (request, verified);
        Box::pin(std::future::ready(Err(VerifyError::invalid_proof("this server accepts no DPoP proofs"))))
    }

    /// The names of further headers in which a client may send its token alone, such as `X-Api-Key`. They are read once, when
    /// the server is served. A token that arrives there is [`TokenScheme::ApiKey`].
    fn key_headers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Describes the protected server for clients that have no token yet. It is read once, when the server is served.
    fn resource(&self) -> ProtectedResource {
        ProtectedResource::new()
    }
}

/// The future that a method of [`VerifyToken`] returns.
pub type VerifyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, VerifyError>> + Send + 'a>>;

impl<F, A> VerifyToken for F
where
    F: Fn(String) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Principal, VerifyError>> + Send + 'static,
{
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        let verifying = self(request.token.clone());
        Box::pin(async move { verifying.await.map(Verified::new) })
    }
}

impl<V: VerifyToken + ?Sized> VerifyToken for Arc<V> {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        (**self).verify(request)
    }

    fn verify_proof<'a>(
        &'a self,
        request: &'a TokenRequest,
        verified: &'a Verified,
    ) -> VerifyFuture<'a, VerifiedProof> {
        (**self).verify_proof(request, verified)
    }

    fn key_headers(&self) -> Vec<String> {
        (**self).key_headers()
    }

    fn resource(&self) -> ProtectedResource {
        (**self).resource()
    }
}

/// How a client presents a token: the scheme of its `Authorization` header, or another header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenScheme {
    /// The token alone (RFC 6750).
    Bearer,
    /// The token with a proof of its key (RFC 9449).
    Dpop,
    /// The token alone, in one of the [headers of the verifier](VerifyToken::key_headers).
    ApiKey,
}

/// A token and what a verifier needs to know about the request it came with. `Debug` shows neither token nor proofs.
#[derive(Clone)]
#[non_exhaustive]
pub struct TokenRequest {
    /// The token.
    pub token: String,
    /// How the token was presented.
    pub scheme: TokenScheme,
    /// The HTTP method.
    pub http_method: String,
    /// The URL of the request without query: that of the resource or, for HTTP+SSE, of another path beside it.
    pub url: String,
    /// The URL of the endpoint, by which tokens name their audience: [`Http::public_url`](super::super::Http::public_url),
    /// or the address of a loopback listener. Empty if neither is known. It never depends on an untrusted header.
    pub resource: String,
    /// The values of all `DPoP` headers. A valid request has at most one.
    pub proofs: Vec<String>,
}

impl TokenRequest {
    /// Describes a POST to `resource` with this token as [`TokenScheme::Bearer`].
    pub fn new(token: impl Into<String>, resource: impl Into<String>) -> Self {
        let (token, resource) = (token.into(), resource.into());
        Self {
            token,
            scheme: TokenScheme::Bearer,
            http_method: "POST".to_owned(),
            url: resource.clone(),
            resource,
            proofs: Vec::new(),
        }
    }
}

impl fmt::Debug for TokenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRequest")
            .field("scheme", &self.scheme)
            .field("http_method", &self.http_method)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// A token that is valid: its owner, and for how long that is known.
#[derive(Debug, Clone)]
pub struct Verified {
    principal: Principal,
    key_thumbprint: Option<String>,
    cache_ttl: Duration,
    /// The position of the verifier that accepted the token at each verifier of several, innermost first.
    verifiers: Vec<usize>,
}

impl Verified {
    /// A token of this caller, which is verified again with every request.
    ///
    /// A principal with neither a subject nor a client id is refused.
    pub fn new(principal: Principal) -> Self {
        Self { principal, key_thumbprint: None, cache_ttl: Duration::ZERO, verifiers: Vec::new() }
    }

    /// Says that the answer holds for so long, though at most until the [expiry](Principal::expires_at) of the token. A
    /// token that is revoked within this time is still accepted.
    #[must_use]
    pub fn cache_for(mut self, ttl: Duration) -> Self {
        self.cache_ttl = ttl;
        self
    }

    /// Says that the token is bound to the key with this thumbprint (`cnf.jkt`, RFC 9449). It is accepted only with
    /// [a proof](VerifyToken::verify_proof), never as [`TokenScheme::Bearer`].
    #[must_use]
    pub fn bound_to_key(mut self, thumbprint: impl Into<String>) -> Self {
        self.key_thumbprint = Some(thumbprint.into());
        self
    }

    /// Remembers which of several verifiers has accepted the token, for a verifier that consists of others. Its
    /// [`VerifyToken::verify_proof`] finds that one with [`Verified::split_verifier`].
    #[must_use]
    pub fn accepted_by(mut self, position: usize) -> Self {
        self.verifiers.push(position);
        self
    }

    /// The position that was remembered last, and the answer as the verifier there gave it.
    pub fn split_verifier(&self) -> Option<(usize, Self)> {
        let mut inner = self.clone();
        let position = inner.verifiers.pop()?;
        Some((position, inner))
    }

    /// The owner of the token.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The thumbprint of the key that the token is bound to.
    pub fn key_thumbprint(&self) -> Option<&str> {
        self.key_thumbprint.as_deref()
    }

    /// How long the answer may be kept; zero if not at all.
    pub fn cache_ttl(&self) -> Duration {
        self.cache_ttl
    }
}

impl From<Principal> for Verified {
    fn from(principal: Principal) -> Self {
        Self::new(principal)
    }
}

/// A proof that is valid.
#[derive(Debug, Clone, Default)]
pub struct VerifiedProof {
    nonce: Option<String>,
}

impl VerifiedProof {
    /// A proof that needs no new nonce.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the client the nonce of its next proof, as `DPoP-Nonce` of the response.
    #[must_use]
    pub fn next_nonce(mut self, nonce: impl Into<String>) -> Self {
        self.nonce = Some(nonce.into());
        self
    }

    /// The nonce of the next proof.
    pub fn nonce(&self) -> Option<&str> {
        self.nonce.as_deref()
    }
}
