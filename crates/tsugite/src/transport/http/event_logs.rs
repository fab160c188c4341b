//! The logs of event streams: where they are stored, their limits, and the readers that wait for new events.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::http_settings::Http;
use crate::lock::lock;
use crate::replica::Replica;
use crate::store::{LogLimits, Store};

/// The logs of a server.
pub(super) struct EventLogs {
    pub(super) store: Arc<dyn Store>,
    /// Set if the store outlives the process.
    pub(super) replica: Option<Arc<Replica>>,
    limits: LogLimits,
    /// The time to live of a log that has ended.
    ttl_at_end: Duration,
    /// Readers in this process, by the key of the log.
    followers: Mutex<HashMap<String, Weak<Follower>>>,
}

/// The reader of a log in this process.
#[derive(Default)]
pub(super) struct Follower {
    changed: Notify,
    ended: AtomicBool,
    /// The number of the last event that it sent.
    sent: AtomicU64,
}

impl Follower {
    /// Waits for news of the log.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether another reader has taken its place.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Notes the number of the last event that it sent.
    pub(super) fn note_sent(&self, event: u64) {
        self.sent.store(event, Ordering::Release);
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

impl EventLogs {
    pub(super) fn new(store: Arc<dyn Store>, replica: Option<Arc<Replica>>, http: &Http) -> Arc<Self> {
        // A handler may run for long before it sends something. Finished streams are deleted after their TTL; the store
        // removes those of a replica that crashed.
        let ttl = http.log_ttl.saturating_add(Duration::from_secs(24 * 60 * 60));
        let limits = LogLimits { max_events: http.max_log_events as u64, max_bytes: http.max_log_bytes, ttl };
        Arc::new(Self { store, replica, limits, ttl_at_end: http.log_ttl, followers: Mutex::default() })
    }

    /// The limits of a log with its last events. It need not wait for a handler any longer.
    pub(super) fn limits_at_end(&self) -> LogLimits {
        LogLimits { ttl: self.ttl_at_end, ..self.limits }
    }

    pub(super) fn limits(&self) -> LogLimits {
        self.limits
    }

    /// Makes the caller the only reader of a log in this process.
    pub(super) fn follow(&self, log: &str) -> Arc<Follower> {
        let follower = Arc::new(Follower::default());
        let mut followers = lock(&self.followers);
        if followers.len() == followers.capacity() {
            followers.retain(|_, reader| reader.strong_count() > 0);
        }
        if let Some(before) = followers.insert(log.to_owned(), Arc::downgrade(&follower)) {
            before.upgrade().inspect(|before| before.end());
        }
        follower
    }

    /// The number of the last event that the reader in this process has sent.
    pub(super) fn last_sent(&self, log: &str) -> u64 {
        let reader = lock(&self.followers).get(log).and_then(Weak::upgrade);
        reader.map_or(0, |reader| reader.sent.load(Ordering::Acquire))
    }

    /// Ends the reader of a log in this process: another replica has one.
    pub(super) fn end_followers(&self, log: &str) {
        if let Some(reader) = lock(&self.followers).remove(log).and_then(|reader| reader.upgrade()) {
            reader.end();
        }
    }

    /// Wakes the reader of a log in this process.
    pub(super) fn wake_followers(&self, log: &str) {
        let mut followers = lock(&self.followers);
        match followers.get(log).map(Weak::upgrade) {
            Some(Some(reader)) => reader.changed.notify_one(),
            Some(None) => drop(followers.remove(log)),
            None => {}
        }
    }

    /// Wakes all readers: messages about new events may have been lost.
    pub(super) fn wake_all_followers(&self) {
        let followers = lock(&self.followers);
        followers.values().filter_map(Weak::upgrade).for_each(|reader| reader.changed.notify_one());
    }
}
