//! Who is asked for credentials.

use std::future::Future;
use std::pin::Pin;

use crate::client::client_error::{Challenge, Result};

/// Gives credentials with each request, and is asked for better ones when a server refuses them (401 or 403).
///
/// What is found out here belongs to one server: use one of these per client.
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
///     fn challenged(&self, _: Challenge) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + '_>> {
///         Box::pin(async { Ok(false) }) // there is no better one
///     }
/// }
/// ```
pub trait Authorizer: Send + Sync + 'static {
    /// What to send as `Authorization` with the next request, if anything.
    fn authorization(&self) -> Pin<Box<dyn Future<Output = Result<Option<String>>> + Send + '_>>;

    /// The server refused. True when the request is to be sent again: at most twice for one request.
    fn handle_challenge(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + '_>>;
}
