//! [`Authorizer`]: the source of credentials for HTTP requests.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use super::Fetcher;
use crate::client::challenge::Challenge;
use crate::client::client_error::Result;

/// The future that a method of [`Authorizer`] returns.
pub type AuthorizerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Provides credentials for each HTTP request, and new ones when a server challenges a request.
///
/// Every method names the server, so one authorizer can serve many: share it in an [`Arc`](std::sync::Arc).
///
/// The timeout of a call does not run while the call waits for its authorizer, because a person may be logging in. A call
/// that is dropped drops the future of the authorizer, so a login that other calls wait for belongs into a task.
///
/// ```
/// use tsugite::client::{Authorizer, AuthorizerFuture, Challenge, Credentials, RequestInfo};
///
/// struct Token(String);
///
/// impl Authorizer for Token {
///     fn authorize<'a>(&'a self, _: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials> {
///         Box::pin(async { Ok(Credentials::bearer(&self.0)) })
///     }
///
///     fn handle_challenge<'a>(
///         &'a self,
///         _: RequestInfo<'a>,
///         _: &'a Credentials,
///         _: &'a Challenge,
///     ) -> AuthorizerFuture<'a, bool> {
///         Box::pin(async { Ok(false) }) // no other token is available
///     }
/// }
/// ```
#[doc(alias("OAuth", "OAuthClientProvider", "AuthProvider"))]
pub trait Authorizer: Send + Sync + 'static {
    /// Announces a server before the first request to it, with an HTTP client that has the proxy and the certificates of
    /// the client.
    fn attach(&self, server: &str, fetcher: &Fetcher) {
        let _ = (server, fetcher);
    }

    /// Returns the credentials of the next request.
    fn authorize<'a>(&'a self, request: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials>;

    /// Sees the head of each response, before [`handle_challenge`](Self::handle_challenge) if it is a challenge.
    fn observe(&self, request: RequestInfo<'_>, response: ResponseInfo<'_>) {
        let _ = (request, response);
    }

    /// Handles a challenge to a request that was sent with `rejected`. Returns true to send the request again, which
    /// happens at most twice for each [kind](crate::client::ChallengeKind) of challenge.
    fn handle_challenge<'a>(
        &'a self,
        request: RequestInfo<'a>,
        rejected: &'a Credentials,
        challenge: &'a Challenge,
    ) -> AuthorizerFuture<'a, bool>;

    /// Returns the identity that [`authorize`](Self::authorize) acts for now.
    ///
    /// If it changes, the client drops cached results and the session. Without an identity, the client compares a digest
    /// of the `Authorization` header for its cache, so a renewed token empties the cache, and keeps the session.
    fn identity(&self, server: &str) -> Option<Identity> {
        let _ = server;
        None
    }

    /// Returns the extensions that the client announces to the server, with their settings.
    fn extensions(&self, server: &str) -> Vec<(String, Value)> {
        let _ = server;
        Vec::new()
    }
}

/// An HTTP request to a server, as its [`Authorizer`] sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestInfo<'a> {
    /// The URL of the server, as the application gave it.
    pub server: &'a str,
    /// The HTTP method.
    pub verb: &'a str,
    /// The URL of the request.
    pub url: &'a str,
    /// The method of the JSON-RPC request in the body, if there is one.
    pub method: Option<&'a str>,
    /// The name of the tool or prompt, or the URI of the resource.
    pub name: Option<&'a str>,
}

impl<'a> RequestInfo<'a> {
    /// Describes a request that carries no JSON-RPC request.
    pub fn new(server: &'a str, verb: &'a str, url: &'a str) -> Self {
        Self { server, verb, url, method: None, name: None }
    }
}

/// The head of an HTTP response, as an [`Authorizer`] sees it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ResponseInfo<'a> {
    /// The HTTP status.
    pub status: u16,
    headers: &'a [(&'a str, &'a str)],
}

impl<'a> ResponseInfo<'a> {
    /// Describes a response by its status and headers, whose names are in lower case.
    pub fn new(status: u16, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { status, headers }
    }

    /// The first header with this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// The headers that authorize one request. `Debug` shows their names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    headers: Vec<(String, String)>,
}

impl Credentials {
    /// No credentials.
    pub fn none() -> Self {
        Self::default()
    }

    /// The header `Authorization: Bearer`.
    pub fn bearer(token: impl fmt::Display) -> Self {
        Self::none().header("authorization", format!("Bearer {token}"))
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The value of a header, which is compared without regard to case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// All headers.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.headers.iter().map(|(name, _)| name)).finish()
    }
}

/// The identity that credentials belong to. It must not contain a secret, and it stays the same when a token is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user or application: a session belongs to it.
    pub subject: String,
    /// The permissions: cached results belong to the subject with these.
    pub scopes: String,
}

impl<A: Authorizer + ?Sized> Authorizer for std::sync::Arc<A> {
    fn attach(&self, server: &str, fetcher: &Fetcher) {
        (**self).attach(server, fetcher);
    }

    fn authorize<'a>(&'a self, request: RequestInfo<'a>) -> AuthorizerFuture<'a, Credentials> {
        (**self).authorize(request)
    }

    fn observe(&self, request: RequestInfo<'_>, response: ResponseInfo<'_>) {
        (**self).observe(request, response);
    }

    fn handle_challenge<'a>(
        &'a self,
        request: RequestInfo<'a>,
        rejected: &'a Credentials,
        challenge: &'a Challenge,
    ) -> AuthorizerFuture<'a, bool> {
        (**self).handle_challenge(request, rejected, challenge)
    }

    fn identity(&self, server: &str) -> Option<Identity> {
        (**self).identity(server)
    }

    fn extensions(&self, server: &str) -> Vec<(String, Value)> {
        (**self).extensions(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_of_credentials_shows_no_value() {
        let credentials = Credentials::bearer("secret").header("dpop", "proof");
        assert_eq!(format!("{credentials:?}"), r#"["authorization", "dpop"]"#);
        assert_eq!(credentials.get("Authorization"), Some("Bearer secret"));
    }
}
