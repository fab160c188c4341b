//! The end of tokens, for streams that outlive a request.
//!
//! A stream ends when the newest token of its caller has expired. Only callers with such a stream are watched.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, Sleep};

use super::ServerShared;
use super::principal::Principal;
use crate::lock::lock;
use crate::shared::principal::CallerIdentity;

/// The callers with streams that end with their token.
#[derive(Default)]
pub(crate) struct TokenExpiries {
    /// The number of callers, which each request reads without a lock.
    watched: AtomicUsize,
    callers: Mutex<HashMap<CallerIdentity, WatchedCaller>>,
}

struct WatchedCaller {
    streams: usize,
    /// When the newest token expires.
    expires_at: Instant,
}

impl TokenExpiries {
    /// Notes the token of a request, so that streams of the same caller last as long as it.
    pub(crate) fn note(&self, principal: Option<&Principal>) {
        if self.watched.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(principal) = principal else { return };
        if let Some(caller) = lock(&self.callers).get_mut(&principal.identity()) {
            caller.expires_at = caller.expires_at.max(expiry(principal).unwrap_or_else(far_future));
        }
    }

    /// The end of the newest token of a caller.
    fn newest(&self, identity: &CallerIdentity) -> Option<Instant> {
        lock(&self.callers).get(identity).map(|caller| caller.expires_at)
    }
}

impl ServerShared {
    /// Watches the token of a stream; `None` if the token does not expire.
    pub(crate) fn watch_token(self: &Arc<Self>, principal: Option<&Principal>) -> Option<TokenWatch> {
        let principal = principal?;
        let (expires_at, identity) = (expiry(principal)?, principal.identity());
        let mut callers = lock(&self.token_expiries.callers);
        let caller = callers.entry(identity.clone()).or_insert(WatchedCaller { streams: 0, expires_at });
        caller.streams += 1;
        caller.expires_at = caller.expires_at.max(expires_at);
        self.token_expiries.watched.store(callers.len(), Ordering::Relaxed);
        drop(callers);
        let sleep = Box::pin(tokio::time::sleep_until(expires_at));
        Some(TokenWatch { shared: self.clone(), identity, sleep })
    }
}

/// Waits until the newest token of a stream's caller has expired.
pub(crate) struct TokenWatch {
    shared: Arc<ServerShared>,
    identity: CallerIdentity,
    sleep: Pin<Box<Sleep>>,
}

impl TokenWatch {
    /// Waits until the token of a watched stream has expired; for ever without a watch.
    pub(crate) async fn expired(watch: Option<Self>) {
        match watch {
            Some(mut watch) => std::future::poll_fn(|cx| watch.poll_expired(cx)).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            match self.shared.token_expiries.newest(&self.identity) {
                Some(expires_at) if expires_at > Instant::now() => self.sleep.as_mut().reset(expires_at),
                Some(_) | None => return Poll::Ready(()),
            }
        }
    }
}

impl Drop for TokenWatch {
    fn drop(&mut self) {
        let expiries = &self.shared.token_expiries;
        let mut callers = lock(&expiries.callers);
        if let Some(caller) = callers.get_mut(&self.identity) {
            caller.streams -= 1;
            if caller.streams == 0 {
                callers.remove(&self.identity);
                expiries.watched.store(callers.len(), Ordering::Relaxed);
            }
        }
    }
}

/// When the token of a caller expires, if it does.
pub(crate) fn expiry(principal: &Principal) -> Option<Instant> {
    let left = principal.expires_at()?.duration_since(SystemTime::now()).unwrap_or_default();
    Some(Instant::now() + left.min(MAX_WAIT))
}

fn far_future() -> Instant {
    Instant::now() + MAX_WAIT
}

/// Longer than any token lives; a longer time could overflow the clock.
const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    fn token(seconds: u64) -> Principal {
        Principal::new("ann").with_expiry(SystemTime::now() + Duration::from_secs(seconds))
    }

    #[tokio::test(start_paused = true)]
    async fn newer_token_of_the_same_caller_prolongs_a_stream() {
        let shared = Server::new("s", "1").shared;
        let started = Instant::now();
        let watch = shared.watch_token(Some(&token(60)));
        shared.token_expiries.note(Some(&token(90)));
        shared.token_expiries.note(Some(&token(30)));
        shared.token_expiries.note(Some(&Principal::new("bob")));
        TokenWatch::expired(watch).await;
        let waited = started.elapsed().as_secs();
        assert!((89..=90).contains(&waited), "{waited}");
        assert_eq!(shared.token_expiries.watched.load(Ordering::Relaxed), 0);
        assert!(shared.watch_token(Some(&Principal::new("ann"))).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn token_without_expiry_prolongs_a_stream() {
        let shared = Server::new("s", "1").shared;
        let watch = shared.watch_token(Some(&token(60)));
        shared.token_expiries.note(Some(&Principal::new("ann")));
        let expired = tokio::time::timeout(Duration::from_secs(3600), TokenWatch::expired(watch));
        assert!(expired.await.is_err());
    }
}
