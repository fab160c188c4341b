//! Event logs in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;

use super::{expiry, is_expired};
use crate::{Append, Batch, LogRead};

/// One log.
pub(super) struct EventLog {
    owner: String,
    batches: VecDeque<Batch>,
    bytes: usize,
    /// The number of the last event, also if it is no longer kept.
    last: u64,
    /// The number of the last event that is no longer kept; 0 if all are.
    last_trimmed: u64,
    ended: bool,
    expires_at: Option<Instant>,
}

impl EventLog {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_expired(&self) -> bool {
        is_expired(self.expires_at)
    }

    pub(super) fn read(&self, after: u64) -> Option<LogRead> {
        if self.is_expired() {
            return None;
        }
        Some(LogRead {
            batches: self.batches.iter().filter(|batch| batch.last > after).cloned().collect(),
            last: self.last,
            ended: self.ended,
            owner: self.owner.clone(),
            trimmed: after < self.last_trimmed,
        })
    }

    /// Drops the oldest append and returns its size in bytes.
    fn drop_oldest(&mut self) -> Option<usize> {
        let oldest = self.batches.pop_front()?;
        self.last_trimmed = oldest.last;
        self.bytes -= oldest.data.len();
        Some(oldest.data.len())
    }

    fn kept_events(&self) -> u64 {
        self.last - self.last_trimmed
    }

    /// Whether its owner has made this append before.
    fn has(&self, append: &Append<'_>) -> bool {
        append.first.is_some_and(|first| {
            self.owner == append.owner
                && self.ended == append.ends
                && first.checked_add(append.count) == Some(self.last + 1)
        })
    }
}

/// Checks that an append is allowed.
pub(super) fn check(logs: &mut HashMap<String, EventLog>, append: &Append<'_>) -> Result<(), ()> {
    if logs.get(append.log).is_some_and(EventLog::is_expired) {
        // Its bytes stay counted until it is replaced or purged.
        return Ok(());
    }
    let Some(log) = logs.get(append.log) else { return Ok(()) };
    if log.has(append) {
        return Ok(());
    }
    let follows = append.first.is_none_or(|first| {
        first == log.last + 1 && (log.owner == append.owner || append.replaces == Some(log.owner.as_str()))
    });
    if follows && !log.ended { Ok(()) } else { Err(()) }
}

/// Appends events within the limits of the log and of all logs together. Returns the number of the last event.
pub(super) fn append(
    logs: &mut HashMap<String, EventLog>,
    append: &Append<'_>,
    (logged, max_logged): (&AtomicUsize, usize),
) -> u64 {
    if logs.get(append.log).is_some_and(EventLog::is_expired)
        && let Some(expired) = logs.remove(append.log)
    {
        logged.fetch_sub(expired.bytes, Ordering::AcqRel);
    }
    if !logs.contains_key(append.log) {
        let last = append.first.map_or(0, |first| first.saturating_sub(1));
        let log = EventLog {
            owner: append.owner.to_owned(),
            batches: VecDeque::new(),
            bytes: 0,
            last,
            last_trimmed: last,
            ended: false,
            expires_at: None,
        };
        logs.insert(append.log.to_owned(), log);
    }
    let Some(log) = logs.get_mut(append.log) else { return 0 };
    log.expires_at = expiry(append.limits.ttl);
    if log.has(append) {
        return log.last;
    }
    if log.owner != append.owner {
        log.owner = append.owner.to_owned();
    }
    log.ended = append.ends;
    if append.count > 0 {
        let first = log.last + 1;
        log.last += append.count;
        log.bytes += append.data.len();
        log.batches.push_back(Batch { first, last: log.last, data: append.data.clone() });
        logged.fetch_add(append.data.len(), Ordering::AcqRel);
    }
    while log.kept_events() > append.limits.max_events
        || log.bytes > append.limits.max_bytes
        || logged.load(Ordering::Acquire) > max_logged
    {
        let Some(freed) = log.drop_oldest() else { break };
        logged.fetch_sub(freed, Ordering::AcqRel);
    }
    log.last
}
