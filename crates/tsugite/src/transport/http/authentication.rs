//! Bearer tokens: which requests are let in, and who sent them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use ring::digest::{SHA256, digest};

use super::maybe_ready::MaybeReady;
use super::response_body::HttpBody;
use super::responses::status_error;
use crate::error::Chain;
use crate::server::Principal;
use crate::shared::log;

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

/// Verifies the token of a request. The error is the response.
pub(super) fn authenticate(
    verifier: &Verifier,
    headers: &HeaderMap,
    cx: &mut Context<'_>,
) -> MaybeReady<Result<Principal, Response<HttpBody>>> {
    let token = match bearer_token(headers) {
        Ok(token) => token,
        Err(challenge) => return MaybeReady::Ready(Err(unauthorized(challenge))),
    };
    let mut verifying = verifier.0.verify(token);
    match verifying.as_mut().poll(cx) {
        Poll::Ready(verified) => MaybeReady::Ready(verified.map_err(refuse)),
        Poll::Pending => MaybeReady::pending(async move { verifying.await.map_err(refuse) }),
    }
}

/// The token of the only `Authorization` header, or the challenge for a request without one.
fn bearer_token(headers: &HeaderMap) -> Result<String, &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err("Bearer") };
    let (scheme, token) = value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or("Bearer")?;
    match scheme.eq_ignore_ascii_case("bearer") {
        true => Ok(token.trim().to_owned()),
        false => Err("Bearer"),
    }
}

fn refuse(error: VerifyError) -> Response<HttpBody> {
    match error {
        VerifyError::InvalidToken => unauthorized("Bearer error=\"invalid_token\""),
        VerifyError::Unavailable(source) => {
            log::error!(error = %Chain(&*source), "a token could not be checked");
            let text = "The token could not be checked; try again later";
            status_error(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

fn unauthorized(challenge: &'static str) -> Response<HttpBody> {
    let text = "Unauthorized: this server needs a valid token in `Authorization: Bearer …`";
    let mut response = status_error(StatusCode::UNAUTHORIZED, text);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer_token(&headers).ok()
    }

    #[test]
    fn token_stands_in_one_bearer_header() {
        assert_eq!(token(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(token(&["bearer  abc "]).as_deref(), Some("abc"));
        for refused in [&[][..], &["Basic abc"], &["Bearer"], &["Bearer a", "Bearer a"]] {
            assert_eq!(token(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn token_is_not_shown() {
        let known = StaticToken::new("s3cret", Principal::new("ann"));
        assert!(!format!("{known:?}").contains("s3cret"));
        assert!(known.matches("s3cret") && !known.matches("s3cre") && !known.matches(""));
    }
}
