//! HTTP requests to a server: the settings and the state of the two transports, [`StreamableHttp`] and [`HttpSse`], the
//! transport of 2024-11-05. The messages in requests and responses are read in `http_transport`.
//!
//! - `address`, `connector`, `proxy`, `unix_socket`, `tls`, `pool`: the URL of a server, and connections to it that are
//!   reused.
//! - `http_endpoint`: one request and the head of its response, with redirects and busy servers. `authorizer`,
//!   `authorization`: its credentials.
//! - `fetcher`, `resolver`: single requests to other addresses.
//! - `http_sse`: how HTTP+SSE sends messages.

mod address;
mod authorization;
mod authorizer;
mod connector;
mod fetcher;
mod full_body;
mod http_endpoint;
mod http_sse;
mod pool;
mod proxy;
mod resolver;
mod response_body;
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

pub use authorizer::{Authorizer, AuthorizerFuture, Credentials, Identity, RequestInfo, ResponseInfo};
pub use fetcher::{FetchRequest, FetchResponse, Fetcher};
pub(super) use http_endpoint::{
    HttpEndpoint, Repeat, ResponseReader, message_headers, stream_headers, user_header,
};
pub(super) use http_sse::HttpSse;
pub(super) use pool::{CallInfo, RequestKind};
pub(super) use proxy::ProxySetting;
pub use resolver::{AddressFilter, Resolver, SystemResolver};
pub(super) use tls::Tls;

use super::client_error::{ClientError, truncate};
use super::pausable_clock::PausableClock;
use address::Address;
use authorization::Authorization;
use connector::{Connector, Route};
use fetcher::shared_tls;
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

    /// Announces the server to the authorizer.
    pub(super) fn attach_authorizer(&self) -> Result<(), ClientError> {
        let Some(authorizer) = &self.authorizer else { return Ok(()) };
        Address::parse(&self.url)?;
        let (tls, certificates) = (Arc::clone(&self.tls), self.root_certificates.clone());
        let fetcher = Fetcher::with_settings(self.proxy.clone(), certificates, tls, self.connect_timeout);
        authorizer.attach(&self.url, &fetcher);
        Ok(())
    }

    /// The endpoint at the URL.
    pub(super) fn endpoint(
        &self,
        idle_timeout: Duration,
        clock: Arc<PausableClock>,
    ) -> Result<HttpEndpoint, ClientError> {
        let address = Address::parse(&self.url)?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tsugite/", env!("CARGO_PKG_VERSION"))));
        for (name, value) in &self.headers {
            let (name, value) = user_header(name, value)?;
            headers.insert(name, value);
        }
        let tls = match address.origin.secure {
            true => Some(shared_tls(&self.tls, &self.root_certificates)?),
            false => None,
        };
        let route = match &address.origin.unix_socket {
            Some(path) => Route::Unix(path.clone()),
            None => self.proxy.proxy_for(&address.origin)?.map_or(Route::Direct, Route::Proxy),
        };
        let connector = Connector {
            origin: address.origin.clone(),
            route,
            tls,
            timeout: self.connect_timeout,
            resolver: Arc::new(SystemResolver),
            filter: None,
        };
        let pool = ConnectionPool::new(connector, self.max_connections);
        let authorizer = self.authorizer.clone();
        let authorization = authorizer.map(|authorizer| Authorization::new(authorizer, &self.url, clock));
        HttpEndpoint::new(address, pool, headers, authorization, idle_timeout)
    }
}

/// A Streamable HTTP connection to one server.
pub(super) struct StreamableHttp {
    pub(super) endpoint: HttpEndpoint,
    /// The session id from the response to `initialize`, up to 2025-11-25.
    pub(super) session_id: Mutex<Option<HeaderValue>>,
    /// The user or application that the session belongs to.
    pub(super) session_subject: Mutex<Option<String>>,
}

impl StreamableHttp {
    pub(super) fn new(
        config: &HttpConfig,
        idle_timeout: Duration,
        clock: Arc<PausableClock>,
    ) -> Result<Self, ClientError> {
        let endpoint = config.endpoint(idle_timeout, clock)?;
        Ok(Self { endpoint, session_id: Mutex::default(), session_subject: Mutex::default() })
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
