//! Clients: calling the tools, resources and prompts of a server.
//!
//! [`Client::connect`] connects over HTTP, [`Client::spawn`] to a child process, and [`Client::in_process`] to a server in
//! the same process. All three return a [`ClientBuilder`] with the settings; awaiting it connects and negotiates the
//! protocol version.
//!
//! ```
//! use serde_json::json;
//! use tsugite::client::Client;
//! use tsugite::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
//! let server = Server::new("greeter", "1.0.0").tool(Tool::new("greet").handler(async || "hello"));
//! let client = Client::in_process(&server).await?; // or Client::connect("https://…"), or Client::spawn(["command", "argument"])
//! let text: String = client.call("greet", json!({})).await?;
//! assert_eq!(text, "hello");
//! # Ok(()) }
//! ```
//!
//! - Calls: [`Client::call`], [`Client::read_resource`], [`Client::get_prompt`], [`Client::list_tools`] and others. A
//!   [`Call`] has options such as a timeout, and is sent when it is awaited.
//! - Answers to the server: closures of the builder such as [`ClientBuilder::on_elicit_form`], or a [`ClientHandler`].
//! - Changes: [`Client::listen`] returns a [`Subscription`].
//! - Errors: [`ClientError`] and its [`ErrorKind`].
//! - Many servers at once: [`Host`]. Files that list servers: [`servers`].
//!
//! The guides [client](crate::guide::client), [host](crate::guide::host) and [testing](crate::guide::testing) explain them
//! with examples.

// - `builder`, `client_settings`: settings. `negotiate`: probes the revision and opens a `connection`.
// - `era`: where the two eras of the protocol behave differently.
// - `repeat`: sends a request, again where that is safe. `call_key`, `key_age`, `keyed_repeats`: calls that run once for
//   each key. `outgoing`, `incoming`: messages to and from the server.
//   `pending_calls`: requests without a response, and their timeouts.
// - `liveness`: periodic pings. `restart_backoff`: when a child process is started again. `listener_restart`: how
//   subscriptions survive a lost connection.
// - `oversized_line`: the request that a line over the size limit responds to.
// - `transport`: how a connection reaches its server: `line_connection` (pipes, this process), `http` and
//   `http_transport`.
// - `requests`, `call`, `paginator`: requests of the client. `client_handler`, `server_requests`: requests of the server.
// - `task_request`: calls that ask for a task. `follow_task`: waits for its end, at the pace of `poll_pace` and with what
//   `task_watch` and `task_progress` receive meanwhile. `task_failures`: when a request about a task is sent again.
// - `subscription`: changes at the server. `cache`, `tool_metadata`: results that are kept.
// - `host`: many servers at once. `servers`: files that list them.

pub(crate) mod answered_keys;
mod builder;
mod cache;
mod call;
mod call_error;
mod call_key;
mod cancel_task;
mod challenge;
mod change_filter;
mod client_error;
mod client_handler;
mod client_settings;
mod client_state;
mod connection;
mod encoded_request;
mod era;
mod follow_task;
pub(crate) mod forwarded_request;
mod forwarded_sender;
pub mod host;
#[cfg(feature = "http")]
mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
mod http;
#[cfg(feature = "http")]
mod http_transport;
#[cfg(not(feature = "http"))]
#[path = "no_http_transport.rs"]
mod http_transport;
mod incoming;
mod key_age;
mod keyed_repeats;
mod line_connection;
mod listener_restart;
mod liveness;
mod negotiate;
mod options;
mod outgoing;
mod output_validation;
mod oversized_line;
mod paginator;
mod pausable_clock;
mod pending_calls;
mod poll_pace;
mod repeat;
pub(crate) mod request_id_observer;
mod requests;
mod required_urls;
mod restart_backoff;
mod sent_flag;
mod server_requests;
pub mod servers;
mod subscription;
mod subscription_queue;
mod task_call;
pub(crate) mod task_failures;
mod task_options;
mod task_progress;
mod task_request;
mod task_watch;
mod tool_digest;
mod tool_metadata;
mod tool_output;
mod transport;
pub(crate) mod upstream_observer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::{InputRequests, InputResponses};
use tsugite_core::protocol::{Implementation, ServerCapabilities, tools};
use tsugite_core::revision::Revision;

pub use crate::transport::child::{Command, Stderr};
pub use builder::ClientBuilder;
pub use cache::Caching;
pub use call::{Call, ClientMethod};
pub use challenge::{AuthScheme, Challenge, ChallengeKind};
pub use change_filter::ChangeFilter;
pub use client_error::{ClientError, ConnectStep, ErrorKind, Result, TimeoutKind};
pub use client_handler::{Change, ClientHandler, FormResponse, HandlerCapabilities, UrlResponse};
pub use client_settings::Direction;
pub use follow_task::FollowTask;
pub use host::{Host, Permissions};
#[cfg(feature = "http")]
pub use http::{AddressFilter, FetchRequest, FetchResponse, Resolver, SystemResolver};
pub use http::{Authorizer, AuthorizerFuture, Credentials, Fetcher, Identity, RequestInfo, ResponseInfo};
pub use paginator::{ListPage, Paginated, Paginator};
pub use subscription::Subscription;
pub(crate) use subscription::SubscriptionSource;
pub use tool_digest::tool_digest;
pub use tsugite_core::session::probe::{ProbeRecord, TransportKind};

use cache::CacheIdentity;
use call::TypedRequest;
use client_handler::ClientHandlers;
use client_state::ClientState;
use connection::ClientConnection;
use era::Era;
use http::HttpConfig;
use line_connection::StreamPair;
use options::Options;
use restart_backoff::{RestartBackoff, RestartLimitError};
use subscription::SubscriptionCounts;
use transport::Transport;

use crate::lock::lock;
use crate::shared::in_process::InProcessServer;
use crate::shared::principal::Principal;

/// A client of one server. Cheap to clone; dropping the last clone ends the connection.
///
/// The next call reconnects after the connection was lost. See [`Client::close`] for a graceful end.
#[derive(Clone)]
#[doc(alias("ClientSession", "session", "Peer", "RunningService"))]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    shared: Arc<ClientState>,
    target: ConnectTarget,
    connection: Mutex<Option<Arc<ClientConnection>>>,
    /// Held while a connection is opened; holds the error of the last attempt.
    connect_lock: Arc<tokio::sync::Mutex<Option<ClientError>>>,
    /// The number of attempts to connect.
    connect_attempts: AtomicU64,
    probe_record: Mutex<Option<ProbeRecord>>,
    /// Resources subscribed to, in the handshake era.
    resource_subscriptions: Mutex<SubscriptionCounts>,
    /// The task that keeps the listen stream of the change handler open, in the stateless era.
    listen_task: Mutex<Option<AbortHandle>>,
    /// The starts of a child process.
    restarts: RestartBackoff,
    closed: AtomicBool,
}

/// The way to reach a server.
#[derive(Clone)]
enum ConnectTarget {
    Child(Box<Command>),
    InProcess(Arc<dyn InProcessServer>, Option<Principal>),
    Streams(StreamPair),
    Http(Box<HttpConfig>),
}

impl Client {
    /// Connects to a server over HTTP: Streamable HTTP, or HTTP+SSE if the server supports nothing else.
    ///
    /// ```no_run
    /// # async fn f() -> tsugite::Result<()> {
    /// use tsugite::client::Client;
    ///
    /// let client = Client::connect("https://example.com/mcp").bearer("token").await?;
    /// println!("{:?} speaks {}", client.server_info(), client.revision());
    /// # Ok(()) }
    /// ```
    #[doc(alias("StreamableHttpClientTransport", "streamablehttp_client"))]
    pub fn connect(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(ConnectTarget::Http(Box::new(HttpConfig::new(url.into()))))
    }

    /// Returns the builder that [`connect`](Self::connect) returns. With [`ClientBuilder::connect`], it reads as
    /// `Client::builder(url).login(login).connect().await`.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        Self::connect(url)
    }

    /// Starts a child process and connects over its standard input and output. Ending the client ends the child and all
    /// processes it started.
    ///
    /// ```no_run
    /// # async fn f() -> tsugite::Result<()> {
    /// use tsugite::client::{Client, Command};
    ///
    /// let client = Client::spawn(Command::new("my-server").arg("--verbose").env("LANG", "C")).await?;
    /// client.close().await;
    /// # Ok(()) }
    /// ```
    #[doc(alias("StdioClientTransport", "stdio_client", "TokioChildProcess"))]
    pub fn spawn(command: impl Into<Command>) -> ClientBuilder {
        ClientBuilder::new(ConnectTarget::Child(Box::new(command.into())))
    }

    /// Connects over a pair of byte streams, one message a line as on stdio: a TCP or Unix socket, a pipe, tokio's
    /// `duplex`.
    ///
    /// The streams connect once: when the server has ended them, every further call fails, and so does a second client of
    /// the same builder. A server that ends the streams instead of answering the probe for its revision needs
    /// [`ClientBuilder::revision`] or [`ClientBuilder::handshake_only`].
    ///
    /// ```no_run
    /// # async fn f() -> tsugite::Result<()> {
    /// use tokio::net::UnixStream;
    /// use tsugite::client::Client;
    ///
    /// let (reader, writer) = UnixStream::connect("/run/clock.sock").await?.into_split();
    /// let client = Client::over(reader, writer).await?;
    /// # Ok(()) }
    /// ```
    #[doc(alias("transport", "duplex", "AsyncRwTransport"))]
    pub fn over<R, W>(reader: R, writer: W) -> ClientBuilder
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        ClientBuilder::new(ConnectTarget::Streams(StreamPair::new(reader, writer)))
    }

    /// The negotiated revision.
    #[doc(alias("protocol_version", "protocolVersion"))]
    pub fn revision(&self) -> Revision {
        self.last_connection().map_or(Revision::NEWEST, |connection| connection.revision())
    }

    /// The name and version of the server, if it reported them.
    pub fn server_info(&self) -> Option<Implementation> {
        self.last_connection()?.negotiated()?.server_info.clone()
    }

    /// The capabilities of the server. `None` if they are unknown: on 2026-07-28 with a pinned revision or a probe
    /// record. Then call [`Client::discover`].
    pub fn server_capabilities(&self) -> Option<ServerCapabilities> {
        self.last_connection()?.negotiated()?.capabilities.clone()
    }

    /// The server's instructions for its use.
    pub fn instructions(&self) -> Option<String> {
        self.last_connection()?.negotiated()?.instructions.clone()
    }

    /// The revision and transport that the probe found. With it the next client needs no probe. It can be stored as
    /// JSON.
    pub fn probe_record(&self) -> Option<ProbeRecord> {
        *lock(&self.inner.probe_record)
    }

    /// The end of a child's standard error output; empty for other servers.
    pub fn stderr(&self) -> String {
        match self.last_connection().as_deref().map(|connection| &connection.transport) {
            Some(Transport::Child(pipe)) => pipe.child.stderr(),
            _ => String::new(),
        }
    }

    /// The process id of the child that was started last, which may have ended.
    pub fn process_id(&self) -> Option<u32> {
        match self.last_connection().as_deref().map(|connection| &connection.transport) {
            Some(Transport::Child(pipe)) => Some(pipe.child.id()),
            _ => None,
        }
    }

    /// Whether there is a connection now. The next call reconnects if it was lost.
    pub fn is_connected(&self) -> bool {
        matches!(self.live_connection(), Ok(Some(_)))
    }

    /// Closes the connection gracefully: ends the session, and gives a child time to finish. Calls in flight fail.
    ///
    /// Every later call fails with [`ErrorKind::Closed`].
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let connection = self.last_connection();
        if let Some(connection) = &connection {
            connection.begin_close();
        }
        if let Some(task) = lock(&self.inner.listen_task).take() {
            task.abort();
        }
        self.inner.shared.close_subscriptions();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Whether [`Client::close`] was called. Set before anything ends, so that code interrupted by closing sees it.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    /// Answers the input requests of a result with the client's handlers, for a caller that runs the rounds itself.
    pub async fn handle_input_requests(&self, requests: InputRequests) -> Result<InputResponses> {
        server_requests::handle_input_requests(self.handlers(), requests).await
    }

    fn handlers(&self) -> &ClientHandlers {
        &self.inner.shared.settings.handlers
    }

    fn last_connection(&self) -> Option<Arc<ClientConnection>> {
        lock(&self.inner.connection).clone()
    }

    fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.inner))
    }

    /// The connection; opened again if it was lost, within the timeout of the call.
    async fn connection_with_timeout(&self, options: &Options) -> Result<Arc<ClientConnection>> {
        if let Some(connection) = self.live_connection()? {
            return Ok(connection);
        }
        let limit = options.timeouts(&self.inner.shared.settings).idle_timeout;
        match self.inner.shared.clock.timeout(limit, self.connection()).await {
            Ok(connection) => connection,
            Err(_) => {
                let error = ClientError::from(ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle });
                Err(error.with_may_have_run(false))
            }
        }
    }

    /// The connection; opened again if it was lost.
    async fn connection(&self) -> Result<Arc<ClientConnection>> {
        if let Some(connection) = self.live_connection()? {
            return Ok(connection);
        }
        let attempts = self.inner.connect_attempts.load(Ordering::Acquire);
        let mut last_failure = self.inner.connect_lock.lock().await;
        // Another task may have opened it meanwhile, or failed to.
        if let Some(connection) = self.live_connection()? {
            return Ok(connection);
        }
        if let (Some(failure), true) =
            (&*last_failure, self.inner.connect_attempts.load(Ordering::Acquire) > attempts)
        {
            return Err(failure.clone());
        }
        // Boxed because it is large and rarely runs.
        let opened = Box::pin(self.open_connection()).await;
        // Nothing runs before the connection is open.
        let opened = opened.map_err(|error| error.with_may_have_run(false));
        *last_failure = opened.as_ref().err().cloned();
        self.inner.connect_attempts.fetch_add(1, Ordering::AcqRel);
        opened
    }

    async fn open_connection(&self) -> Result<Arc<ClientConnection>> {
        // The old connection stays until there is a new one: it knows the server's name and capabilities.
        let old = self.last_connection();
        if let Some(old) = &old {
            old.retire("the connection was lost");
        }
        self.wait_before_start(old.as_deref()).await?;
        let known = self.probe_record();
        let (connection, record) = negotiate::connect(&self.inner.target, &self.inner.shared, known).await?;
        connection.set_start_number(self.inner.restarts.number());
        *lock(&self.inner.probe_record) = record;
        *lock(&self.inner.connection) = Some(Arc::clone(&connection));
        if self.inner.closed.load(Ordering::Acquire) {
            connection.abort("the client is closed");
            return Err(ErrorKind::Closed.into());
        }
        if old.is_some() {
            self.after_reconnect(&connection).await;
        }
        liveness::start(&connection);
        listener_restart::watch(self, &connection);
        let mut task = lock(&self.inner.listen_task);
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = connection.era().listen_for_handler(self, &connection);
        }
        Ok(connection)
    }

    /// Delays the restart of a child that exits again and again, and fails if it does so too often.
    async fn wait_before_start(&self, old: Option<&ClientConnection>) -> Result<()> {
        if !matches!(self.inner.target, ConnectTarget::Child(_)) {
            return Ok(());
        }
        match self.inner.restarts.before_start(Instant::now()) {
            Ok(delay) => {
                // Even a sleep of no time would let other tasks run first.
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                Ok(())
            }
            Err(RestartLimitError { starts, wait }) => {
                let reason = old.and_then(ClientConnection::disconnect_reason).unwrap_or("the server ended");
                let text = format!(
                    "{reason}; it was started {starts} times without an answer to a call, and is not started again for {} s",
                    wait.as_secs() + 1
                );
                Err(ClientError::connect(ConnectStep::Spawn, text))
            }
        }
    }

    fn live_connection(&self) -> Result<Option<Arc<ClientConnection>>> {
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(ErrorKind::Closed.into());
        }
        Ok(self.last_connection().filter(|connection| connection.disconnect_reason().is_none()))
    }

    /// Reports that everything may have changed, and subscribes again where the server has forgotten.
    async fn after_reconnect(&self, connection: &Arc<ClientConnection>) {
        self.inner.shared.notify_change(Change::All, None, connection.era().pushes_changes());
        if let Some(observer) = &self.inner.shared.settings.observer {
            observer.on_reconnect();
        }
        connection.era().restore_subscriptions(self, connection).await;
    }

    /// Sends a request and reads its result, or takes the result from the cache.
    async fn send_request<M: ClientMethod>(
        &self,
        params: &M::Params,
        options: &Options,
    ) -> Result<M::Output> {
        let shared = &self.inner.shared;
        // A header of one call may identify the caller, so its result must not be cached for others.
        let cache_subject = M::cache_subject(params).filter(|_| options.headers.is_empty());
        self.live_connection()?;
        let caches = cache_subject.is_some() && options.caching != Caching::Bypass;
        let identity = if caches { self.select_cache_identity().await } else { None };
        // Without an identity, the cache is not used.
        let cache_subject = cache_subject.filter(|_| identity.is_some());
        if let (Some(subject), Caching::Use) = (cache_subject, options.caching)
            && self.last_connection().is_some_and(|connection| connection.era().caches_results())
            && let Some(result) = shared.cache.get(M::NAME, subject)
        {
            options.count_result(result.text().len());
            return self.decode_result::<M>(&result, Revision::NEWEST);
        }
        let generation = shared.cache.generation();
        let (result, revision) = self.send_with_retry(&TypedRequest::<M>::new(params), options).await?;
        options.count_result(result.text().len());
        if let (Some(subject), Caching::Use | Caching::Refresh) = (cache_subject, options.caching)
            && Era::from(revision).caches_results()
            // The identity may have changed while the request was on its way.
            && self.select_cache_identity().await == identity
        {
            shared.cache.insert(M::NAME, subject, &result, generation);
        }
        self.decode_result::<M>(&result, revision)
    }

    /// The identity that the client acts for now. The cache drops the private results of any other. `None` if there are
    /// no credentials to identify it.
    async fn select_cache_identity(&self) -> Option<CacheIdentity> {
        let shared = &self.inner.shared;
        let authorized = match &self.inner.target {
            ConnectTarget::Http(config) => {
                config.authorizer.as_ref().map(|authorizer| (authorizer, &config.url))
            }
            _ => None,
        };
        let Some((authorizer, server)) = authorized else { return Some(CacheIdentity::Fixed) };
        let identity = match authorizer.identity(server) {
            Some(Identity { subject, scopes }) => CacheIdentity::Named { subject, scopes },
            None => {
                let request = RequestInfo::new(server, "POST", server);
                let credentials = authorizer.authorize(request).await.ok()?;
                shared.cache.identity_of_credentials(credentials.get("authorization"))
            }
        };
        if shared.cache.set_identity(&identity) {
            shared.tools.invalidate();
        }
        Some(identity)
    }

    fn decode_result<M: ClientMethod>(&self, result: &RawJson, revision: Revision) -> Result<M::Output> {
        let mut output = call::decode_result::<M>(result, revision)?;
        if let Some(tools) = M::listed_tools(&mut output) {
            self.record_tools(tools, revision);
        }
        Ok(output)
    }

    /// Records the tools of a list. A tool whose header marks are invalid cannot be called over HTTP and is removed.
    fn record_tools(&self, tools: &mut Vec<tools::Tool>, revision: Revision) {
        let over_http = matches!(self.inner.target, ConnectTarget::Http(_));
        self.inner.shared.tools.update(tools, over_http && Era::from(revision).mirrors_headers());
    }

    /// Whether the server is in the same process.
    fn is_in_process(&self) -> bool {
        matches!(self.inner.target, ConnectTarget::InProcess(..))
    }

    async fn refresh_tools(&self) -> Result<()> {
        let changes = self.inner.shared.tools.change_count();
        self.list_tools().caching(Caching::Refresh).await?;
        self.inner.shared.tools.mark_complete(changes);
        Ok(())
    }

    /// Reads the list of tools unless it contains this one and has not changed since.
    async fn ensure_tool_listed(&self, name: &str) -> Result<()> {
        match self.inner.shared.tools.is_current(name) {
            true => Ok(()),
            false => Box::pin(self.refresh_tools()).await,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.listen_task).take() {
            task.abort();
        }
        self.shared.close_subscriptions();
        let Some(connection) = lock(&self.connection).take() else { return };
        match (&connection.transport, tokio::runtime::Handle::try_current()) {
            // Over HTTP there is a session to end.
            (Transport::StreamableHttp(_), Ok(runtime)) => {
                runtime.spawn(async move { connection.close().await });
            }
            _ => connection.abort("the client was dropped"),
        }
    }
}

/// A reference that does not keep the client alive.
struct WeakClient(Weak<ClientInner>);

impl WeakClient {
    fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(|inner| Client { inner })
    }
}
