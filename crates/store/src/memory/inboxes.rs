//! Messages between replicas in one process, and their leases.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{expiry, is_expired, lock};
use crate::{Position, Received, Recipient};

/// The messages and leases of all replicas.
#[derive(Default)]
pub(super) struct Inboxes {
    state: Mutex<State>,
    sent: Notify,
}

#[derive(Default)]
struct State {
    broadcasts: Queue,
    inboxes: HashMap<String, Queue>,
    leases: HashMap<String, Option<Instant>>,
}

/// Messages, numbered from 1.
#[derive(Default)]
struct Queue {
    messages: VecDeque<(u64, Bytes)>,
    last: u64,
    /// The number of the last message that was dropped because the queue was full.
    last_lost: u64,
    expires_at: Option<Instant>,
}

impl Queue {
    fn push(&mut self, message: Bytes, ttl: Duration, max: usize) {
        self.last += 1;
        self.messages.push_back((self.last, message));
        self.expires_at = expiry(ttl);
        while self.messages.len() > max {
            if let Some((number, _)) = self.messages.pop_front() {
                self.last_lost = number;
            }
        }
    }

    fn after(&self, after: u64) -> impl Iterator<Item = &(u64, Bytes)> {
        self.messages.iter().filter(move |(number, _)| *number > after)
    }
}

impl Inboxes {
    pub(super) fn send(&self, to: Recipient<'_>, message: Bytes, ttl: Duration) {
        let mut state = lock(&self.state);
        match to {
            Recipient::All => state.broadcasts.push(message, ttl, MAX_BROADCASTS),
            Recipient::Replica(replica) => {
                let inbox = state.inboxes.entry(replica.to_owned()).or_default();
                inbox.push(message, ttl, MAX_INBOX);
            }
        }
        drop(state);
        self.sent.notify_waiters();
    }

    /// The messages after a position; `None` if there are none.
    pub(super) fn messages_after(&self, replica: &str, position: &Position) -> Option<Received> {
        let state = lock(&self.state);
        let start = || (0, state.broadcasts.last);
        let (own, all) = parse(position).unwrap_or_else(start);
        let inbox = state.inboxes.get(replica);
        let mut messages: Vec<Bytes> = Vec::new();
        messages.extend(state.broadcasts.after(all).map(|(_, message)| message.clone()));
        messages
            .extend(inbox.into_iter().flat_map(|inbox| inbox.after(own)).map(|(_, message)| message.clone()));
        let missed = all < state.broadcasts.last_lost || inbox.is_some_and(|inbox| own < inbox.last_lost);
        if messages.is_empty() && !missed && !position.0.is_empty() {
            return None;
        }
        let own = inbox.map_or(own, |inbox| inbox.last.max(own));
        let position = Position(format!("{own} {}", state.broadcasts.last));
        Some(Received { messages, position, missed })
    }

    /// Waits for messages after a position.
    pub(super) async fn wait(&self, replica: &str, position: Position) -> Received {
        loop {
            let sent = self.sent.notified();
            tokio::pin!(sent);
            sent.as_mut().enable();
            if let Some(received) = self.messages_after(replica, &position) {
                return received;
            }
            sent.await;
        }
    }

    pub(super) fn all_messages(&self, replica: &str) -> Vec<Bytes> {
        let state = lock(&self.state);
        let inbox = state.inboxes.get(replica);
        inbox.into_iter().flat_map(|inbox| inbox.after(0)).map(|(_, message)| message.clone()).collect()
    }

    pub(super) fn renew_lease(&self, replica: &str, ttl: Duration, handled: &Position) {
        let mut state = lock(&self.state);
        state.leases.insert(replica.to_owned(), expiry(ttl));
        if let (Some((own, _)), Some(inbox)) = (parse(handled), state.inboxes.get_mut(replica)) {
            inbox.expires_at = expiry(ttl);
            while inbox.messages.front().is_some_and(|(number, _)| *number <= own) {
                inbox.messages.pop_front();
            }
        }
    }

    pub(super) fn has_lease(&self, replica: &str) -> bool {
        lock(&self.state).leases.get(replica).is_some_and(|expires_at| !is_expired(*expires_at))
    }

    pub(super) fn end_lease(&self, replica: &str) {
        let mut state = lock(&self.state);
        state.leases.remove(replica);
        state.inboxes.remove(replica);
    }

    pub(super) fn purge_expired(&self) {
        let mut state = lock(&self.state);
        state.leases.retain(|_, expires_at| !is_expired(*expires_at));
        state.inboxes.retain(|_, inbox| !is_expired(inbox.expires_at));
    }
}

/// Reads the numbers of the last message to the replica and of the last message to all.
fn parse(position: &Position) -> Option<(u64, u64)> {
    let (own, all) = position.0.split_once(' ')?;
    Some((own.parse().ok()?, all.parse().ok()?))
}

const MAX_BROADCASTS: usize = 10_000;
const MAX_INBOX: usize = 100_000;
