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
use tsugite_core::revision::{RpcError, Revision, Revisions};
use tsugite_core::session::probe::ProbeRecord;

use super::error::{Error, Result};
use super::handler::{Answer, Change, Consent, Handler, asked};
use super::http::Authorizer;
use super::settings::{Direction, Settings};
use super::shared::Shared;
use super::tap::Tap;
use super::{Client, Inner, Way};
use crate::server::Principal;

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
///     .on_form(async |form| {
///         println!("{}", form.message);
///         Answer::defaults()
///     })
///     .await?;
/// assert_eq!(client.revision(), Revision::V2025_06_18);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing happens before it is awaited"]
pub struct Connecting {
    way: Way,
    settings: Settings,
    verdict: Option<ProbeRecord>,
    mistake: Option<Error>,
}

impl Connecting {
    pub(super) fn new(way: Way) -> Self {
        Self { way, settings: Settings::default(), verdict: None, mistake: None }
    }

    /// What the client calls itself.
    pub fn client_info(mut self, info: Implementation) -> Self {
        self.settings.info = info;
        self
    }

    /// Speaks this revision and no other; the server is not probed.
    pub fn revision(mut self, revision: Revision) -> Self {
        self.settings.spoken = Revisions::from_iter([revision]);
        self.settings.pinned = true;
        self
    }

    /// Speaks one of these, and finds out which. All of them, unless told otherwise.
    pub fn revisions(mut self, spoken: Revisions) -> Self {
        self.settings.spoken = spoken;
        self.settings.pinned = false;
        self
    }

    /// Speaks no revision with a handshake.
    pub fn modern_only(self) -> Self {
        let spoken = self.settings.spoken.stateless();
        self.revisions(spoken)
    }

    /// Speaks only revisions with a handshake; the server is not probed.
    pub fn legacy_only(self) -> Self {
        let spoken = self.settings.spoken.handshake();
        self.revisions(spoken)
    }

    /// What an earlier client found out about the same server. If it is still true nothing needs to be found out.
    pub fn verdict(mut self, verdict: ProbeRecord) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// How long a child may be silent when it is asked which revision it speaks; 5 seconds. Then it is taken for one that
    /// does not know the question. The stream of HTTP+SSE has as long to say where messages go.
    pub fn probe_time(mut self, limit: Duration) -> Self {
        self.settings.probe = limit;
        self
    }

    /// How long a call waits without a sign of life; 30 seconds.
    pub fn timeout(mut self, silence: Duration) -> Self {
        let patience = &mut self.settings.patience;
        patience.idle_timeout = silence;
        // Whoever is ready to wait this long for a sign of life is ready to wait this long in all.
        patience.total_timeout = patience.total_timeout.map(|total| total.max(silence));
        self
    }

    /// How long a call waits in all; 10 minutes.
    pub fn max_time(mut self, total: Duration) -> Self {
        self.settings.patience.total_timeout = Some(total);
        self
    }

    /// How often a server may ask back for one call; 10.
    pub fn max_rounds(mut self, rounds: usize) -> Self {
        self.settings.rounds = rounds;
        self
    }

    /// Bytes of one message; 64 MiB. A longer line of a child is skipped, a longer answer is an error.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.message_bytes = bytes;
        self
    }

    /// Pages of one list; 1,000.
    pub fn max_pages(mut self, pages: usize) -> Self {
        self.settings.pages = pages;
        self
    }

    /// Whether a stream for what the server says unasked is opened over HTTP, up to 2025-11-25; it is.
    pub fn hears(mut self, hears: bool) -> Self {
        self.settings.hears = hears;
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
            Err(error) => self.complain(|| Error::setting(format!("the settings of an extension: {error}"))),
        }
        self
    }

    /// Declares a feature that is in no specification.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Serialize) -> Self {
        match serde_json::to_value(settings) {
            Ok(settings) => {
                self.settings.experimental.get_or_insert_with(Object::new).insert(name.into(), settings);
            }
            Err(error) => self.complain(|| Error::setting(format!("the settings of a feature: {error}"))),
        }
        self
    }

    /// Sends a header with every request, over HTTP. Its value is shown in no log and no error.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        match &mut self.way {
            Way::Http(url) => url.headers.push((name.into(), value.into())),
            _ => self.complain(not_http),
        }
        self
    }

    /// Sends `Authorization: Bearer` with every request, over HTTP.
    pub fn bearer(self, token: impl std::fmt::Display) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// Asks this for credentials, over HTTP.
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        match &mut self.way {
            Way::Http(url) => url.authorizer = Some(Arc::new(authorizer)),
            _ => self.complain(not_http),
        }
        self
    }

    /// Calls as somebody, in memory: handlers, and rules of visibility, see them as authenticated.
    pub fn principal(mut self, principal: Principal) -> Self {
        match &mut self.way {
            Way::Memory(_, who) => *who = Some(principal),
            _ => self.complain(|| Error::setting("only a server in the same process can be told who calls")),
        }
        self
    }

    /// Trusts the certificates in a PEM file, besides those this machine trusts.
    pub fn trust(mut self, file: impl Into<PathBuf>) -> Self {
        match &mut self.way {
            Way::Http(url) => url.trusted.push(file.into()),
            _ => self.complain(not_http),
        }
        self
    }

    /// How long each step of connecting over HTTP may take: the name, the connection, the encryption; 10 seconds.
    pub fn connect_time(mut self, limit: Duration) -> Self {
        match &mut self.way {
            Way::Http(url) => url.limit = limit,
            _ => self.complain(not_http),
        }
        self
    }

    /// Speaks HTTP+SSE of 2024-11-05 without trying anything else.
    pub fn http_sse(mut self) -> Self {
        match &mut self.way {
            Way::Http(url) => (url.only_sse, url.only_streamable) = (true, false),
            _ => self.complain(not_http),
        }
        self
    }

    /// Speaks Streamable HTTP, and does not try HTTP+SSE where that fails.
    pub fn streamable_http(mut self) -> Self {
        match &mut self.way {
            Way::Http(url) => (url.only_sse, url.only_streamable) = (false, true),
            _ => self.complain(not_http),
        }
        self
    }

    /// Answers what the server asks, and hears what it tells.
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.settings.handlers.set(handler);
        self
    }

    /// Fills in forms.
    pub fn on_form<F, A>(mut self, ask: F) -> Self
    where
        F: Fn(FormParams) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.settings.handlers.form = Some(asked(ask));
        self
    }

    /// Opens web pages, with the user's consent.
    pub fn on_url<F, A>(mut self, ask: F) -> Self
    where
        F: Fn(UrlParams) -> A + Send + Sync + 'static,
        A: Future<Output = Consent> + Send + 'static,
    {
        self.settings.handlers.url = Some(asked(ask));
        self
    }

    /// Asks the model.
    pub fn on_sample<F, A>(mut self, ask: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.settings.handlers.sample = Some(asked(ask));
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
        self.settings.handlers.roots = Some(asked(move |()| ask()));
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
        self.settings.wire = Some(Arc::new(told));
        self
    }

    /// Lets somebody stand behind the client, who presents itself as `info` and can do what `face` says.
    pub(crate) fn on_behalf(
        mut self,
        tap: Arc<dyn Tap>,
        info: Implementation,
        face: ClientCapabilities,
    ) -> Self {
        self.settings.tap = Some(tap);
        self.settings.info = info;
        self.settings.face = Some(face);
        self
    }

    fn complain(&mut self, mistake: impl FnOnce() -> Error) {
        self.mistake.get_or_insert_with(mistake);
    }

    async fn connect(self) -> Result<Client> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let inner = Inner {
            shared: Shared::new(self.settings),
            way: self.way,
            link: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            verdict: Mutex::new(self.verdict),
            watched: Mutex::default(),
            listening: Mutex::default(),
            closed: AtomicBool::new(false),
        };
        let client = Client { inner: Arc::new(inner) };
        client.link().await?;
        Ok(client)
    }
}

fn not_http() -> Error {
    Error::setting("headers, credentials and certificates are for servers over HTTP")
}

impl IntoFuture for Connecting {
    type Output = Result<Client>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Client>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}
