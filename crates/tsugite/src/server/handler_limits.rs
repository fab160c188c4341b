//! Room for what runs: how many handlers at once, and how many streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use super::connection::ServerConnection;
use super::principal::Principal;
use crate::lock::lock;

/// How many handlers may run at once, for one peer or for all of a server's.
pub(crate) struct HandlerLimits {
    pub(super) handler_permits: Arc<Semaphore>,
    /// For handlers that block: a thread keeps its place until it is done, also if its call was cancelled.
    pub(super) blocking_permits: Arc<Semaphore>,
    /// How many streams may be open, and how many are.
    max_streams: usize,
    open_streams: AtomicUsize,
    /// How many streams of changes each authenticated caller has, where they belong to no session.
    streams_per_principal: Mutex<HashMap<(String, String), usize>>,
}

impl HandlerLimits {
    pub(crate) fn new(handlers: usize, streams: usize) -> Arc<Self> {
        let places = || Arc::new(Semaphore::new(handlers));
        let (open, each) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self {
            handler_permits: places(),
            blocking_permits: places(),
            max_streams: streams,
            open_streams: open,
            streams_per_principal: each,
        })
    }

    /// Counts a stream for as long as it is held; none if there are too many.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Option<StreamPermit> {
        if self.open_streams.fetch_add(1, Ordering::AcqRel) >= self.max_streams {
            self.open_streams.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(StreamPermit { limits: self.clone(), principal_key: None, connection: None })
    }
}

/// A stream that counts.
pub(crate) struct StreamPermit {
    limits: Arc<HandlerLimits>,
    /// The issuer and the subject.
    principal_key: Option<(String, String)>,
    /// The connection it belongs to, and how many resources it names.
    connection: Option<(Arc<ServerConnection>, usize)>,
}

impl StreamPermit {
    /// Counts it among those of a caller too; none if that has `most` already.
    pub(super) fn count_for_principal(mut self, who: &Principal, most: usize) -> Option<Self> {
        let who = (who.issuer().to_owned(), who.subject().to_owned());
        let mut each = lock(&self.limits.streams_per_principal);
        let count = each.entry(who.clone()).or_default();
        if *count >= most {
            drop(each);
            return None;
        }
        *count += 1;
        drop(each);
        self.principal_key = Some(who);
        Some(self)
    }

    /// Tells a connection when the stream ends.
    pub(super) fn attach_connection(&mut self, link: &Arc<ServerConnection>, resources: usize) {
        self.connection = Some((link.clone(), resources));
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.limits.open_streams.fetch_sub(1, Ordering::AcqRel);
        if let Some(who) = &self.principal_key {
            let mut each = lock(&self.limits.streams_per_principal);
            if let Some(count) = each.get_mut(who) {
                *count -= 1;
                if *count == 0 {
                    each.remove(who);
                }
            }
        }
        if let Some((link, resources)) = &self.connection {
            link.close_stream(*resources);
        }
    }
}
