//! Event streams of a session: events are numbered, stored for clients that resume, and sent to one reader at a time.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::Chain;
use crate::shared::log;
use crate::store::{
    Append, Batch, Committed, Conflict, LogLimits, Store, StoreError, StoreFuture, StoreScope, Write,
};

/// The streams of a session that can be resumed.
pub(super) struct SessionStreams {
    /// The session and the replica, so that ids differ between sessions and between replicas of one session.
    base_id: u128,
    next_id: u64,
    streams: HashMap<u128, Arc<EventStream>>,
    /// Finished streams and when they finished, oldest first.
    finished: VecDeque<(u128, Instant)>,
}

impl SessionStreams {
    pub(super) fn new(session: u32, replica: u32) -> Self {
        let base_id = u128::from(session) << 96 | u128::from(replica) << 64;
        Self { base_id, next_id: 1, streams: HashMap::new(), finished: VecDeque::new() }
    }

    /// Creates a stream for a request.
    pub(super) fn create(&mut self, session: &str) -> Arc<EventStream> {
        let number = self.base_id + u128::from(self.next_id);
        self.next_id += 1;
        self.insert(session, number)
    }

    /// The stream for messages that belong to no request.
    pub(super) fn standalone(&mut self, session: &str) -> Arc<EventStream> {
        let number = self.base_id;
        match self.streams.get(&number) {
            Some(stream) => stream.clone(),
            None => self.insert(session, number),
        }
    }

    fn insert(&mut self, session: &str, number: u128) -> Arc<EventStream> {
        let stream =
            Arc::new(EventStream { log_key: log_key(session, number), id: number, state: Mutex::default() });
        self.streams.insert(number, stream.clone());
        stream
    }

    /// Whether an id is that of the stream for messages that belong to no request, of this or another replica.
    pub(super) fn is_standalone(&self, number: u128) -> bool {
        number >> 96 == self.base_id >> 96 && number & u128::from(u64::MAX) == 0
    }

    pub(super) fn find(&self, number: u128) -> Option<Arc<EventStream>> {
        self.streams.get(&number).cloned()
    }

    /// Marks a stream as finished. Returns the oldest finished streams beyond `max_finished`, which are removed.
    pub(super) fn finish(&mut self, number: u128, max_finished: usize) -> Vec<Arc<EventStream>> {
        self.finished.push_back((number, Instant::now()));
        let mut removed = Vec::new();
        while self.finished.len() > max_finished {
            let Some((oldest, _)) = self.finished.pop_front() else { break };
            removed.extend(self.streams.remove(&oldest));
        }
        removed
    }

    /// Removes and returns the streams that finished more than `ttl` ago.
    pub(super) fn take_expired(&mut self, ttl: Duration) -> Vec<Arc<EventStream>> {
        let mut expired = Vec::new();
        while self.finished.front().is_some_and(|(_, since)| since.elapsed() >= ttl) {
            let Some((oldest, _)) = self.finished.pop_front() else { break };
            expired.extend(self.streams.remove(&oldest));
        }
        expired
    }

    /// Removes and returns all streams.
    pub(super) fn take_all(&mut self) -> Vec<Arc<EventStream>> {
        self.streams.drain().map(|(_, stream)| stream).collect()
    }
}

/// One stream of events.
pub(super) struct EventStream {
    pub(super) log_key: String,
    id: u128,
    state: Mutex<EventStreamState>,
}

#[derive(Default)]
struct EventStreamState {
    /// The number of the last event.
    last_event: u64,
    /// The number of the newest reader. Older readers end.
    current_reader: u64,
    finished: bool,
    waker: Option<Waker>,
}

/// Stores events in the log.
pub(super) type AppendFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl EventStream {
    pub(super) fn id(&self) -> u128 {
        self.id
    }

    /// Makes the caller the only reader, and returns its number.
    pub(super) fn attach_reader(&self) -> u64 {
        let mut state = self.lock();
        state.current_reader += 1;
        let (reader, waiting) = (state.current_reader, state.waker.take());
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        reader
    }

    /// Whether this is the newest reader. If so, it is woken when that changes or when events are appended.
    pub(super) fn is_current_reader(&self, reader: u64, cx: &mut Context<'_>) -> bool {
        let mut state = self.lock();
        if state.current_reader != reader {
            return false;
        }
        if !state.waker.as_ref().is_some_and(|waiting| waiting.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        true
    }

    pub(super) fn is_finished(&self) -> bool {
        self.lock().finished
    }

    pub(super) fn set_finished(&self) {
        let mut state = self.lock();
        state.finished = true;
        let waiting = state.waker.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// The number of the last event.
    pub(super) fn last_event(&self) -> u64 {
        self.lock().last_event
    }

    /// Makes events of messages, one per line, and appends them to the log.
    pub(super) fn append_messages(
        &self,
        lines: Vec<u8>,
        store: &Arc<dyn Store>,
        limits: LogLimits,
    ) -> (Events, Option<AppendFuture>) {
        let (first, count) = {
            let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
            let mut state = self.lock();
            let first = state.last_event + 1;
            state.last_event += count;
            (first, count)
        };
        let mut text = Vec::with_capacity(lines.len() + 48 * usize::try_from(count).unwrap_or_default());
        write_events(&mut text, self.id, first, &lines);
        let events = Events { first, last: first + count - 1, text: Bytes::from(text) };
        let appending = self.append_to_log(first, &Bytes::from(lines.into_boxed_slice()), store, limits);
        (events, appending)
    }

    /// The event that begins a stream: an id to resume with, without data.
    pub(super) fn prime(
        &self,
        retry: Duration,
        store: &Arc<dyn Store>,
        limits: LogLimits,
    ) -> (Bytes, Option<AppendFuture>) {
        let first = {
            let mut state = self.lock();
            state.last_event += 1;
            state.last_event
        };
        let text = self.priming_event(first, retry);
        // It has no data to replay: an empty line. It is stored only so that other replicas know the stream.
        let appending = match store.scope() {
            StoreScope::Process => None,
            StoreScope::Restart | StoreScope::Replicas => {
                self.append_to_log(first, &Bytes::from_static(b"\n"), store, limits)
            }
        };
        (text, appending)
    }

    /// The text of an event without data.
    pub(super) fn priming_event(&self, last: u64, retry: Duration) -> Bytes {
        let mut text = Vec::new();
        write_event_id(&mut text, self.id, last);
        let mut rest = String::new();
        let _ = write!(rest, "retry: {}\ndata: \n\n", retry.as_millis());
        text.extend_from_slice(rest.as_bytes());
        Bytes::from(text)
    }

    /// Appends events, one per line, to the log.
    fn append_to_log(
        &self,
        mut first: u64,
        lines: &Bytes,
        store: &Arc<dyn Store>,
        limits: LogLimits,
    ) -> Option<AppendFuture> {
        let mut pending = Vec::new();
        for (data, count) in split_lines(lines, limits) {
            let log = &*self.log_key;
            let (first_of_part, ends) = (Some(first), false);
            let append =
                Append { log, owner: "", replaces: None, first: first_of_part, count, data, ends, limits };
            first += count;
            match store.commit(&[Write::Append(append)]) {
                StoreFuture::Ready(appended) => log_append_error(appended),
                StoreFuture::Pending(appended) => pending.push(appended),
            }
        }
        if pending.is_empty() {
            self.wake_reader();
            return None;
        }
        Some(Box::pin(async move {
            for appended in pending {
                log_append_error(appended.await);
            }
        }))
    }

    /// Wakes the reader, which looks for more events.
    pub(super) fn wake_reader(&self) {
        let waiting = self.lock().waker.take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, EventStreamState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn log_append_error(appended: Result<Result<Committed, Conflict>, StoreError>) {
    match appended {
        Ok(Ok(_)) => {}
        Ok(Err(_)) => log::error!("an event could not be stored: the log has another owner"),
        Err(error) => log::error!(error = %Chain(&*error), "an event could not be stored"),
    }
}

/// Consecutive events of a stream, as they are sent.
pub(super) struct Events {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) text: Bytes,
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
    if count > 0 {
        parts.push((lines.slice(start..end), count));
    }
    parts
}

/// The events of a log after the event `after`, as they are sent.
pub(super) fn encode_log(stream: u128, batches: &[Batch], after: u64) -> Bytes {
    let mut text = Vec::with_capacity(batches.iter().map(|batch| batch.data.len() + 48).sum());
    for batch in batches {
        let skipped = usize::try_from((after + 1).saturating_sub(batch.first)).unwrap_or(usize::MAX);
        let lines = match skipped {
            0 => &batch.data[..],
            skipped => {
                let ends = memchr::memchr_iter(b'\n', &batch.data).map(|at| at + 1);
                let at = ends.take(skipped).last().unwrap_or(batch.data.len());
                batch.data.get(at..).unwrap_or_default()
            }
        };
        write_events(&mut text, stream, batch.first.max(after + 1), lines);
    }
    Bytes::from(text)
}

/// Appends an event for each line that is not empty, and counts all lines from `first`.
fn write_events(text: &mut Vec<u8>, stream: u128, first: u64, lines: &[u8]) {
    for (at, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.len() > 1 {
            write_event_id(text, stream, first + at as u64);
            write_event(text, line);
        }
    }
}

fn write_event_id(text: &mut Vec<u8>, stream: u128, event: u64) {
    let mut id = String::with_capacity(32);
    let _ = writeln!(id, "id: {stream:x}-{event}");
    text.extend_from_slice(id.as_bytes());
}

/// The key of a stream's log in the store.
pub(super) fn log_key(session: &str, number: u128) -> String {
    format!("events/{session}/{number:x}")
}

/// Parses `Last-Event-ID` into the id of a stream and the number of an event.
pub(super) fn parse_event_id(text: &str) -> Option<(u128, u64)> {
    let (number, event) = text.trim().split_once('-')?;
    Some((u128::from_str_radix(number, 16).ok()?, event.parse().ok()?))
}

/// Appends one event.
pub(super) fn write_event(text: &mut Vec<u8>, line: &[u8]) {
    text.extend_from_slice(b"data: ");
    text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
    text.extend_from_slice(b"\n\n");
}

/// Makes events without ids, which cannot be resumed.
pub(super) fn encode_events(lines: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(lines.len() + lines.len() / 8 + 64);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        write_event(&mut text, line);
    }
    Bytes::from(text)
}

/// Waits until events are stored, then wakes the reader.
pub(super) fn poll_append(
    appending: &mut Option<AppendFuture>,
    stream: &EventStream,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if let Some(appended) = appending {
        if appended.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        *appending = None;
        stream.wake_reader();
    }
    Poll::Ready(())
}
