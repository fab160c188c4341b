//! Limits on concurrent handlers and open streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use super::principal::Principal;
use crate::lock::lock;

/// The limits on handlers and streams, for one client or for all clients of a server.
pub(crate) struct HandlerLimits {
    pub(super) handler_permits: Arc<Semaphore>,
    /// Permits for blocking handlers. A thread keeps its permit until it has finished, also if its call was cancelled.
    pub(super) blocking_permits: Arc<Semaphore>,
    /// The limit on open streams, and their number.
    max_streams: usize,
    open_streams: AtomicUsize,
    /// The number of subscription streams of each authenticated caller, if streams do not belong to a session.
    streams_per_principal: Mutex<HashMap<(String, String), usize>>,
}

impl HandlerLimits {
    pub(crate) fn new(handlers: usize, streams: usize) -> Arc<Self> {
        let permits = || Arc::new(Semaphore::new(handlers));
        Arc::new(Self {
            handler_permits: permits(),
            blocking_permits: permits(),
            max_streams: streams,
            open_streams: AtomicUsize::new(0),
            streams_per_principal: Mutex::default(),
        })
    }

    /// Counts an open stream until the permit is dropped. None if the limit is reached.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Option<StreamPermit> {
        if self.open_streams.fetch_add(1, Ordering::AcqRel) >= self.max_streams {
            self.open_streams.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(StreamPermit { limits: self.clone(), principal_key: None })
    }
}

/// A permit for one open stream.
pub(crate) struct StreamPermit {
    limits: Arc<HandlerLimits>,
    /// The issuer and the subject of the caller.
    principal_key: Option<(String, String)>,
}

impl StreamPermit {
    /// Counts the stream for a caller, too. None if the caller already has `max_streams` streams.
    pub(super) fn count_for_principal(mut self, principal: &Principal, max_streams: usize) -> Option<Self> {
        let key = (principal.issuer().to_owned(), principal.subject().to_owned());
        let mut counts = lock(&self.limits.streams_per_principal);
        let count = counts.entry(key.clone()).or_default();
        if *count >= max_streams {
            drop(counts);
            return None;
        }
        *count += 1;
        drop(counts);
        self.principal_key = Some(key);
        Some(self)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.limits.open_streams.fetch_sub(1, Ordering::AcqRel);
        if let Some(key) = &self.principal_key {
            let mut counts = lock(&self.limits.streams_per_principal);
            if let Some(count) = counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(key);
                }
            }
        }
    }
}
