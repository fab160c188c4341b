//! Bodies that are streams of events: what a call says, what belongs to no call, and what was said before.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, Sleep};

use super::hub::Hub;
use super::session::InUse;
use super::track::{Appending, Track, plain, poll_kept};
use crate::server::handler_limits::StreamPermit;
use crate::store::{self, Soon};
use crate::transport::outbox::Outbox;

/// A stream of events.
pub(super) trait Events: Send {
    /// What is there, all at once; `None` if no more will come.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// Whether no more will come.
    fn is_over(&self) -> bool {
        false
    }
}

/// What runs on behalf of a request.
pub(super) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request that is being answered: its handler runs inside, and what it says comes out.
pub(super) struct Exchange {
    pub(super) outbox: Arc<Outbox>,
    work: Option<Running>,
    /// The answer, and all before it, has been taken.
    taken: bool,
    /// What was said must leave before more is.
    lets_leave: bool,
    /// Up to 2025-11-25 a lost connection is no cancellation: the handler goes on.
    survives: Option<Survival>,
}

/// What is needed to go on without a connection.
pub(super) struct Survival {
    pub(super) hub: Arc<Hub>,
    pub(super) session: InUse,
    track: Option<Arc<Track>>,
    appending: Option<Appending>,
}

impl Survival {
    pub(super) fn new(hub: Arc<Hub>, session: InUse) -> Self {
        Self { hub, session, track: None, appending: None }
    }

    fn track(&mut self) -> Arc<Track> {
        let session = &self.session;
        self.track.get_or_insert_with(|| session.tracks(|tracks, id| tracks.begin(id))).clone()
    }

    fn say(&mut self, lines: &[u8]) -> Bytes {
        let (events, appending) = self.track().say(lines, &self.hub.store, self.hub.bounds());
        self.appending = appending;
        events.text
    }

    /// Nothing more will be said.
    fn finish(&mut self) {
        if let Some(track) = self.track.take() {
            track.set_done();
            let most = self.hub.http.logs;
            let forgotten = self.session.tracks(|tracks, _| tracks.finish(track.number(), most));
            self.hub.forget(forgotten);
        }
    }
}

/// How far a request has come.
pub(super) enum Come {
    /// It is answered; this is all it said.
    Done(Vec<u8>),
    /// It has something to say before its answer.
    Speaks,
}

impl Exchange {
    pub(super) fn new(outbox: Arc<Outbox>, work: Option<Running>, survives: Option<Survival>) -> Self {
        Self { outbox, work, taken: false, lets_leave: false, survives }
    }

    /// What has come without waiting, if that is all there will be.
    pub(super) fn poll_now(&mut self) -> Option<Come> {
        if self.work.is_some() {
            return None;
        }
        Some(Come::Done(self.take_all()))
    }

    /// After the answer nothing is said.
    fn take_all(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        self.outbox.take_now(&mut said);
        self.taken = true;
        said
    }

    /// Waits for the answer, or for something that comes before it.
    pub(super) fn poll_come(&mut self, cx: &mut Context<'_>) -> Poll<Come> {
        self.poll_work(cx);
        if self.work.is_none() {
            return Poll::Ready(Come::Done(self.take_all()));
        }
        self.outbox.poll_filled(cx).map(|()| Come::Speaks)
    }

    /// All that was said, as events that a client can come back for.
    pub(super) fn events_of(mut self, said: &[u8]) -> Bytes {
        match &mut self.survives {
            None => plain(said),
            Some(survival) => survival.say(said),
        }
    }

    /// Goes on as a stream.
    pub(super) fn stream(mut self, primes: bool, hub: &Arc<Hub>) -> Stream {
        let (mut first, mut reader) = (None, 0);
        if let Some(survival) = &mut self.survives {
            let track = survival.track();
            reader = track.take_over();
            if primes {
                let (text, appending) = track.prime(hub.http.retry, &hub.store, hub.bounds());
                survival.appending = appending;
                first = Some(text);
            }
        }
        Stream { exchange: self, first, reader, beat: Beat::new(hub) }
    }

    /// Whoever has said something may only have stepped aside, and say more at once: that leaves with it, if it takes no
    /// time worth mentioning.
    fn poll_work(&mut self, cx: &mut Context<'_>) {
        // What it says now is seen without being woken for it.
        self.outbox.stop_waiting();
        let Some(work) = &mut self.work else { return };
        let (began, mut said) = (Instant::now(), self.outbox.len());
        loop {
            if work.as_mut().poll(cx).is_ready() {
                self.work = None;
                return;
            }
            let before = std::mem::replace(&mut said, self.outbox.len());
            if said == before || self.outbox.is_full() {
                return;
            }
            if began.elapsed() > TOGETHER {
                self.lets_leave = true;
                return;
            }
        }
    }

    /// Whether all was said.
    fn is_over(&self) -> bool {
        self.work.is_none() && self.outbox.is_empty()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(mut survival) = self.survives.take() else { return };
        let work = self.work.take();
        // What was said and nobody has taken must be kept as well.
        if work.is_none() && survival.appending.is_none() && (self.taken || self.outbox.is_empty()) {
            return survival.finish();
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let hub = survival.hub.clone();
        hub.adopt(&runtime, Orphan { outbox: self.outbox.clone(), work, survival });
    }
}

/// A request whose connection is gone, or whose stream was cut: what it says is kept for the client to come back for.
pub(super) struct Orphan {
    outbox: Arc<Outbox>,
    work: Option<Running>,
    survival: Survival,
}

impl Future for Orphan {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let (mut said, mut worked) = (Vec::new(), false);
        loop {
            if let Some(track) = &this.survival.track {
                ready!(poll_kept(&mut this.survival.appending, track, cx));
            }
            // Once: whoever always has more to say must not keep everybody else from working.
            if !std::mem::replace(&mut worked, true) {
                this.outbox.stop_waiting();
                if let Some(work) = &mut this.work
                    && work.as_mut().poll(cx).is_ready()
                {
                    this.work = None;
                }
            }
            if this.outbox.take_now(&mut said) {
                // Without a stream there is no id to come back with: nobody can ask for it.
                if this.survival.track.is_some() {
                    drop(this.survival.say(&said));
                }
                continue;
            }
            if this.work.is_none() {
                this.survival.finish();
                return Poll::Ready(());
            }
            if this.outbox.poll_filled(cx).is_pending() {
                return Poll::Pending;
            }
            // It may only have asked to be cut once more.
            this.outbox.takes_cut();
        }
    }
}

/// How long what was said may wait for what is said next.
const TOGETHER: Duration = Duration::from_micros(50);

/// The stream of a request.
pub(super) struct Stream {
    exchange: Exchange,
    first: Option<Bytes>,
    reader: u64,
    beat: Beat,
}

impl Events for Stream {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(survival) = &mut self.exchange.survives
                && let Some(track) = survival.track.clone()
            {
                // Nobody sees an event before it is kept.
                ready!(poll_kept(&mut survival.appending, &track, cx));
                if !track.is_read_by(self.reader, cx) {
                    return Poll::Ready(None);
                }
            }
            if let Some(first) = self.first.take() {
                self.beat.put_off();
                return Poll::Ready(Some(first));
            }
            // Whoever writes the stream asks for more until there is none, and writes then.
            if std::mem::take(&mut self.exchange.lets_leave) && self.exchange.outbox.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.exchange.poll_work(cx);
            let mut said = Vec::new();
            if self.exchange.outbox.take_now(&mut said) {
                let text = match &mut self.exchange.survives {
                    None => plain(&said),
                    Some(survival) => survival.say(&said),
                };
                self.first = Some(text);
                continue;
            }
            if self.exchange.work.is_none() {
                return Poll::Ready(None);
            }
            if self.exchange.outbox.takes_cut() && self.exchange.survives.is_some() {
                return Poll::Ready(None);
            }
            if self.exchange.outbox.poll_filled(cx).is_ready() {
                continue;
            }
            return self.beat.poll(cx).map(Some);
        }
    }

    fn is_over(&self) -> bool {
        self.first.is_none() && self.exchange.is_over()
    }
}

/// The stream of a session for what belongs to no request.
pub(super) struct Standalone {
    hub: Arc<Hub>,
    _session: InUse,
    track: Arc<Track>,
    reader: u64,
    outbox: Arc<Outbox>,
    first: Option<Bytes>,
    /// The last event that its client has, if it came back for more: the stream before this one may have taken some after
    /// it was asked for.
    after: Option<u64>,
    reading: Option<Reading>,
    appending: Option<Appending>,
    beat: Beat,
    _open: StreamPermit,
}

impl Standalone {
    /// Begins with `first`, which was said before. A client that came back has what was said up to `after` then.
    pub(super) fn new(
        hub: Arc<Hub>,
        session: InUse,
        track: Arc<Track>,
        first: Option<Bytes>,
        after: Option<u64>,
        open: StreamPermit,
    ) -> Self {
        let (reader, outbox, beat) = (track.take_over(), session.link.outbox().clone(), Beat::new(&hub));
        let (reading, appending) = (None, None);
        Self {
            hub,
            _session: session,
            track,
            reader,
            outbox,
            first,
            after,
            reading,
            appending,
            beat,
            _open: open,
        }
    }

    /// What its client has not been given, though it was said; nothing if there is no such thing.
    fn poll_missed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Missed>> {
        let Some(after) = self.after.filter(|after| self.track.last() > *after) else {
            return Poll::Ready(None);
        };
        let read = ready!(poll_read(&mut self.reading, &self.hub, &self.track, after, cx));
        let Ok(Some(events)) = read else { return Poll::Ready(Some(Missed)) };
        // What is not kept yet will be, and then we are woken.
        let Some(last) = events.last() else { return Poll::Pending };
        self.after = Some(last.last);
        self.first = Some(joined(&events));
        Poll::Ready(None)
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        // What was taken from the session must be kept, though this client will not see it here.
        if let (Some(appending), Ok(runtime)) = (self.appending.take(), tokio::runtime::Handle::try_current())
        {
            let track = self.track.clone();
            self.hub.adopt(&runtime, async move {
                appending.await;
                track.tell();
            });
        }
    }
}

/// What is gone cannot be made up for: the client sees the stream end.
struct Missed;

impl Events for Standalone {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            ready!(poll_kept(&mut self.appending, &self.track, cx));
            if let Some(first) = self.first.take() {
                self.beat.put_off();
                return Poll::Ready(Some(first));
            }
            // The newest stream of a session hears the news, and the session may have ended.
            if !self.track.is_read_by(self.reader, cx) || self.outbox.is_closed() || self.hub.is_closing() {
                // The next one waits for news as well, and only one can.
                self.outbox.stop_waiting();
                self.track.tell();
                return Poll::Ready(None);
            }
            if let Some(Missed) = ready!(self.poll_missed(cx)) {
                return Poll::Ready(None);
            }
            if self.first.is_some() {
                continue;
            }
            let mut said = Vec::new();
            if self.outbox.take_now(&mut said) {
                let (events, appending) = self.track.say(&said, &self.hub.store, self.hub.bounds());
                self.appending = appending;
                // Else something was said in between, and all of it is read from the log.
                if self.after.is_none_or(|after| events.first == after + 1) {
                    self.after = self.after.map(|_| events.last);
                    self.first = Some(events.text);
                }
                continue;
            }
            if self.outbox.poll_filled(cx).is_ready() {
                continue;
            }
            return self.beat.poll(cx).map(Some);
        }
    }
}

/// A stream that is taken up again: what was said since, and what the request still says.
pub(super) struct Resumed {
    hub: Arc<Hub>,
    _session: InUse,
    track: Arc<Track>,
    reader: u64,
    after: u64,
    first: Option<Bytes>,
    reading: Option<Reading>,
    beat: Beat,
}

type Read = Result<Option<Vec<store::Events>>, store::StoreError>;
type Reading = Pin<Box<dyn Future<Output = Read> + Send>>;

impl Resumed {
    pub(super) fn new(
        hub: Arc<Hub>,
        session: InUse,
        track: Arc<Track>,
        after: u64,
        first: Option<Bytes>,
    ) -> Self {
        let (reader, beat) = (track.take_over(), Beat::new(&hub));
        Self { hub, _session: session, track, reader, after, first, reading: None, beat }
    }
}

impl Events for Resumed {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        // Asked before the log is read, so that nothing falls between the two.
        if !self.track.is_read_by(self.reader, cx) {
            return Poll::Ready(None);
        }
        let (done, last) = (self.track.is_done(), self.track.last());
        if last > self.after || self.reading.is_some() {
            let read = ready!(poll_read(&mut self.reading, &self.hub, &self.track, self.after, cx));
            // What is gone cannot be made up for: the client sees the stream end.
            let Ok(Some(events)) = read else { return Poll::Ready(None) };
            if let Some(last) = events.last() {
                self.after = last.last;
                self.beat.put_off();
                return Poll::Ready(Some(joined(&events)));
            }
        }
        if done {
            return Poll::Ready(None);
        }
        self.beat.poll(cx).map(Some)
    }
}

/// What follows an event in the log.
fn poll_read(
    reading: &mut Option<Reading>,
    hub: &Hub,
    track: &Track,
    after: u64,
    cx: &mut Context<'_>,
) -> Poll<Read> {
    let mut read = match reading.take() {
        Some(read) => read,
        None => match hub.store.read(&track.log, after) {
            Soon::Now(read) => return Poll::Ready(read),
            Soon::Later(read) => read,
        },
    };
    let Poll::Ready(read) = read.as_mut().poll(cx) else {
        *reading = Some(read);
        return Poll::Pending;
    };
    Poll::Ready(read)
}

/// Events in one piece.
pub(super) fn joined(events: &[store::Events]) -> Bytes {
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
pub(super) struct Beat {
    every: std::time::Duration,
    next: Option<Pin<Box<Sleep>>>,
}

impl Beat {
    pub(super) fn new(hub: &Hub) -> Self {
        Self { every: hub.http.keep_alive, next: None }
    }

    /// Something was said: that is sign enough.
    pub(super) fn put_off(&mut self) {
        if let Some(next) = &mut self.next {
            next.as_mut().reset(Instant::now() + self.every);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let every = self.every;
        let next = self.next.get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
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
    async fn speak(outbox: Arc<Outbox>, times: usize) {
        for _ in 0..times {
            outbox.push(|out| out.extend_from_slice(b"{}"));
            tokio::task::yield_now().await;
        }
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_between_two_steps_aside_leaves_together() {
        let outbox = Arc::new(Outbox::new(1 << 20));
        let mut exchange = Exchange::new(outbox.clone(), Some(Box::pin(speak(outbox.clone(), 100))), None);
        let mut cx = Context::from_waker(Waker::noop());
        exchange.poll_work(&mut cx);
        assert_eq!(outbox.len(), 100 * b"{}\n".len());
        assert!(!exchange.lets_leave);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_stops_whoever_speaks() {
        let outbox = Arc::new(Outbox::new(10));
        let mut exchange = Exchange::new(outbox.clone(), Some(Box::pin(speak(outbox.clone(), 100))), None);
        let mut cx = Context::from_waker(Waker::noop());
        exchange.poll_work(&mut cx);
        assert!(outbox.is_full() && outbox.len() < 20, "{}", outbox.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_does_not_wait_for_slow_work() {
        let outbox = Arc::new(Outbox::new(1 << 20));
        let speaker = outbox.clone();
        let work = async move {
            loop {
                speaker.push(|out| out.extend_from_slice(b"{}"));
                // The clock goes on at once, and whoever waits is woken.
                tokio::time::advance(TOGETHER * 2).await;
            }
        };
        let mut exchange = Exchange::new(outbox.clone(), Some(Box::pin(work)), None);
        let mut cx = Context::from_waker(Waker::noop());
        exchange.poll_work(&mut cx);
        assert!(exchange.lets_leave);
        assert!(outbox.len() < 10 * b"{}\n".len(), "{}", outbox.len());
    }
}
