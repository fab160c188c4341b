//! Changes that this replica announces to all others, until the store has taken them.
//!
//! One task sends what waits, in one commit. A change that waits already is not added again, so an outage of the store
//! costs no more memory than there are different changes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Replica, ReplicaMessage};
use crate::error::Chain;
use crate::lock::lock;
use crate::shared::boxed::boxed;
use crate::shared::log;
use crate::store::Recipient;

/// Changes that wait to be sent, oldest first.
#[derive(Default)]
pub(super) struct Announcements {
    waiting: Vec<ReplicaMessage>,
    /// Whether a task sends them.
    is_sending: bool,
}

impl Announcements {
    /// Adds a change. Returns whether a task must be started.
    fn add(&mut self, change: &ReplicaMessage) -> bool {
        if let ReplicaMessage::ListsChanged { tools, prompts, resources } = change {
            for waiting in &mut self.waiting {
                if let ReplicaMessage::ListsChanged { tools: t, prompts: p, resources: r } = waiting {
                    (*t, *p, *r) = (*t || *tools, *p || *prompts, *r || *resources);
                    return false;
                }
            }
        }
        if self.waiting.len() < MAX_WAITING && !self.waiting.contains(change) {
            self.waiting.push(change.clone());
        }
        !std::mem::replace(&mut self.is_sending, true)
    }

    /// Takes what waits. Ends the task if that is nothing.
    fn take(&mut self) -> Vec<ReplicaMessage> {
        self.is_sending = !self.waiting.is_empty();
        let rest = self.waiting.split_off(self.waiting.len().min(MAX_SENT_AT_ONCE));
        std::mem::replace(&mut self.waiting, rest)
    }

    /// Puts back what was not sent, before what came meanwhile.
    fn put_back(&mut self, mut changes: Vec<ReplicaMessage>) {
        std::mem::swap(&mut self.waiting, &mut changes);
        for change in &changes {
            self.add(change);
        }
    }
}

impl Replica {
    /// Sends a message to all replicas in the background. While the store fails it is tried again.
    pub(crate) fn publish(self: &Arc<Self>, change: &ReplicaMessage) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_started() && lock(&self.announcements).add(change) {
            runtime.spawn(boxed(send_announcements(Arc::downgrade(self))));
        }
    }
}

/// Sends what waits, until nothing is left or the replica is dropped or stopped.
async fn send_announcements(replica: Weak<Replica>) {
    let mut failures: u32 = 0;
    loop {
        {
            let Some(replica) = replica.upgrade().filter(|replica| !replica.is_stopped()) else { return };
            let changes = lock(&replica.announcements).take();
            if changes.is_empty() {
                return;
            }
            let writes = changes.iter().filter_map(|change| replica.send(Recipient::All, change));
            match replica.store.commit(&writes.collect::<Vec<_>>()).await {
                Ok(_) => {
                    failures = 0;
                    continue;
                }
                Err(error) => {
                    if log::is_first("announce", &error.to_string()) {
                        log::warn!(error = %Chain(&*error), "changes are not announced to other replicas yet");
                    }
                    lock(&replica.announcements).put_back(changes);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100 << failures)).await;
        failures = (failures + 1).min(LONGEST_BACKOFF);
    }
}

/// The most different changes that wait. Further ones are not announced.
const MAX_WAITING: usize = 10_000;
const MAX_SENT_AT_ONCE: usize = 100;
/// The exponent of the longest pause between two attempts.
const LONGEST_BACKOFF: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(uri: &str) -> ReplicaMessage {
        ReplicaMessage::ResourceUpdated { uri: uri.to_owned() }
    }

    fn lists(tools: bool, prompts: bool) -> ReplicaMessage {
        ReplicaMessage::ListsChanged { tools, prompts, resources: false }
    }

    #[test]
    fn changes_that_wait_are_sent_once() {
        let mut waiting = Announcements::default();
        assert!(waiting.add(&updated("a")));
        for change in [updated("b"), updated("a"), lists(true, false), lists(false, true)] {
            assert!(!waiting.add(&change));
        }
        let taken = waiting.take();
        assert_eq!(taken, [updated("a"), updated("b"), lists(true, true)]);
        assert!(!waiting.add(&updated("c")) && !waiting.add(&updated("b")));
        waiting.put_back(taken);
        assert_eq!(waiting.take(), [updated("a"), updated("b"), lists(true, true), updated("c")]);
        assert!(waiting.take().is_empty());
        assert!(waiting.add(&updated("a")));
    }
}
