//! Stands in for `http` without the cargo feature `http`: settings that no connection uses.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[path = "http/authorizer.rs"]
mod authorizer;

pub use authorizer::{Authorizer, AuthorizerFuture, Credentials, Identity, RequestInfo, ResponseInfo};

/// An HTTP client, which this build does not support.
#[derive(Debug, Clone)]
pub struct Fetcher(Infallible);

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

    /// Does nothing: no server can be reached.
    pub(super) fn attach_authorizer(&self) -> Result<(), super::client_error::ClientError> {
        Ok(())
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
