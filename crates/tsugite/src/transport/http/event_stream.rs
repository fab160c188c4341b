//! One stream of a session: its events have numbers, are kept for a client that comes back, and go to one reader.

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
use crate::store::{EventBatch, LogLimits, Store, StoreFuture};

/// The streams of a session that can be taken up again.
pub(super) struct SessionStreams {
    /// Told apart from those of other sessions, and of the same session at other replicas.
    base_id: u128,
    next_id: u64,
    streams: HashMap<u128, Arc<EventStream>>,
    /// Those that are done, the oldest first, and since when.
    finished: VecDeque<(u128, Instant)>,
}

impl SessionStreams {
    pub(super) fn new(session: u32, replica: u32) -> Self {
        let base_id = u128::from(session) << 96 | u128::from(replica) << 64;
        Self { base_id, next_id: 1, streams: HashMap::new(), finished: VecDeque::new() }
    }

    /// A new stream.
    pub(super) fn create(&mut self, session: &str) -> Arc<EventStream> {
        let number = self.base_id + u128::from(self.next_id);
        self.next_id += 1;
        self.insert(session, number)
    }

    /// The stream for what belongs to no request.
    pub(super) fn standalone(&mut self, session: &str) -> Arc<EventStream> {
        let number = self.base_id;
        match self.streams.get(&number) {
            Some(track) => track.clone(),
            None => self.insert(session, number),
        }
    }

    fn insert(&mut self, session: &str, number: u128) -> Arc<EventStream> {
        let track =
            Arc::new(EventStream { log_key: log_key(session, number), id: number, state: Mutex::default() });
        self.streams.insert(number, track.clone());
        track
    }

    /// Whether it is a stream for what belongs to no request, here or at another replica.
    pub(super) fn is_standalone(&self, number: u128) -> bool {
        number >> 96 == self.base_id >> 96 && number & u128::from(u64::MAX) == 0
    }

    pub(super) fn find(&self, number: u128) -> Option<Arc<EventStream>> {
        self.streams.get(&number).cloned()
    }

    /// A stream has no more to say. Gives those that are forgotten for it.
    pub(super) fn finish(&mut self, number: u128, most: usize) -> Vec<Arc<EventStream>> {
        self.finished.push_back((number, Instant::now()));
        let mut forgotten = Vec::new();
        while self.finished.len() > most {
            let Some((oldest, _)) = self.finished.pop_front() else { break };
            forgotten.extend(self.streams.remove(&oldest));
        }
        forgotten
    }

    /// Gives the streams that have been done for longer than `ttl`.
    pub(super) fn take_expired(&mut self, age: Duration) -> Vec<Arc<EventStream>> {
        let mut outlived = Vec::new();
        while self.finished.front().is_some_and(|(_, since)| since.elapsed() >= age) {
            let Some((oldest, _)) = self.finished.pop_front() else { break };
            outlived.extend(self.streams.remove(&oldest));
        }
        outlived
    }

    /// Gives all of them.
    pub(super) fn take_all(&mut self) -> Vec<Arc<EventStream>> {
        self.streams.drain().map(|(_, track)| track).collect()
    }
}

/// One stream.
pub(super) struct EventStream {
    pub(super) log_key: String,
    id: u128,
    state: Mutex<EventStreamState>,
}

#[derive(Default)]
struct EventStreamState {
    /// The number of the last event.
    last_event: u64,
    /// Counts the readers: only the last one may go on.
    current_reader: u64,
    finished: bool,
    waker: Option<Waker>,
}

/// Events on their way into the log.
pub(super) type AppendFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl EventStream {
    pub(super) fn id(&self) -> u128 {
        self.id
    }

    /// Somebody else reads from now on.
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

    /// Whether this reader is still the one; if so, it is woken when it no longer is, or something was said.
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

    /// Makes events of lines and keeps them.
    pub(super) fn append_messages(
        &self,
        lines: &[u8],
        store: &Arc<dyn Store>,
        bounds: LogLimits,
    ) -> (EventBatch, Option<AppendFuture>) {
        let (first, count) = {
            let count = memchr::memchr_iter(b'\n', lines).count() as u64;
            let mut state = self.lock();
            let first = state.last_event + 1;
            state.last_event += count;
            (first, count)
        };
        let mut text = Vec::with_capacity(lines.len() + 48 * usize::try_from(count).unwrap_or_default());
        for (at, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
            self.write_event_id(&mut text, first + at as u64);
            write_event(&mut text, line);
        }
        let events = EventBatch { first, last: first + count - 1, text: Bytes::from(text) };
        let appending = self.append_to_log(events.clone(), store, bounds);
        (events, appending)
    }

    /// The event that begins a stream: an id to come back with, nothing else.
    pub(super) fn prime(
        &self,
        retry: Duration,
        store: &Arc<dyn Store>,
        bounds: LogLimits,
    ) -> (Bytes, Option<AppendFuture>) {
        let first = {
            let mut state = self.lock();
            state.last_event += 1;
            state.last_event
        };
        let text = self.priming_event(first, retry);
        // There is nothing in it to come back for; only another replica must know that the stream is there.
        let appending = match store.is_shared() {
            true => self.append_to_log(EventBatch { first, last: first, text: text.clone() }, store, bounds),
            false => None,
        };
        (text, appending)
    }

    /// The text of an event without data.
    pub(super) fn priming_event(&self, last: u64, retry: Duration) -> Bytes {
        let mut text = Vec::new();
        self.write_event_id(&mut text, last);
        let mut rest = String::new();
        let _ = write!(rest, "retry: {}\ndata: \n\n", retry.as_millis());
        text.extend_from_slice(rest.as_bytes());
        Bytes::from(text)
    }

    fn append_to_log(
        &self,
        events: EventBatch,
        store: &Arc<dyn Store>,
        bounds: LogLimits,
    ) -> Option<AppendFuture> {
        match store.append(&self.log_key, events, bounds) {
            StoreFuture::Ready(kept) => {
                log_append_error(kept);
                self.wake_reader();
                None
            }
            StoreFuture::Pending(kept) => Some(Box::pin(async move { log_append_error(kept.await) })),
        }
    }

    /// Tells whoever follows the log that there is more.
    pub(super) fn wake_reader(&self) {
        let waiting = self.lock().waker.take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn write_event_id(&self, text: &mut Vec<u8>, event: u64) {
        let mut id = String::with_capacity(32);
        let _ = writeln!(id, "id: {:x}-{event}", self.id);
        text.extend_from_slice(id.as_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, EventStreamState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn log_append_error(kept: Result<(), crate::store::StoreError>) {
    if let Err(error) = kept {
        tracing::error!(error = %Chain(&*error), "an event could not be kept");
    }
}

/// Where the events of a stream are kept.
pub(super) fn log_key(session: &str, number: u128) -> String {
    format!("events/{session}/{number:x}")
}

/// The stream and the event that `Last-IoEvent-ELICITATION_ID` names.
pub(super) fn parse_event_id(text: &str) -> Option<(u128, u64)> {
    let (number, event) = text.trim().split_once('-')?;
    Some((u128::from_str_radix(number, 16).ok()?, event.parse().ok()?))
}

/// One event.
pub(super) fn write_event(text: &mut Vec<u8>, line: &[u8]) {
    text.extend_from_slice(b"data: ");
    text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
    text.extend_from_slice(b"\n\n");
}

/// Events without ids.
pub(super) fn encode_events(lines: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(lines.len() + lines.len() / 8 + 64);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        write_event(&mut text, line);
    }
    Bytes::from(text)
}

/// Waits for events to be kept, if that takes a while.
pub(super) fn poll_append(
    appending: &mut Option<AppendFuture>,
    track: &EventStream,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if let Some(kept) = appending {
        if kept.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        *appending = None;
        track.wake_reader();
    }
    Poll::Ready(())
}
