//! Stands in for `http` without the cargo feature `http`: settings that no connection uses.

use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::client_error::{Challenge, Result};

/// The source of credentials for HTTP requests, which this build does not support.
pub trait Authorizer: Send + Sync + 'static {
    /// Returns the `Authorization` header of the next request, if there is one.
    fn authorization(&self) -> Pin<Box<dyn Future<Output = Result<Option<String>>> + Send + '_>>;

    /// Handles a rejection. Returns true to send the request again.
    fn handle_challenge(
        &self,
        challenge: Challenge,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + '_>>;

    /// Returns a key of the identity and the scopes of the credentials, without a secret.
    fn identity(&self) -> Option<String> {
        None
    }
}

/// The settings of an HTTP connection, which cannot be opened.
#[derive(Clone)]
#[allow(dead_code, reason = "the builder sets the fields, but no connection reads them")]
pub(super) struct HttpConfig {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    pub(super) root_certificates: Vec<PathBuf>,
    pub(super) connect_timeout: Duration,
    pub(super) max_connections: usize,
    pub(super) proxy: ProxySetting,
    pub(super) sse_only: bool,
    pub(super) streamable_only: bool,
}

impl HttpConfig {
    pub(super) fn new(url: String) -> Self {
        let connect_timeout = Duration::ZERO;
        Self {
            url,
            headers: Vec::new(),
            authorizer: None,
            root_certificates: Vec::new(),
            connect_timeout,
            max_connections: 0,
            proxy: ProxySetting::None,
            sse_only: false,
            streamable_only: false,
        }
    }
}

/// Which proxy a client uses.
#[derive(Clone)]
#[allow(dead_code, reason = "the builder sets it, but no connection reads it")]
pub(super) enum ProxySetting {
    None,
    Url(String),
    Environment,
}

/// A Streamable HTTP connection, which cannot exist.
pub(super) struct StreamableHttp(pub(super) Infallible);

impl StreamableHttp {
    pub(super) fn kill(&self) {
        match self.0 {}
    }
}

/// An HTTP+SSE connection, which cannot exist.
pub(super) struct HttpSse(pub(super) Infallible);
