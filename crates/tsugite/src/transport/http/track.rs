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
use crate::store::{Events, LogBounds, Soon, Store};

/// The streams of a session that can be taken up again.
pub(super) struct Tracks {
    /// Told apart from those of other sessions, and of the same session at other replicas.
    base: u128,
    next: u64,
    known: HashMap<u128, Arc<Track>>,
    /// Those that are done, the oldest first, and since when.
    done: VecDeque<(u128, Instant)>,
}

impl Tracks {
    pub(super) fn new(session: u32, replica: u32) -> Self {
        let base = u128::from(session) << 96 | u128::from(replica) << 64;
        Self { base, next: 1, known: HashMap::new(), done: VecDeque::new() }
    }

    /// A new stream.
    pub(super) fn begin(&mut self, session: &str) -> Arc<Track> {
        let number = self.base + u128::from(self.next);
        self.next += 1;
        self.add(session, number)
    }

    /// The stream for what belongs to no request.
    pub(super) fn standalone(&mut self, session: &str) -> Arc<Track> {
        let number = self.base;
        match self.known.get(&number) {
            Some(track) => track.clone(),
            None => self.add(session, number),
        }
    }

    fn add(&mut self, session: &str, number: u128) -> Arc<Track> {
        let track = Arc::new(Track { log: log(session, number), number, state: Mutex::default() });
        self.known.insert(number, track.clone());
        track
    }

    /// Whether it is a stream for what belongs to no request, here or at another replica.
    pub(super) fn is_standalone(&self, number: u128) -> bool {
        number >> 96 == self.base >> 96 && number & u128::from(u64::MAX) == 0
    }

    pub(super) fn find(&self, number: u128) -> Option<Arc<Track>> {
        self.known.get(&number).cloned()
    }

    /// A stream has no more to say. Gives those that are forgotten for it.
    pub(super) fn finish(&mut self, number: u128, most: usize) -> Vec<Arc<Track>> {
        self.done.push_back((number, Instant::now()));
        let mut forgotten = Vec::new();
        while self.done.len() > most {
            let Some((oldest, _)) = self.done.pop_front() else { break };
            forgotten.extend(self.known.remove(&oldest));
        }
        forgotten
    }

    /// Gives the streams that have been done for longer than `age`.
    pub(super) fn outlived(&mut self, age: Duration) -> Vec<Arc<Track>> {
        let mut outlived = Vec::new();
        while self.done.front().is_some_and(|(_, since)| since.elapsed() >= age) {
            let Some((oldest, _)) = self.done.pop_front() else { break };
            outlived.extend(self.known.remove(&oldest));
        }
        outlived
    }

    /// Gives all of them.
    pub(super) fn all(&mut self) -> Vec<Arc<Track>> {
        self.known.drain().map(|(_, track)| track).collect()
    }
}

/// One stream.
pub(super) struct Track {
    pub(super) log: String,
    number: u128,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the last event.
    last: u64,
    /// Counts the readers: only the last one may go on.
    reader: u64,
    done: bool,
    waiting: Option<Waker>,
}

/// Events on their way into the log.
pub(super) type Appending = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Track {
    pub(super) fn number(&self) -> u128 {
        self.number
    }

    /// Somebody else reads from now on.
    pub(super) fn take_over(&self) -> u64 {
        let mut state = self.lock();
        state.reader += 1;
        let (reader, waiting) = (state.reader, state.waiting.take());
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        reader
    }

    /// Whether this reader is still the one; if so, it is woken when it no longer is, or something was said.
    pub(super) fn is_read_by(&self, reader: u64, cx: &mut Context<'_>) -> bool {
        let mut state = self.lock();
        if state.reader != reader {
            return false;
        }
        if !state.waiting.as_ref().is_some_and(|waiting| waiting.will_wake(cx.waker())) {
            state.waiting = Some(cx.waker().clone());
        }
        true
    }

    pub(super) fn is_done(&self) -> bool {
        self.lock().done
    }

    pub(super) fn set_done(&self) {
        let mut state = self.lock();
        state.done = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// The number of the last event.
    pub(super) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Makes events of lines and keeps them.
    pub(super) fn say(
        &self,
        lines: &[u8],
        store: &Arc<dyn Store>,
        bounds: LogBounds,
    ) -> (Events, Option<Appending>) {
        let (first, count) = {
            let count = memchr::memchr_iter(b'\n', lines).count() as u64;
            let mut state = self.lock();
            let first = state.last + 1;
            state.last += count;
            (first, count)
        };
        let mut text = Vec::with_capacity(lines.len() + 48 * usize::try_from(count).unwrap_or_default());
        for (at, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
            self.id(&mut text, first + at as u64);
            data(&mut text, line);
        }
        let events = Events { first, last: first + count - 1, text: Bytes::from(text) };
        let appending = self.keep(events.clone(), store, bounds);
        (events, appending)
    }

    /// The event that begins a stream: an id to come back with, nothing else.
    pub(super) fn prime(
        &self,
        retry: Duration,
        store: &Arc<dyn Store>,
        bounds: LogBounds,
    ) -> (Bytes, Option<Appending>) {
        let first = {
            let mut state = self.lock();
            state.last += 1;
            state.last
        };
        let text = self.priming(first, retry);
        // There is nothing in it to come back for; only another replica must know that the stream is there.
        let appending = match store.is_shared() {
            true => self.keep(Events { first, last: first, text: text.clone() }, store, bounds),
            false => None,
        };
        (text, appending)
    }

    /// The text of an event without data.
    pub(super) fn priming(&self, last: u64, retry: Duration) -> Bytes {
        let mut text = Vec::new();
        self.id(&mut text, last);
        let mut rest = String::new();
        let _ = write!(rest, "retry: {}\ndata: \n\n", retry.as_millis());
        text.extend_from_slice(rest.as_bytes());
        Bytes::from(text)
    }

    fn keep(&self, events: Events, store: &Arc<dyn Store>, bounds: LogBounds) -> Option<Appending> {
        match store.append(&self.log, events, bounds) {
            Soon::Now(kept) => {
                noted(kept);
                self.tell();
                None
            }
            Soon::Later(kept) => Some(Box::pin(async move { noted(kept.await) })),
        }
    }

    /// Tells whoever follows the log that there is more.
    pub(super) fn tell(&self) {
        let waiting = self.lock().waiting.take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn id(&self, text: &mut Vec<u8>, event: u64) {
        let mut id = String::with_capacity(32);
        let _ = writeln!(id, "id: {:x}-{event}", self.number);
        text.extend_from_slice(id.as_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn noted(kept: Result<(), crate::store::StoreError>) {
    if let Err(error) = kept {
        tracing::error!(error = %Chain(&*error), "an event could not be kept");
    }
}

/// Where the events of a stream are kept.
pub(super) fn log(session: &str, number: u128) -> String {
    format!("events/{session}/{number:x}")
}

/// The stream and the event that `Last-Event-ID` names.
pub(super) fn event_id(text: &str) -> Option<(u128, u64)> {
    let (number, event) = text.trim().split_once('-')?;
    Some((u128::from_str_radix(number, 16).ok()?, event.parse().ok()?))
}

/// One event.
pub(super) fn data(text: &mut Vec<u8>, line: &[u8]) {
    text.extend_from_slice(b"data: ");
    text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
    text.extend_from_slice(b"\n\n");
}

/// Events without ids.
pub(super) fn plain(lines: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(lines.len() + lines.len() / 8 + 64);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        data(&mut text, line);
    }
    Bytes::from(text)
}

/// Waits for events to be kept, if that takes a while.
pub(super) fn poll_kept(appending: &mut Option<Appending>, track: &Track, cx: &mut Context<'_>) -> Poll<()> {
    if let Some(kept) = appending {
        if kept.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        *appending = None;
        track.tell();
    }
    Poll::Ready(())
}
