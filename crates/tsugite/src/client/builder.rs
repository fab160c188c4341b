//! What is settled before a client connects.

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
use tsugite_core::protocol::{ClientCapabilities, Implementation, Object};
use tsugite_core::revision::{Revision, Revisions, RpcError};
use tsugite_core::session::probe::ProbeRecord;

use super::client_error::{ClientError, Result};
use super::client_handler::{Change, ClientHandler, FormResponse, UrlResponse, request_callback};
use super::client_settings::{ClientSettings, Direction};
use super::client_state::ClientState;
use super::http::Authorizer;
use super::upstream_observer::UpstreamObserver;
use super::{Client, ClientInner, ConnectTarget};
use crate::shared::in_process::InProcessServer;
use crate::shared::principal::Principal;

/// A client that is about to connect: set what it is to do differently, and await it.
///
/// ```
/// use tsugite::client::{Answer, Client};
/// use tsugite::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::ToolResult<()> {
/// # let server = Server::new("s", "1");
/// let client = Client::of(&server)
///     .revision(Revision::V2025_06_18)
///     .on_elicit_form(async |form| {
///         println!("{}", form.message);
///         Answer::accept_defaults()
///     })
///     .await?;
/// assert_eq!(client.revision(), Revision::V2025_06_18);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing happens before it is awaited"]
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

    /// What the client calls itself.
    pub fn client_info(mut self, info: Implementation) -> Self {
        self.settings.info = info;
        self
    }

    /// Speaks this revision and no other; the server is not probed.
    pub fn revision(mut self, revision: Revision) -> Self {
        self.settings.revisions = Revisions::from_iter([revision]);
        self.settings.pinned = true;
        self
    }

    /// Speaks one of these, and finds out which. All of them, unless told otherwise.
    pub fn revisions(mut self, spoken: Revisions) -> Self {
        self.settings.revisions = spoken;
        self.settings.pinned = false;
        self
    }

    /// Speaks no revision with a handshake.
    pub fn stateless_only(self) -> Self {
        let spoken = self.settings.revisions.stateless();
        self.revisions(spoken)
    }

    /// Speaks only revisions with a handshake; the server is not probed.
    pub fn handshake_only(self) -> Self {
        let spoken = self.settings.revisions.handshake();
        self.revisions(spoken)
    }

    /// What an earlier client found out about the same server. If it is still true nothing needs to be found out.
    pub fn probe_record(mut self, verdict: ProbeRecord) -> Self {
        self.probe_record = Some(verdict);
        self
    }

    /// How long a child may be silent when it is asked which revision it speaks; 5 seconds. Then it is taken for one that
    /// does not know the question. The stream of HTTP+SSE has as long to say where messages go.
    pub fn probe_timeout(mut self, limit: Duration) -> Self {
        self.settings.probe_timeout = limit;
        self
    }

    /// How long a call waits without a sign of life; 30 seconds.
    pub fn timeout(mut self, silence: Duration) -> Self {
        let patience = &mut self.settings.timeouts;
        patience.idle_timeout = silence;
        // Whoever is ready to wait this long for a sign of life is ready to wait this long in all.
        patience.total_timeout = patience.total_timeout.map(|total| total.max(silence));
        self
    }

    /// How long a call waits in all; 10 minutes.
    pub fn total_timeout(mut self, total: Duration) -> Self {
        self.settings.timeouts.total_timeout = Some(total);
        self
    }

    /// How often a server may ask back for one call; 10.
    pub fn max_rounds(mut self, rounds: usize) -> Self {
        self.settings.max_rounds = rounds;
        self
    }

    /// Bytes of one message; 64 MiB. A longer line of a child is skipped, a longer answer is an error.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_message_bytes = bytes;
        self
    }

    /// Pages of one list; 1,000.
    pub fn max_pages(mut self, pages: usize) -> Self {
        self.settings.max_pages = pages;
        self
    }

    /// Whether a stream for what the server says unasked is opened over HTTP, up to 2025-11-25; it is.
    pub fn standalone_stream(mut self, hears: bool) -> Self {
        self.settings.standalone_stream = hears;
        self
    }

    /// From which level on logs are wanted. Up to 2025-11-25 the server is told once, on 2026-07-28 with each request.
    pub fn log_level(mut self, level: Level) -> Self {
        self.settings.log_level = Some(level);
        self
    }

    /// Declares an extension, with its settings.
    pub fn extension(mut self, id: impl Into<String>, settings: impl Serialize) -> Self {
        match serde_json::to_value(settings) {
            Ok(settings) => {
                self.settings.extensions.get_or_insert_with(Object::new).insert(id.into(), settings);
            }
            Err(error) => self
                .set_config_error(|| ClientError::config(format!("the settings of an extension: {error}"))),
        }
        self
    }

    /// Declares a feature that is in no specification.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Serialize) -> Self {
        match serde_json::to_value(settings) {
            Ok(settings) => {
                self.settings.experimental.get_or_insert_with(Object::new).insert(name.into(), settings);
            }
            Err(error) => {
                self.set_config_error(|| ClientError::config(format!("the settings of a feature: {error}")))
            }
        }
        self
    }

    /// Sends a header with every request, over HTTP. Its value is shown in no log and no error.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        match &mut self.target {
            ConnectTarget::Http(url) => url.headers.push((name.into(), value.into())),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Sends `Authorization: Bearer` with every request, over HTTP.
    pub fn bearer(self, token: impl std::fmt::Display) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// Asks this for credentials, over HTTP.
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        match &mut self.target {
            ConnectTarget::Http(url) => url.authorizer = Some(Arc::new(authorizer)),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Calls as somebody, in memory: handlers, and rules of visibility, see them as authenticated.
    pub fn principal(mut self, principal: Principal) -> Self {
        match &mut self.target {
            ConnectTarget::InProcess(_, who) => *who = Some(principal),
            _ => self.set_config_error(|| {
                ClientError::config("only a server in the same process can be told who calls")
            }),
        }
        self
    }

    /// Trusts the certificates in a PEM file, besides those this machine trusts.
    pub fn add_root_certificate(mut self, file: impl Into<PathBuf>) -> Self {
        match &mut self.target {
            ConnectTarget::Http(url) => url.root_certificates.push(file.into()),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// How long each step of connecting over HTTP may take: the name, the connection, the encryption; 10 seconds.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        match &mut self.target {
            ConnectTarget::Http(url) => url.connect_timeout = limit,
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Speaks HTTP+SSE of 2024-11-05 without trying anything else.
    pub fn http_sse(mut self) -> Self {
        match &mut self.target {
            ConnectTarget::Http(url) => (url.sse_only, url.streamable_only) = (true, false),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Speaks Streamable HTTP, and does not try HTTP+SSE where that fails.
    pub fn streamable_http(mut self) -> Self {
        match &mut self.target {
            ConnectTarget::Http(url) => (url.sse_only, url.streamable_only) = (false, true),
            _ => self.set_config_error(http_only_error),
        }
        self
    }

    /// Answers what the server asks, and hears what it tells.
    pub fn handler(mut self, handler: impl ClientHandler) -> Self {
        self.settings.handlers.set_handler(handler);
        self
    }

    /// Fills in forms.
    pub fn on_elicit_form<F, A>(mut self, ask: F) -> Self
    where
        F: Fn(FormParams) -> A + Send + Sync + 'static,
        A: Future<Output = FormResponse> + Send + 'static,
    {
        self.settings.handlers.form = Some(request_callback(ask));
        self
    }

    /// Opens web pages, with the user's consent.
    pub fn on_elicit_url<F, A>(mut self, ask: F) -> Self
    where
        F: Fn(UrlParams) -> A + Send + Sync + 'static,
        A: Future<Output = UrlResponse> + Send + 'static,
    {
        self.settings.handlers.url = Some(request_callback(ask));
        self
    }

    /// Asks the model.
    pub fn on_sample<F, A>(mut self, ask: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.settings.handlers.sample = Some(request_callback(ask));
        self
    }

    /// Says that the model may be given tools.
    pub fn sampling_tools(mut self) -> Self {
        self.settings.handlers.sampling_tools = true;
        self
    }

    /// Lets the server work in these places.
    pub fn roots(self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Vec<Root> = roots.into_iter().collect();
        self.on_roots(move || {
            let roots = roots.clone();
            async move { roots }
        })
    }

    /// Says where the server may work, when it asks.
    pub fn on_roots<F, A>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Vec<Root>> + Send + 'static,
    {
        self.settings.handlers.roots = Some(request_callback(move |()| ask()));
        self
    }

    /// Is told what the server logs.
    pub fn on_log(mut self, told: impl Fn(LogParams) + Send + Sync + 'static) -> Self {
        self.settings.handlers.log = Some(Arc::new(told));
        self
    }

    /// Is told of progress of calls that have no listener of their own.
    pub fn on_progress(mut self, told: impl Fn(ProgressParams) + Send + Sync + 'static) -> Self {
        self.settings.handlers.progress = Some(Arc::new(told));
        self
    }

    /// Is told what changes at the server. On 2026-07-28 this keeps a stream open for its lists.
    pub fn on_change(mut self, told: impl Fn(Change) + Send + Sync + 'static) -> Self {
        self.settings.handlers.change = Some(Arc::new(told));
        self
    }

    /// Is told every message on the wire, both ways, as it stands there: for whoever looks for a mistake.
    ///
    /// What the server sends and is no message is told too. It is called where the message passes, so it must not block
    /// for long. Headers are not told: there may be secrets in them.
    ///
    /// ```
    /// use tsugite::client::{Client, Direction};
    /// use tsugite::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::ToolResult<()> {
    /// # let server = Server::new("s", "1");
    /// let client = Client::of(&server)
    ///     .on_wire(|direction, message| match direction {
    ///         Direction::Sent => println!("> {message}"),
    ///         _ => println!("< {message}"),
    ///     })
    ///     .await?;
    /// # let _ = client; Ok(()) }
    /// ```
    pub fn on_wire(mut self, told: impl Fn(Direction, &str) + Send + Sync + 'static) -> Self {
        self.settings.on_wire = Some(Arc::new(told));
        self
    }

    /// Lets somebody stand behind the client, who presents itself as `info` and can do what `face` says.
    pub(crate) fn with_observer(
        mut self,
        tap: Arc<dyn UpstreamObserver>,
        info: Implementation,
        face: ClientCapabilities,
    ) -> Self {
        self.settings.observer = Some(tap);
        self.settings.info = info;
        self.settings.declared_capabilities = Some(face);
        self
    }

    fn set_config_error(&mut self, mistake: impl FnOnce() -> ClientError) {
        self.config_error.get_or_insert_with(mistake);
    }

    async fn connect(self) -> Result<Client> {
        if let Some(mistake) = self.config_error {
            return Err(mistake);
        }
        let inner = ClientInner {
            shared: ClientState::new(self.settings),
            target: self.target,
            connection: Mutex::default(),
            connect_lock: tokio::sync::Mutex::default(),
            connect_attempts: AtomicU64::new(0),
            probe_record: Mutex::new(self.probe_record),
            resource_subscriptions: Mutex::default(),
            listen_task: Mutex::default(),
            closed: AtomicBool::new(false),
        };
        let client = Client { inner: Arc::new(inner) };
        client.connection().await?;
        Ok(client)
    }
}

fn http_only_error() -> ClientError {
    ClientError::config("headers, credentials and certificates are for servers over HTTP")
}

impl IntoFuture for ClientBuilder {
    type Output = Result<Client>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Client>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}
