//! What outlives a single connection of a client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tsugite_core::jsonrpc::Id;
use tsugite_core::revision::Revision;

use super::cache::Cache;
use super::error::clip;
use super::handler::{self, Change};
use super::known_tools::KnownTools;
use super::settings::{Direction, Settings};
use super::subscription::Mailbox;
use crate::lock::lock;

/// One client's memory.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) cache: Cache,
    pub(super) tools: KnownTools,
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
    /// How often something came that is no message.
    noises: AtomicU64,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            cache: Cache::default(),
            tools: KnownTools::default(),
            mailboxes: Mutex::default(),
            noises: AtomicU64::new(0),
        })
    }

    /// From now on changes reach this mailbox too.
    pub(super) fn add(&self, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = lock(&self.mailboxes);
        mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        mailboxes.push(Arc::downgrade(mailbox));
    }

    /// Something of the server has changed; `subscription` is the one that says so, where there are several.
    pub(super) fn changed(&self, change: Change, subscription: Option<i64>, revision: Revision) {
        self.cache.forget(&change);
        if change == Change::Tools {
            self.tools.forget();
        }
        let mailboxes: Vec<_> = lock(&self.mailboxes).iter().filter_map(Weak::upgrade).collect();
        for mailbox in mailboxes {
            mailbox.put(&change, subscription);
        }
        // On 2026-07-28 the handler has a subscription of its own.
        if !revision.is_stateless()
            && let Some(told) = &self.settings.handlers.change
        {
            handler::tell(&**told, change);
        }
    }

    /// The server has begun a subscription.
    pub(super) fn acknowledged(&self, id: &Id<'_>) {
        let mailboxes: Vec<_> = lock(&self.mailboxes).iter().filter_map(Weak::upgrade).collect();
        for mailbox in mailboxes {
            mailbox.acknowledge(id);
        }
    }

    /// Whether this call is a subscription.
    pub(super) fn is_subscription(&self, id: &Id<'_>) -> bool {
        lock(&self.mailboxes).iter().filter_map(Weak::upgrade).any(|mailbox| mailbox.is_filled_by(id))
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        let mailboxes: Vec<_> =
            lock(&self.mailboxes).drain(..).filter_map(|mailbox| mailbox.upgrade()).collect();
        for mailbox in mailboxes {
            mailbox.end();
        }
    }

    /// A message leaves, or something has arrived where messages arrive.
    pub(super) fn wire(&self, direction: Direction, bytes: &[u8]) {
        if let Some(told) = &self.settings.wire {
            told(direction, String::from_utf8_lossy(bytes).trim_end());
        }
    }

    /// Something that is no message came where messages come.
    pub(super) fn noise(&self, bytes: &[u8], wrong: &str) {
        let text = String::from_utf8_lossy(bytes.get(..NOISE).unwrap_or(bytes));
        let line = clip(&text, NOISE);
        match self.noises.fetch_add(1, Ordering::Relaxed) {
            ..NOISES => tracing::warn!(wrong, line, "the server sent something that is no message"),
            NOISES => tracing::warn!("the server sends more that is no message; no more of it is shown"),
            _ => tracing::debug!(wrong, line, "the server sent something that is no message"),
        }
    }
}

/// Lines of noise that are shown; of one that goes on and on nobody reads more.
const NOISES: u64 = 10;

/// Bytes of noise that are shown.
const NOISE: usize = 200;
