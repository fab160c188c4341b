//! Appends events to the log of a stream.
//!
//! Events are sent only after they are stored. A store that fails is asked again for a while; a log that another replica
//! has taken over takes no more events, and its stream ends here.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::event_logs::EventLogs;
use super::stored_scopes::StoredScopes;
use crate::error::Chain;
use crate::lock::lock;
use crate::replica::{Replica, ReplicaMessage};
use crate::shared::log;
use crate::store::{Append, LogLimits, Recipient, StoreError, StoreFuture, Write};

/// Stores events.
pub(super) type AppendFuture = Pin<Box<dyn Future<Output = Result<(), AppendError>> + Send>>;

/// The reason why events are not stored and must not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppendError {
    /// Another replica has taken over the log.
    TakenOver,
    /// The store has failed for too long.
    Unavailable,
}

/// Events to append: one per line, numbered from `first`.
pub(super) struct NewEvents {
    pub(super) first: u64,
    pub(super) lines: Bytes,
    pub(super) ends: bool,
}

/// The log of a stream.
pub(super) struct LogTarget {
    pub(super) log_key: String,
    pub(super) stream: u128,
    pub(super) reader: OtherReader,
    /// The replica whose place this one takes in the log.
    pub(super) replaces: Option<String>,
    /// The scopes that a caller needs to resume the stream.
    pub(super) needed_scopes: Vec<String>,
}

/// The other replica that sends a stream to the client, if there is one.
#[derive(Clone, Default)]
pub(super) struct OtherReader(Arc<Mutex<Option<String>>>);

impl OtherReader {
    pub(super) fn get(&self) -> Option<String> {
        lock(&self.0).clone()
    }

    /// Sets the replica and returns the one before.
    pub(super) fn set(&self, replica: Option<String>) -> Option<String> {
        std::mem::replace(&mut *lock(&self.0), replica)
    }
}

/// Appends events to the log of a stream. `None` if they are stored.
pub(super) fn append(logs: &Arc<EventLogs>, target: LogTarget, events: NewEvents) -> Option<AppendFuture> {
    let limits = logs.limits();
    let parts = split_lines(&events.lines, limits);
    match &logs.replica {
        None => append_locally(logs, &target.log_key, events.first, parts, limits),
        Some(replica) => {
            let log = SharedLog { logs: logs.clone(), replica: replica.clone(), target };
            Some(Box::pin(log.append(events.first, parts, events.ends)))
        }
    }
}

/// Appends to a store that ends with the process. A failure there only costs the chance to resume.
fn append_locally(
    logs: &EventLogs,
    log: &str,
    mut first: u64,
    parts: Vec<(Bytes, u64)>,
    limits: LogLimits,
) -> Option<AppendFuture> {
    let log_error = |appended: Result<_, StoreError>| {
        if let Err(error) = appended {
            log::error!(error = %Chain(&*error), "an event could not be stored");
        }
    };
    let mut pending = Vec::new();
    for (data, count) in parts {
        let append =
            Append { log, owner: "", replaces: None, first: Some(first), count, data, ends: false, limits };
        first += count;
        match logs.store.commit(&[Write::Append(append)]) {
            StoreFuture::Ready(appended) => log_error(appended),
            StoreFuture::Pending(appended) => pending.push(appended),
        }
    }
    if pending.is_empty() {
        return None;
    }
    Some(Box::pin(async move {
        for appended in pending {
            log_error(appended.await);
        }
        Ok(())
    }))
}

/// A log that other replicas read.
struct SharedLog {
    logs: Arc<EventLogs>,
    replica: Arc<Replica>,
    target: LogTarget,
}

impl SharedLog {
    async fn append(self, mut first: u64, parts: Vec<(Bytes, u64)>, ends: bool) -> Result<(), AppendError> {
        let last_part = parts.len().saturating_sub(1);
        for (at, (data, count)) in parts.into_iter().enumerate() {
            self.append_part(first, &data, count, ends && at == last_part).await?;
            first += count;
        }
        self.logs.wake_followers(&self.target.log_key);
        Ok(())
    }

    /// Appends until the store has taken it.
    async fn append_part(&self, first: u64, lines: &[u8], count: u64, ends: bool) -> Result<(), AppendError> {
        let (started, mut wait) = (Instant::now(), FIRST_WAIT);
        let log = &self.target.log_key;
        let data = self.replica.seal(log, "", lines).map_err(|_| AppendError::Unavailable)?;
        let limits = if ends { self.logs.limits_at_end() } else { self.logs.limits() };
        let scopes = StoredScopes::new(&self.replica, log, &self.target.needed_scopes);
        let scopes = scopes.map_err(|_| AppendError::Unavailable)?;
        loop {
            let append = Append {
                log,
                owner: self.replica.name(),
                replaces: self.target.replaces.as_deref(),
                first: Some(first),
                count,
                data: data.clone(),
                ends,
                limits,
            };
            let told = self.target.reader.get();
            let mut writes = vec![Write::Append(append)];
            writes.extend(self.tell(told.as_deref()));
            writes.extend(scopes.as_ref().map(|scopes| scopes.write(limits.ttl)));
            match self.replica.store.commit(&writes).await {
                Ok(Ok(_)) => {
                    // A replica that began to follow meanwhile may have looked before these events were there.
                    let new = self.target.reader.get().filter(|new| told.as_ref() != Some(new));
                    if let Some(write) = self.tell(new.as_deref()) {
                        drop(self.replica.store.commit(&[write]).await);
                    }
                    return Ok(());
                }
                Ok(Err(_)) => return Err(AppendError::TakenOver),
                Err(error) if started.elapsed() >= GIVE_UP_AFTER => {
                    log::error!(error = %Chain(&*error), "events could not be stored; their stream ends");
                    return Err(AppendError::Unavailable);
                }
                Err(error) => {
                    if log::is_first("append", &error.to_string()) {
                        log::warn!(error = %Chain(&*error), "events are not stored yet");
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// The write that tells a replica of new events.
    fn tell<'a>(&self, follower: Option<&'a str>) -> Option<Write<'a>> {
        let session = self.target.log_key.split('/').nth(1).unwrap_or_default().to_owned();
        let stream = format!("{:x}", self.target.stream);
        self.replica.send(Recipient::Replica(follower?), &ReplicaMessage::EventsAppended { session, stream })
    }
}

/// Ends a log with an error after the store has failed for too long, as soon as it heals. Otherwise a client that resumes the
/// stream would wait for ever.
pub(super) async fn end_after_failure(
    logs: Arc<EventLogs>,
    target: LogTarget,
    last_event: u64,
    line: Vec<u8>,
) -> Result<(), AppendError> {
    let Some(replica) = logs.replica.clone() else { return Ok(()) };
    let started = Instant::now();
    let log = SharedLog { logs, replica, target };
    loop {
        // An append that failed may have happened.
        match log.replica.store.read_log(&log.target.log_key, last_event).await {
            Ok(Some(read)) if !read.ended && read.owner == log.replica.name() => {
                let ended = log.append_part(read.last + 1, &line, 1, true).await;
                if ended != Err(AppendError::Unavailable) {
                    log.logs.wake_followers(&log.target.log_key);
                    return ended;
                }
            }
            Ok(_) => return Ok(()),
            Err(_) => {}
        }
        if started.elapsed() >= END_GIVE_UP_AFTER {
            return Err(AppendError::Unavailable);
        }
        tokio::time::sleep(LONGEST_WAIT).await;
    }
}

/// Ends the log of a request that no handler writes any more, of this replica or another one. The lines are its last events.
pub(super) async fn end_without_writer(logs: &Arc<EventLogs>, log_key: &str, lines: Vec<u8>) {
    let Some(replica) = &logs.replica else { return };
    let (started, lines) = (Instant::now(), Bytes::from(lines));
    let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
    while started.elapsed() < END_GIVE_UP_AFTER {
        let ended = async {
            let Some(read) = replica.store.read_log(log_key, 0).await?.filter(|read| !read.ended) else {
                return Ok(());
            };
            let append = Append {
                log: log_key,
                owner: replica.name(),
                replaces: Some(&read.owner),
                first: Some(read.last + 1),
                count,
                data: replica.seal(log_key, "", &lines)?,
                ends: true,
                limits: logs.limits_at_end(),
            };
            // In a conflict the log has ended, or a writer has it.
            replica.store.commit(&[Write::Append(append)]).await.map(drop)
        };
        let Err::<(), StoreError>(error) = ended.await else { return logs.wake_followers(log_key) };
        if log::is_first("end", &error.to_string()) {
            log::warn!(error = %Chain(&*error), "a stream does not end yet: the store failed");
        }
        tokio::time::sleep(LONGEST_WAIT).await;
    }
}

/// Splits lines into parts of at most an eighth of the limits, with the number of lines of each. A store drops whole
/// parts, so smaller ones keep more of the newest events.
fn split_lines(lines: &Bytes, limits: LogLimits) -> Vec<(Bytes, u64)> {
    let (max_events, max_bytes) = ((limits.max_events / 8).max(1), limits.max_bytes / 8);
    let mut parts = Vec::with_capacity(1);
    let (mut start, mut count, mut end) = (0, 0, 0);
    for next in memchr::memchr_iter(b'\n', lines).map(|at| at + 1) {
        if count == max_events || (count > 0 && next - start > max_bytes) {
            parts.push((lines.slice(start..end), count));
            (start, count) = (end, 0);
        }
        (count, end) = (count + 1, next);
    }
    // Without lines, one part without events: the end of the log.
    if count > 0 || parts.is_empty() {
        parts.push((lines.slice(start..end), count));
    }
    parts
}

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long a store may fail before the stream ends. Its handler waits meanwhile.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// How long a store may fail before the end of a log is given up.
const END_GIVE_UP_AFTER: Duration = Duration::from_secs(60 * 60);
