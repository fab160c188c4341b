//! HTTP requests to a server: the settings and the state of the two transports, [`StreamableHttp`] and [`HttpSse`], the
//! transport of 2024-11-05. The messages in requests and responses are read in `http_transport`.
//!
//! - `address`, `connector`, `proxy`, `unix_socket`, `tls`, `pool`: the URL of a server, and connections to it that are
//!   reused.
//! - `http_endpoint`: one request and the head of its response, with credentials, redirects and busy servers.
//! - `http_sse`: how HTTP+SSE sends messages.

mod address;
mod authorizer;
mod connector;
mod full_body;
mod http_endpoint;
mod http_sse;
mod pool;
mod proxy;
#[cfg(feature = "tls")]
#[path = "tls_with.rs"]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls_without.rs"]
mod tls;
#[cfg(unix)]
mod unix_socket;
#[cfg(not(unix))]
#[path = "no_unix_socket.rs"]
mod unix_socket;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderValue, USER_AGENT};

pub use authorizer::Authorizer;
pub(super) use http_endpoint::{
    HttpEndpoint, Repeat, ResponseReader, message_headers, stream_headers, user_header,
};
pub(super) use http_sse::HttpSse;
pub(super) use pool::RequestKind;
pub(super) use proxy::ProxySetting;
pub(super) use tls::Tls;

use super::client_error::{ClientError, truncate};
use address::Address;
use connector::{Connector, Route};
use pool::ConnectionPool;

/// The settings of an HTTP connection.
#[derive(Clone)]
pub(super) struct HttpConfig {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Trusted certificates, in addition to those of this machine.
    pub(super) root_certificates: Vec<PathBuf>,
    /// The timeout of each step of connecting.
    pub(super) connect_timeout: Duration,
    /// The number of calls that may use a connection at the same time.
    pub(super) max_connections: usize,
    pub(super) proxy: ProxySetting,
    /// Whether to use only HTTP+SSE.
    pub(super) sse_only: bool,
    /// Whether to use only Streamable HTTP.
    pub(super) streamable_only: bool,
    /// Created on first use, because reading the trusted certificates of this machine is slow.
    tls: Arc<OnceLock<Tls>>,
}

impl HttpConfig {
    pub(super) fn new(url: String) -> Self {
        let connect_timeout = Duration::from_secs(10);
        Self {
            url,
            headers: Vec::new(),
            authorizer: None,
            root_certificates: Vec::new(),
            connect_timeout,
            max_connections: 256,
            proxy: ProxySetting::None,
            sse_only: false,
            streamable_only: false,
            tls: Arc::default(),
        }
    }

    fn tls(&self) -> Result<Tls, ClientError> {
        match self.tls.get() {
            Some(tls) => Ok(tls.clone()),
            None => {
                let tls = Tls::new(&self.root_certificates)
                    .map_err(|error| ClientError::config(error.to_string()))?;
                Ok(self.tls.get_or_init(|| tls).clone())
            }
        }
    }

    /// The endpoint at the URL.
    pub(super) fn endpoint(&self, idle_timeout: Duration) -> Result<HttpEndpoint, ClientError> {
        let address = Address::parse(&self.url)?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tsugite/", env!("CARGO_PKG_VERSION"))));
        for (name, value) in &self.headers {
            let (name, value) = user_header(name, value)?;
            headers.insert(name, value);
        }
        let tls = match address.origin.secure {
            true => Some(self.tls()?),
            false => None,
        };
        let route = match &address.origin.unix_socket {
            Some(path) => Route::Unix(path.clone()),
            None => self.proxy.proxy_for(&address.origin)?.map_or(Route::Direct, Route::Proxy),
        };
        let connector =
            Connector { origin: address.origin.clone(), route, tls, timeout: self.connect_timeout };
        let pool = ConnectionPool::new(connector, self.max_connections);
        HttpEndpoint::new(address, pool, headers, self.authorizer.clone(), idle_timeout)
    }
}

/// A Streamable HTTP connection to one server.
pub(super) struct StreamableHttp {
    pub(super) endpoint: HttpEndpoint,
    /// The session id from the response to `initialize`, up to 2025-11-25.
    pub(super) session_id: Mutex<Option<HeaderValue>>,
}

impl StreamableHttp {
    pub(super) fn new(config: &HttpConfig, idle_timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self { endpoint: config.endpoint(idle_timeout)?, session_id: Mutex::default() })
    }

    pub(super) fn kill(&self) {
        self.endpoint.close();
    }
}

/// The beginning of a body, for an error message.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..MAX_EXCERPT_BYTES).unwrap_or(body));
    truncate(text.trim(), MAX_EXCERPT_BYTES).to_owned()
}

const MAX_EXCERPT_BYTES: usize = 300;
/// The size limit of the body of an error response.
pub(super) const MAX_ERROR_BODY_BYTES: usize = 1 << 20;
