//! The connections there are: how long each may be silent, and how they are told to go.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::hub::Hub;
use crate::lock::lock;

/// All connections of a listener. One timer watches over them all, since each may be silent for the same time. What is
/// written down for a request is that it is there, and that it is answered; whoever watches sees it and knows the time.
pub(super) struct Guests {
    hub: Arc<Hub>,
    all: Mutex<Vec<Arc<Guest>>>,
    /// Somebody was the first to come.
    come: Notify,
    /// Somebody was the last to go.
    empty: Notify,
}

impl Guests {
    pub(super) fn of(hub: Arc<Hub>) -> Arc<Self> {
        Arc::new(Self { hub, all: Mutex::default(), come: Notify::new(), empty: Notify::new() })
    }

    /// A connection was made.
    pub(super) fn welcome(self: &Arc<Self>) -> Seat {
        let mut all = self.lock();
        let guest = Arc::new(Guest {
            hub: self.hub.clone(),
            state: AtomicU64::new(since(&self.hub)),
            waker: OnceLock::new(),
            place: AtomicU32::new(u32::try_from(all.len()).unwrap_or(u32::MAX)),
            asked: AtomicU8::new(TO_STAY),
            stalled: AtomicBool::new(false),
        });
        all.push(guest.clone());
        if all.len() == 1 {
            self.come.notify_one();
        }
        drop(all);
        Seat { guests: self.clone(), guest }
    }

    /// Sends away who is silent for too long, for as long as it is polled.
    pub(super) async fn watch(&self) -> Infallible {
        let patience = millis(self.hub.http.header_time);
        loop {
            let come = self.come.notified();
            let now = since(&self.hub);
            let mut next = now.saturating_add(patience / 16);
            let mut overdue = Vec::new();
            let nobody = {
                let all = self.lock();
                for guest in &*all {
                    match guest.look(now, patience) {
                        Look::Until(end) => next = next.min(end),
                        Look::TooLong => overdue.push(guest.clone()),
                        Look::Fine => {}
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
            let pause = next.saturating_sub(now).max(patience / 64).clamp(1, A_DAY);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Asks all to take no more requests, and to go when they are done.
    pub(super) fn ask_to_leave(&self) {
        self.ask(TO_LEAVE);
    }

    /// Sends all away, whatever they are at.
    pub(super) fn cut_off(&self) {
        self.ask(TO_GO);
    }

    fn ask(&self, what: u8) {
        let all = self.lock().clone();
        for guest in all {
            guest.asked.store(what, Ordering::Relaxed);
            guest.wake();
        }
    }

    /// Waits until nobody is left.
    pub(super) async fn gone(&self) {
        loop {
            let empty = self.empty.notified();
            if self.lock().is_empty() {
                return;
            }
            empty.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Guest>>> {
        lock(&self.all)
    }
}

/// The place of a guest among the others, until it is dropped.
pub(super) struct Seat {
    guests: Arc<Guests>,
    pub(super) guest: Arc<Guest>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.guests.lock();
        let place = self.guest.place.load(Ordering::Relaxed) as usize;
        if place < all.len() {
            all.swap_remove(place);
        }
        if let Some(moved) = all.get(place) {
            moved.place.store(self.guest.place.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if all.is_empty() {
            self.guests.empty.notify_waiters();
        }
    }
}

/// One connection.
pub(super) struct Guest {
    pub(super) hub: Arc<Hub>,
    /// What it is at: one of the states below, or since when nothing was heard.
    state: AtomicU64,
    /// Wakes the task that serves it, which is always the same.
    waker: OnceLock<Waker>,
    place: AtomicU32,
    asked: AtomicU8,
    /// The peer does not take what is written to it, which has a time of its own.
    stalled: AtomicBool,
}

/// What whoever watches sees.
enum Look {
    Fine,
    /// It is silent, and may be until then.
    Until(u64),
    TooLong,
}

/// A request is being answered.
const BUSY: u64 = 0;
/// The answer is on its way, or was read since somebody looked.
const ANSWERED: u64 = 1;
/// It speaks HTTP/2, where a connection without requests is kept and asked whether it is alive.
const UNTIMED: u64 = 2;
/// From here on: the time since when a request is waited for.
const SILENT: u64 = 3;
/// That took too long.
const TOO_LONG: u64 = u64::MAX;

const TO_STAY: u8 = 0;
const TO_LEAVE: u8 = 1;
const TO_GO: u8 = 2;

const A_DAY: u64 = 24 * 60 * 60 * 1000;

impl Guest {
    /// Whether no more requests are to be taken.
    pub(super) fn is_asked_to_leave(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != TO_STAY
    }

    /// The peer reads on, or does not.
    pub(super) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    /// Waits for something in the task that serves it. Gives nothing when it has to go.
    pub(super) async fn wait<T>(&self, mut what: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        poll_fn(|cx| {
            if self.waker.get().is_none() {
                let _ = self.waker.set(cx.waker().clone());
                // Whoever asked before did not find it.
                fence(Ordering::SeqCst);
            }
            if self.asked.load(Ordering::Relaxed) == TO_GO {
                return Poll::Ready(None);
            }
            if let Poll::Ready(there) = what(cx) {
                return Poll::Ready(Some(there));
            }
            // A request that came just now would have changed that.
            match self.state.load(Ordering::Relaxed) {
                TOO_LONG => Poll::Ready(None),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// The same before there is a request: whoever is asked to leave then has nothing to finish.
    pub(super) async fn wait_for_first<T>(
        &self,
        mut what: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let first = self.wait(|cx| match self.is_asked_to_leave() {
            true => Poll::Ready(None),
            false => what(cx).map(Some),
        });
        first.await.flatten()
    }

    /// Looks what it is at. Its own task may change that at any time and asks nobody, since nothing is changed here but a
    /// state that only another request ends.
    fn look(&self, now: u64, patience: u64) -> Look {
        let state = self.state.load(Ordering::Relaxed);
        let (becomes, look) = match state {
            BUSY | UNTIMED | TOO_LONG => return Look::Fine,
            _ if self.stalled.load(Ordering::Relaxed) => (ANSWERED, Look::Fine),
            ANSWERED => (now, Look::Fine),
            since if since.saturating_add(patience) > now => {
                return Look::Until(since.saturating_add(patience));
            }
            _ => (TOO_LONG, Look::TooLong),
        };
        match self.state.compare_exchange(state, becomes, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => look,
            Err(_) => Look::Fine,
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
pub(super) struct Visit(pub(super) Arc<Guest>);

impl Visit {
    pub(super) fn begin(guest: Arc<Guest>, version: http::Version) -> Self {
        let state = if version == http::Version::HTTP_2 { UNTIMED } else { BUSY };
        guest.state.store(state, Ordering::Relaxed);
        Self(guest)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.0.state.load(Ordering::Relaxed) == BUSY {
            self.0.state.store(ANSWERED, Ordering::Relaxed);
        }
    }
}

/// The time, as the state of a guest that begins to be silent.
fn since(hub: &Hub) -> u64 {
    millis(Instant::now().saturating_duration_since(hub.opened)).saturating_add(SILENT)
}

fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1000).saturating_add(duration.subsec_millis().into())
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::Server;

    fn guests() -> Arc<Guests> {
        Guests::of(Hub::new(&Server::new("s", "1")))
    }

    #[tokio::test]
    async fn whoever_goes_leaves_the_places_of_the_others_right() {
        let guests = guests();
        let mut seats: Vec<_> = (0..8).map(|_| guests.welcome()).collect();
        for leaves in [7, 0, 3, 3, 0, 2, 0] {
            drop(seats.remove(leaves));
            assert_eq!(guests.lock().len(), seats.len());
            for seat in &seats {
                let place = seat.guest.place.load(Ordering::Relaxed) as usize;
                assert!(Arc::ptr_eq(&guests.lock()[place], &seat.guest));
            }
        }
        let gone = guests.gone();
        drop(seats);
        gone.await;
    }

    #[tokio::test]
    async fn whoever_is_sent_away_before_being_served_goes_at_once() {
        let guests = guests();
        let seat = guests.welcome();
        guests.cut_off();
        assert_eq!(seat.guest.wait(|_| Poll::<()>::Pending).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_silent_is_over_when_it_is_over() {
        let guests = guests();
        let (watching, seat) = (guests.clone(), guests.welcome());
        let watch = tokio::spawn(async move { watching.watch().await });
        let begun = Instant::now();
        assert_eq!(seat.guest.wait(|_| Poll::<()>::Pending).await, None);
        let limit = guests.hub.http.header_time;
        assert!((limit..limit + limit / 10).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // Each request begins it anew, and what is being answered has no end.
        drop(seat);
        let seat = guests.welcome();
        for _ in 0..5 {
            let visit = Visit::begin(seat.guest.clone(), http::Version::HTTP_11);
            tokio::time::advance(limit * 3).await;
            assert!(seat.guest.wait(|_| Poll::Ready(())).await.is_some());
            drop(visit);
            let mut asked = std::pin::pin!(tokio::time::sleep(limit - Duration::from_secs(1)));
            assert!(seat.guest.wait(|cx| asked.as_mut().poll(cx)).await.is_some());
        }
        assert_eq!(seat.guest.wait(|_| Poll::<()>::Pending).await, None);
        watch.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn patience_without_bounds_and_none_at_all_harm_nobody() {
        for patience in [Duration::MAX, Duration::ZERO] {
            let http = super::super::Http::new().time_limits(patience, patience, patience);
            let guests = Guests::of(Hub::new(&Server::new("s", "1").http(http)));
            let seat = guests.welcome();
            let watch = tokio::time::timeout(Duration::from_secs(3600), guests.watch());
            let waits = seat.guest.wait(|_| Poll::<()>::Pending);
            let sent_away = tokio::select! { _ = watch => false, _ = waits => true };
            assert_eq!(sent_away, patience.is_zero());
        }
    }
}
