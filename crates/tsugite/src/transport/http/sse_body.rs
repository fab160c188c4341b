//! Bodies that are streams of events: what a call says, what belongs to no call, and what was said before.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, Sleep};

use super::event_stream::{AppendFuture, EventStream, encode_events, poll_append};
use super::http_state::HttpState;
use super::sessions::SessionGuard;
use crate::server::handler_limits::StreamPermit;
use crate::shared::outbound_queue::OutboundQueue;
use crate::store::{self, StoreFuture};

/// A stream of events.
pub(super) trait SseBody: Send {
    /// What is there, all at once; `None` if no more will come.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// Whether no more will come.
    fn is_end_stream(&self) -> bool {
        false
    }
}

/// What runs on behalf of a request.
pub(super) type HttpHandlerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request that is being answered: its handler runs inside, and what it says comes out.
pub(super) struct Exchange {
    pub(super) outbox: Arc<OutboundQueue>,
    handler: Option<HttpHandlerFuture>,
    /// The answer, and all before it, has been taken.
    drained: bool,
    /// What was said must leave before more is.
    must_flush: bool,
    /// Up to 2025-11-25 a lost connection is no cancellation: the handler goes on.
    resumable: Option<Resumable>,
}

/// What is needed to go on without a connection.
pub(super) struct Resumable {
    pub(super) state: Arc<HttpState>,
    pub(super) session: SessionGuard,
    stream: Option<Arc<EventStream>>,
    pending_append: Option<AppendFuture>,
}

impl Resumable {
    pub(super) fn new(state: Arc<HttpState>, session: SessionGuard) -> Self {
        Self { state, session, stream: None, pending_append: None }
    }

    fn stream(&mut self) -> Arc<EventStream> {
        let session = &self.session;
        self.stream.get_or_insert_with(|| session.with_streams(|tracks, id| tracks.create(id))).clone()
    }

    fn append_messages(&mut self, lines: &[u8]) -> Bytes {
        let (events, appending) =
            self.stream().append_messages(lines, &self.state.store, self.state.log_limits());
        self.pending_append = appending;
        events.text
    }

    /// Nothing more will be said.
    fn finish(&mut self) {
        if let Some(track) = self.stream.take() {
            track.set_finished();
            let most = self.state.http.max_logs_per_session;
            let forgotten = self.session.with_streams(|tracks, _| tracks.finish(track.id(), most));
            self.state.delete_logs(forgotten);
        }
    }
}

/// How far a request has come.
pub(super) enum FirstOutput {
    /// It is answered; this is all it said.
    Complete(Vec<u8>),
    /// It has something to say before its answer.
    Streaming,
}

impl Exchange {
    pub(super) fn new(
        outbox: Arc<OutboundQueue>,
        handler: Option<HttpHandlerFuture>,
        resumable: Option<Resumable>,
    ) -> Self {
        Self { outbox, handler, drained: false, must_flush: false, resumable }
    }

    /// What has come without waiting, if that is all there will be.
    pub(super) fn try_complete(&mut self) -> Option<FirstOutput> {
        if self.handler.is_some() {
            return None;
        }
        Some(FirstOutput::Complete(self.drain()))
    }

    /// After the answer nothing is said.
    fn drain(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        self.outbox.take_all(&mut said);
        self.drained = true;
        said
    }

    /// Waits for the answer, or for something that comes before it.
    pub(super) fn poll_first_output(&mut self, cx: &mut Context<'_>) -> Poll<FirstOutput> {
        self.poll_handler(cx);
        if self.handler.is_none() {
            return Poll::Ready(FirstOutput::Complete(self.drain()));
        }
        self.outbox.poll_readable(cx).map(|()| FirstOutput::Streaming)
    }

    /// All that was said, as events that a client can come back for.
    pub(super) fn into_events(mut self, said: &[u8]) -> Bytes {
        match &mut self.resumable {
            None => encode_events(said),
            Some(survival) => survival.append_messages(said),
        }
    }

    /// Goes on as a stream.
    pub(super) fn into_sse_body(mut self, primes: bool, hub: &Arc<HttpState>) -> PostSseBody {
        let (mut first, mut reader) = (None, 0);
        if let Some(survival) = &mut self.resumable {
            let track = survival.stream();
            reader = track.attach_reader();
            if primes {
                let (text, appending) = track.prime(hub.http.retry_interval, &hub.store, hub.log_limits());
                survival.pending_append = appending;
                first = Some(text);
            }
        }
        PostSseBody { exchange: self, buffered: first, reader_id: reader, keep_alive: KeepAlive::new(hub) }
    }

    /// Whoever has said something may only have stepped aside, and say more at once: that leaves with it, if it takes no
    /// time worth mentioning.
    fn poll_handler(&mut self, cx: &mut Context<'_>) {
        // What it says now is seen without being woken for it.
        self.outbox.clear_waker();
        let Some(work) = &mut self.handler else { return };
        let (began, mut said) = (Instant::now(), self.outbox.len());
        loop {
            if work.as_mut().poll(cx).is_ready() {
                self.handler = None;
                return;
            }
            let before = std::mem::replace(&mut said, self.outbox.len());
            if said == before || self.outbox.is_full() {
                return;
            }
            if began.elapsed() > COALESCE_WINDOW {
                self.must_flush = true;
                return;
            }
        }
    }

    /// Whether all was said.
    fn is_finished(&self) -> bool {
        self.handler.is_none() && self.outbox.is_empty()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(mut survival) = self.resumable.take() else { return };
        let work = self.handler.take();
        // What was said and nobody has taken must be kept as well.
        if work.is_none() && survival.pending_append.is_none() && (self.drained || self.outbox.is_empty()) {
            return survival.finish();
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let hub = survival.state.clone();
        hub.spawn_detached(
            &runtime,
            DetachedRequest { outbox: self.outbox.clone(), handler: work, resumable: survival },
        );
    }
}

/// A request whose connection is gone, or whose stream was cut: what it says is kept for the client to come back for.
pub(super) struct DetachedRequest {
    outbox: Arc<OutboundQueue>,
    handler: Option<HttpHandlerFuture>,
    resumable: Resumable,
}

impl Future for DetachedRequest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let (mut said, mut worked) = (Vec::new(), false);
        loop {
            if let Some(track) = &this.resumable.stream {
                ready!(poll_append(&mut this.resumable.pending_append, track, cx));
            }
            // Once: whoever always has more to say must not keep everybody else from working.
            if !std::mem::replace(&mut worked, true) {
                this.outbox.clear_waker();
                if let Some(work) = &mut this.handler
                    && work.as_mut().poll(cx).is_ready()
                {
                    this.handler = None;
                }
            }
            if this.outbox.take_all(&mut said) {
                // Without a stream there is no id to come back with: nobody can ask for it.
                if this.resumable.stream.is_some() {
                    drop(this.resumable.append_messages(&said));
                }
                continue;
            }
            if this.handler.is_none() {
                this.resumable.finish();
                return Poll::Ready(());
            }
            if this.outbox.poll_readable(cx).is_pending() {
                return Poll::Pending;
            }
            // It may only have asked to be cut once more.
            this.outbox.take_close_request();
        }
    }
}

/// How long what was said may wait for what is said next.
const COALESCE_WINDOW: Duration = Duration::from_micros(50);

/// The stream of a request.
pub(super) struct PostSseBody {
    exchange: Exchange,
    buffered: Option<Bytes>,
    reader_id: u64,
    keep_alive: KeepAlive,
}

impl SseBody for PostSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(survival) = &mut self.exchange.resumable
                && let Some(track) = survival.stream.clone()
            {
                // Nobody sees an event before it is kept.
                ready!(poll_append(&mut survival.pending_append, &track, cx));
                if !track.is_current_reader(self.reader_id, cx) {
                    return Poll::Ready(None);
                }
            }
            if let Some(first) = self.buffered.take() {
                self.keep_alive.reset();
                return Poll::Ready(Some(first));
            }
            // Whoever writes the stream asks for more until there is none, and writes then.
            if std::mem::take(&mut self.exchange.must_flush) && self.exchange.outbox.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.exchange.poll_handler(cx);
            let mut said = Vec::new();
            if self.exchange.outbox.take_all(&mut said) {
                let text = match &mut self.exchange.resumable {
                    None => encode_events(&said),
                    Some(survival) => survival.append_messages(&said),
                };
                self.buffered = Some(text);
                continue;
            }
            if self.exchange.handler.is_none() {
                return Poll::Ready(None);
            }
            if self.exchange.outbox.take_close_request() && self.exchange.resumable.is_some() {
                return Poll::Ready(None);
            }
            if self.exchange.outbox.poll_readable(cx).is_ready() {
                continue;
            }
            return self.keep_alive.poll(cx).map(Some);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.buffered.is_none() && self.exchange.is_finished()
    }
}

/// The stream of a session for what belongs to no request.
pub(super) struct StandaloneSseBody {
    state: Arc<HttpState>,
    _session: SessionGuard,
    stream: Arc<EventStream>,
    reader_id: u64,
    outbox: Arc<OutboundQueue>,
    buffered: Option<Bytes>,
    /// The last event that its client has, if it came back for more: the stream before this one may have taken some after
    /// it was asked for.
    last_delivered: Option<u64>,
    log_read: Option<LogReadFuture>,
    pending_append: Option<AppendFuture>,
    keep_alive: KeepAlive,
    _open_stream: StreamPermit,
}

impl StandaloneSseBody {
    /// Begins with `buffered`, which was said before. A client that came back has what was said up to `last_delivered` then.
    pub(super) fn new(
        state: Arc<HttpState>,
        session: SessionGuard,
        stream: Arc<EventStream>,
        buffered: Option<Bytes>,
        last_delivered: Option<u64>,
        open: StreamPermit,
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

    /// What its client has not been given, though it was said; nothing if there is no such thing.
    fn poll_replay(&mut self, cx: &mut Context<'_>) -> Poll<Option<ReplayGap>> {
        let Some(after) = self.last_delivered.filter(|after| self.stream.last_event() > *after) else {
            return Poll::Ready(None);
        };
        let read = ready!(poll_log_read(&mut self.log_read, &self.state, &self.stream, after, cx));
        let Ok(Some(events)) = read else { return Poll::Ready(Some(ReplayGap)) };
        // What is not kept yet will be, and then we are woken.
        let Some(last) = events.last() else { return Poll::Pending };
        self.last_delivered = Some(last.last);
        self.buffered = Some(concat_events(&events));
        Poll::Ready(None)
    }
}

impl Drop for StandaloneSseBody {
    fn drop(&mut self) {
        // What was taken from the session must be kept, though this client will not see it here.
        if let (Some(appending), Ok(runtime)) =
            (self.pending_append.take(), tokio::runtime::Handle::try_current())
        {
            let track = self.stream.clone();
            self.state.spawn_detached(&runtime, async move {
                appending.await;
                track.wake_reader();
            });
        }
    }
}

/// What is gone cannot be made up for: the client sees the stream end.
struct ReplayGap;

impl SseBody for StandaloneSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            ready!(poll_append(&mut self.pending_append, &self.stream, cx));
            if let Some(first) = self.buffered.take() {
                self.keep_alive.reset();
                return Poll::Ready(Some(first));
            }
            // The newest stream of a session hears the news, and the session may have ended.
            if !self.stream.is_current_reader(self.reader_id, cx)
                || self.outbox.is_closed()
                || self.state.is_closing()
            {
                // The next one waits for news as well, and only one can.
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
            let mut said = Vec::new();
            if self.outbox.take_all(&mut said) {
                let (events, appending) =
                    self.stream.append_messages(&said, &self.state.store, self.state.log_limits());
                self.pending_append = appending;
                // Else something was said in between, and all of it is read from the log.
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

/// A stream that is taken up again: what was said since, and what the request still says.
pub(super) struct ResumedSseBody {
    state: Arc<HttpState>,
    _session: SessionGuard,
    stream: Arc<EventStream>,
    reader_id: u64,
    last_delivered: u64,
    buffered: Option<Bytes>,
    log_read: Option<LogReadFuture>,
    keep_alive: KeepAlive,
}

type LogRead = Result<Option<Vec<store::EventBatch>>, store::StoreError>;
type LogReadFuture = Pin<Box<dyn Future<Output = LogRead> + Send>>;

impl ResumedSseBody {
    pub(super) fn new(
        state: Arc<HttpState>,
        session: SessionGuard,
        stream: Arc<EventStream>,
        last_delivered: u64,
        buffered: Option<Bytes>,
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
        }
    }
}

impl SseBody for ResumedSseBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.buffered.take() {
            return Poll::Ready(Some(first));
        }
        // Asked before the log is read, so that nothing falls between the two.
        if !self.stream.is_current_reader(self.reader_id, cx) {
            return Poll::Ready(None);
        }
        let (done, last) = (self.stream.is_finished(), self.stream.last_event());
        if last > self.last_delivered || self.log_read.is_some() {
            let read =
                ready!(poll_log_read(&mut self.log_read, &self.state, &self.stream, self.last_delivered, cx));
            // What is gone cannot be made up for: the client sees the stream end.
            let Ok(Some(events)) = read else { return Poll::Ready(None) };
            if let Some(last) = events.last() {
                self.last_delivered = last.last;
                self.keep_alive.reset();
                return Poll::Ready(Some(concat_events(&events)));
            }
        }
        if done {
            return Poll::Ready(None);
        }
        self.keep_alive.poll(cx).map(Some)
    }
}

/// What follows an event in the log.
fn poll_log_read(
    reading: &mut Option<LogReadFuture>,
    hub: &HttpState,
    track: &EventStream,
    after: u64,
    cx: &mut Context<'_>,
) -> Poll<LogRead> {
    let mut read = match reading.take() {
        Some(read) => read,
        None => match hub.store.read(&track.log_key, after) {
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

/// Events in one piece.
pub(super) fn concat_events(events: &[store::EventBatch]) -> Bytes {
    match events {
        [one] => one.text.clone(),
        many => {
            let mut text = BytesMut::new();
            many.iter().for_each(|events| text.extend_from_slice(&events.text));
            text.freeze()
        }
    }
}

/// Says now and then that a stream is still there.
pub(super) struct KeepAlive {
    interval: std::time::Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    pub(super) fn new(hub: &HttpState) -> Self {
        Self { interval: hub.http.keep_alive_interval, timer: None }
    }

    /// Something was said: that is sign enough.
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
        // Polled once more, so that the next one wakes us.
        let _ = next.as_mut().poll(cx);
        Poll::Ready(Bytes::from_static(b": still here\n\n"))
    }
}

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
