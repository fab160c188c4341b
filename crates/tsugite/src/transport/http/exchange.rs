//! A request whose handler is running: the handler is polled here, and its messages and response are taken from here.
//!
//! An exchange ends as JSON, as an event stream, or without a response ([`Outcome`]). Up to 2025-11-25 a lost connection
//! is no cancellation, so an exchange that is dropped early continues as a [`DetachedRequest`].

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tsugite_core::revision::{Revision, RpcError};

use super::event_stream::{encode_events, poll_append};
use super::forwarding::ChangeError;
use super::in_flight_record::RegisterError;
use super::log_writer::AppendError;
use super::resumable::{Resumable, TrackedRequest};
use crate::server::ResponseWriter;
use crate::server::limits::{CallerKey, Resource};
use crate::server::response_writer::{ResponseSlot, WrittenResponse};
use crate::shared::log;
use crate::shared::outbound_queue::OutboundQueue;

/// The handler of a request, or of all requests of a batch.
pub(super) type HttpHandlerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request that was dispatched.
pub(super) struct Exchange {
    pub(super) output: Output,
    /// `None` once it has completed.
    handler: Option<HttpHandlerFuture>,
    /// Whether the handler was polled since the task last returned pending. It is polled once each time the task is
    /// scheduled, so that a handler that yields lets other tasks run.
    was_polled: bool,
    /// Since when messages have been held back for more to be sent with them.
    held_since: Option<Instant>,
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

impl Exchange {
    pub(super) fn new(
        output: Output,
        handler: Option<HttpHandlerFuture>,
        resumable: Option<Resumable>,
    ) -> Self {
        Self { output, handler, was_polled: false, held_since: None, resumable }
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
    pub(super) fn make_events(&mut self, lines: Vec<u8>) -> Bytes {
        match &mut self.resumable {
            None => encode_events(&lines),
            Some(resumable) => {
                let ends = self.handler.is_none() && self.output.is_empty();
                resumable.append_messages(lines, ends)
            }
        }
    }

    /// Registers a request that is not done at once, for other replicas. In an error the handler is dropped.
    ///
    /// The handler was polled once before: to register first would cost each call that is done at once two writes. So an
    /// error does not say that the request did not run, and is no reason for the client to repeat it.
    pub(super) async fn register(&mut self, revision: Revision) -> Result<(), RegisterError> {
        let Some(resumable) = &mut self.resumable else { return Ok(()) };
        let registered = resumable.register(revision).await;
        if let Err(error) = &registered {
            self.handler = None;
            drop(self.output.take_outcome());
            // A batch has ended only with its session.
            if let [TrackedRequest { id, .. }] = &*resumable.requests
                && let Some(error) = error.to_rpc_error(id)
            {
                let (queue, response) = (self.output.queue.clone(), self.output.response.clone());
                ResponseWriter::with_slot(queue, response).send_error(Some(id), &error, revision);
            }
        }
        registered
    }

    /// Whether the request changes its session in the store.
    pub(super) fn changes_session(&self) -> bool {
        self.resumable.as_ref().is_some_and(|resumable| !resumable.changes.is_empty())
    }

    /// Stores the changes that the request made.
    pub(super) async fn store_changes(&mut self) -> Result<(), ChangeError> {
        let Some(resumable) = &mut self.resumable else { return Ok(()) };
        for change in std::mem::take(&mut resumable.changes) {
            change.store(&resumable.state, &resumable.session).await?;
        }
        Ok(())
    }

    /// Replaces the outcome of a request that is done by an error.
    pub(super) async fn refuse(&mut self, error: &RpcError, revision: Revision) -> Outcome {
        let request = self.resumable.as_ref().and_then(|resumable| resumable.requests.first());
        let writer = ResponseWriter::with_slot(self.output.queue.clone(), self.output.response.clone());
        writer.send_error(request.map(|request| &request.id), error, revision);
        poll_fn(|cx| self.poll_outcome(cx)).await
    }

    /// Whether events wait to be stored.
    pub(super) fn has_pending_append(&self) -> bool {
        self.resumable.as_ref().is_some_and(|resumable| resumable.pending_append.is_some())
    }

    /// Drops the handler and its messages: nothing more can be sent.
    pub(super) fn abort(&mut self, error: AppendError) {
        self.handler = None;
        drop(self.output.take_outcome());
        if let Some(resumable) = &mut self.resumable {
            resumable.note_append_error(error);
        }
    }

    /// Polls the handler and returns the messages to send now, one per line. Empty if there are none.
    ///
    /// Messages are held back while each poll of the handler brings more, for up to [`COALESCE_WINDOW`]: a handler that
    /// yields after each message would otherwise cost one write per message.
    pub(super) fn poll_lines(&mut self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        if self.was_polled {
            let lines = self.output.take_lines(self.has_completed());
            return match lines.is_empty() && !self.has_completed() {
                // Pending, so that hyper flushes; then the handler is polled with the waker of the task that polls then.
                true => self.schedule(cx),
                false => Poll::Ready(lines),
            };
        }
        let before = self.output.queue.len();
        self.poll_handler(cx);
        let has_more = self.output.queue.len() > before;
        if has_more && !self.has_completed() && !self.output.queue.is_full() && self.may_hold() {
            return self.schedule(cx);
        }
        self.held_since = None;
        let lines = self.output.take_lines(self.has_completed());
        self.was_polled = !lines.is_empty();
        Poll::Ready(lines)
    }

    /// Returns pending, with the task scheduled behind the tasks that are ready.
    fn schedule<T>(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        self.was_polled = false;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether messages may be held back any longer.
    fn may_hold(&mut self) -> bool {
        self.held_since.get_or_insert_with(Instant::now).elapsed() < COALESCE_WINDOW
    }

    fn poll_handler(&mut self, cx: &mut Context<'_>) {
        self.was_polled = true;
        // The caller looks at the queue afterwards and need not be woken for messages of this poll.
        self.output.queue.clear_waker();
        if let Some(handler) = &mut self.handler
            && handler.as_mut().poll(cx).is_ready()
        {
            self.handler = None;
        }
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
        let caller = CallerKey::of_caller(&resumable.session.connection.caller);
        let permit = match resumable.state.limits.acquire(caller, Some(Resource::DetachedRequest), 0) {
            Ok(permit) => permit,
            Err(_) => {
                if log::is_first("detached", "limit") {
                    log::warn!(
                        "requests whose clients disconnected are cancelled: `Http::max_detached_requests` is reached"
                    );
                }
                self.handler = None;
                return resumable.finish();
            }
        };
        let (state, output, handler) = (resumable.state.clone(), self.output.clone(), self.handler.take());
        state.spawn_detached(&runtime, Some(permit), DetachedRequest { output, handler, resumable });
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
            if let Some(stream) = &this.resumable.stream
                && let Err(error) = ready!(poll_append(&mut this.resumable.pending_append, stream, cx))
            {
                this.handler = None;
                this.resumable.note_append_error(error);
                this.resumable.finish();
                return Poll::Ready(());
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
                    let ends = this.handler.is_none() && this.output.is_empty();
                    drop(this.resumable.append_messages(lines, ends));
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

/// How long messages are held back at most.
///
/// 100 notifications of a handler that yields after each one, on 4 connections, cost 4.0 times the CPU of a bare hyper
/// stream in a session and 3.2 times without one; with a window of 50 µs 5.1 and 3.8 times, without a window 39 and 34
/// times.
const COALESCE_WINDOW: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests;
