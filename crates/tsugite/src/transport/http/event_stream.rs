//! Event streams of a session: events are numbered, stored for clients that resume, and sent to one reader at a time.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::event_logs::EventLogs;
use super::log_writer::{AppendError, AppendFuture, LogTarget, NewEvents, OtherReader, append};
use crate::store::Batch;

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

    /// The streams of a session that other replicas serve as well: their ids begin with the id of their replica, and the
    /// stream for messages that belong to no request has the id 0 at all of them.
    pub(super) fn shared() -> Self {
        Self { base_id: 0, next_id: 1, streams: HashMap::new(), finished: VecDeque::new() }
    }

    /// Creates a stream for a request, with this id if it was reserved.
    pub(super) fn create(&mut self, session: &str, reserved: Option<u128>) -> Arc<EventStream> {
        let number = reserved.unwrap_or_else(|| {
            self.next_id += 1;
            self.base_id + u128::from(self.next_id - 1)
        });
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
        let stream = Arc::new(EventStream {
            log_key: log_key(session, number),
            id: number,
            other_reader: OtherReader::default(),
            state: Mutex::default(),
            needed_scopes: OnceLock::new(),
        });
        self.streams.insert(number, stream.clone());
        stream
    }

    /// Continues the stream of another replica after its event `last`.
    pub(super) fn adopt(
        &mut self,
        session: &str,
        number: u128,
        last: u64,
        replaces: String,
    ) -> Arc<EventStream> {
        let stream = self.insert(session, number);
        let mut state = stream.lock();
        (state.last_event, state.replaces) = (last, Some(replaces));
        drop(state);
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
    /// The other replica that is told of new events.
    pub(super) other_reader: OtherReader,
    state: Mutex<EventStreamState>,
    /// The scopes of the item whose result the stream carries.
    needed_scopes: OnceLock<Vec<String>>,
}

#[derive(Default)]
struct EventStreamState {
    /// The number of the last event.
    last_event: u64,
    /// The number of the newest reader. Older readers end.
    current_reader: u64,
    finished: bool,
    waker: Option<Waker>,
    /// The replica that began the stream, if another one did.
    replaces: Option<String>,
}

impl EventStream {
    /// Sets the scopes that a caller needs to resume the stream.
    pub(super) fn set_needed_scopes(&self, scopes: Vec<String>) {
        let _ = self.needed_scopes.set(scopes);
    }

    pub(super) fn needed_scopes(&self) -> Vec<String> {
        self.needed_scopes.get().cloned().unwrap_or_default()
    }

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
        ends: bool,
        logs: &Arc<EventLogs>,
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
        let lines = Bytes::from(lines.into_boxed_slice());
        (events, self.append(logs, NewEvents { first, lines, ends }))
    }

    /// Ends the log without another event, for other replicas.
    pub(super) fn end_log(&self, logs: &Arc<EventLogs>) -> Option<AppendFuture> {
        logs.replica.as_ref()?;
        let first = self.last_event() + 1;
        self.append(logs, NewEvents { first, lines: Bytes::new(), ends: true })
    }

    /// The event that begins a stream: an id to resume with, without data.
    pub(super) fn prime(&self, retry: Duration, logs: &Arc<EventLogs>) -> (Bytes, Option<AppendFuture>) {
        let first = {
            let mut numbers = self.lock();
            numbers.last_event += 1;
            numbers.last_event
        };
        let text = priming_event(self.id, first, retry);
        // It has no data to replay: an empty line. It is stored only so that other replicas know the stream.
        let lines = Bytes::from_static(b"\n");
        let events = NewEvents { first, lines, ends: false };
        let appending = logs.replica.as_ref().and_then(|_| self.append(logs, events));
        (text, appending)
    }

    fn append(&self, logs: &Arc<EventLogs>, events: NewEvents) -> Option<AppendFuture> {
        let appending = append(logs, self.log_target(), events);
        if appending.is_none() {
            self.wake_reader();
        }
        appending
    }

    /// The log, as its writer needs it.
    pub(super) fn log_target(&self) -> LogTarget {
        let (log_key, reader) = (self.log_key.clone(), self.other_reader.clone());
        let (replaces, needed_scopes) = (self.lock().replaces.clone(), self.needed_scopes());
        LogTarget { log_key, stream: self.id, reader, replaces, needed_scopes }
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

/// Consecutive events of a stream, as they are sent.
pub(super) struct Events {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) text: Bytes,
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

/// The key of a session's log for messages that belong to no request.
pub(super) fn push_log_key(session: &str) -> String {
    log_key(session, PUSH_STREAM)
}

/// The id of the stream for messages that belong to no request.
pub(super) const PUSH_STREAM: u128 = 0;

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

/// The text of an event without data.
pub(super) fn priming_event(stream: u128, last: u64, retry: Duration) -> Bytes {
    let mut text = Vec::new();
    write_event_id(&mut text, stream, last);
    let mut rest = String::new();
    let _ = write!(rest, "retry: {}\ndata: \n\n", retry.as_millis());
    text.extend_from_slice(rest.as_bytes());
    Bytes::from(text)
}

/// Waits until events are stored, then wakes the reader. Events that could not be stored must not be sent.
pub(super) fn poll_append(
    appending: &mut Option<AppendFuture>,
    stream: &EventStream,
    cx: &mut Context<'_>,
) -> Poll<Result<(), AppendError>> {
    if let Some(appended) = appending {
        let Poll::Ready(result) = appended.as_mut().poll(cx) else { return Poll::Pending };
        *appending = None;
        result?;
        stream.wake_reader();
    }
    Poll::Ready(Ok(()))
}
