//! Talking to servers: [`Client::connect`], [`Client::spawn`] and [`Client::of`] give the same client over HTTP, over a
//! child's pipes and in memory. It finds out by itself which revision the other side speaks.
//!
//! ```
//! use serde_json::json;
//! use tsugite::client::Client;
//! use tsugite::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::ToolResult<()> {
//! let server = Server::new("greeter", "1.0.0").tool(Tool::new("greet").handler(async || "hello"));
//! let client = Client::of(&server).await?; // or Client::connect("https://…"), or Client::spawn(["command", "argument"])
//! let text: String = client.call("greet", json!({})).await?;
//! assert_eq!(text, "hello");
//! # Ok(()) }
//! ```
//!
//! - `connecting`: what is settled before. `open`: which revision, and the handshake. `link`: one connection.
//! - `carrier` and `http`: how messages travel. `calls`: what waits for an answer, and how long.
//! - `requests`, `call`, `pages`: what one can ask. `handler`, `answer`: what the server asks. `subscription`: what it tells.
//! - `cache`, `known_tools`: what is remembered. `host`: many servers at once. `servers`: files that list them.

mod answer;
mod cache;
mod call;
mod calls;
mod carrier;
mod check;
mod connecting;
mod error;
mod handler;
pub mod host;
#[cfg(feature = "http")]
mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
mod http;
mod known_tools;
mod link;
mod open;
mod options;
mod pages;
pub(crate) mod relay;
mod requests;
pub mod servers;
mod settings;
mod shared;
mod subscription;
pub(crate) mod tap;

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::{InputRequests, InputResponses};
use tsugite_core::protocol::pagination::PageParams;
use tsugite_core::protocol::{Implementation, Method, ServerCapabilities, prompts, resources, tasks, tools};
use tsugite_core::revision::{RpcError, Revision, code};

pub use crate::transport::child::{Command, Stderr};
pub use cache::Caching;
pub use call::{Call, Request};
pub use connecting::Connecting;
pub use error::{Challenge, Error, Kind, Result, Step};
pub use handler::{Answer, Change, Consent, Handler, Offers};
pub use host::{Host, Permissions};
pub use http::Authorizer;
pub use pages::{Listing, Pages};
pub use settings::Direction;
pub use subscription::{Subscription, Watch};
pub use tsugite_core::session::probe::ProbeRecord;

use call::Typed;
use carrier::Carrier;
use handler::Handlers;
use http::Url;
use link::{Link, Trouble, Written};
use options::Options;
use shared::Shared;
use subscription::Watched;

use crate::lock::lock;
use crate::server::{Principal, Server};

/// A connection to one server. Cheap to clone; the last clone to be dropped ends the connection.
///
/// A connection that is lost is opened again by the next call. See [`Client::close`] for a polite end.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    way: Way,
    link: Mutex<Option<Arc<Link>>>,
    /// One opens at a time, and leaves behind why it could not.
    opening: tokio::sync::Mutex<Option<Error>>,
    /// How often it was tried.
    attempts: AtomicU64,
    verdict: Mutex<Option<ProbeRecord>>,
    /// Resources that are watched, up to 2025-11-25.
    watched: Mutex<Watched>,
    /// Keeps the stream of changes for the handler open, on 2026-07-28.
    listening: Mutex<Option<AbortHandle>>,
    closed: AtomicBool,
}

/// How a server is reached.
#[derive(Clone)]
enum Way {
    Child(Box<Command>),
    Memory(Server, Option<Principal>),
    Http(Box<Url>),
}

impl Client {
    /// Connects to a server over HTTP: Streamable HTTP, or HTTP+SSE where the server speaks nothing else.
    ///
    /// ```no_run
    /// # async fn f() -> tsugite::ToolResult<()> {
    /// use tsugite::client::Client;
    ///
    /// let client = Client::connect("https://example.com/mcp").bearer("token").await?;
    /// println!("{:?} speaks {}", client.server_info(), client.revision());
    /// # Ok(()) }
    /// ```
    pub fn connect(url: impl Into<String>) -> Connecting {
        Connecting::new(Way::Http(Box::new(Url::new(url.into()))))
    }

    /// Starts a server and connects to it through its pipes. It ends with the client, and all it started with it.
    ///
    /// ```no_run
    /// # async fn f() -> tsugite::ToolResult<()> {
    /// use tsugite::client::{Client, Command};
    ///
    /// let client = Client::spawn(Command::new("my-server").arg("--verbose").env("LANG", "C")).await?;
    /// client.close().await;
    /// # Ok(()) }
    /// ```
    pub fn spawn(command: impl Into<Command>) -> Connecting {
        Connecting::new(Way::Child(Box::new(command.into())))
    }

    /// Connects to a server in this process: for tests, on any revision, without a port.
    pub fn of(server: &Server) -> Connecting {
        Connecting::new(Way::Memory(server.clone(), None))
    }

    /// The revision that is spoken.
    pub fn revision(&self) -> Revision {
        self.last_link().map_or(Revision::NEWEST, |link| link.revision())
    }

    /// What the server calls itself. On 2026-07-28 it need not.
    pub fn server_info(&self) -> Option<Implementation> {
        self.last_link()?.agreed()?.server.clone()
    }

    /// What the server can do. `None` if it was not asked: on 2026-07-28 with a pinned revision, or a verdict. Then
    /// [`Client::discover`] asks.
    pub fn server_capabilities(&self) -> Option<ServerCapabilities> {
        self.last_link()?.agreed()?.capabilities.clone()
    }

    /// How the server wants to be used.
    pub fn instructions(&self) -> Option<String> {
        self.last_link()?.agreed()?.instructions.clone()
    }

    /// What was found out about the server: with it the next connection needs no probe. It can be stored as JSON.
    pub fn verdict(&self) -> Option<ProbeRecord> {
        *lock(&self.inner.verdict)
    }

    /// The last of what a child wrote to its standard error; empty for other servers.
    pub fn stderr(&self) -> String {
        match self.last_link().as_deref().map(|link| &link.carrier) {
            Some(Carrier::Child(pipe)) => pipe.child.stderr(),
            _ => String::new(),
        }
    }

    /// The process id of a child: the one that was started last, which may have ended.
    pub fn process_id(&self) -> Option<u32> {
        match self.last_link().as_deref().map(|link| &link.carrier) {
            Some(Carrier::Child(pipe)) => Some(pipe.child.id()),
            _ => None,
        }
    }

    /// Whether there is a connection now. One that was lost is opened again by the next call.
    pub fn is_connected(&self) -> bool {
        matches!(self.live_link(), Ok(Some(_)))
    }

    /// Ends the connection politely: a session is ended, a child gets the time to finish. Calls that are under way fail.
    ///
    /// Every later call fails with [`Kind::Closed`].
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let link = self.last_link();
        if let Some(link) = &link {
            link.hang_up();
        }
        if let Some(listening) = lock(&self.inner.listening).take() {
            listening.abort();
        }
        self.inner.shared.end();
        if let Some(link) = link {
            link.close().await;
        }
    }

    /// Whether [`Client::close`] was called. Set before anything ends, so what closing interrupts finds it set.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    /// Asks the handlers what a result asks for, for those who go step by step.
    pub async fn answer(&self, asked: InputRequests) -> Result<InputResponses> {
        answer::to_inputs(self.handlers(), asked).await
    }

    fn handlers(&self) -> &Handlers {
        &self.inner.shared.settings.handlers
    }

    fn last_link(&self) -> Option<Arc<Link>> {
        lock(&self.inner.link).clone()
    }

    fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.inner))
    }

    /// The connection, as long as a call has time for it to be opened again.
    async fn link_within(&self, options: &Options) -> Result<Arc<Link>> {
        if let Some(link) = self.live_link()? {
            return Ok(link);
        }
        let limit = options.patience(&self.inner.shared.settings).idle_timeout;
        match tokio::time::timeout(limit, self.link()).await {
            Ok(link) => link,
            Err(_) => Err(Kind::TimedOut { limit, total: false }.into()),
        }
    }

    /// The connection; opened again if it was lost.
    async fn link(&self) -> Result<Arc<Link>> {
        if let Some(link) = self.live_link()? {
            return Ok(link);
        }
        let attempts = self.inner.attempts.load(Ordering::Acquire);
        let mut last_failure = self.inner.opening.lock().await;
        // Somebody else may have opened it meanwhile, or found that it cannot be.
        if let Some(link) = self.live_link()? {
            return Ok(link);
        }
        if let (Some(failure), true) =
            (&*last_failure, self.inner.attempts.load(Ordering::Acquire) > attempts)
        {
            return Err(failure.clone());
        }
        // Large, and rare: whoever only looks for a connection has no room for it.
        let opened = Box::pin(self.open()).await;
        *last_failure = opened.as_ref().err().cloned();
        self.inner.attempts.fetch_add(1, Ordering::AcqRel);
        opened
    }

    async fn open(&self) -> Result<Arc<Link>> {
        // The old one stays until there is a new one: what it knows of the server is still the best there is.
        let old = self.last_link();
        if let Some(old) = &old {
            old.retire("the connection was lost");
        }
        let known = self.verdict();
        let (link, verdict) = open::open(&self.inner.way, &self.inner.shared, known).await?;
        *lock(&self.inner.verdict) = verdict;
        *lock(&self.inner.link) = Some(Arc::clone(&link));
        if self.inner.closed.load(Ordering::Acquire) {
            link.end("the client is closed");
            return Err(Kind::Closed.into());
        }
        if old.is_some() {
            self.after_break(&link).await;
        }
        let mut listening = lock(&self.inner.listening);
        if listening.as_ref().is_none_or(AbortHandle::is_finished) {
            *listening = subscription::listen_for_handler(self, &link);
        }
        Ok(link)
    }

    fn live_link(&self) -> Result<Option<Arc<Link>>> {
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(Kind::Closed.into());
        }
        Ok(self.last_link().filter(|link| link.lost().is_none()))
    }

    /// A new connection knows nothing of what the old one was told.
    async fn after_break(&self, link: &Arc<Link>) {
        self.inner.shared.changed(Change::Everything, None, link.revision());
        if let Some(tap) = &self.inner.shared.settings.tap {
            tap.renewed();
        }
        if link.revision().is_stateless() {
            return;
        }
        let watched: Vec<String> = lock(&self.inner.watched).keys().cloned().collect();
        for uri in watched {
            let params = resources::UriParams::new(uri);
            let request = Typed::<resources::Subscribe>::new(&params);
            if let Err(trouble) = link.call(&request, &Options::default()).await
                && !self.is_closed()
            {
                tracing::warn!(error = %Error::from(trouble), "a resource is no longer watched");
            }
        }
    }

    /// One request and its answer, as its type says, from memory where that is allowed.
    async fn ask<M: Request>(&self, params: &M::Params, options: &Options) -> Result<M::Output> {
        let shared = &self.inner.shared;
        // What a header of its own says of a call may be who calls.
        let cached = cache_key::<M>(params).filter(|_| options.headers.is_empty());
        self.live_link()?;
        if let (Some(key), Caching::Use) = (cached, options.caching)
            && self.last_link().is_some_and(|link| link.revision().is_stateless())
            && let Some(result) = shared.cache.find(M::NAME, key)
        {
            return self.read::<M>(&result, Revision::NEWEST);
        }
        let asked = shared.cache.now();
        let (result, revision) = self.send(&Typed::<M>::new(params), options).await?;
        if let (Some(key), Caching::Use | Caching::Refresh) = (cached, options.caching)
            && revision.is_stateless()
        {
            shared.cache.keep(M::NAME, key, &result, asked);
        }
        self.read::<M>(&result, revision)
    }

    fn read<M: Request>(&self, result: &RawJson, revision: Revision) -> Result<M::Output> {
        let mut output = call::read::<M>(result, revision)?;
        let any: &mut dyn Any = &mut output;
        if let Some(list) = any.downcast_mut::<tools::ListResult>() {
            let over_http = matches!(self.inner.way, Way::Http(_));
            self.inner.shared.tools.learn(&mut list.tools, revision, over_http);
        }
        Ok(output)
    }

    /// Sends a request until it is answered, as far as doing so again does no harm.
    async fn send(&self, request: &dyn Written, options: &Options) -> Result<(RawJson, Revision)> {
        let (mut repeats, mut refreshed, mut insisted) = (0, false, false);
        loop {
            let link = self.link_within(options).await?;
            let outcome = link.call(request, options).await;
            let (error, code) = match outcome {
                Ok(Ok(result)) => {
                    link.takes_trust();
                    return Ok((result, link.revision()));
                }
                Ok(Err(error)) => {
                    let code = error.code;
                    (Error::refused(error, request.method(), link.revision()), code)
                }
                Err(Trouble::Final(error)) => (error, 0),
                Err(Trouble::Lost { may_have_run, seen }) => {
                    let safe = !may_have_run || options.repeatable || self.is_harmless(request);
                    if !safe || repeats >= REPEATS || self.inner.closed.load(Ordering::Acquire) {
                        return Err(Trouble::Lost { may_have_run, seen }.into());
                    }
                    repeats += 1;
                    tracing::debug!(method = request.method(), seen, "the call is repeated");
                    continue;
                }
            };
            if !link.revision().is_stateless() {
                return Err(error);
            }
            match code {
                // The list of tools may have changed, and with it what is mirrored in headers.
                code::HEADER_MISMATCH if !refreshed && request.method() == tools::Call::NAME => {
                    refreshed = true;
                    Box::pin(self.refresh_tools()).await?;
                }
                // A server that speaks what was spoken may have meant something else.
                code::UNSUPPORTED_VERSION if !insisted && speaks(&error, link.revision()) => insisted = true,
                // What was believed of the server may be wrong. It has refused, so nothing was done.
                _ if link.takes_trust() && !error.may_have_run() && !self.inner.shared.settings.pinned => {
                    *lock(&self.inner.verdict) = None;
                    link.end("the server is asked again which revision it speaks");
                    if self.link().await?.revision().is_stateless() {
                        return Err(error);
                    }
                }
                _ => return Err(error),
            }
        }
    }

    /// Whether doing it twice does no harm: everything but calling a tool, and a tool that says so itself.
    fn is_harmless(&self, request: &dyn Written) -> bool {
        match request.method() {
            tools::Call::NAME => {
                request.name().is_some_and(|name| self.inner.shared.tools.is_repeatable(name))
            }
            tasks::Update::NAME | tasks::Cancel::NAME => false,
            method => tsugite_core::revision::methods().iter().any(|row| row.name == method),
        }
    }

    async fn refresh_tools(&self) -> Result<()> {
        self.list_tools().caching(Caching::Refresh).await.map(drop)
    }

    /// Reads the list of tools if it has not shown this one.
    async fn know_tool(&self, name: &str) -> Result<()> {
        match self.inner.shared.tools.knows(name) {
            true => Ok(()),
            false => Box::pin(self.refresh_tools()).await,
        }
    }

    /// Sends the user to the web pages a refused call needs visited first (2025-11-25). True when they were, and the call
    /// may be tried again.
    async fn visit_pages(&self, error: &Error, limit: Duration) -> Result<bool> {
        let Some(RpcError::UrlElicitationRequired { elicitations }) = error.as_refusal() else {
            return Ok(false);
        };
        if self.handlers().url.is_none() {
            return Ok(false);
        }
        let mut ids = Vec::new();
        for page in elicitations {
            ids.extend(page.elicitation_id.clone());
            match answer::ask_url(self.handlers(), page.clone()).await {
                Ok(Consent::Open) => {}
                _ => return Ok(false),
            }
        }
        let link = self.link().await?;
        // The server need not say when it is done: then trying tells.
        let _ = tokio::time::timeout(limit, link.all_visited(&ids)).await;
        Ok(true)
    }
}

/// Under what a result is remembered; `None` if it is not.
fn cache_key<M: Request>(params: &M::Params) -> Option<Option<&str>> {
    let any: &dyn Any = params;
    match M::NAME {
        tools::List::NAME | prompts::List::NAME | resources::List::NAME | resources::ListTemplates::NAME => {
            any.downcast_ref::<PageParams>().map(|page| page.cursor.as_deref())
        }
        resources::Read::NAME => any
            .downcast_ref::<resources::ReadParams>()
            .filter(|read| read.input_responses.is_none() && read.request_state.is_none())
            .map(|read| Some(read.uri.as_str())),
        _ => None,
    }
}

/// Whether the server says that it speaks what it has just refused.
fn speaks(error: &Error, revision: Revision) -> bool {
    matches!(error.as_refusal(), Some(RpcError::UnsupportedVersion { supported, .. }) if supported.contains(revision))
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(listening) = lock(&self.listening).take() {
            listening.abort();
        }
        self.shared.end();
        let Some(link) = lock(&self.link).take() else { return };
        match (&link.carrier, tokio::runtime::Handle::try_current()) {
            // Over HTTP there is a session to be ended.
            (Carrier::Http(_), Ok(runtime)) => {
                runtime.spawn(async move { link.close().await });
            }
            _ => link.end("the client is gone"),
        }
    }
}

/// A client that does not keep itself alive.
struct WeakClient(Weak<Inner>);

impl WeakClient {
    fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(|inner| Client { inner })
    }
}

/// How often a call is repeated because its connection was lost.
const REPEATS: u32 = 2;
