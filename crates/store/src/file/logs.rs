//! Event logs in the file: one row for the state of a log, and one for each append.

use bytes::Bytes;
use redb::ReadableTable;

use super::clock::expiry;
use super::tables::{Snapshot, Tables, decode, encode};
use crate::{Append, Batch, LogRead, StoreError};

/// The state of one log.
pub(super) struct LogRow {
    expires_at: u64,
    /// The number of the last event, also if it is no longer kept.
    last: u64,
    /// The number of the last event that is no longer kept; 0 if all are.
    last_trimmed: u64,
    bytes: u64,
    ended: bool,
    owner: String,
}

impl LogRow {
    fn decode(row: &[u8]) -> Result<Self, StoreError> {
        let ([expires_at, last, last_trimmed, bytes, ended], owner) = decode(row)?;
        let owner = String::from_utf8(owner.to_vec())?;
        Ok(Self { expires_at, last, last_trimmed, bytes, ended: ended != 0, owner })
    }

    fn encode(&self) -> Vec<u8> {
        let Self { expires_at, last, last_trimmed, bytes, ended, owner } = self;
        encode(&[*expires_at, *last, *last_trimmed, *bytes, u64::from(*ended)], owner.as_bytes())
    }

    /// Whether its owner has made this append before.
    fn has(&self, append: &Append<'_>) -> bool {
        append.first.is_some_and(|first| {
            self.owner == append.owner
                && self.ended == append.ends
                && first.checked_add(append.count) == self.last.checked_add(1)
        })
    }

    fn is_followed_by(&self, append: &Append<'_>) -> bool {
        let follows = append.first.is_none_or(|first| {
            let may_write = self.owner == append.owner || append.replaces == Some(self.owner.as_str());
            Some(first) == self.last.checked_add(1) && may_write
        });
        follows && !self.ended
    }
}

pub(super) fn read(
    snapshot: &Snapshot,
    log: &str,
    after: u64,
    now: u64,
) -> Result<Option<LogRead>, StoreError> {
    let Some(row) = find(&snapshot.logs, log, now)? else { return Ok(None) };
    let mut batches = Vec::new();
    // Only the last append that begins before the wanted event can contain it.
    let next = after.saturating_add(1);
    let earlier = snapshot.events.range((log, 0)..=(log, next))?.next_back();
    let later = snapshot.events.range((log, next.saturating_add(1))..=(log, u64::MAX))?;
    for row in earlier.into_iter().chain(later) {
        let (number, row) = row?;
        let ([last], data) = decode(row.value())?;
        if last > after {
            batches.push(Batch { first: number.value().1, last, data: Bytes::copy_from_slice(data) });
        }
    }
    let LogRow { last, ended, owner, last_trimmed, .. } = row;
    Ok(Some(LogRead { batches, last, ended, owner, trimmed: after < last_trimmed }))
}

/// Whether an append is allowed.
pub(super) fn check(tables: &Tables<'_>, append: &Append<'_>) -> Result<bool, StoreError> {
    let log = find(&tables.logs, append.log, tables.now)?;
    Ok(log.is_none_or(|log| log.has(append) || log.is_followed_by(append)))
}

/// Appends events within the limits of the log and of all logs together. Returns the number of the last event.
pub(super) fn append(tables: &mut Tables<'_>, append: &Append<'_>) -> Result<u64, StoreError> {
    let mut log = match find(&tables.logs, append.log, tables.now)? {
        Some(log) => log,
        None => {
            delete(tables, append.log)?;
            let last = append.first.map_or(0, |first| first.saturating_sub(1));
            let owner = append.owner.to_owned();
            LogRow { expires_at: 0, last, last_trimmed: last, bytes: 0, ended: false, owner }
        }
    };
    log.expires_at = expiry(tables.now, append.limits.ttl);
    if !log.has(append) {
        append.owner.clone_into(&mut log.owner);
        log.ended = append.ends;
        if append.count > 0 {
            let first = log.last.saturating_add(1);
            log.last = log.last.saturating_add(append.count);
            tables.events.insert((append.log, first), encode(&[log.last], &append.data).as_slice())?;
            log.bytes += append.data.len() as u64;
            tables.counters.logged += append.data.len() as u64;
        }
        trim(tables, append, &mut log)?;
    }
    tables.logs.insert(append.log, log.encode().as_slice())?;
    Ok(log.last)
}

/// Drops the oldest appends until the log is within the limits.
fn trim(tables: &mut Tables<'_>, append: &Append<'_>, log: &mut LogRow) -> Result<(), StoreError> {
    while log.last - log.last_trimmed > append.limits.max_events
        || log.bytes > append.limits.max_bytes as u64
        || tables.counters.logged > tables.max_log_bytes
    {
        let Some(oldest) = tables.events.range((append.log, 0)..=(append.log, u64::MAX))?.next() else {
            break;
        };
        let (first, last, bytes) = {
            let (number, row) = oldest?;
            let ([last], data) = decode(row.value())?;
            (number.value().1, last, data.len() as u64)
        };
        tables.events.remove((append.log, first))?;
        log.last_trimmed = last;
        log.bytes = log.bytes.saturating_sub(bytes);
        tables.counters.logged = tables.counters.logged.saturating_sub(bytes);
    }
    Ok(())
}

pub(super) fn delete(tables: &mut Tables<'_>, log: &str) -> Result<(), StoreError> {
    let bytes = match tables.logs.remove(log)? {
        Some(row) => LogRow::decode(row.value())?.bytes,
        None => return Ok(()),
    };
    tables.counters.logged = tables.counters.logged.saturating_sub(bytes);
    tables.events.retain_in((log, 0)..=(log, u64::MAX), |_, _| false)?;
    Ok(())
}

/// Finds a log that has not expired.
fn find(
    logs: &impl ReadableTable<&'static str, &'static [u8]>,
    log: &str,
    now: u64,
) -> Result<Option<LogRow>, StoreError> {
    let row = logs.get(log)?.map(|row| LogRow::decode(row.value())).transpose()?;
    Ok(row.filter(|row| row.expires_at > now))
}
