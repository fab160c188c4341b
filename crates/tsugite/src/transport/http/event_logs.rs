//! The logs of event streams: where they are stored, their limits, and the readers that wait for new events.

use std::collections::HashMap;
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
    /// Readers in this process, by the key of the log.
    followers: Mutex<HashMap<String, Vec<Weak<Notify>>>>,
}

impl EventLogs {
    pub(super) fn new(store: Arc<dyn Store>, replica: Option<Arc<Replica>>, http: &Http) -> Arc<Self> {
        // Finished streams are deleted after their TTL; the store removes those of a replica that crashed.
        let ttl = http.log_ttl.saturating_add(Duration::from_secs(24 * 60 * 60));
        let limits = LogLimits { max_events: http.max_log_events as u64, max_bytes: http.max_log_bytes, ttl };
        Arc::new(Self { store, replica, limits, followers: Mutex::default() })
    }

    pub(super) fn limits(&self) -> LogLimits {
        self.limits
    }

    /// The notice of new events of a log, for a reader in this process.
    pub(super) fn follow(&self, log: &str) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        let mut followers = lock(&self.followers);
        if followers.len() == followers.capacity() {
            followers.retain(|_, readers| readers.iter().any(|reader| reader.strong_count() > 0));
        }
        let readers = followers.entry(log.to_owned()).or_default();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&notify));
        notify
    }

    /// Wakes the readers of a log in this process.
    pub(super) fn wake_followers(&self, log: &str) {
        let mut followers = lock(&self.followers);
        let Some(readers) = followers.get_mut(log) else { return };
        readers.retain(|reader| reader.strong_count() > 0);
        readers.iter().filter_map(Weak::upgrade).for_each(|reader| reader.notify_one());
        if readers.is_empty() {
            followers.remove(log);
        }
    }

    /// Wakes all readers: messages about new events may have been lost.
    pub(super) fn wake_all_followers(&self) {
        let followers = lock(&self.followers);
        followers.values().flatten().filter_map(Weak::upgrade).for_each(|reader| reader.notify_one());
    }
}
