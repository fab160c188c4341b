//! Connects to servers: [`Client::connect`] over HTTP, [`Client::spawn`] to a child process, and
//! [`Client::in_process`]. All three return the same client, which negotiates the revision.
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
//! - `builder`, `client_settings`: settings. `negotiate`: probes the revision and opens a `connection`.
//! - `era`: where the two eras of the protocol behave differently.
//! - `transport` and `http`: send and receive messages. `pending_calls`: requests without a response, and their timeouts.
//! - `requests`, `call`, `paginator`: requests of the client. `client_handler`, `server_requests`: requests of the server.
//! - `subscription`: changes at the server. `cache`, `tool_metadata`: results that are kept.
//! - `host`: many servers at once. `servers`: files that list them.

mod builder;
mod cache;
mod call;
mod call_error;
mod client_error;
mod client_handler;
mod client_settings;
mod client_state;
mod connection;
mod era;
pub(crate) mod forwarded_request;
pub mod host;
#[cfg(feature = "http")]
mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
mod http;
mod incoming;
mod negotiate;
mod options;
mod output_validation;
mod paginator;
mod pending_calls;
mod requests;
mod server_requests;
pub mod servers;
mod subscription;
mod tool_metadata;
mod transport;
pub(crate) mod upstream_observer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::{InputRequests, InputResponses};
use tsugite_core::protocol::{Implementation, Method, ServerCapabilities, tasks, tools};
use tsugite_core::revision::{Revision, RpcError};

pub use crate::transport::child::{Command, Stderr};
pub use builder::ClientBuilder;
pub use cache::Caching;
pub use call::{Call, ClientMethod};
pub use client_error::{Challenge, ClientError, ConnectStep, ErrorKind, Result, TimeoutKind};
pub use client_handler::{Change, ClientHandler, FormResponse, HandlerCapabilities, UrlResponse};
pub use client_settings::Direction;
pub use host::{Host, Permissions};
pub use http::Authorizer;
pub use paginator::{ListPage, Paginated, Paginator};
pub use subscription::{ChangeFilter, Subscription};
pub use tsugite_core::session::probe::{ProbeRecord, TransportKind};

use call::TypedRequest;
use call_error::CallError;
use client_handler::ClientHandlers;
use client_state::ClientState;
use connection::{ClientConnection, OutboundRequest};
use era::{Attempts, Era, Recovery};
use http::HttpConfig;
use options::Options;
use subscription::SubscriptionCounts;
use transport::Transport;

use crate::lock::lock;
use crate::shared::in_process::InProcessServer;
use crate::shared::principal::Principal;

/// A client of one server. Cheap to clone; dropping the last clone ends the connection.
///
/// The next call reconnects after the connection was lost. See [`Client::close`] for a graceful end.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    shared: Arc<ClientState>,
    target: ConnectTarget,
    connection: Mutex<Option<Arc<ClientConnection>>>,
    /// Held while a connection is opened; holds the error of the last attempt.
    connect_lock: tokio::sync::Mutex<Option<ClientError>>,
    /// The number of attempts to connect.
    connect_attempts: AtomicU64,
    probe_record: Mutex<Option<ProbeRecord>>,
    /// Resources subscribed to, in the handshake era.
    resource_subscriptions: Mutex<SubscriptionCounts>,
    /// The task that keeps the listen stream of the change handler open, in the stateless era.
    listen_task: Mutex<Option<AbortHandle>>,
    closed: AtomicBool,
}

/// The way to reach a server.
#[derive(Clone)]
enum ConnectTarget {
    Child(Box<Command>),
    InProcess(Arc<dyn InProcessServer>, Option<Principal>),
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
    pub fn connect(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(ConnectTarget::Http(Box::new(HttpConfig::new(url.into()))))
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
    pub fn spawn(command: impl Into<Command>) -> ClientBuilder {
        ClientBuilder::new(ConnectTarget::Child(Box::new(command.into())))
    }

    /// The negotiated revision.
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
        match tokio::time::timeout(limit, self.connection()).await {
            Ok(connection) => connection,
            Err(_) => Err(ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle }.into()),
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
        let known = self.probe_record();
        let (connection, record) = negotiate::connect(&self.inner.target, &self.inner.shared, known).await?;
        *lock(&self.inner.probe_record) = record;
        *lock(&self.inner.connection) = Some(Arc::clone(&connection));
        if self.inner.closed.load(Ordering::Acquire) {
            connection.abort("the client is closed");
            return Err(ErrorKind::Closed.into());
        }
        if old.is_some() {
            self.after_reconnect(&connection).await;
        }
        let mut task = lock(&self.inner.listen_task);
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = connection.era().listen_for_handler(self, &connection);
        }
        Ok(connection)
    }

    fn live_connection(&self) -> Result<Option<Arc<ClientConnection>>> {
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(ErrorKind::Closed.into());
        }
        Ok(self.last_connection().filter(|connection| connection.disconnect_reason().is_none()))
    }

    /// Reports that everything may have changed, and subscribes again where the server has forgotten.
    async fn after_reconnect(&self, connection: &Arc<ClientConnection>) {
        self.inner.shared.notify_change(Change::All, None, connection.era());
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
        if let (Some(subject), Caching::Use) = (cache_subject, options.caching)
            && self.last_connection().is_some_and(|connection| connection.era().caches_results())
            && let Some(result) = shared.cache.get(M::NAME, subject)
        {
            return self.decode_result::<M>(&result, Revision::NEWEST);
        }
        let generation = shared.cache.generation();
        let (result, revision) = self.send_with_retry(&TypedRequest::<M>::new(params), options).await?;
        if let (Some(subject), Caching::Use | Caching::Refresh) = (cache_subject, options.caching)
            && Era::from(revision).caches_results()
        {
            shared.cache.insert(M::NAME, subject, &result, generation);
        }
        self.decode_result::<M>(&result, revision)
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

    /// Sends a request until it is answered, as often as sending it again is safe.
    async fn send_with_retry(
        &self,
        request: &dyn OutboundRequest,
        options: &Options,
    ) -> Result<(RawJson, Revision)> {
        let (mut repeats, mut attempts) = (0, Attempts::default());
        loop {
            let connection = self.connection_with_timeout(options).await?;
            let error = match connection.call(request, options).await {
                Ok(Ok(result)) => {
                    connection.take_revision_unverified();
                    return Ok((result, connection.revision()));
                }
                Ok(Err(error)) => {
                    ClientError::from_error_response(error, request.method(), connection.revision())
                }
                Err(CallError::Fatal(error)) => error,
                Err(CallError::Disconnected { may_have_run, reason }) => {
                    let safe = !may_have_run || options.idempotent || self.is_idempotent(request);
                    if !safe || repeats >= MAX_RETRIES || self.inner.closed.load(Ordering::Acquire) {
                        return Err(CallError::Disconnected { may_have_run, reason }.into());
                    }
                    repeats += 1;
                    tracing::debug!(
                        method = request.method(),
                        reason,
                        "sending the call again after the connection was lost"
                    );
                    continue;
                }
            };
            match connection.era().recover(&connection, request, &error, &mut attempts) {
                Recovery::Fail => return Err(error),
                Recovery::Resend => {}
                Recovery::RefreshTools => Box::pin(self.refresh_tools()).await?,
                Recovery::Renegotiate => {
                    *lock(&self.inner.probe_record) = None;
                    connection.abort("the revision is negotiated again");
                    if self.connection().await?.era() == connection.era() {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Whether running the request twice is safe: true for all but tool calls, and for tools that declare it.
    fn is_idempotent(&self, request: &dyn OutboundRequest) -> bool {
        match request.method() {
            tools::Call::NAME => {
                request.name().is_some_and(|name| self.inner.shared.tools.is_idempotent(name))
            }
            tasks::Update::NAME | tasks::Cancel::NAME => false,
            method => tsugite_core::revision::methods().iter().any(|row| row.name == method),
        }
    }

    async fn refresh_tools(&self) -> Result<()> {
        self.list_tools().caching(Caching::Refresh).await.map(drop)
    }

    /// Reads the list of tools unless it contains this one already.
    async fn ensure_tool_listed(&self, name: &str) -> Result<()> {
        match self.inner.shared.tools.contains(name) {
            true => Ok(()),
            false => Box::pin(self.refresh_tools()).await,
        }
    }

    /// Asks the user to open the web pages that a refused call requires (2025-11-25). Returns true if all were opened
    /// and the call may be sent again.
    async fn elicit_required_urls(&self, error: &ClientError, limit: Duration) -> Result<bool> {
        let Some(RpcError::UrlElicitationRequired { elicitations }) = error.as_rpc_error() else {
            return Ok(false);
        };
        if self.handlers().url.is_none() {
            return Ok(false);
        }
        let mut ids = Vec::new();
        for page in elicitations {
            ids.extend(page.elicitation_id.clone());
            match server_requests::elicit_url(self.handlers(), page.clone()).await {
                Ok(UrlResponse::Accept) => {}
                _ => return Ok(false),
            }
        }
        let connection = self.connection().await?;
        // The server need not report completion. After the timeout the call is simply tried again.
        let _ = tokio::time::timeout(limit, connection.wait_for_elicitations(&ids)).await;
        Ok(true)
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

/// How often a call is sent again because its connection was lost.
const MAX_RETRIES: u32 = 2;
