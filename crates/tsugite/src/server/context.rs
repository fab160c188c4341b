//! What a handler may do while it works: tell how far it is, log, and hear that it is no longer wanted.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::sync::Notify;
use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::logging::{Level, Log, LogParams};
use tsugite_core::protocol::progress::{Progress, ProgressParams};
use tsugite_core::protocol::{ClientCapabilities, Implementation};
use tsugite_core::revision::{Revision, write_notification};
use tsugite_core::session::inbound::Rising;

use super::Outbox;
use super::failure::Failure;
use super::tool_fn::{CallParts, FromCall};

/// What a handler may do meanwhile. A parameter of any handler; cheap to clone.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) revision: Revision,
    pub(crate) progress: Option<(Id<'static>, Mutex<Rising>)>,
    /// From which level on the peer wants logs; `None` is not at all.
    pub(crate) log_level: Option<Level>,
    pub(crate) capabilities: Arc<ClientCapabilities>,
    pub(crate) client: Option<Arc<Implementation>>,
    pub(crate) cancelled: Cancelled,
    /// Progress and logs end with the request.
    pub(crate) ended: AtomicBool,
}

impl Context {
    /// Tells how far the work has come. Must rise; what does not is not sent. Nothing is sent if the client did not ask.
    ///
    /// Waits while the peer is too far behind to take more.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some((token, rising)) = &self.0.progress else { return };
        let up = rising.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).step(progress);
        if !up || self.0.ended.load(Ordering::Acquire) {
            return;
        }
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total;
        params.message = message.map(str::to_owned);
        self.0.outbox.room().await;
        let revision = self.0.revision;
        self.0.outbox.push(|out| drop(write_notification::<Progress>(out, params, revision)));
    }

    /// Sends a log message, if the client wants to hear of that level. Data that has no JSON is not sent.
    ///
    /// Waits while the peer is too far behind to take more.
    pub async fn log<T: Serialize + ?Sized>(&self, level: Level, data: &T) {
        let wanted = self.0.log_level.is_some_and(|least| level >= least);
        if !wanted || self.0.ended.load(Ordering::Acquire) {
            return;
        }
        let Ok(data) = RawJson::of(data) else { return };
        self.0.outbox.room().await;
        let revision = self.0.revision;
        self.0.outbox.push(|out| drop(write_notification::<Log>(out, LogParams::new(level, data), revision)));
    }

    /// The revision the client speaks.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// What the client can do.
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.0.capabilities
    }

    /// Who the client says it is. For display; decide nothing by it.
    pub fn client(&self) -> Option<&Implementation> {
        self.0.client.as_deref()
    }

    /// Tells when the client no longer wants the answer. The handler's future is dropped then; work it has started
    /// elsewhere can listen here.
    pub fn cancelled(&self) -> Cancelled {
        self.0.cancelled.clone()
    }
}

impl FromCall for Context {
    fn from_call(call: &CallParts<'_>) -> Result<Self, Failure> {
        Ok(call.context.clone())
    }
}

impl FromCall for Cancelled {
    fn from_call(call: &CallParts<'_>) -> Result<Self, Failure> {
        Ok(call.context.cancelled())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("revision", &self.0.revision).finish_non_exhaustive()
    }
}

/// The news that a request is no longer wanted.
#[derive(Clone, Default)]
pub struct Cancelled(Arc<Flag>);

#[derive(Default)]
struct Flag {
    set: AtomicBool,
    news: Notify,
}

impl Cancelled {
    /// Whether it is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Waits until it is no longer wanted.
    pub async fn wait(&self) {
        loop {
            let news = self.0.news.notified();
            if self.is_cancelled() {
                return;
            }
            news.await;
        }
    }

    pub(crate) fn cancel(&self) {
        self.0.set.store(true, Ordering::Release);
        self.0.news.notify_waiters();
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancelled({})", self.is_cancelled())
    }
}
