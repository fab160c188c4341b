//! What changes at a server, as a stream.
//!
//! Up to 2025-11-25 a server tells changes unasked, and those of resources on request; on 2026-07-28 all of it comes on
//! `subscriptions/listen`, which is sent again when its stream breaks.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use indexmap::IndexSet;
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::resources::{Unsubscribe, UriParams};
use tsugite_core::protocol::subscriptions::{Filter, Listen, ListenParams};

use super::call::Typed;
use super::error::{Error, Kind, Result};
use super::handler::{self, Change};
use super::link::Link;
use super::options::Options;
use super::relay::Started;
use super::{Client, WeakClient};
use crate::lock::lock;

/// What to be told about.
///
/// ```
/// use tsugite::client::Watch;
///
/// let watch = Watch::new().tools().resource("file:///notes.txt");
/// # let _ = watch;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watch {
    /// The list of tools.
    pub tools: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// The lists of resources and templates.
    pub resources: bool,
    /// What these resources hold.
    pub uris: Vec<String>,
}

impl Watch {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// All three lists.
    pub fn lists() -> Self {
        Self::new().tools().prompts().resources()
    }

    /// The list of tools.
    #[must_use]
    pub fn tools(mut self) -> Self {
        self.tools = true;
        self
    }

    /// The list of prompts.
    #[must_use]
    pub fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// The lists of resources and templates.
    #[must_use]
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// What a resource holds.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.uris.push(uri.into());
        self
    }

    fn covers(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Resource { uri } => self.uris.iter().any(|watched| uri.starts_with(watched)),
            Change::Elicitation { .. } => false,
            Change::Everything => true,
        }
    }

    fn filter(&self) -> Filter {
        let mut filter = Filter::new();
        if self.tools {
            filter = filter.tools_list_changed(true);
        }
        if self.prompts {
            filter = filter.prompts_list_changed(true);
        }
        if self.resources {
            filter = filter.resources_list_changed(true);
        }
        if !self.uris.is_empty() {
            filter = filter.resource_subscriptions(self.uris.clone());
        }
        filter
    }
}

/// Changes of one server, as they come. Dropping it ends the subscription.
///
/// A change that was not looked at yet is not told twice, so what waits here is bounded by what is watched.
pub struct Subscription {
    client: Client,
    mailbox: Arc<Mailbox>,
    /// Keeps the stream of 2026-07-28 open.
    task: Option<AbortHandle>,
    /// Subscribed for this, up to 2025-11-25.
    uris: Vec<String>,
}

impl Subscription {
    /// Waits for the next change. `None` when the client was closed.
    ///
    /// After a break in which changes may have been missed this is [`Translation::Everything`]. An error is the last word.
    pub async fn next(&mut self) -> Option<Result<Change>> {
        poll_fn(|cx| self.mailbox.poll(cx)).await
    }
}

impl Stream for Subscription {
    type Item = Result<Change>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Change>>> {
        self.mailbox.poll(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        let last: Vec<String> = {
            let mut watched = lock(&self.client.inner.watched);
            let mut gone = Vec::new();
            for uri in &self.uris {
                if let Some(count) = watched.get_mut(uri) {
                    *count -= 1;
                    if *count == 0 {
                        watched.remove(uri);
                        gone.push(uri.clone());
                    }
                }
            }
            gone
        };
        // A connection that is gone needs no good-bye, and is not opened again for one.
        let link = self.client.last_link().filter(|link| link.lost().is_none() && !last.is_empty());
        if let (Some(link), Ok(runtime)) = (link, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                for uri in last {
                    let params = UriParams::new(uri);
                    let _ = link.call(&Typed::<Unsubscribe>::new(&params), &Options::default()).await;
                }
            });
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("watch", &self.mailbox.watch).finish_non_exhaustive()
    }
}

impl Client {
    /// Tells what changes at the server, the way its revision does that. Returns when the server has begun to watch.
    ///
    /// ```
    /// use tsugite::client::{Change, Client, Watch};
    /// use tsugite::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::ToolResult<()> {
    /// let server = Server::new("growing", "1.0.0").tool(Tool::new("one").handler(async || 1));
    /// let client = Client::of(&server).await?;
    /// let mut changes = client.listen(Watch::new().tools()).await?;
    /// server.add(Tool::new("two").handler(async || 2))?;
    /// assert_eq!(changes.next().await.unwrap()?, Change::Tools);
    /// # Ok(()) }
    /// ```
    pub async fn listen(&self, watch: Watch) -> Result<Subscription> {
        let mailbox = Arc::new(Mailbox::new(watch.clone(), None));
        let link = self.link().await?;
        self.inner.shared.add(&mailbox);
        let mut subscription = Subscription {
            client: self.clone(),
            mailbox: Arc::clone(&mailbox),
            task: None,
            uris: Vec::new(),
        };
        if link.revision().is_stateless() {
            let task = tokio::spawn(keep_listening(self.downgrade(), Arc::clone(&mailbox)));
            subscription.task = Some(task.abort_handle());
            let limit = self.inner.shared.settings.patience.idle_timeout;
            let begun = tokio::time::timeout(limit, poll_fn(|cx| mailbox.poll_begun(cx))).await;
            begun.map_err(|_| Kind::TimedOut { limit, total: false })??;
            return Ok(subscription);
        }
        for uri in watch.uris {
            if !lock(&self.inner.watched).contains_key(&uri) {
                self.subscribe(uri.clone()).await?;
            }
            *lock(&self.inner.watched).entry(uri.clone()).or_insert(0) += 1;
            subscription.uris.push(uri);
        }
        Ok(subscription)
    }
}

/// A handler that wants to know of changes has a subscription of its own on 2026-07-28.
pub(super) fn listen_for_handler(client: &Client, link: &Link) -> Option<AbortHandle> {
    let told = client.inner.shared.settings.handlers.change.clone()?;
    let agreed = link.agreed().filter(|agreed| agreed.revision.is_stateless())?;
    let says = |list_changed: Option<bool>| list_changed == Some(true);
    let watch = match &agreed.capabilities {
        Some(offered) => Watch {
            tools: offered.tools.as_ref().is_some_and(|list| says(list.list_changed)),
            prompts: offered.prompts.as_ref().is_some_and(|list| says(list.list_changed)),
            resources: offered.resources.as_ref().is_some_and(|list| says(list.list_changed)),
            uris: Vec::new(),
        },
        // A server that was not asked what it has is asked for everything; it says what of that it tells.
        None => Watch::lists(),
    };
    if watch == Watch::new() {
        return None;
    }
    let mailbox = Arc::new(Mailbox::new(watch, Some(told)));
    client.inner.shared.add(&mailbox);
    Some(tokio::spawn(keep_listening(client.downgrade(), mailbox)).abort_handle())
}

/// Sends `subscriptions/listen` again and again, until nobody listens or the server refuses.
async fn keep_listening(client: WeakClient, mailbox: Arc<Mailbox>) {
    let mut failures = 0;
    loop {
        let Some(opened) = client.upgrade() else { return mailbox.end() };
        let begun = lock(&mailbox.state).begun;
        let link = opened.link().await;
        // Whoever listens keeps the connection, but not the client: dropping that is what ends both.
        drop(opened);
        let result = match link {
            Ok(link) => listen_once(&link, &mailbox).await,
            Err(error) => Err(error),
        };
        // Without one the server has ended it: it may be going down, and be back soon.
        let error = result.err();
        let went_well = lock(&mailbox.state).acknowledged.take().is_some();
        if went_well {
            failures = 0;
        }
        failures += 1;
        let hopeless = error.as_ref().is_some_and(|error| {
            !matches!(error.kind(), Kind::Lost { .. } | Kind::Connect { .. } | Kind::Status { .. })
        });
        if hopeless || failures > ATTEMPTS || !(begun || went_well) {
            let error = error.unwrap_or_else(|| {
                Kind::Lost { may_have_run: false, seen: "the server ended the subscription".to_owned() }
                    .into()
            });
            return mailbox.fail(error);
        }
        tokio::time::sleep(pause(failures)).await;
        mailbox.lock_and_put(Change::Everything);
    }
}

async fn listen_once(link: &Arc<Link>, mailbox: &Arc<Mailbox>) -> Result<()> {
    let params = ListenParams::new(mailbox.watch.filter());
    let options = Options {
        idle: Some(Duration::MAX),
        total: Some(Duration::MAX),
        started: Some(Arc::clone(mailbox) as Arc<dyn Started>),
        ..Options::default()
    };
    let request = Typed::<Listen>::new(&params);
    match link.call(&request, &options).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::refused(error, "subscriptions/listen", link.revision())),
        Err(trouble) => Err(trouble.into()),
    }
}

/// Longer with each failure, and never longer than half a minute.
fn pause(failures: u32) -> Duration {
    Duration::from_millis(250).saturating_mul(1 << failures.min(7)).min(Duration::from_secs(30))
}

/// Where changes wait for whoever watches.
pub(super) struct Mailbox {
    watch: Watch,
    /// The subscription that fills it (2026-07-28).
    id: AtomicI64,
    /// Who is told at once, instead of looking.
    told: Option<Arc<dyn Fn(Change) + Send + Sync>>,
    state: Mutex<State>,
}

impl Started for Mailbox {
    fn started(&self, id: i64) {
        self.id.store(id, Ordering::Release);
    }
}

#[derive(Default)]
struct State {
    changes: IndexSet<Change>,
    error: Option<Error>,
    ended: bool,
    /// Whether the server watches, or has at least once.
    begun: bool,
    acknowledged: Option<()>,
    waker: Option<Waker>,
}

impl Mailbox {
    fn new(watch: Watch, told: Option<Arc<dyn Fn(Change) + Send + Sync>>) -> Self {
        Self { watch, id: AtomicI64::new(0), told, state: Mutex::default() }
    }

    /// Something has changed.
    pub(super) fn put(&self, change: &Change, subscription: Option<i64>) {
        let mine = subscription.is_none_or(|id| self.id.load(Ordering::Acquire) == id);
        if mine && self.watch.covers(change) {
            self.lock_and_put(change.clone());
        }
    }

    fn lock_and_put(&self, change: Change) {
        if let Some(told) = &self.told {
            return handler::tell(&**told, change);
        }
        let mut state = lock(&self.state);
        if state.changes.len() >= CHANGES {
            state.changes.clear();
            state.changes.insert(Change::Everything);
        }
        state.changes.insert(change);
        wake(state);
    }

    /// Whether this is the subscription that fills it.
    pub(super) fn is_filled_by(&self, id: &Id<'_>) -> bool {
        id.as_i64() == Some(self.id.load(Ordering::Acquire))
    }

    /// The server watches.
    pub(super) fn acknowledge(&self, id: &Id<'_>) {
        if self.is_filled_by(id) {
            let mut state = lock(&self.state);
            state.begun = true;
            state.acknowledged = Some(());
            wake(state);
        }
    }

    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        wake(state);
    }

    fn fail(&self, error: Error) {
        let mut state = lock(&self.state);
        state.error = Some(error);
        state.ended = true;
        wake(state);
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Change>>> {
        let mut state = lock(&self.state);
        if let Some(change) = state.changes.shift_remove_index(0) {
            return Poll::Ready(Some(Ok(change)));
        }
        if let Some(error) = state.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_begun(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = lock(&self.state);
        if state.begun {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = state.error.take() {
            return Poll::Ready(Err(error));
        }
        if state.ended {
            return Poll::Ready(Err(Kind::Closed.into()));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn wake(mut state: std::sync::MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Which resources are watched, and by how many.
pub(super) type Watched = HashMap<String, usize>;

/// Changes that may wait to be looked at.
const CHANGES: usize = 1_024;
/// How often in a row a stream that breaks at once is opened again.
const ATTEMPTS: u32 = 10;
