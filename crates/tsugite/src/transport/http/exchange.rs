//! A request whose handler is running: the handler is polled here, and its messages and response are taken from here.
//!
//! An exchange ends as JSON, as an event stream, or without a response ([`Outcome`]). Up to 2025-11-25 a lost connection
//! is no cancellation, so an exchange that is dropped early continues as a [`DetachedRequest`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::event_stream::{AppendFuture, EventStream, encode_events, poll_append};
use super::http_state::HttpState;
use super::sessions::SessionGuard;
use super::sse_body::PostSseBody;
use crate::server::response_writer::{ResponseSlot, WrittenResponse};
use crate::transport::outbound_queue::OutboundQueue;

/// The handler of a request, or of all requests of a batch.
pub(super) type HttpHandlerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request that was dispatched.
pub(super) struct Exchange {
    pub(super) output: Output,
    /// `None` once it has completed.
    handler: Option<HttpHandlerFuture>,
    /// The messages taken last must be flushed before the handler is polled again.
    pub(super) must_flush: bool,
    /// Set for a request of a session, whose client may resume the stream.
    pub(super) resumable: Option<Resumable>,
}

/// The messages of a request: those before the response, and the response.
#[derive(Clone)]
pub(super) struct Output {
    pub(super) queue: Arc<OutboundQueue>,
    pub(super) response: Arc<ResponseSlot>,
}

/// The result of a request when its HTTP response can begin.
pub(super) enum Outcome {
    /// A response and no message before it.
    Json(WrittenResponse),
    /// Messages on one line each, the response last. The handler has completed.
    Events(Vec<u8>),
    /// Messages, and the handler is still running.
    Stream,
    /// No message at all: the request was cancelled.
    Empty,
}

impl Output {
    pub(super) fn new(queue: OutboundQueue) -> Self {
        Self { queue: Arc::new(queue), response: Arc::default() }
    }

    /// Takes the messages that are there, one per line; and after the last of them the response, once the handler has
    /// completed.
    fn take_lines(&self, has_completed: bool) -> Vec<u8> {
        let mut lines = Vec::new();
        self.queue.take_all(&mut lines);
        if has_completed
            && self.queue.is_empty()
            && let Some(response) = self.response.take()
        {
            lines.extend_from_slice(&response.body);
            lines.push(b'\n');
        }
        lines
    }

    /// Takes the messages of a handler that has completed.
    fn take_outcome(&self) -> Outcome {
        if self.queue.is_empty() {
            return self.response.take().map_or(Outcome::Empty, Outcome::Json);
        }
        let mut lines = Vec::new();
        while !self.is_empty() {
            lines.append(&mut self.take_lines(true));
        }
        Outcome::Events(lines)
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.response.is_empty()
    }
}

/// The means to continue without a connection.
pub(super) struct Resumable {
    pub(super) state: Arc<HttpState>,
    session: SessionGuard,
    pub(super) stream: Option<Arc<EventStream>>,
    pub(super) pending_append: Option<AppendFuture>,
}

impl Resumable {
    pub(super) fn new(state: Arc<HttpState>, session: SessionGuard) -> Self {
        Self { state, session, stream: None, pending_append: None }
    }

    fn stream(&mut self) -> Arc<EventStream> {
        let session = &self.session;
        self.stream.get_or_insert_with(|| session.with_streams(|streams, id| streams.create(id))).clone()
    }

    /// Makes events of messages and appends them to the log.
    fn append_messages(&mut self, lines: &[u8]) -> Bytes {
        let (events, append) =
            self.stream().append_messages(lines, &self.state.store, self.state.log_limits());
        self.pending_append = append;
        events.text
    }

    /// Marks the stream as finished.
    fn finish(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.set_finished();
            let max_logs = self.state.http.max_logs_per_session;
            let expired = self.session.with_streams(|streams, _| streams.finish(stream.id(), max_logs));
            self.state.delete_logs(expired);
        }
    }
}

impl Exchange {
    pub(super) fn new(
        output: Output,
        handler: Option<HttpHandlerFuture>,
        resumable: Option<Resumable>,
    ) -> Self {
        Self { output, handler, must_flush: false, resumable }
    }

    /// The outcome, if the handler completed in its first poll.
    pub(super) fn try_outcome(&mut self) -> Option<Outcome> {
        self.has_completed().then(|| self.output.take_outcome())
    }

    /// Waits until the handler has completed or sent a message.
    pub(super) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.poll_handler(cx);
        match self.try_outcome() {
            Some(outcome) => Poll::Ready(outcome),
            None => self.output.queue.poll_readable(cx).map(|()| Outcome::Stream),
        }
    }

    /// Makes events of messages. They are appended to the log if the client may resume.
    pub(super) fn to_events(&mut self, lines: &[u8]) -> Bytes {
        match &mut self.resumable {
            None => encode_events(lines),
            Some(resumable) => resumable.append_messages(lines),
        }
    }

    /// Continues as the body of a response.
    pub(super) fn into_sse_body(mut self, primes: bool, state: &Arc<HttpState>) -> PostSseBody {
        let (mut first, mut reader) = (None, 0);
        if let Some(resumable) = &mut self.resumable {
            let stream = resumable.stream();
            reader = stream.attach_reader();
            if primes {
                let (event, append) =
                    stream.prime(state.http.retry_interval, &state.store, state.log_limits());
                resumable.pending_append = append;
                first = Some(event);
            }
        }
        PostSseBody::new(self, first, reader, state)
    }

    /// Whoever has said something may only have stepped aside, and say more at once: that leaves with it, if it takes no
    /// time worth mentioning.
    fn poll_handler(&mut self, cx: &mut Context<'_>) {
        // What it says now is seen without being woken for it.
        self.output.queue.clear_waker();
        let Some(work) = &mut self.handler else { return };
        let (began, mut said) = (Instant::now(), self.output.queue.len());
        loop {
            if work.as_mut().poll(cx).is_ready() {
                self.handler = None;
                return;
            }
            let before = std::mem::replace(&mut said, self.output.queue.len());
            if said == before || self.output.queue.is_full() {
                return;
            }
            if began.elapsed() > COALESCE_WINDOW {
                self.must_flush = true;
                return;
            }
        }
    }

    /// Polls the handler and takes the messages that are there.
    pub(super) fn poll_lines(&mut self, cx: &mut Context<'_>) -> Vec<u8> {
        self.poll_handler(cx);
        self.output.take_lines(self.has_completed())
    }

    pub(super) fn has_completed(&self) -> bool {
        self.handler.is_none()
    }

    /// Whether the handler has completed and all messages were taken.
    pub(super) fn is_finished(&self) -> bool {
        self.has_completed() && self.output.is_empty()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(mut resumable) = self.resumable.take() else { return };
        // Messages that were not sent must be stored as well.
        if self.is_finished() && resumable.pending_append.is_none() {
            return resumable.finish();
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (state, output, handler) = (resumable.state.clone(), self.output.clone(), self.handler.take());
        state.spawn_detached(&runtime, DetachedRequest { output, handler, resumable });
    }
}

/// A request whose connection was lost or whose stream was closed. Its messages are stored for the client to resume.
struct DetachedRequest {
    output: Output,
    handler: Option<HttpHandlerFuture>,
    resumable: Resumable,
}

impl Future for DetachedRequest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut was_polled = false;
        loop {
            if let Some(stream) = &this.resumable.stream {
                ready!(poll_append(&mut this.resumable.pending_append, stream, cx));
            }
            // Once per poll, so that a handler that always has another message does not starve other tasks.
            if !std::mem::replace(&mut was_polled, true) {
                this.output.queue.clear_waker();
                if let Some(handler) = &mut this.handler
                    && handler.as_mut().poll(cx).is_ready()
                {
                    this.handler = None;
                }
            }
            let lines = this.output.take_lines(this.handler.is_none());
            if !lines.is_empty() {
                // Without a stream the client has no event id to resume with.
                if this.resumable.stream.is_some() {
                    drop(this.resumable.append_messages(&lines));
                }
                continue;
            }
            if this.handler.is_none() {
                this.resumable.finish();
                return Poll::Ready(());
            }
            if this.output.queue.poll_readable(cx).is_pending() {
                return Poll::Pending;
            }
            // The stream is closed already.
            this.output.queue.take_close_request();
        }
    }
}

/// How long what was said may wait for what is said next.
const COALESCE_WINDOW: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Says so many things, and steps aside after each; then it waits for ever.
    async fn push_and_yield(outbox: Arc<OutboundQueue>, times: usize) {
        for _ in 0..times {
            outbox.push(|out| out.extend_from_slice(b"{}"));
            tokio::task::yield_now().await;
        }
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_between_two_steps_aside_leaves_together() {
        let outbox = Arc::new(OutboundQueue::new(1 << 20));
        let mut exchange =
            Exchange::new(outbox.clone(), Some(Box::pin(push_and_yield(outbox.clone(), 100))), None);
        let mut cx = Context::from_waker(Waker::noop());
        exchange.poll_handler(&mut cx);
        assert_eq!(outbox.len(), 100 * b"{}\n".len());
        assert!(!exchange.must_flush);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_stops_whoever_speaks() {
        let outbox = Arc::new(OutboundQueue::new(10));
        let mut exchange =
            Exchange::new(outbox.clone(), Some(Box::pin(push_and_yield(outbox.clone(), 100))), None);
        let mut cx = Context::from_waker(Waker::noop());
        exchange.poll_handler(&mut cx);
        assert!(outbox.is_full() && outbox.len() < 20, "{}", outbox.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_does_not_wait_for_slow_work() {
        let outbox = Arc::new(OutboundQueue::new(1 << 20));
        let speaker = outbox.clone();
        let work = async move {
            loop {
                speaker.push(|out| out.extend_from_slice(b"{}"));
                // The clock goes on at once, and whoever waits is woken.
                tokio::time::advance(COALESCE_WINDOW * 2).await;
            }
        };
        let mut exchange = Exchange::new(outbox.clone(), Some(Box::pin(work)), None);
        let mut cx = Context::from_waker(Waker::noop());
        exchange.poll_handler(&mut cx);
        assert!(exchange.must_flush);
        assert!(outbox.len() < 10 * b"{}\n".len(), "{}", outbox.len());
    }
}
