//! [`ClientBuilder`]: the settings of a client before it connects.

use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tsugite_core::protocol::elicitation::{FormParams, UrlParams};
use tsugite_core::protocol::logging::{Level, LogParams};
use tsugite_core::protocol::progress::ProgressParams;
use tsugite_core::protocol::roots::Root;
use tsugite_core::protocol::sampling::{CreateMessageParams, CreateMessageResult};
use tsugite_core::protocol::{ClientCapabilities, Implementation, Object, tasks};
use tsugite_core::revision::{Revision, Revisions, RpcError};
use tsugite_core::session::probe::ProbeRecord;

use super::client_error::{ClientError, Result};
use super::client_handler::{
    Change, ClientHandler, ElicitationLimit, FormResponse, UrlResponse, request_callback,
};
use super::client_settings::{ClientSettings, Direction};
use super::client_state::ClientState;
use super::http::{Authorizer, ProxySetting};
use super::restart_backoff::RestartBackoff;
use super::upstream_observer::UpstreamObserver;
use super::{Client, ClientInner, ConnectTarget};
use crate::shared::in_process::InProcessServer;
use crate::shared::principal::Principal;

/// Builds a client. Set the options, then await it to connect.
///
/// ```
/// use tsugite::client::{Client, FormResponse};
/// use tsugite::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
/// # let server = Server::new("s", "1");
/// let client = Client::in_process(&server)
///     .revision(Revision::V2025_06_18)
///     .on_elicit_form(async |form| {
///         println!("{}", form.message);
///         FormResponse::accept_defaults()
///     })
///     .await?;
/// assert_eq!(client.revision(), Revision::V2025_06_18);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "the client connects only when it is awaited"]
pub struct ClientBuilder {
    target: ConnectTarget,
    settings: ClientSettings,
    probe_record: Option<ProbeRecord>,
    config_error: Option<ClientError>,
}

impl ClientBuilder {
    pub(super) fn new(target: ConnectTarget) -> Self {
        Self { target, settings: ClientSettings::default(), probe_record: None, config_error: None }
    }

    /// Connects to a server in this process.
    pub(crate) fn to_in_process_server(server: Arc<dyn InProcessServer>) -> Self {
        Self::new(ConnectTarget::InProcess(server, None))
    }

    /// Sets the name and version that the client reports to the server: a pair, or an [`Implementation`] with a title,
    /// icons and a web site.
    ///
    /// ```
    /// use tsugite::prelude::*;
    ///
    /// let builder = Client::connect("http://localhost:8000/mcp").client_info(("my-app", "2.0.0"));
    /// # let _ = builder;
    /// ```
    #[doc(alias("clientInfo", "Implementation"))]
    pub fn client_info(mut self, info: impl Into<Implementation>) -> Self {
        self.settings.info = info.into();
        self
    }

    /// Uses this revision and no other, without probing the server.
    #[doc(alias("protocol_version", "protocolVersion"))]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.settings.revisions = Revisions::from_iter([revision]);
        self.settings.pinned = true;
        self
    }

    /// Sets the revisions to choose from; all of them by default. The server is probed for the newest common one.
    #[doc(alias("protocol_version", "protocol_versions"))]
    pub fn revisions(mut self, revisions: Revisions) -> Self {
        self.settings.revisions = revisions;
        self.settings.pinned = false;
        self
    }

    /// Uses only revisions without a handshake.
    pub fn stateless_only(self) -> Self {
        let revisions = self.settings.revisions.stateless();
        self.revisions(revisions)
    }

    /// Uses only revisions with a handshake, without probing the server.
    pub fn handshake_only(self) -> Self {
        let revisions = self.settings.revisions.handshake();
        self.revisions(revisions)
    }

    /// Sets the probe result of an earlier client for the same server. While it is valid the server is not probed
    /// again.
    pub fn probe_record(mut self, record: ProbeRecord) -> Self {
        self.probe_record = Some(record);
        self
    }

    /// Sets how long a child process may take to answer the probe for its revision; 5 seconds by default. After that it
    /// is treated as a server that does not know the probe. The first event of an HTTP+SSE stream has the same timeout.
    pub fn probe_timeout(mut self, limit: Duration) -> Self {
        self.settings.probe_timeout = limit;
        self
    }

    /// Sets how long a call waits without a response or progress; 30 seconds by default.
    pub fn timeout(mut self, idle_timeout: Duration) -> Self {
        let timeouts = &mut self.settings.timeouts;
        timeouts.idle_timeout = idle_timeout;
        // A longer idle timeout also extends the total timeout, which could otherwise never be reached.
        timeouts.total_timeout = timeouts.total_timeout.map(|total| total.max(idle_timeout));
        self
    }

    /// Sets how long a call may take in total; 10 minutes by default.
    pub fn total_timeout(mut self, total: Duration) -> Self {
        self.settings.timeouts.total_timeout = Some(total);
        self
    }

    /// Sets how often a server may ask for input during one call; 10 by default.
    pub fn max_rounds(mut self, rounds: usize) -> Self {
        self.settings.max_rounds = rounds;
        self
    }

    /// Sets how many forms and web pages a server may ask for per minute; 60 by default. A request beyond that is refused
    /// without asking the user.
    pub fn max_elicitations_per_minute(mut self, elicitations: u32) -> Self {
        self.settings.handlers.elicitation_limit = ElicitationLimit::new(elicitations);
        self
    }

    /// Sets the size limit of a message in bytes; 64 MiB by default. A longer line of a child process is skipped; a
    /// longer HTTP response is an error.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_message_bytes = bytes;
        self
    }

    /// Sets how many pages of one list are read; 1,000 by default.
    pub fn max_pages(mut self, pages: usize) -> Self {
        self.settings.max_pages = pages;
        self
    }

    /// Sets the size limit of all pages of one list together, in bytes; 64 MiB by default. The list ends with an error after
    /// the page that exceeds it.
    pub fn max_list_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_list_bytes = bytes;
        self
    }

    /// Sets the size limit of a `requestState`, which the client sends back with the next round of a call, in bytes; 1 MiB by
    /// default. A call with a larger one fails.
    pub fn max_request_state_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_request_state_bytes = bytes;
        self
    }

    /// Declares that calling this tool twice is safe: a call whose outcome is unknown is sent again. For a single call,
    /// use [`Call::idempotent`](super::Call::idempotent).
    pub fn repeatable_tool(mut self, name: impl Into<String>) -> Self {
        self.settings.repeatable_tools.push(name.into());
        self
    }

    /// Sets whether a tool counts as repeatable if the server declares it idempotent or read-only; false by default,
    /// because the server may be wrong.
    #[doc(alias("idempotentHint", "readOnlyHint"))]
    pub fn trust_tool_hints(mut self, trusted: bool) -> Self {
        self.settings.trust_tool_hints = trusted;
        self
    }

    /// Sets whether a call whose outcome is unknown is sent again if the server recognizes it by its key; false by default.
    ///
    /// Tools that say so in their definition run once for each key, and the client adds one to each of their calls. A call is
    /// sent again only within the time for which the server remembers it, and only if the server says that it does so also
    /// after a restart. The list of tools is read before the first call, which fails if that is not possible, and again before a
    /// repeat if it has changed or the client has connected again. The call is sent again, after pauses that grow from 100 milliseconds to 5 seconds, while the
    /// connection breaks, while the server is away or busy, and while it answers that its first attempt still runs, until the
    /// call times out (`total_timeout`).
    #[doc(alias("idempotency", "idempotencyKey", "retry"))]
    pub fn repeat_keyed_calls(mut self, enabled: bool) -> Self {
        self.settings.repeat_keyed_calls = enabled;
        self
    }

    /// Sets whether a response with HTTP status 400 and an error that mentions a session, without the id of the request,
    /// means that the server has forgotten the session; false by default. Some servers send it where the specification
    /// requires 404. Tool calls are not sent again after it.
    pub fn session_expired_on_400(mut self, enabled: bool) -> Self {
        self.settings.session_expired_on_400 = enabled;
        self
    }

    /// Sets whether the standalone stream for messages outside of calls is opened over HTTP, up to 2025-11-25; true by
    /// default.
    pub fn standalone_stream(mut self, enabled: bool) -> Self {
        self.settings.standalone_stream = enabled;
        self
    }

    /// Checks at this interval that the server responds; off by default. The client sends `ping` up to 2025-11-25 and
    /// `server/discover` on 2026-07-28. If the server does not answer within the idle timeout ([`timeout`](Self::timeout)), the
    /// client treats it as gone: calls in flight fail, and the next call opens a new connection. Over HTTP, a stream that stays
    /// open without a byte for three intervals, at least 60 seconds, is opened again.
    #[doc(alias("keepalive", "heartbeat", "liveness"))]
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.settings.ping_interval = Some(interval);
        self
    }

    /// Sets the lowest level of logs to receive. It is sent once up to 2025-11-25, and with each request on 2026-07-28.
    #[doc(alias("logging", "setLevel"))]
    pub fn log_level(mut self, level: Level) -> Self {
        self.settings.log_level = Some(level);
        self
    }

    /// Lets calls become tasks (from 2025-11-25): [`Client::call`] and its siblings follow a task to its end, answering its
    /// questions with the client's handlers. On 2026-07-28 this declares the extension for tasks, and the server decides; on
    /// 2025-11-25 a tool is called as a task if it requires that, or allows it and [`Call::as_task`](super::Call::as_task) asks
    /// for it. Default: no.
    #[doc(alias = "background")]
    pub fn tasks(self) -> Self {
        self.extension(tasks::EXTENSION, Object::new())
    }

    /// Declares an extension, with its settings.
    pub fn extension(mut self, id: impl Into<String>, settings: impl Serialize) -> Self {
        let id = id.into();
        match serde_json::to_value(settings) {
            Ok(settings) => {
                self.settings.extensions.get_or_insert_with(Object::new).insert(id, settings);
            }
            Err(error) => self.set_config_error(|| {
                ClientError::config(format!("cannot serialize the settings of the extension {id:?}: {error}"))
            }),
        }
        self
    }

    /// Declares an experimental feature, with its settings.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Serialize) -> Self {
        let name = name.into();
        match serde_json::to_value(settings) {
            Ok(settings) => {
                self.settings.experimental.get_or_insert_with(Object::new).insert(name, settings);
            }
            Err(error) => self.set_config_error(|| {
                ClientError::config(format!("cannot serialize the settings of the feature {name:?}: {error}"))
            }),
        }
        self
    }

    /// Sends a header with every HTTP request. Its value appears in no log and no error.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => config.headers.push((name.into(), value.into())),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Sends `Authorization: Bearer` with every HTTP request.
    pub fn bearer(self, token: impl std::fmt::Display) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// Sets where credentials for HTTP requests come from.
    #[doc(alias("auth", "OAuth", "OAuthClientProvider"))]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => config.authorizer = Some(Arc::new(authorizer)),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Logs in where the server requires it. `Login` of the crate `tsugite-auth` is an authorizer that does so with OAuth.
    #[doc(alias("OAuth", "auth"))]
    pub fn login(self, login: impl Authorizer) -> Self {
        self.authorizer(login)
    }

    /// Sets the principal that a server in this process sees as authenticated, in handlers and visibility rules.
    pub fn principal(mut self, principal: Principal) -> Self {
        match &mut self.target {
            ConnectTarget::InProcess(_, current) => *current = Some(principal),
            _ => self.set_config_error(|| {
                ClientError::config("a principal can be set only for a server in this process")
            }),
        }
        self
    }

    /// Trusts the certificates of a PEM file, in addition to the certificates this machine trusts.
    pub fn add_root_certificate(mut self, file: impl Into<PathBuf>) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => config.root_certificates.push(file.into()),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Sets the timeout of each step of an HTTP connection (DNS, TCP, TLS); 10 seconds by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => config.connect_timeout = limit,
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Sets how many calls may use a connection to the server at the same time; 256 by default, at least 1. Further calls
    /// wait, and did not run if they time out meanwhile. Each call in progress uses a connection. Notifications, and responses
    /// to requests of the server, have as many connections of their own. Subscriptions, streams and the pings of
    /// [`ping_interval`](Self::ping_interval) do not count.
    pub fn max_connections(mut self, connections: usize) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => config.max_connections = connections,
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Connects through an HTTP proxy, `http://[user:password@]host:port`, except to a server on the loopback interface.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => config.proxy = ProxySetting::Url(url.into()),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Connects through the HTTP proxy of the environment: `HTTP_PROXY` for `http`, `HTTPS_PROXY` for `https`, none for
    /// the hosts, domains, addresses and networks in `NO_PROXY`, nor for the loopback interface.
    #[doc(alias("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"))]
    pub fn proxy_from_env(mut self) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => config.proxy = ProxySetting::Environment,
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Uses HTTP+SSE of 2024-11-05 only.
    pub fn http_sse(mut self) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => (config.sse_only, config.streamable_only) = (true, false),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Uses Streamable HTTP only, without a fallback to HTTP+SSE.
    pub fn streamable_http(mut self) -> Self {
        match &mut self.target {
            ConnectTarget::Http(config) => (config.sse_only, config.streamable_only) = (false, true),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Sets the handler for requests and notifications of the server.
    #[doc(alias = "set_request_handler")]
    pub fn handler(mut self, handler: impl ClientHandler) -> Self {
        self.settings.handlers.set_handler(handler);
        self
    }

    /// Sets the callback that lets the user fill in forms.
    #[doc(alias(
        "elicitation",
        "elicit",
        "elicitation_callback",
        "create_elicitation",
        "elicitation_handler"
    ))]
    pub fn on_elicit_form<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(FormParams) -> A + Send + Sync + 'static,
        A: Future<Output = FormResponse> + Send + 'static,
    {
        self.settings.handlers.form = Some(request_callback(callback));
        self
    }

    /// Sets the callback that opens web pages, with the user's consent. Show the host and its risks
    /// ([`UrlParams::target`]); a URL that names a user is declined before.
    #[doc(alias("elicitation", "elicit"))]
    pub fn on_elicit_url<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(UrlParams) -> A + Send + Sync + 'static,
        A: Future<Output = UrlResponse> + Send + 'static,
    {
        self.settings.handlers.url = Some(request_callback(callback));
        self
    }

    /// Sets the callback that asks the model.
    #[doc(alias("sampling", "create_message", "createMessage", "sampling_handler", "sampling_callback"))]
    pub fn on_sample<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.settings.handlers.sample = Some(request_callback(callback));
        self
    }

    /// Declares that the model accepts tools.
    pub fn sampling_tools(mut self) -> Self {
        self.settings.handlers.sampling_tools = true;
        self
    }

    /// Sets the roots that the server may work in. Connecting fails if the URI of one does not begin with `file://`.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Vec<Root> = roots.into_iter().collect();
        if let Some(root) = roots.iter().find(|root| !root.is_file()) {
            self.set_config_error(|| {
                ClientError::config(format!("the root {:?} is not a `file://` URI", root.uri))
            });
        }
        self.on_roots(move || {
            let roots = roots.clone();
            async move { roots }
        })
    }

    /// Sets the callback that returns the roots, each time the server asks. The server gets an error if the URI of one does
    /// not begin with `file://`.
    #[doc(alias("list_roots", "list_roots_callback"))]
    pub fn on_roots<F, A>(mut self, callback: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Vec<Root>> + Send + 'static,
    {
        self.settings.handlers.roots = Some(request_callback(move |()| callback()));
        self
    }

    /// Sets the callback for log messages.
    #[doc(alias("logging", "logging_callback", "log_handler", "notifications/message"))]
    pub fn on_log(mut self, callback: impl Fn(LogParams) + Send + Sync + 'static) -> Self {
        self.settings.handlers.log = Some(Arc::new(callback));
        self
    }

    /// Sets the callback for the progress of calls that have no callback of their own.
    #[doc(alias("progress_handler", "notifications/progress"))]
    pub fn on_progress(mut self, callback: impl Fn(ProgressParams) + Send + Sync + 'static) -> Self {
        self.settings.handlers.progress = Some(Arc::new(callback));
        self
    }

    /// Sets the callback for changes at the server. On 2026-07-28 this keeps a stream open for changes of its lists.
    #[doc(alias("notifications", "list_changed", "message_handler"))]
    pub fn on_change(mut self, callback: impl Fn(Change) + Send + Sync + 'static) -> Self {
        self.settings.handlers.change = Some(Arc::new(callback));
        self
    }

    /// Sets a callback that receives every message on the wire, in both directions, for debugging.
    ///
    /// It also receives lines and bodies of the server that are not messages. It runs on the path of the message, so it
    /// must not block for long. It receives no headers, since they may contain secrets.
    ///
    /// ```
    /// use tsugite::client::{Client, Direction};
    /// use tsugite::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
    /// # let server = Server::new("s", "1");
    /// let client = Client::in_process(&server)
    ///     .on_wire(|direction, message| match direction {
    ///         Direction::Sent => println!("> {message}"),
    ///         _ => println!("< {message}"),
    ///     })
    ///     .await?;
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn on_wire(mut self, callback: impl Fn(Direction, &str) + Send + Sync + 'static) -> Self {
        self.settings.on_wire = Some(Arc::new(callback));
        self
    }

    /// Whether each connection starts a server of its own, as a child process.
    pub(crate) fn starts_server(&self) -> bool {
        matches!(self.target, ConnectTarget::Child(_))
    }

    /// Reports the server's messages to an observer, and presents the client as `info` with `capabilities`.
    pub(crate) fn with_observer(
        mut self,
        observer: Arc<dyn UpstreamObserver>,
        info: Implementation,
        capabilities: ClientCapabilities,
    ) -> Self {
        self.settings.observer = Some(observer);
        self.settings.info = info;
        self.settings.declared_capabilities = Some(capabilities);
        self
    }

    fn set_config_error(&mut self, error: impl FnOnce() -> ClientError) {
        self.config_error.get_or_insert_with(error);
    }

    /// Connects, as awaiting the builder does.
    pub async fn connect(mut self) -> Result<Client> {
        if let Some(error) = self.config_error {
            return Err(error);
        }
        if let ConnectTarget::Http(config) = &self.target {
            config.attach_authorizer()?;
            let authorizer = config.authorizer.as_ref();
            for (id, settings) in authorizer.into_iter().flat_map(|each| each.extensions(&config.url)) {
                self.settings.announce_extension(id, settings);
            }
        }
        let inner = ClientInner {
            shared: ClientState::new(self.settings),
            target: self.target,
            connection: Mutex::default(),
            connect_lock: Arc::default(),
            connect_attempts: AtomicU64::new(0),
            probe_record: Mutex::new(self.probe_record),
            resource_subscriptions: Mutex::default(),
            listen_task: Mutex::default(),
            restarts: RestartBackoff::default(),
            closed: AtomicBool::new(false),
        };
        let client = Client { inner: Arc::new(inner) };
        client.connection().await?;
        Ok(client)
    }
}

fn http_only_error() -> ClientError {
    ClientError::config("headers, credentials, certificates and HTTP options need a server at a URL")
}

impl IntoFuture for ClientBuilder {
    type Output = Result<Client>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Client>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}
