//! Response bodies that are event streams: of a request, of a session, or resumed from the log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use super::event_stream::{EventStream, encode_log, poll_append};
use super::exchange::Exchange;
use super::http_state::HttpState;
use super::log_writer::AppendFuture;
use super::sessions::SessionGuard;
use crate::server::limits::LimitPermit;
use crate::server::token_expiry::TokenWatch;
use crate::shared::outbound_queue::OutboundQueue;
use crate::store::{self, StoreFuture};

/// The body of an event stream.
pub(super) trait SseBody: Send {
    /// The events that are ready, as one piece of text; `None` at the end of the stream.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// Whether the stream has ended.
    fn is_end_stream(&self) -> bool {
        false
    }

    /// Whether the stream may be ended from outside. The end of some streams would cancel requests that run.
    fn can_end(&self) -> bool {
        true
    }
}

/// A stream without events.
pub(super) struct EndedSseBody;

impl SseBody for EndedSseBody {
    fn poll_events(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(None)
    }
}

/// A stream that ends when the token of its caller has expired.
pub(super) struct ExpiringSseBody {
    events: Box<dyn SseBody>,
    watch: TokenWatch,
}

impl ExpiringSseBody {
    pub(super) fn new(events: Box<dyn SseBody>, watch: TokenWatch) -> Self {
        Self { events, watch }
    }
}

impl SseBody for ExpiringSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Poll::Ready(events) = self.events.poll_events(cx) {
            return Poll::Ready(events);
        }
        match self.events.can_end() && self.watch.poll_expired(cx).is_ready() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.events.is_end_stream()
    }
}

/// The event stream of a POST: the handler runs while the body is polled.
pub(super) struct PostSseBody {
    exchange: Exchange,
    buffered: Option<Bytes>,
    reader_id: u64,
    keep_alive: KeepAlive,
}

impl PostSseBody {
    /// Continues an exchange as the body of its response. With `primes`, a stream that can be resumed begins with an event
    /// that has nothing but an id.
    pub(super) fn new(mut exchange: Exchange, primes: bool, state: &Arc<HttpState>) -> Self {
        let (mut buffered, mut reader_id) = (None, 0);
        if let Some(resumable) = &mut exchange.resumable {
            let stream = resumable.stream();
            reader_id = stream.attach_reader();
            if primes {
                let (event, append) = stream.prime(state.http.retry_interval, &state.logs);
                resumable.pending_append = append;
                buffered = Some(event);
            }
        }
        Self { exchange, buffered, reader_id, keep_alive: KeepAlive::new(state) }
    }

    /// Sends events of a request that has completed, once they are stored.
    pub(super) fn completed(mut exchange: Exchange, events: Bytes, state: &HttpState) -> Self {
        let reader_id = exchange.resumable.as_mut().map_or(0, |resumable| resumable.stream().attach_reader());
        Self { exchange, buffered: Some(events), reader_id, keep_alive: KeepAlive::new(state) }
    }
}

impl SseBody for PostSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(resumable) = &mut self.exchange.resumable
                && let Some(stream) = resumable.stream.clone()
            {
                // An event is sent only after it was stored.
                match poll_append(&mut resumable.pending_append, &stream, cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => {
                        self.buffered = None;
                        self.exchange.abort(error);
                        return Poll::Ready(None);
                    }
                    Poll::Pending => return self.keep_alive.poll(cx).map(Some),
                }
                if !stream.is_current_reader(self.reader_id, cx) {
                    return Poll::Ready(None);
                }
            }
            if let Some(events) = self.buffered.take() {
                self.keep_alive.reset();
                return Poll::Ready(Some(events));
            }
            let lines = ready!(self.exchange.poll_lines(cx));
            if !lines.is_empty() {
                self.buffered = Some(self.exchange.make_events(lines));
                continue;
            }
            if self.exchange.has_completed() {
                return Poll::Ready(None);
            }
            let queue = &self.exchange.output.queue;
            if queue.take_close_request() && self.exchange.resumable.is_some() {
                return Poll::Ready(None);
            }
            if queue.poll_readable(cx).is_ready() {
                continue;
            }
            return self.keep_alive.poll(cx).map(Some);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.buffered.is_none() && self.exchange.is_finished()
    }
}

/// The stream of a session for messages that belong to no request.
pub(super) struct StandaloneSseBody {
    state: Arc<HttpState>,
    _session: SessionGuard,
    stream: Arc<EventStream>,
    reader_id: u64,
    outbox: Arc<OutboundQueue>,
    buffered: Option<Bytes>,
    /// The last event that the client has, if it resumed: a previous reader may have taken later ones from the queue.
    last_delivered: Option<u64>,
    log_read: Option<LogReadFuture>,
    pending_append: Option<AppendFuture>,
    keep_alive: KeepAlive,
    _open_stream: LimitPermit,
}

impl StandaloneSseBody {
    /// Begins with the events in `buffered`. A client that resumed has all events up to `last_delivered` then.
    pub(super) fn new(
        state: Arc<HttpState>,
        session: SessionGuard,
        stream: Arc<EventStream>,
        buffered: Option<Bytes>,
        last_delivered: Option<u64>,
        open: LimitPermit,
    ) -> Self {
        let (reader_id, outbox, keep_alive) =
            (stream.attach_reader(), session.connection.outbox().clone(), KeepAlive::new(&state));
        let (log_read, pending_append) = (None, None);
        Self {
            state,
            _session: session,
            stream,
            reader_id,
            outbox,
            buffered,
            last_delivered,
            log_read,
            pending_append,
            keep_alive,
            _open_stream: open,
        }
    }

    /// Reads the events that the client has missed from the log into `buffered`.
    fn poll_replay(&mut self, cx: &mut Context<'_>) -> Poll<Option<ReplayGap>> {
        let Some(after) = self.last_delivered.filter(|after| self.stream.last_event() > *after) else {
            return Poll::Ready(None);
        };
        let read = ready!(poll_log_read(&mut self.log_read, &self.state, &self.stream, after, cx));
        let Some(batches) = kept_batches(read) else { return Poll::Ready(Some(ReplayGap)) };
        // They are being stored; this reader is woken then.
        let Some(last) = batches.last() else { return Poll::Pending };
        self.last_delivered = Some(last.last);
        self.buffered = Some(encode_log(self.stream.id(), &batches, after));
        Poll::Ready(None)
    }
}

impl Drop for StandaloneSseBody {
    fn drop(&mut self) {
        // Removes our waker. Another reader that has taken over registers itself again.
        self.outbox.wake();
        // Events taken from the queue must be stored, so that the client can resume.
        if let (Some(appending), Ok(runtime)) =
            (self.pending_append.take(), tokio::runtime::Handle::try_current())
        {
            let stream = self.stream.clone();
            self.state.spawn_detached(&runtime, None, async move {
                let _ = appending.await;
                stream.wake_reader();
            });
        }
    }
}

/// Events that the client needs are no longer in the log: the stream ends.
struct ReplayGap;

impl SseBody for StandaloneSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if ready!(poll_append(&mut self.pending_append, &self.stream, cx)).is_err() {
                return Poll::Ready(None);
            }
            if let Some(first) = self.buffered.take() {
                self.keep_alive.reset();
                return Poll::Ready(Some(first));
            }
            // Another reader took over, the session has ended, or the server is shutting down.
            if !self.stream.is_current_reader(self.reader_id, cx)
                || self.outbox.is_closed()
                || self.state.is_closing()
            {
                // The next reader waits on the same queue, which wakes only one.
                self.outbox.clear_waker();
                self.stream.wake_reader();
                return Poll::Ready(None);
            }
            if let Some(ReplayGap) = ready!(self.poll_replay(cx)) {
                return Poll::Ready(None);
            }
            if self.buffered.is_some() {
                continue;
            }
            let mut lines = Vec::new();
            if self.outbox.take_all(&mut lines) {
                let (events, appending) = self.stream.append_messages(lines, false, &self.state.logs);
                self.pending_append = appending;
                // Else events came in between, and all are read from the log.
                if self.last_delivered.is_none_or(|after| events.first == after + 1) {
                    self.last_delivered = self.last_delivered.map(|_| events.last);
                    self.buffered = Some(events.text);
                }
                continue;
            }
            if self.outbox.poll_readable(cx).is_ready() {
                continue;
            }
            return self.keep_alive.poll(cx).map(Some);
        }
    }
}

/// A resumed stream of a request: events from the log, and those that are still appended to it.
pub(super) struct ResumedSseBody {
    state: Arc<HttpState>,
    _session: SessionGuard,
    stream: Arc<EventStream>,
    reader_id: u64,
    last_delivered: u64,
    buffered: Option<Bytes>,
    log_read: Option<LogReadFuture>,
    keep_alive: KeepAlive,
    _open_stream: LimitPermit,
}

type LogReadResult = Result<Option<store::LogRead>, store::StoreError>;
type LogReadFuture = Pin<Box<dyn Future<Output = LogReadResult> + Send>>;

impl ResumedSseBody {
    pub(super) fn new(
        state: Arc<HttpState>,
        session: SessionGuard,
        stream: Arc<EventStream>,
        last_delivered: u64,
        buffered: Option<Bytes>,
        open: LimitPermit,
    ) -> Self {
        let (reader_id, keep_alive) = (stream.attach_reader(), KeepAlive::new(&state));
        Self {
            state,
            _session: session,
            stream,
            reader_id,
            last_delivered,
            buffered,
            log_read: None,
            keep_alive,
            _open_stream: open,
        }
    }
}

impl SseBody for ResumedSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.buffered.take() {
            return Poll::Ready(Some(first));
        }
        // Registered before the log is read, so that no event is missed.
        if !self.stream.is_current_reader(self.reader_id, cx) {
            return Poll::Ready(None);
        }
        let (done, last) = (self.stream.is_finished(), self.stream.last_event());
        if last > self.last_delivered || self.log_read.is_some() {
            let read =
                ready!(poll_log_read(&mut self.log_read, &self.state, &self.stream, self.last_delivered, cx));
            // Events that the client needs are no longer in the log: the stream ends.
            let Some(batches) = kept_batches(read) else { return Poll::Ready(None) };
            if let Some(last) = batches.last() {
                let after = std::mem::replace(&mut self.last_delivered, last.last);
                self.keep_alive.reset();
                return Poll::Ready(Some(encode_log(self.stream.id(), &batches, after)));
            }
        }
        if done {
            return Poll::Ready(None);
        }
        self.keep_alive.poll(cx).map(Some)
    }
}

/// Reads the events after an event from the log.
fn poll_log_read(
    reading: &mut Option<LogReadFuture>,
    state: &HttpState,
    stream: &EventStream,
    after: u64,
    cx: &mut Context<'_>,
) -> Poll<LogReadResult> {
    let mut read = match reading.take() {
        Some(read) => read,
        None => match state.store.read_log(&stream.log_key, after) {
            StoreFuture::Ready(read) => return Poll::Ready(read),
            StoreFuture::Pending(read) => read,
        },
    };
    let Poll::Ready(read) = read.as_mut().poll(cx) else {
        *reading = Some(read);
        return Poll::Pending;
    };
    Poll::Ready(read)
}

/// The events that were read, if none of them is missing.
pub(super) fn kept_batches(read: LogReadResult) -> Option<Vec<store::Batch>> {
    let read = read.ok()??;
    (!read.trimmed).then_some(read.batches)
}

/// Sends a comment at an interval, so that proxies do not close an idle stream.
pub(super) struct KeepAlive {
    interval: std::time::Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    pub(super) fn new(state: &HttpState) -> Self {
        Self { interval: state.http.keep_alive_interval, timer: None }
    }

    /// Starts the interval again, because events were sent.
    pub(super) fn reset(&mut self) {
        if let Some(next) = &mut self.timer {
            next.as_mut().reset(Instant::now() + self.interval);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let every = self.interval;
        let next = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        ready!(next.as_mut().poll(cx));
        next.as_mut().reset(Instant::now() + every);
        // Polled once more, so that the next interval wakes the task.
        let _ = next.as_mut().poll(cx);
        Poll::Ready(Bytes::from_static(b": still here\n\n"))
    }
}
