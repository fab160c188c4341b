//! Verifiers: to whom a bearer token belongs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use crate::server::Principal;

/// Decides to whom a bearer token belongs, for [`Http::authenticate`](super::Http::authenticate).
///
/// An async closure is one, and so is a [`StaticToken`].
///
/// ```
/// use tsugite::server::Principal;
/// use tsugite::transport::http::{Http, VerifyError};
///
/// let http = Http::new().authenticate(async |token: String| match token.as_str() {
///     "s3cret" => Ok(Principal::new("ann")),
///     _ => Err(VerifyError::InvalidToken),
/// });
/// # let _ = http;
/// ```
#[doc(alias("auth", "authorization", "TokenVerifier", "bearer"))]
pub trait VerifyToken: Send + Sync + 'static {
    /// Returns the caller that the token belongs to.
    fn verify(&self, token: String) -> VerifyFuture;
}

/// The future of [`VerifyToken::verify`].
pub type VerifyFuture = Pin<Box<dyn Future<Output = Result<Principal, VerifyError>> + Send>>;

impl<F, A> VerifyToken for F
where
    F: Fn(String) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Principal, VerifyError>> + Send + 'static,
{
    fn verify(&self, token: String) -> VerifyFuture {
        Box::pin(self(token))
    }
}

/// Why a token is not accepted.
#[derive(Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// The token is unknown, expired or revoked, or was not issued for this server. The client gets 401.
    InvalidToken,
    /// It could not be checked, for example because the issuer cannot be reached. The client gets 503, and the error is
    /// logged.
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::InvalidToken => f.write_str("the token is not valid"),
            VerifyError::Unavailable(_) => f.write_str("the token could not be checked"),
        }
    }
}

impl std::error::Error for VerifyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            VerifyError::InvalidToken => None,
            VerifyError::Unavailable(source) => Some(&**source),
        }
    }
}

/// One token that is known in advance, and its owner.
#[derive(Clone)]
pub struct StaticToken {
    /// Compared instead of the token, so that the time of the comparison says nothing about the token.
    digest: [u8; 32],
    owner: Principal,
}

impl StaticToken {
    /// Accepts `token` as that of `owner`.
    pub fn new(token: impl AsRef<[u8]>, owner: Principal) -> Self {
        Self { digest: token_digest(token.as_ref()), owner }
    }

    /// Whether this is the token.
    pub fn matches(&self, token: impl AsRef<[u8]>) -> bool {
        token_digest(token.as_ref()) == self.digest
    }
}

impl VerifyToken for StaticToken {
    fn verify(&self, token: String) -> VerifyFuture {
        let verified = match self.matches(token) {
            true => Ok(self.owner.clone()),
            false => Err(VerifyError::InvalidToken),
        };
        Box::pin(std::future::ready(verified))
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticToken").field("owner", &self.owner).finish_non_exhaustive()
    }
}

fn token_digest(token: &[u8]) -> [u8; 32] {
    digest(&SHA256, token).as_ref().try_into().unwrap_or_default()
}

/// A verifier as a setting.
#[derive(Clone)]
pub(super) struct Verifier(pub(super) Arc<dyn VerifyToken>);

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_not_shown() {
        let known = StaticToken::new("s3cret", Principal::new("ann"));
        assert!(!format!("{known:?}").contains("s3cret"));
        assert!(known.matches("s3cret") && !known.matches("s3cre") && !known.matches(""));
    }
}
