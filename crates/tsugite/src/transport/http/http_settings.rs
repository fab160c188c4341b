//! Settings of the HTTP transport.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::descriptor_limit;
use super::public_url::PublicUrl;
use super::web_origin::WebOrigin;
use crate::server::limits::LimitSettings;
use crate::shared::ip_network::IpNetwork;
use crate::shared::settings_slot::SettingsSlot;

/// Settings of the HTTP transport, for [`Server::http`](crate::Server::http). The defaults are safe on a developer's
/// machine: only loopback hosts and origins are allowed.
///
/// ```
/// use tsugite::prelude::*;
/// use tsugite::transport::http::Http;
///
/// let server = Server::new("shop", "1.0.0")
///     .http(Http::new().allow_host("shop.example").allow_origin("https://shop.example"));
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Http {
    pub(super) path: String,
    pub(super) health_path: Option<String>,
    pub(super) page: Option<Page>,
    pub(super) page_policy: HeaderValue,
    /// Services beside the endpoint.
    pub(super) side_services: SettingsSlot,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allow_any_host: bool,
    pub(super) allowed_origins: Vec<WebOrigin>,
    pub(super) allow_any_origin: bool,
    pub(super) cors: bool,
    pub(super) sessions: bool,
    pub(super) allow_delete: bool,
    pub(super) http_sse_paths: Option<HttpSsePaths>,
    pub(super) session_idle_timeout: Duration,
    pub(super) max_sessions: usize,
    pub(super) max_sessions_per_caller: Option<usize>,
    pub(super) max_streams: usize,
    pub(super) max_concurrent_handlers: usize,
    pub(super) max_pending_requests: usize,
    pub(super) max_detached_requests: usize,
    pub(super) max_held_bytes: usize,
    pub(super) caller_share_percent: usize,
    pub(super) trusted_proxies: Vec<IpNetwork>,
    pub(super) max_log_events: usize,
    pub(super) max_log_bytes: usize,
    pub(super) log_ttl: Duration,
    pub(super) max_logs_per_session: usize,
    pub(super) retry_interval: Duration,
    pub(super) keep_alive_interval: Duration,
    pub(super) header_read_timeout: Duration,
    pub(super) body_read_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) max_connections: usize,
    pub(super) tls: Option<(PathBuf, PathBuf)>,
    pub(super) tls_client_ca: Option<PathBuf>,
    pub(super) public_url: Option<PublicUrl>,
    pub(super) config_errors: Vec<String>,
}

/// The two paths of the HTTP+SSE transport, for [`Http::http_sse_at`]; `/sse` and `/messages` by default.
///
/// ```
/// use tsugite::transport::http::{Http, HttpSsePaths};
///
/// let paths = HttpSsePaths { stream: "/events".to_owned(), ..HttpSsePaths::default() };
/// let http = Http::new().http_sse_at(paths);
/// # let _ = http;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSsePaths {
    /// The path where clients open the event stream.
    pub stream: String,
    /// The path where clients post messages. It is sent to clients unchanged.
    pub messages: String,
}

impl Default for HttpSsePaths {
    fn default() -> Self {
        Self { stream: "/sse".to_owned(), messages: "/messages".to_owned() }
    }
}

/// A page for browsers.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) path: String,
    pub(super) render: Arc<RenderPage>,
}

type RenderPage = dyn Fn(&PageRequest<'_>) -> String + Send + Sync;

/// A request for the [page](Http::page).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PageRequest<'a> {
    /// The host and port that the request names.
    pub host: &'a str,
    /// The query of its URL; empty without one.
    pub query: &'a str,
}

impl<'a> PageRequest<'a> {
    pub(super) fn new(host: &'a str, query: &'a str) -> Self {
        Self { host, query }
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Page").field(&self.path).finish()
    }
}

impl Http {
    /// The limit on connections, lowered so that the process keeps file descriptors for other things.
    pub(super) fn effective_max_connections(&self) -> usize {
        let spare =
            descriptor_limit::max_open_files().map(|files| files - (files / 8).clamp(16, 256).min(files));
        spare.map_or(self.max_connections, |spare| self.max_connections.min(spare.max(1)))
    }

    pub(super) fn limits(&self) -> LimitSettings {
        LimitSettings {
            handlers: self.max_concurrent_handlers,
            pending: self.max_pending_requests,
            sessions: self.max_sessions,
            streams: self.max_streams,
            detached: self.max_detached_requests,
            connections: self.effective_max_connections(),
            bytes: self.max_held_bytes,
            caller_percent: self.caller_share_percent,
            sessions_per_caller: self.max_sessions_per_caller,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl Http {
    /// Creates the default settings.
    pub fn new() -> Self {
        Self {
            path: "/mcp".to_owned(),
            health_path: Some("/health".to_owned()),
            page: None,
            page_policy: HeaderValue::from_static(NO_FRAMES),
            side_services: SettingsSlot::default(),
            allowed_hosts: Vec::new(),
            allow_any_host: false,
            allowed_origins: Vec::new(),
            allow_any_origin: false,
            cors: false,
            sessions: true,
            allow_delete: true,
            http_sse_paths: None,
            session_idle_timeout: Duration::from_secs(30 * 60),
            max_sessions: 100_000,
            max_sessions_per_caller: None,
            max_streams: 20_000,
            max_concurrent_handlers: 4_096,
            max_pending_requests: 16_384,
            max_detached_requests: 1_024,
            max_held_bytes: 256 << 20,
            caller_share_percent: 50,
            trusted_proxies: Vec::new(),
            max_log_events: 1_000,
            max_log_bytes: 1 << 20,
            log_ttl: Duration::from_secs(5 * 60),
            max_logs_per_session: 64,
            retry_interval: Duration::from_secs(1),
            keep_alive_interval: Duration::from_secs(15),
            header_read_timeout: Duration::from_secs(30),
            body_read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_connections: 20_000,
            tls: None,
            tls_client_ca: None,
            public_url: None,
            config_errors: Vec::new(),
        }
    }

    /// Sets the path of the endpoint, for a server that listens itself; `/mcp` unless set.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        if !self.path.starts_with('/') {
            self.config_errors
                .push(format!("the path {:?} of the endpoint does not begin with `/`", self.path));
        }
        self
    }

    /// Sets the path of the health check, for a server that listens itself; `/health` unless set. `GET` returns 200 there
    /// while the server is up. `None` turns it off.
    #[must_use]
    pub fn health_path(mut self, path: Option<&str>) -> Self {
        self.health_path = path.map(str::to_owned);
        self
    }

    /// Serves an HTML page at `path` for users who open the server in a browser, for a server that listens itself.
    ///
    /// `render` gets the host of the request, such as `127.0.0.1:3000`, and its query; escape the host if any is allowed.
    /// There is no page unless set.
    ///
    /// ```
    /// use tsugite::transport::http::Http;
    ///
    /// let http = Http::new().page("/", |request| format!("<!doctype html><p>Connect to http://{}/mcp", request.host));
    /// # let _ = http;
    /// ```
    #[must_use]
    pub fn page(
        mut self,
        path: impl Into<String>,
        render: impl Fn(&PageRequest<'_>) -> String + Send + Sync + 'static,
    ) -> Self {
        self.page = Some(Page { path: path.into(), render: Arc::new(render) });
        self
    }

    /// Sets the `Content-Security-Policy` of the [page](Self::page). `frame-ancestors 'none'` is always added: other pages
    /// cannot show the page in a frame.
    ///
    /// ```
    /// use tsugite::transport::http::Http;
    ///
    /// let http = Http::new().page("/", |_| "<!doctype html><p>Hello".to_owned()).page_policy("default-src 'none'");
    /// # let _ = http;
    /// ```
    #[must_use]
    pub fn page_policy(mut self, policy: &str) -> Self {
        match HeaderValue::try_from(format!("{policy}; {NO_FRAMES}")) {
            Ok(policy) => self.page_policy = policy,
            Err(_) => self.config_errors.push("`page_policy` is not a valid header value".to_owned()),
        }
        self
    }

    /// Allows requests whose `Host` header is this host, with any port. `localhost`, `127.0.0.1` and `[::1]` are always
    /// allowed. The check protects against DNS rebinding: a web page that reaches the server by its own host name.
    #[must_use]
    #[doc(alias("allowed_hosts", "dns_rebinding"))]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.allowed_hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Allows every `Host` header, for a server behind a proxy that checks it.
    #[must_use]
    pub fn allow_any_host(mut self) -> Self {
        self.allow_any_host = true;
        self
    }

    /// Allows requests from web pages of this origin, such as `https://app.example`. Loopback origins are always allowed.
    #[must_use]
    #[doc(alias = "allowed_origins")]
    pub fn allow_origin(mut self, origin: impl AsRef<str>) -> Self {
        match WebOrigin::parse(origin.as_ref()) {
            Some(origin) => self.allowed_origins.push(origin),
            None => self.config_errors.push(format!(
                "{:?} is no origin: write `https://app.example`, with a port if it is not the usual one",
                origin.as_ref()
            )),
        }
        self
    }

    /// Allows requests from web pages of every origin, for a server that checks a token on each request.
    #[must_use]
    pub fn allow_any_origin(mut self) -> Self {
        self.allow_any_origin = true;
        self
    }

    /// Sets whether the server sends CORS headers and answers preflight requests for allowed origins; off unless set.
    #[must_use]
    pub fn cors(mut self, enabled: bool) -> Self {
        self.cors = enabled;
        self
    }

    /// Sets whether clients up to 2025-11-25 get sessions; on unless set. Without sessions each of their requests is
    /// independent: handlers cannot ask the client, and there are no subscriptions and no resumable streams.
    #[must_use]
    #[doc(alias("session", "stateless_http", "Mcp-Session-Id", "stateful_mode"))]
    pub fn sessions(mut self, enabled: bool) -> Self {
        self.sessions = enabled;
        self
    }

    /// Sets whether clients may end their session with `DELETE`; on unless set.
    #[must_use]
    pub fn allow_delete(mut self, allowed: bool) -> Self {
        self.allow_delete = allowed;
        self
    }

    /// Serves the HTTP+SSE transport of 2024-11-05 as well, at `/sse` and `/messages`.
    #[must_use]
    #[doc(alias("SseServer", "SSEServerTransport"))]
    pub fn http_sse(self) -> Self {
        self.http_sse_at(HttpSsePaths::default())
    }

    /// Serves the HTTP+SSE transport of 2024-11-05 as well, at these paths.
    #[must_use]
    pub fn http_sse_at(mut self, paths: HttpSsePaths) -> Self {
        self.http_sse_paths = Some(paths);
        self
    }

    /// Sets how long an unused session is kept; 30 minutes unless set. A session with a running call or an open stream is in
    /// use.
    #[must_use]
    #[doc(alias("session", "session_ttl"))]
    pub fn session_idle_timeout(mut self, timeout: Duration) -> Self {
        self.session_idle_timeout = timeout;
        self
    }

    /// Limits the sessions of all callers together; 100,000 unless set. A request for another one gets 503;
    /// no existing session is ended.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Limits the sessions of one caller; its share of [`Http::max_sessions`] unless set. A request for another one gets 429.
    #[must_use]
    pub fn max_sessions_per_caller(mut self, sessions: usize) -> Self {
        self.max_sessions_per_caller = Some(sessions);
        self
    }

    /// Limits the open `subscriptions/listen` and `GET` streams; 20,000 unless set.
    #[must_use]
    pub fn max_streams(mut self, streams: usize) -> Self {
        self.max_streams = streams;
        self
    }

    /// Limits the handlers that run at once, of all clients together; 4,096 unless set. Further calls wait.
    #[must_use]
    pub fn max_concurrent_handlers(mut self, handlers: usize) -> Self {
        self.max_concurrent_handlers = handlers.clamp(1, 1 << 29);
        self
    }

    /// Sets how many requests of all clients may be pending: running, waiting to run, or waiting for an answer of the user.
    /// Default: 16,384. A further request gets 503 before its handler starts.
    #[must_use]
    pub fn max_pending_requests(mut self, requests: usize) -> Self {
        self.max_pending_requests = requests.max(1);
        self
    }

    /// Sets how many requests may continue after their client has disconnected, as they do up to 2025-11-25. Default: 1,024. A
    /// further one is cancelled.
    #[must_use]
    pub fn max_detached_requests(mut self, requests: usize) -> Self {
        self.max_detached_requests = requests;
        self
    }

    /// Sets how many bytes all clients together may make the server hold: bodies that are being received, pending requests,
    /// session records and subscriptions. Default: 256 MiB. What exceeds them gets 503.
    #[must_use]
    pub fn max_held_bytes(mut self, bytes: usize) -> Self {
        self.max_held_bytes = bytes;
        self
    }

    /// Sets how much of each limit one caller may use, in percent. Default: 50. A request beyond that gets 429.
    ///
    /// A caller is an authenticated [`Principal`](crate::server::Principal), else a network address (for IPv6 its /64). 100
    /// lets one caller use everything.
    #[must_use]
    #[doc(alias("rate_limit", "fairness"))]
    pub fn caller_share_percent(mut self, percent: u8) -> Self {
        self.caller_share_percent = usize::from(percent.clamp(1, 100));
        self
    }

    /// Trusts a proxy, by its address or network (`10.0.0.0/8`), to forward the address of its client in `X-Forwarded-For` or
    /// `Forwarded`. Without one these headers are ignored, and all clients of a proxy are one caller.
    #[must_use]
    #[doc(alias("X-Forwarded-For", "trusted_proxies"))]
    pub fn trust_proxy(mut self, network: impl AsRef<str>) -> Self {
        match IpNetwork::parse(network.as_ref()) {
            Some(network) => self.trusted_proxies.push(network),
            None => self.config_errors.push(format!(
                "{:?} is no address of a proxy: write `10.0.0.1`, or a network such as `10.0.0.0/8`",
                network.as_ref()
            )),
        }
        self
    }

    /// Limits the events kept of one stream, for clients that resume it; 1,000 unless set. The oldest are dropped first.
    #[must_use]
    pub fn max_log_events(mut self, events: usize) -> Self {
        self.max_log_events = events;
        self
    }

    /// Limits the bytes of events kept of one stream; 1 MiB unless set. The oldest events are dropped first.
    #[must_use]
    pub fn max_log_bytes(mut self, bytes: usize) -> Self {
        self.max_log_bytes = bytes;
        self
    }

    /// Sets how long the events of a stream are kept after its end; 5 minutes unless set.
    #[must_use]
    pub fn log_ttl(mut self, ttl: Duration) -> Self {
        self.log_ttl = ttl;
        self
    }

    /// Limits the finished streams whose events a session keeps; 64 unless set. The oldest is dropped first.
    #[must_use]
    pub fn max_logs_per_session(mut self, streams: usize) -> Self {
        self.max_logs_per_session = streams;
        self
    }

    /// Sets how long clients should wait before they reconnect to a stream that ended early; 1 second unless set.
    #[must_use]
    pub fn retry_interval(mut self, interval: Duration) -> Self {
        self.retry_interval = interval;
        self
    }

    /// Sets the interval of keep-alive comments on idle streams; 15 seconds unless set.
    #[must_use]
    pub fn keep_alive_interval(mut self, interval: Duration) -> Self {
        self.keep_alive_interval = interval;
        self
    }

    /// Limits how long the head of a request may take to arrive, for a server that listens itself; 30 seconds unless set.
    ///
    /// The time starts with the connection, or with the end of the previous response, so it also limits how long a
    /// connection may be idle. A connection of HTTP/2 may be idle for longer once it has sent a request.
    #[must_use]
    pub fn header_read_timeout(mut self, timeout: Duration) -> Self {
        self.header_read_timeout = timeout;
        self
    }

    /// Limits how long the body of a request may take to arrive; 30 seconds unless set. A slower request gets 408.
    #[must_use]
    pub fn body_read_timeout(mut self, timeout: Duration) -> Self {
        self.body_read_timeout = timeout;
        self
    }

    /// Limits how long a write may wait for a peer that does not read, for a server that listens itself; 30 seconds unless
    /// set. The connection is closed then.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Serves over TLS with a certificate chain and a private key from PEM files, for a server that listens itself. Needs
    /// the cargo feature `tls`.
    #[must_use]
    pub fn tls(mut self, certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls = Some((certificates.into(), key.into()));
        self
    }

    /// Accepts only TLS clients with a certificate that one of the authorities in this PEM file has issued. Needs
    /// [`Http::tls`].
    #[must_use]
    #[doc(alias("mtls", "client_certificate"))]
    pub fn tls_client_ca(mut self, certificates: impl Into<PathBuf>) -> Self {
        self.tls_client_ca = Some(certificates.into());
        self
    }

    /// Sets the URL of the endpoint as clients know it, such as `https://notes.example/mcp`. Access tokens name it as their
    /// audience, and requests to its host are allowed.
    ///
    /// A server that an OAuth authorization server protects needs it, unless it listens on a loopback address itself: the
    /// `Host` header of a request proves nothing.
    #[must_use]
    #[doc(alias("resource", "resource_url", "audience", "resource_server_url"))]
    pub fn public_url(mut self, url: impl AsRef<str>) -> Self {
        match PublicUrl::parse(url.as_ref()) {
            Some(url) => {
                self.allowed_hosts.extend(url.host());
                self.public_url = Some(url);
            }
            None => self.config_errors.push(format!(
                "{:?} is no URL of an endpoint: write `https://notes.example/mcp`, without query and fragment",
                url.as_ref()
            )),
        }
        self
    }

    /// Limits the open connections, for a server that listens itself; 20,000 unless set. Further connections wait to be
    /// accepted.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }
}

/// Forbids other pages to show a page in a frame.
const NO_FRAMES: &str = "frame-ancestors 'none'";
