//! The connections there are: how long each may be silent, and how they are told to go.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::http_state::HttpState;
use crate::lock::lock;

/// All connections of a listener. One timer watches over them all, since each may be silent for the same time. What is
/// written down for a request is that it is there, and that it is answered; whoever watches sees it and knows the time.
pub(super) struct Connections {
    state: Arc<HttpState>,
    all: Mutex<Vec<Arc<ConnState>>>,
    /// Somebody was the first to come.
    first_opened: Notify,
    /// Somebody was the last to go.
    all_closed: Notify,
}

impl Connections {
    pub(super) fn new(hub: Arc<HttpState>) -> Arc<Self> {
        Arc::new(Self {
            state: hub,
            all: Mutex::default(),
            first_opened: Notify::new(),
            all_closed: Notify::new(),
        })
    }

    /// A connection was made.
    pub(super) fn register(self: &Arc<Self>) -> ConnGuard {
        let mut all = self.lock();
        let guest = Arc::new(ConnState {
            state: self.state.clone(),
            activity: AtomicU64::new(idle_since(&self.state)),
            waker: OnceLock::new(),
            index: AtomicU32::new(u32::try_from(all.len()).unwrap_or(u32::MAX)),
            shutdown: AtomicU8::new(KEEP_OPEN),
            stalled: AtomicBool::new(false),
        });
        all.push(guest.clone());
        if all.len() == 1 {
            self.first_opened.notify_one();
        }
        drop(all);
        ConnGuard { connections: self.clone(), connection: guest }
    }

    /// Sends away who is silent for too long, for as long as it is polled.
    pub(super) async fn enforce_idle_timeout(&self) -> Infallible {
        let patience = millis(self.state.http.header_read_timeout);
        loop {
            let come = self.first_opened.notified();
            let now = idle_since(&self.state);
            let mut next = now.saturating_add(patience / 16);
            let mut overdue = Vec::new();
            let nobody = {
                let all = self.lock();
                for guest in &*all {
                    match guest.check_idle(now, patience) {
                        IdleCheck::IdleUntil(end) => next = next.min(end),
                        IdleCheck::TimedOut => overdue.push(guest.clone()),
                        IdleCheck::Active => {}
                    }
                }
                all.is_empty()
            };
            overdue.iter().for_each(|guest| guest.wake());
            drop(overdue);
            if nobody {
                come.await;
                continue;
            }
            // Many whose time is over one after the other go together.
            let pause = next.saturating_sub(now).max(patience / 64).clamp(1, DAY_MILLIS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Asks all to take no more requests, and to go when they are done.
    pub(super) fn graceful_shutdown(&self) {
        self.request_shutdown(SHUTDOWN_GRACEFUL);
    }

    /// Sends all away, whatever they are at.
    pub(super) fn abort(&self) {
        self.request_shutdown(SHUTDOWN_NOW);
    }

    fn request_shutdown(&self, what: u8) {
        let all = self.lock().clone();
        for guest in all {
            guest.shutdown.store(what, Ordering::Relaxed);
            guest.wake();
        }
    }

    /// Waits until nobody is left.
    pub(super) async fn wait_until_empty(&self) {
        loop {
            let empty = self.all_closed.notified();
            if self.lock().is_empty() {
                return;
            }
            empty.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ConnState>>> {
        lock(&self.all)
    }
}

/// The place of a guest among the others, until it is dropped.
pub(super) struct ConnGuard {
    connections: Arc<Connections>,
    pub(super) connection: Arc<ConnState>,
}

impl Drop for ConnGuard {
    fn drop(&mut self) {
        let mut all = self.connections.lock();
        let place = self.connection.index.load(Ordering::Relaxed) as usize;
        if place < all.len() {
            all.swap_remove(place);
        }
        if let Some(moved) = all.get(place) {
            moved.index.store(self.connection.index.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if all.is_empty() {
            self.connections.all_closed.notify_waiters();
        }
    }
}

/// One connection.
pub(super) struct ConnState {
    pub(super) state: Arc<HttpState>,
    /// What it is at: one of the states below, or since when nothing was heard.
    activity: AtomicU64,
    /// Wakes the task that serves it, which is always the same.
    waker: OnceLock<Waker>,
    index: AtomicU32,
    shutdown: AtomicU8,
    /// The peer does not take what is written to it, which has a time of its own.
    stalled: AtomicBool,
}

/// What whoever watches sees.
enum IdleCheck {
    Active,
    /// It is silent, and may be until then.
    IdleUntil(u64),
    TimedOut,
}

/// A request is being answered.
const BUSY: u64 = 0;
/// The answer is on its way, or was read since somebody looked.
const RESPONDED: u64 = 1;
/// It speaks HTTP/2, where a connection without requests is kept and asked whether it is alive.
const UNTIMED: u64 = 2;
/// From here on: the time since when a request is waited for.
const IDLE_SINCE: u64 = 3;
/// That took too long.
const TIMED_OUT: u64 = u64::MAX;

const KEEP_OPEN: u8 = 0;
const SHUTDOWN_GRACEFUL: u8 = 1;
const SHUTDOWN_NOW: u8 = 2;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

impl ConnState {
    /// Whether no more requests are to be taken.
    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed) != KEEP_OPEN
    }

    /// The peer reads on, or does not.
    pub(super) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    /// Waits for something in the task that serves it. Gives nothing when it has to go.
    pub(super) async fn run_until_closed<T>(
        &self,
        mut what: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        poll_fn(|cx| {
            if self.waker.get().is_none() {
                let _ = self.waker.set(cx.waker().clone());
                // Whoever asked before did not find it.
                fence(Ordering::SeqCst);
            }
            if self.shutdown.load(Ordering::Relaxed) == SHUTDOWN_NOW {
                return Poll::Ready(None);
            }
            if let Poll::Ready(there) = what(cx) {
                return Poll::Ready(Some(there));
            }
            // A request that came just now would have changed that.
            match self.activity.load(Ordering::Relaxed) {
                TIMED_OUT => Poll::Ready(None),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// The same before there is a request: whoever is asked to leave then has nothing to finish.
    pub(super) async fn run_until_shutdown<T>(
        &self,
        mut what: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let first = self.run_until_closed(|cx| match self.is_shutting_down() {
            true => Poll::Ready(None),
            false => what(cx).map(Some),
        });
        first.await.flatten()
    }

    /// Looks what it is at. Its own task may change that at any time and asks nobody, since nothing is changed here but a
    /// state that only another request ends.
    fn check_idle(&self, now: u64, patience: u64) -> IdleCheck {
        let state = self.activity.load(Ordering::Relaxed);
        let (becomes, look) = match state {
            BUSY | UNTIMED | TIMED_OUT => return IdleCheck::Active,
            _ if self.stalled.load(Ordering::Relaxed) => (RESPONDED, IdleCheck::Active),
            RESPONDED => (now, IdleCheck::Active),
            since if since.saturating_add(patience) > now => {
                return IdleCheck::IdleUntil(since.saturating_add(patience));
            }
            _ => (TIMED_OUT, IdleCheck::TimedOut),
        };
        match self.activity.compare_exchange(state, becomes, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => look,
            Err(_) => IdleCheck::Active,
        }
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// A request of a guest, until its answer has been handed over.
pub(super) struct RequestGuard(pub(super) Arc<ConnState>);

impl RequestGuard {
    pub(super) fn begin(guest: Arc<ConnState>, version: http::Version) -> Self {
        let state = if version == http::Version::HTTP_2 { UNTIMED } else { BUSY };
        guest.activity.store(state, Ordering::Relaxed);
        Self(guest)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if self.0.activity.load(Ordering::Relaxed) == BUSY {
            self.0.activity.store(RESPONDED, Ordering::Relaxed);
        }
    }
}

/// The time, as the state of a guest that begins to be silent.
fn idle_since(hub: &HttpState) -> u64 {
    millis(Instant::now().saturating_duration_since(hub.started_at)).saturating_add(IDLE_SINCE)
}

fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1000).saturating_add(duration.subsec_millis().into())
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::Server;

    fn connections() -> Arc<Connections> {
        Connections::new(HttpState::new(&Server::new("s", "1")))
    }

    #[tokio::test]
    async fn whoever_goes_leaves_the_places_of_the_others_right() {
        let guests = connections();
        let mut seats: Vec<_> = (0..8).map(|_| guests.register()).collect();
        for leaves in [7, 0, 3, 3, 0, 2, 0] {
            drop(seats.remove(leaves));
            assert_eq!(guests.lock().len(), seats.len());
            for seat in &seats {
                let place = seat.connection.index.load(Ordering::Relaxed) as usize;
                assert!(Arc::ptr_eq(&guests.lock()[place], &seat.connection));
            }
        }
        let gone = guests.wait_until_empty();
        drop(seats);
        gone.await;
    }

    #[tokio::test]
    async fn whoever_is_sent_away_before_being_served_goes_at_once() {
        let guests = connections();
        let seat = guests.register();
        guests.abort();
        assert_eq!(seat.connection.run_until_closed(|_| Poll::<()>::Pending).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_silent_is_over_when_it_is_over() {
        let guests = connections();
        let (watching, seat) = (guests.clone(), guests.register());
        let watch = tokio::spawn(async move { watching.enforce_idle_timeout().await });
        let begun = Instant::now();
        assert_eq!(seat.connection.run_until_closed(|_| Poll::<()>::Pending).await, None);
        let limit = guests.state.http.header_read_timeout;
        assert!((limit..limit + limit / 10).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // Each request begins it anew, and what is being answered has no end.
        drop(seat);
        let seat = guests.register();
        for _ in 0..5 {
            let visit = RequestGuard::begin(seat.connection.clone(), http::Version::HTTP_11);
            tokio::time::advance(limit * 3).await;
            assert!(seat.connection.run_until_closed(|_| Poll::Ready(())).await.is_some());
            drop(visit);
            let mut asked = std::pin::pin!(tokio::time::sleep(limit - Duration::from_secs(1)));
            assert!(seat.connection.run_until_closed(|cx| asked.as_mut().poll(cx)).await.is_some());
        }
        assert_eq!(seat.connection.run_until_closed(|_| Poll::<()>::Pending).await, None);
        watch.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn patience_without_bounds_and_none_at_all_harm_nobody() {
        for patience in [Duration::MAX, Duration::ZERO] {
            let http = super::super::Http::new()
                .header_read_timeout(patience)
                .body_read_timeout(patience)
                .write_timeout(patience);
            let guests = Connections::new(HttpState::new(&Server::new("s", "1").http(http)));
            let seat = guests.register();
            let watch = tokio::time::timeout(Duration::from_secs(3600), guests.enforce_idle_timeout());
            let waits = seat.connection.run_until_closed(|_| Poll::<()>::Pending);
            let sent_away = tokio::select! { _ = watch => false, _ = waits => true };
            assert_eq!(sent_away, patience.is_zero());
        }
    }
}
