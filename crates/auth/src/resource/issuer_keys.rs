//! [`IssuerKeys`]: the keys of an issuer, fetched when they are needed and kept.
//!
//! A token with an unknown key id causes a fetch, since issuers rotate their keys, but at most one per interval, since
//! anyone can write such a token. One fetch runs at a time, as a task of its own: a client that disconnects does not stop
//! it. While the issuer is down, the keys that are known stay in use for a day. After a quiet time they are fetched before
//! the next token is verified, so that a key that was withdrawn meanwhile counts no more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::issuer::Issuer;
use crate::error::{AuthError, Result};
use crate::jose::{Claims, JwkSet, JwtError, UnverifiedJwt};
use crate::net::{GuardedHttp, Url};

/// Where the keys are.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// At the `jwks_uri` of the issuer's metadata.
    Metadata,
    /// At a URL that the operator has named. With a guard: at one that a stranger has named.
    Url(String, Option<GuardedHttp>),
    /// Given by the operator.
    Given(Arc<JwkSet>),
}

/// The keys of one issuer.
pub(crate) struct IssuerKeys {
    source: KeySource,
    issuer: Issuer,
    state: Mutex<State>,
    /// The number of fetches that have ended.
    fetched: watch::Sender<u64>,
    /// The time between two fetches at least.
    refresh_interval: Duration,
}

#[derive(Default)]
struct State {
    keys: Option<(Arc<JwkSet>, Instant)>,
    /// When the last fetch began.
    begun: Option<Instant>,
    is_fetching: bool,
    /// Whether no fetch had begun for a long time before the last one.
    after_quiet_time: bool,
    /// Why the last fetch failed.
    failure: Option<AuthError>,
}

/// Why the signature of a token could not be verified.
#[derive(Debug)]
pub(crate) enum KeyError {
    Refused(JwtError),
    /// There are no keys. The last fetch failed for this reason, and the next one may begin after a time.
    Unavailable(AuthError, Duration),
}

impl IssuerKeys {
    pub(crate) fn new(source: KeySource, issuer: Issuer, refresh_interval: Duration) -> Arc<Self> {
        let (fetched, _) = watch::channel(0);
        Arc::new(Self { source, issuer, state: Mutex::default(), fetched, refresh_interval })
    }

    /// Verifies the signature of a token, and fetches the keys if that may help.
    pub(crate) async fn verify(self: &Arc<Self>, token: &UnverifiedJwt<'_>) -> Result<Claims, KeyError> {
        if let KeySource::Given(keys) = &self.source {
            return keys.verify(token).map_err(KeyError::Refused);
        }
        if let Some((keys, age)) = self.current_keys() {
            let verified = keys.verify(token);
            if verified.is_ok() || keys.has_named_key(token) {
                let fetching = if age > KEY_TTL { self.begin_fetch() } else { None };
                match fetching.filter(|_| self.state().after_quiet_time) {
                    None => return verified.map_err(KeyError::Refused),
                    Some(mut ended) => drop(ended.changed().await),
                }
            }
        }
        if let Some(mut ended) = self.begin_fetch() {
            // The sender lives as long as `self`.
            let _ = ended.changed().await;
        }
        match self.current_keys() {
            Some((keys, _)) => keys.verify(token).map_err(KeyError::Refused),
            None => {
                let state = self.state();
                let failure = state.failure.clone();
                let failure = failure.unwrap_or_else(|| AuthError::discovery("the keys are too old"));
                Err(KeyError::Unavailable(failure, self.time_to_next(&state)))
            }
        }
    }

    /// The keys that are known, and their age.
    fn current_keys(&self) -> Option<(Arc<JwkSet>, Duration)> {
        let mut state = self.state();
        let (keys, since) = state.keys.as_ref()?;
        let (keys, age) = (Arc::clone(keys), since.elapsed());
        if age > MAX_KEY_AGE {
            state.keys = None;
            return None;
        }
        Some((keys, age))
    }

    /// Begins a fetch unless one began shortly before. Returns what tells its end, also if it began earlier.
    fn begin_fetch(self: &Arc<Self>) -> Option<watch::Receiver<u64>> {
        let mut state = self.state();
        let ended = self.fetched.subscribe();
        if state.is_fetching {
            return Some(ended);
        }
        if !self.time_to_next(&state).is_zero() {
            return None;
        }
        state.after_quiet_time = state.begun.is_none_or(|begun| begun.elapsed() > QUIET_TIME);
        (state.is_fetching, state.begun) = (true, Some(Instant::now()));
        drop(state);
        let keys = Arc::clone(self);
        tokio::spawn(async move {
            let fetched = tokio::time::timeout(FETCH_TIMEOUT, keys.fetch()).await;
            let timeout = || AuthError::discovery(format!("no keys within {} s", FETCH_TIMEOUT.as_secs()));
            keys.finish_fetch(fetched.unwrap_or_else(|_| Err(timeout())));
        });
        Some(ended)
    }

    fn finish_fetch(&self, fetched: Result<JwkSet>) {
        let mut state = self.state();
        state.is_fetching = false;
        match fetched {
            Ok(keys) => (state.keys, state.failure) = (Some((Arc::new(keys), Instant::now())), None),
            Err(error) => {
                tracing::warn!(issuer = self.issuer.name, %error, "the keys of an issuer could not be fetched");
                state.failure = Some(error);
            }
        }
        drop(state);
        self.fetched.send_modify(|count| *count += 1);
    }

    async fn fetch(&self) -> Result<JwkSet> {
        let (url, http) = match &self.source {
            KeySource::Url(url, guard) => {
                (Url::parse(url)?, guard.clone().unwrap_or_else(|| self.issuer.trusted()))
            }
            KeySource::Metadata | KeySource::Given(_) => {
                let url = self.issuer.metadata().await?.jwks_uri()?;
                let http = self.issuer.http_for(&url);
                (url, http)
            }
        };
        let document = http.get_json(&url).await?;
        let keys = document.as_ref().and_then(JwkSet::from_document).filter(|keys| !keys.is_empty());
        keys.ok_or_else(|| {
            AuthError::discovery(format!("there are no usable keys at {}", url.without_query()))
        })
    }

    fn time_to_next(&self, state: &State) -> Duration {
        state.begun.map_or(Duration::ZERO, |begun| self.refresh_interval.saturating_sub(begun.elapsed()))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// After this time keys are fetched again, so that a key that the issuer has withdrawn is forgotten.
const KEY_TTL: Duration = Duration::from_secs(15 * 60);

/// If no fetch has begun for so long, requests wait for the next one instead of using the old keys. Shorter times pass
/// between two requests of a server in use, which need not wait.
const QUIET_TIME: Duration = Duration::from_secs(2 * KEY_TTL.as_secs());

/// The time for which keys are used while they cannot be fetched again.
const MAX_KEY_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The time limit of a fetch, metadata included. Requests wait for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jose::{Jwk, SigningKey};

    /// An issuer at an address where nothing listens.
    fn unreachable() -> Arc<IssuerKeys> {
        IssuerKeys::new(KeySource::Metadata, Issuer::new("http://127.0.0.1:1".to_owned()), INTERVAL)
    }

    fn key() -> (SigningKey, JwkSet) {
        let key = SigningKey::generate().unwrap().0;
        let jwk: Jwk = serde_json::from_value(key.public_jwk().unwrap()).unwrap();
        (key, JwkSet::new([jwk]))
    }

    async fn is_accepted(keys: &Arc<IssuerKeys>, token: &str) -> Result<(), bool> {
        match keys.verify(&UnverifiedJwt::parse(token).unwrap()).await {
            Ok(_) => Ok(()),
            Err(KeyError::Refused(_)) => Err(false),
            Err(KeyError::Unavailable(..)) => Err(true),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn known_keys_are_used_while_the_issuer_is_down() {
        let (keys, (signer, set)) = (unreachable(), key());
        let token = signer.sign_jwt(&[], &[]).unwrap();
        assert_eq!(is_accepted(&keys, &token).await, Err(true));
        keys.finish_fetch(Ok(set));
        assert_eq!(is_accepted(&keys, &token).await, Ok(()));
        // The fetch of old keys fails.
        let mut ended = keys.fetched.subscribe();
        tokio::time::advance(KEY_TTL + INTERVAL).await;
        assert_eq!(is_accepted(&keys, &token).await, Ok(()));
        ended.changed().await.unwrap();
        assert!(keys.state().failure.is_some());
        assert_eq!(is_accepted(&keys, &token).await, Ok(()));
        tokio::time::advance(MAX_KEY_AGE).await;
        assert_eq!(is_accepted(&keys, &token).await, Err(true));
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_keys_cause_one_fetch_per_interval() {
        let (keys, (_, set), (stranger, _)) = (unreachable(), key(), key());
        keys.finish_fetch(Ok(set));
        let before = *keys.fetched.borrow();
        for round in 1..=3 {
            for number in 0..20 {
                let token = stranger.clone().key_id(format!("{round}-{number}")).sign_jwt(&[], &[]).unwrap();
                assert_eq!(is_accepted(&keys, &token).await, Err(false));
            }
            assert_eq!(*keys.fetched.borrow() - before, round);
            tokio::time::advance(INTERVAL).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn withdrawn_key_is_refused_after_a_quiet_time() {
        let (keys, (signer, before), (_, after)) = (unreachable(), key(), key());
        keys.finish_fetch(Ok(before));
        let token = signer.sign_jwt(&[], &[]).unwrap();
        let token = UnverifiedJwt::parse(&token).unwrap();
        tokio::time::advance(Duration::from_secs(20 * 60 * 60)).await;
        let mut verifying = std::pin::pin!(keys.verify(&token));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(verifying.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        keys.finish_fetch(Ok(after));
        assert!(matches!(verifying.await, Err(KeyError::Refused(_))));
    }

    #[tokio::test]
    async fn caller_that_goes_away_does_not_stop_a_fetch() {
        let (keys, (signer, _)) = (unreachable(), key());
        let token = signer.sign_jwt(&[], &[]).unwrap();
        let token = UnverifiedJwt::parse(&token).unwrap();
        let mut ended = keys.fetched.subscribe();
        {
            let mut verifying = std::pin::pin!(keys.verify(&token));
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(verifying.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        }
        ended.changed().await.unwrap();
        assert!(keys.state().failure.is_some() && !keys.state().is_fetching);
    }

    const INTERVAL: Duration = Duration::from_secs(30);
}
