//! [`Fetcher`]: single HTTP requests to any address, for documents and endpoints beside a server.
//!
//! Each request opens its own connection: such requests are rare. Redirects are returned, not followed.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue};
use http::{Method, Request};

use super::address::Address;
use super::connector::{Connector, NewConnection, Route};
use super::proxy::ProxySetting;
use super::resolver::{AddressFilter, Resolver, SystemResolver};
use super::response_body::read_limited;
use super::tls::Tls;
use crate::client::client_error::{ClientError, ConnectStep, ErrorKind, Result};

/// A client for single HTTP requests, with the proxy and the certificates of a [`Client`](crate::Client).
///
/// ```no_run
/// # async fn f() -> tsugite::Result<()> {
/// use tsugite::client::{FetchRequest, Fetcher};
///
/// let response = Fetcher::new().fetch(FetchRequest::get("https://example.com/")).await?;
/// println!("{} {}", response.status, response.body.len());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Fetcher {
    resolver: Arc<dyn Resolver>,
    filter: Option<Arc<dyn AddressFilter>>,
    proxy: ProxySetting,
    root_certificates: Vec<PathBuf>,
    tls: Arc<OnceLock<Tls>>,
    connect_timeout: Duration,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            filter: None,
            proxy: ProxySetting::None,
            root_certificates: Vec::new(),
            tls: Arc::default(),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl Fetcher {
    /// Uses no proxy, the certificates of this machine, and its resolver.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses the settings of a client.
    pub(super) fn with_settings(
        proxy: ProxySetting,
        root_certificates: Vec<PathBuf>,
        tls: Arc<OnceLock<Tls>>,
        connect_timeout: Duration,
    ) -> Self {
        Self { proxy, root_certificates, tls, connect_timeout, ..Self::default() }
    }

    /// Sets how host names are resolved.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Sets which addresses may be connected to. The address that was checked is the one that is connected to.
    pub fn filter(mut self, filter: impl AddressFilter) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Connects through an HTTP proxy, `http://[user:password@]host:port`, except to the loopback interface.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = ProxySetting::Url(url.into());
        self
    }

    /// Connects through the HTTP proxy of the environment: `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.
    pub fn proxy_from_env(mut self) -> Self {
        self.proxy = ProxySetting::Environment;
        self
    }

    /// Trusts the certificates of a PEM file, in addition to the certificates this machine trusts.
    pub fn add_root_certificate(mut self, file: impl Into<PathBuf>) -> Self {
        self.root_certificates.push(file.into());
        self.tls = Arc::default();
        self
    }

    /// Sets the timeout of each step of a connection (DNS, TCP, TLS); 10 seconds by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sends a request and reads the whole response.
    pub async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse> {
        let limit = request.timeout;
        match tokio::time::timeout(limit, self.fetch_unlimited(request)).await {
            Ok(response) => response,
            Err(_) => {
                let reason = format!("no complete response within {} s", limit.as_secs_f64());
                Err(ClientError::connect(ConnectStep::Http, reason))
            }
        }
    }

    async fn fetch_unlimited(&self, request: FetchRequest) -> Result<FetchResponse> {
        let address = Address::parse(&request.url)?;
        let mut http_request = Request::new(request.body.into());
        *http_request.method_mut() = request.method;
        *http_request.uri_mut() =
            address.path.parse().map_err(|_| ClientError::config("the path of the URL is invalid"))?;
        let headers = http_request.headers_mut();
        let host = HeaderValue::try_from(address.origin.authority());
        headers.insert(HOST, host.map_err(|_| ClientError::config("the host of the URL is invalid"))?);
        for (name, value) in request.headers {
            let parsed = HeaderName::try_from(&name).ok().zip(HeaderValue::try_from(value).ok());
            let (name, mut value) =
                parsed.ok_or_else(|| ClientError::config(format!("the header {name:?} cannot be sent")))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let connector = self.connector(address)?;
        let NewConnection { mut sender, task, remote_address } = connector.connect().await?;
        connector.prepare(&mut http_request);
        let lost = |error: hyper::Error| ClientError::connect(ConnectStep::Http, error);
        let (head, mut body) = sender.send_request(http_request).await.map_err(lost)?.into_parts();
        let body = read_limited(&mut body, request.max_bytes).await;
        task.abort();
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        Ok(FetchResponse {
            status: head.status.as_u16(),
            headers: head.headers.iter().filter_map(text).collect(),
            remote_address,
            body: body.map_err(lost)?.ok_or_else(|| {
                ErrorKind::TooLarge(format!("the response is larger than {} bytes", request.max_bytes))
            })?,
        })
    }

    fn connector(&self, address: Address) -> Result<Connector> {
        let tls = match address.origin.secure {
            true => Some(shared_tls(&self.tls, &self.root_certificates)?),
            false => None,
        };
        let route = match &address.origin.unix_socket {
            Some(_) => return Err(ClientError::config("a Unix socket cannot be fetched")),
            None => self.proxy.proxy_for(&address.origin)?.map_or(Route::Direct, Route::Proxy),
        };
        Ok(Connector {
            origin: address.origin,
            route,
            tls,
            timeout: self.connect_timeout,
            resolver: Arc::clone(&self.resolver),
            filter: self.filter.clone(),
        })
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").finish_non_exhaustive()
    }
}

/// The TLS settings, created on first use, because reading the trusted certificates of this machine is slow.
pub(super) fn shared_tls(shared: &OnceLock<Tls>, root_certificates: &[PathBuf]) -> Result<Tls> {
    match shared.get() {
        Some(tls) => Ok(tls.clone()),
        None => {
            let tls = Tls::new(root_certificates).map_err(|error| ClientError::config(error.to_string()))?;
            Ok(shared.get_or_init(|| tls).clone())
        }
    }
}

/// A request of a [`Fetcher`].
pub struct FetchRequest {
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    max_bytes: usize,
    timeout: Duration,
}

impl FetchRequest {
    /// A GET request.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            url: url.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            max_bytes: 1 << 20,
            timeout: Duration::from_secs(30),
        }
    }

    /// A POST request with a body.
    pub fn post(url: impl Into<String>, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = Bytes::from(body.into());
        Self { method: Method::POST, body, ..Self::get(url) }.header("content-type", content_type)
    }

    /// Adds a header. Its value appears in no log and no error.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the size limit of the response body; 1 MiB by default.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how long the whole request may take; 30 seconds by default.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

/// A response that a [`Fetcher`] has read.
#[non_exhaustive]
pub struct FetchResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The address of the server, unless a proxy is between.
    pub remote_address: Option<IpAddr>,
}

impl FetchResponse {
    /// The first header with this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
