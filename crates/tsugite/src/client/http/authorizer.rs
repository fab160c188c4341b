//! [`Authorizer`]: the source of credentials for HTTP requests.

use std::future::Future;
use std::pin::Pin;

use crate::client::client_error::{Challenge, Result};

/// Provides credentials for each request, and new ones when a server rejects them (401 or 403).
///
/// The credentials belong to one server: use one authorizer per client.
///
/// ```
/// use std::future::Future;
/// use std::pin::Pin;
/// use tsugite::client::{Authorizer, Challenge, Result};
///
/// struct Token(String);
///
/// impl Authorizer for Token {
///     fn authorization(&self) -> Pin<Box<dyn Future<Output = Result<Option<String>>> + Send + '_>> {
///         Box::pin(async { Ok(Some(format!("Bearer {}", self.0))) })
///     }
///
///     fn handle_challenge(&self, _: Challenge) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + '_>> {
///         Box::pin(async { Ok(false) }) // no other token is available
///     }
/// }
/// ```
#[doc(alias("OAuth", "OAuthClientProvider", "AuthProvider"))]
pub trait Authorizer: Send + Sync + 'static {
    /// Returns the `Authorization` header of the next request, if there is one.
    fn authorization(&self) -> Pin<Box<dyn Future<Output = Result<Option<String>>> + Send + '_>>;

    /// Handles a rejection. Returns true to send the request again, which happens at most twice per request.
    fn handle_challenge(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + '_>>;

    /// Returns a key of the identity and the scopes that [`authorization`](Self::authorization) acts for now, for the cache
    /// of results: for example issuer, subject and scopes. It must not contain a secret, and it stays the same when a token is
    /// renewed.
    ///
    /// The client calls it before and after each request whose result it may cache. Without a key, the client
    /// calls `authorization` there and compares a digest of the header, so a renewed token empties the cache.
    fn identity(&self) -> Option<String> {
        None
    }
}
