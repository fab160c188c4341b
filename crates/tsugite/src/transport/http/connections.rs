//! The open connections of a listener: their idle timeout and their shutdown.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::http_state::HttpState;
use crate::lock::lock;

/// All connections of a listener.
///
/// One timer enforces the idle timeout of all of them. A request only marks its connection as busy and then as
/// responded; the timer reads the clock. With hyper's timer for each request head a small call costs 1.03 times the CPU
/// and 1.05 times the instructions.
pub(super) struct Connections {
    state: Arc<HttpState>,
    all: Mutex<Vec<Arc<ConnState>>>,
    /// Notified when the first connection opens.
    first_opened: Notify,
    /// Notified when the last connection closes.
    all_closed: Notify,
}

impl Connections {
    pub(super) fn new(state: Arc<HttpState>) -> Arc<Self> {
        Arc::new(Self {
            state,
            all: Mutex::default(),
            first_opened: Notify::new(),
            all_closed: Notify::new(),
        })
    }

    /// Registers a new connection.
    pub(super) fn register(self: &Arc<Self>, peer: Option<IpAddr>) -> ConnGuard {
        let mut all = self.lock();
        let connection = Arc::new(ConnState {
            state: self.state.clone(),
            peer,
            activity: AtomicU64::new(idle_since(&self.state)),
            waker: OnceLock::new(),
            index: AtomicU32::new(u32::try_from(all.len()).unwrap_or(u32::MAX)),
            shutdown: AtomicU8::new(KEEP_OPEN),
            stalled: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            responses: OnceLock::new(),
        });
        all.push(connection.clone());
        if all.len() == 1 {
            self.first_opened.notify_one();
        }
        drop(all);
        ConnGuard { connections: self.clone(), connection }
    }

    /// Closes connections that are idle for too long, for as long as it is polled.
    pub(super) async fn enforce_idle_timeout(&self) -> Infallible {
        let timeout = millis(self.state.http.header_read_timeout);
        loop {
            let come = self.first_opened.notified();
            let now = idle_since(&self.state);
            let mut next = now.saturating_add(timeout / 16);
            let mut overdue = Vec::new();
            let is_empty = {
                let all = self.lock();
                for connection in &*all {
                    match connection.check_idle(now, timeout) {
                        IdleCheck::IdleUntil(end) => next = next.min(end),
                        IdleCheck::TimedOut => overdue.push(connection.clone()),
                        IdleCheck::Active => {}
                    }
                }
                all.is_empty()
            };
            overdue.iter().for_each(|connection| connection.wake());
            drop(overdue);
            if is_empty {
                come.await;
                continue;
            }
            // Timeouts that are close together are handled together.
            let pause = next.saturating_sub(now).max(timeout / 64).clamp(1, DAY_MILLIS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Asks all connections to accept no more requests and to close when they are idle.
    pub(super) fn graceful_shutdown(&self) {
        self.request_shutdown(SHUTDOWN_GRACEFUL);
    }

    /// Closes all connections at once.
    pub(super) fn abort(&self) {
        self.request_shutdown(SHUTDOWN_NOW);
    }

    fn request_shutdown(&self, what: u8) {
        let all = self.lock().clone();
        for connection in all {
            connection.shutdown.store(what, Ordering::Relaxed);
            connection.wake();
        }
    }

    /// Waits until all connections are closed.
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

/// Removes a connection from the list when it is dropped.
pub(super) struct ConnGuard {
    connections: Arc<Connections>,
    pub(super) connection: Arc<ConnState>,
}

impl Drop for ConnGuard {
    fn drop(&mut self) {
        let mut all = self.connections.lock();
        let index = self.connection.index.load(Ordering::Relaxed) as usize;
        if index < all.len() {
            all.swap_remove(index);
        }
        if let Some(moved) = all.get(index) {
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
    /// The network address of the client.
    pub(super) peer: Option<IpAddr>,
    /// One of the states below, or the time since when the connection has been idle.
    activity: AtomicU64,
    /// Wakes the task that serves the connection, which never changes.
    waker: OnceLock<Waker>,
    index: AtomicU32,
    shutdown: AtomicU8,
    /// The peer does not read; the write timeout applies instead of the idle timeout.
    stalled: AtomicBool,
    /// Requests in progress: at most one, but for HTTP/2.
    requests: AtomicU32,
    /// The responses of an HTTP/2 connection, whose client may not take them.
    responses: OnceLock<Box<Mutex<Vec<Arc<ResponseActivity>>>>>,
}

/// When the body of a response was last polled, which HTTP/2 does only while its client can take more. 0 before the
/// response begins.
struct ResponseActivity(AtomicU64);

/// The result of an idle check of one connection.
enum IdleCheck {
    Active,
    /// It is idle, and times out at that time unless a request arrives.
    IdleUntil(u64),
    TimedOut,
}

/// A request is in progress.
const BUSY: u64 = 0;
/// A response was sent since the last idle check.
const RESPONDED: u64 = 1;
/// Values from here on are the time since when the connection has been idle.
const IDLE_SINCE: u64 = 2;
/// The idle timeout has passed.
const TIMED_OUT: u64 = u64::MAX;

const KEEP_OPEN: u8 = 0;
const SHUTDOWN_GRACEFUL: u8 = 1;
const SHUTDOWN_NOW: u8 = 2;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

impl ConnState {
    /// Whether the connection should accept no more requests.
    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed) != KEEP_OPEN
    }

    /// Records whether the peer has stopped reading.
    pub(super) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    /// Waits for something in the task of the connection. Returns `None` if the connection must be closed.
    pub(super) async fn run_until_closed<T>(
        &self,
        mut what: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        poll_fn(|cx| {
            if self.waker.get().is_none() {
                let _ = self.waker.set(cx.waker().clone());
                // A shutdown requested before found no waker; its flag is read below.
                fence(Ordering::SeqCst);
            }
            if self.shutdown.load(Ordering::Relaxed) == SHUTDOWN_NOW {
                return Poll::Ready(None);
            }
            if let Poll::Ready(there) = what(cx) {
                return Poll::Ready(Some(there));
            }
            // A request that arrived just now would have changed the state.
            match self.activity.load(Ordering::Relaxed) {
                TIMED_OUT => Poll::Ready(None),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// The same before the first request: a graceful shutdown closes the connection too.
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

    /// Checks the idle timeout. The task of the connection changes the state without a lock; only idle states are changed
    /// here, and only by compare and exchange.
    fn check_idle(&self, now: u64, timeout: u64) -> IdleCheck {
        let state = self.activity.load(Ordering::Relaxed);
        let (becomes, look) = match state {
            TIMED_OUT => return IdleCheck::Active,
            BUSY if self.has_untaken_response(now) => (TIMED_OUT, IdleCheck::TimedOut),
            BUSY => return IdleCheck::Active,
            _ if self.stalled.load(Ordering::Relaxed) => (RESPONDED, IdleCheck::Active),
            RESPONDED => (now, IdleCheck::Active),
            since if since.saturating_add(timeout) > now => {
                return IdleCheck::IdleUntil(since.saturating_add(timeout));
            }
            _ => (TIMED_OUT, IdleCheck::TimedOut),
        };
        match self.activity.compare_exchange(state, becomes, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => look,
            Err(_) => IdleCheck::Active,
        }
    }

    /// Whether the client has taken nothing of a response for the write timeout. An open stream is polled at least as often as
    /// it gets keep-alives.
    fn has_untaken_response(&self, now: u64) -> bool {
        let Some(responses) = self.responses.get() else { return false };
        let http = &self.state.http;
        let timeout = millis(http.write_timeout.max(http.keep_alive_interval.saturating_mul(2)));
        lock(responses).iter().any(|response| match response.0.load(Ordering::Relaxed) {
            0 => false,
            last_polled => last_polled.saturating_add(timeout) < now,
        })
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// A request in progress, until its response was handed to hyper.
pub(super) struct RequestGuard {
    pub(super) connection: Arc<ConnState>,
    /// Set on HTTP/2.
    response: Option<Arc<ResponseActivity>>,
}

impl RequestGuard {
    pub(super) fn begin(connection: Arc<ConnState>, version: http::Version) -> Self {
        connection.requests.fetch_add(1, Ordering::Relaxed);
        connection.activity.store(BUSY, Ordering::Relaxed);
        let response = (version == http::Version::HTTP_2).then(|| {
            let response = Arc::new(ResponseActivity(AtomicU64::new(0)));
            lock(connection.responses.get_or_init(Box::default)).push(response.clone());
            response
        });
        Self { connection, response }
    }

    /// Whether other requests use the connection at the same time.
    pub(super) fn is_multiplexed(&self) -> bool {
        self.response.is_some()
    }

    /// Records that the client takes the response.
    pub(super) fn mark_polled(&self) {
        if let Some(response) = &self.response {
            response.0.store(idle_since(&self.connection.state), Ordering::Relaxed);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if let (Some(response), Some(responses)) = (&self.response, self.connection.responses.get()) {
            lock(responses).retain(|other| !Arc::ptr_eq(other, response));
        }
        let was_last = self.connection.requests.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && self.connection.activity.load(Ordering::Relaxed) == BUSY {
            self.connection.activity.store(RESPONDED, Ordering::Relaxed);
        }
    }
}

/// The current time as the state of an idle connection.
fn idle_since(state: &HttpState) -> u64 {
    millis(Instant::now().saturating_duration_since(state.started_at)).saturating_add(IDLE_SINCE)
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
    async fn closing_a_connection_keeps_the_index_of_the_others() {
        let connections = connections();
        let mut guards: Vec<_> = (0..8).map(|_| connections.register(None)).collect();
        for leaves in [7, 0, 3, 3, 0, 2, 0] {
            drop(guards.remove(leaves));
            assert_eq!(connections.lock().len(), guards.len());
            for guard in &guards {
                let index = guard.connection.index.load(Ordering::Relaxed) as usize;
                assert!(Arc::ptr_eq(&connections.lock()[index], &guard.connection));
            }
        }
        let gone = connections.wait_until_empty();
        drop(guards);
        gone.await;
    }

    #[tokio::test]
    async fn a_connection_aborted_before_it_is_served_closes() {
        let connections = connections();
        let guard = connections.register(None);
        connections.abort();
        assert_eq!(guard.connection.run_until_closed(|_| Poll::<()>::Pending).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_after_its_timeout() {
        let connections = connections();
        let (watching, guard) = (connections.clone(), connections.register(None));
        let watch = tokio::spawn(async move { watching.enforce_idle_timeout().await });
        let started = Instant::now();
        assert_eq!(guard.connection.run_until_closed(|_| Poll::<()>::Pending).await, None);
        let limit = connections.state.http.header_read_timeout;
        assert!((limit..limit + limit / 10).contains(&started.elapsed()), "{:?}", started.elapsed());
        // Each request restarts the timeout, and a request in progress has none.
        drop(guard);
        let guard = connections.register(None);
        for _ in 0..5 {
            let request = RequestGuard::begin(guard.connection.clone(), http::Version::HTTP_11);
            tokio::time::advance(limit * 3).await;
            assert!(guard.connection.run_until_closed(|_| Poll::Ready(())).await.is_some());
            drop(request);
            let mut asked = std::pin::pin!(tokio::time::sleep(limit - Duration::from_secs(1)));
            assert!(guard.connection.run_until_closed(|cx| asked.as_mut().poll(cx)).await.is_some());
        }
        assert_eq!(guard.connection.run_until_closed(|_| Poll::<()>::Pending).await, None);
        watch.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn infinite_and_zero_timeouts_are_accepted() {
        for timeout in [Duration::MAX, Duration::ZERO] {
            let http = super::super::Http::new()
                .header_read_timeout(timeout)
                .body_read_timeout(timeout)
                .write_timeout(timeout);
            let connections = Connections::new(HttpState::new(&Server::new("s", "1").http(http)));
            let guard = connections.register(None);
            let watch = tokio::time::timeout(Duration::from_secs(3600), connections.enforce_idle_timeout());
            let waits = guard.connection.run_until_closed(|_| Poll::<()>::Pending);
            let sent_away = tokio::select! { _ = watch => false, _ = waits => true };
            assert_eq!(sent_away, timeout.is_zero());
        }
    }
}
