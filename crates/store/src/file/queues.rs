//! Messages in the file: one queue for each replica and one for all of them.
//!
//! Messages are numbered over all queues, so that the number of a queue that was dropped never comes back. One process uses
//! the file, so its leases are in memory; its messages are here, because the next process finishes its work.

use std::time::Duration;

use bytes::Bytes;
use redb::ReadableTable;

use super::clock::expiry;
use super::tables::{Snapshot, Tables, decode, encode};
use crate::{Position, Received, Recipient, StoreError};

/// The state of one queue.
#[derive(Default)]
pub(super) struct QueueRow {
    expires_at: u64,
    count: u64,
    bytes: u64,
    /// The number of the last message that was dropped before it was handled.
    last_lost: u64,
}

impl QueueRow {
    fn decode(row: &[u8]) -> Result<Self, StoreError> {
        let ([expires_at, count, bytes, last_lost], _) = decode(row)?;
        Ok(Self { expires_at, count, bytes, last_lost })
    }

    fn encode(&self) -> Vec<u8> {
        encode(&[self.expires_at, self.count, self.bytes, self.last_lost], &[])
    }
}

pub(super) fn send(
    tables: &mut Tables<'_>,
    to: Recipient<'_>,
    message: &[u8],
    ttl: Duration,
) -> Result<(), StoreError> {
    let name = queue_name(to);
    let mut queue = load(&tables.queues, &name)?.unwrap_or_default();
    let expired = queue.expires_at <= tables.now;
    if expired && let Some(lost) = drop_oldest(tables, &name, &mut queue, |_, _| true)? {
        queue.last_lost = lost;
    }
    if queue.count == 0 {
        queue.expires_at = 0;
    }
    tables.counters.message += 1;
    tables.messages.insert((name.as_str(), tables.counters.message), encode(&[], message).as_slice())?;
    queue.count += 1;
    queue.bytes += message.len() as u64;
    queue.expires_at = queue.expires_at.max(expiry(tables.now, ttl));
    let (max_count, max_bytes) = match to {
        Recipient::All => (MAX_BROADCASTS, u64::MAX),
        Recipient::Replica(_) => (MAX_INBOX, MAX_INBOX_BYTES),
    };
    let is_full = |queue: &QueueRow, _| queue.count > max_count || queue.bytes > max_bytes;
    if let Some(lost) = drop_oldest(tables, &name, &mut queue, is_full)? {
        queue.last_lost = lost;
    }
    tables.queues.insert(name.as_str(), queue.encode().as_slice())?;
    tables.sent = true;
    Ok(())
}

/// Drops the messages to a replica up to `handled` and keeps the others for `ttl`.
pub(super) fn keep(
    tables: &mut Tables<'_>,
    replica: &str,
    ttl: Duration,
    handled: &Position,
) -> Result<(), StoreError> {
    let name = queue_name(Recipient::Replica(replica));
    let Some(mut queue) = load(&tables.queues, &name)? else { return Ok(()) };
    if queue.expires_at <= tables.now {
        return delete(tables, &name);
    }
    let handled = parse(handled).map_or(0, |(own, _)| own);
    drop_oldest(tables, &name, &mut queue, |_, number| number <= handled)?;
    queue.expires_at = queue.expires_at.max(expiry(tables.now, ttl));
    match queue.count {
        0 => drop(tables.queues.remove(name.as_str())?),
        _ => drop(tables.queues.insert(name.as_str(), queue.encode().as_slice())?),
    }
    tables.changed = true;
    Ok(())
}

/// Drops all messages to a replica.
pub(super) fn end(tables: &mut Tables<'_>, replica: &str) -> Result<(), StoreError> {
    delete(tables, &queue_name(Recipient::Replica(replica)))
}

/// Drops a queue that is no longer kept.
pub(super) fn delete(tables: &mut Tables<'_>, name: &str) -> Result<(), StoreError> {
    let Some(mut queue) = load(&tables.queues, name)? else { return Ok(()) };
    let lost = drop_oldest(tables, name, &mut queue, |_, _| true)?;
    if name == queue_name(Recipient::All) {
        // Stays, so that a replica with an old position is told that it missed messages.
        queue.last_lost = lost.unwrap_or(queue.last_lost);
        queue.expires_at = u64::MAX;
        tables.queues.insert(name, queue.encode().as_slice())?;
    } else {
        tables.queues.remove(name)?;
    }
    tables.changed = true;
    Ok(())
}

/// Whether messages to a replica are kept.
pub(super) fn has_inbox(snapshot: &Snapshot, replica: &str) -> Result<bool, StoreError> {
    Ok(snapshot.queues.get(queue_name(Recipient::Replica(replica)).as_str())?.is_some())
}

pub(super) fn inbox(snapshot: &Snapshot, replica: &str, now: u64) -> Result<Vec<Bytes>, StoreError> {
    let (messages, _) = kept(snapshot, Recipient::Replica(replica), 0, now)?;
    messages.map(|message| Ok(message?.1)).collect()
}

/// The messages after a position, in the order of their commits; `None` if there are none.
pub(super) fn messages_after(
    snapshot: &Snapshot,
    replica: &str,
    position: &Position,
    now: u64,
) -> Result<Option<Received>, StoreError> {
    let (mut own, mut all) = parse(position).unwrap_or((0, snapshot.counters.message));
    let (inbox, inbox_lost) = kept(snapshot, Recipient::Replica(replica), own, now)?;
    let (broadcasts, broadcast_lost) = kept(snapshot, Recipient::All, all, now)?;
    let missed = own < inbox_lost || all < broadcast_lost;
    (own, all) = (own.max(inbox_lost), all.max(broadcast_lost));
    let (mut inbox, mut broadcasts) = (inbox.peekable(), broadcasts.peekable());
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while messages.len() < MAX_RECEIVED && bytes < MAX_RECEIVED_BYTES {
        let number = |next: Option<&Numbered>| match next {
            Some(Ok((number, _))) => *number,
            Some(Err(_)) => 0,
            None => u64::MAX,
        };
        let is_own = number(inbox.peek()) < number(broadcasts.peek());
        let Some(next) = (if is_own { inbox.next() } else { broadcasts.next() }) else { break };
        let (number, message) = next?;
        *(if is_own { &mut own } else { &mut all }) = number;
        bytes += message.len();
        messages.push(message);
    }
    if messages.is_empty() && !missed && !position.0.is_empty() {
        return Ok(None);
    }
    Ok(Some(Received { messages, position: Position(format!("{own} {all}")), missed }))
}

/// A message with its number.
type Numbered = Result<(u64, Bytes), StoreError>;

/// The messages of one queue after a number, and the number of the last one that was lost.
fn kept(
    snapshot: &Snapshot,
    to: Recipient<'_>,
    after: u64,
    now: u64,
) -> Result<(impl Iterator<Item = Numbered>, u64), StoreError> {
    let name = queue_name(to);
    let queue = load(&snapshot.queues, &name)?.unwrap_or_default();
    let first = after.saturating_add(1);
    let rows = match queue.expires_at > now {
        true => Some(snapshot.messages.range((name.as_str(), first)..=(name.as_str(), u64::MAX))?),
        false => None,
    };
    let messages = rows.into_iter().flatten().map(|row| {
        let (number, row) = row?;
        let ([], message) = decode(row.value())?;
        Ok((number.value().1, Bytes::copy_from_slice(message)))
    });
    Ok((messages, queue.last_lost))
}

/// Drops messages, oldest first, while `wanted` says so. Returns the number of the last one.
fn drop_oldest(
    tables: &mut Tables<'_>,
    name: &str,
    queue: &mut QueueRow,
    wanted: impl Fn(&QueueRow, u64) -> bool,
) -> Result<Option<u64>, StoreError> {
    let mut last = None;
    loop {
        let Some(oldest) = tables.messages.range((name, 0)..=(name, u64::MAX))?.next() else { break };
        let (number, bytes) = {
            let (number, row) = oldest?;
            let ([], message) = decode(row.value())?;
            (number.value().1, message.len() as u64)
        };
        if !wanted(queue, number) {
            break;
        }
        tables.messages.remove((name, number))?;
        queue.count = queue.count.saturating_sub(1);
        queue.bytes = queue.bytes.saturating_sub(bytes);
        last = Some(number);
    }
    Ok(last)
}

fn load(
    queues: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<Option<QueueRow>, StoreError> {
    queues.get(name)?.map(|row| QueueRow::decode(row.value())).transpose()
}

fn queue_name(to: Recipient<'_>) -> String {
    match to {
        Recipient::All => "*".to_owned(),
        Recipient::Replica(replica) => format!("={replica}"),
    }
}

/// Reads the numbers of the last message to the replica and of the last message to all.
fn parse(position: &Position) -> Option<(u64, u64)> {
    let (own, all) = position.0.split_once(' ')?;
    Some((own.parse().ok()?, all.parse().ok()?))
}

const MAX_BROADCASTS: u64 = 1_000;
const MAX_INBOX: u64 = 100_000;
const MAX_INBOX_BYTES: u64 = 64 << 20;
/// The most messages, and about the most bytes, that one call of `receive` returns.
const MAX_RECEIVED: usize = 1_000;
const MAX_RECEIVED_BYTES: usize = 16 << 20;
