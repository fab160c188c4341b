//! Tokens that were verified before.
//!
//! A lookup costs a keyed hash of the token and one comparison of it; SHA-256 of a token of 800 bytes alone would cost some
//! 7,000 instructions without hardware support. Only valid tokens are kept, so other clients cannot fill the cache.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

use foldhash::quality::RandomState;
use indexmap::IndexMap;
use tokio::time::Instant;

use super::resource_url::HostName;
use super::verify_token::{TokenScheme, Verified};
use crate::lock::lock;
use crate::server::token_expiry::expiry;

/// The verified tokens of a served server.
#[derive(Default)]
pub(super) struct TokenCache {
    /// Random for each process, so that no client can find tokens that collide.
    hasher: RandomState,
    entries: Mutex<IndexMap<u64, CachedToken, foldhash::fast::RandomState>>,
}

struct CachedToken {
    token: Box<[u8]>,
    /// The name by which the client reached a loopback listener: the audience of the token depends on it.
    host: HostName,
    /// A verifier need not accept the same token elsewhere in a request.
    scheme: TokenScheme,
    verified: Arc<Verified>,
    valid_until: Instant,
}

impl TokenCache {
    /// Returns what was found out about a token, if that still holds.
    pub(super) fn get(&self, token: &[u8], scheme: TokenScheme, host: HostName) -> Option<Arc<Verified>> {
        let entries = lock(&self.entries);
        let entry = entries.get(&self.key(token, scheme, host))?;
        let is_same = entry.host == host && entry.scheme == scheme && *entry.token == *token;
        (is_same && entry.valid_until > Instant::now()).then(|| entry.verified.clone())
    }

    /// Keeps what was found out about a token, for as long as its verifier says and at most until it expires.
    pub(super) fn insert(&self, token: &[u8], scheme: TokenScheme, host: HostName, verified: Arc<Verified>) {
        let now = Instant::now();
        let end = now.checked_add(verified.cache_ttl()).unwrap_or_else(|| now + MAX_TTL).min(now + MAX_TTL);
        let valid_until = expiry(verified.principal()).map_or(end, |expiry| expiry.min(end));
        if valid_until <= now || token.len() > MAX_TOKEN_BYTES {
            return;
        }
        let key = self.key(token, scheme, host);
        let mut entries = lock(&self.entries);
        if entries.len() >= MAX_TOKENS && !entries.contains_key(&key) {
            entries.retain(|_, entry| entry.valid_until > now);
            // Any of them: the hash of the new token is as good as a random number.
            if entries.len() >= MAX_TOKENS {
                let victim = usize::try_from(key % MAX_TOKENS as u64).unwrap_or_default();
                entries.swap_remove_index(victim);
            }
        }
        entries.insert(key, CachedToken { token: token.into(), host, scheme, verified, valid_until });
    }

    fn key(&self, token: &[u8], scheme: TokenScheme, host: HostName) -> u64 {
        self.hasher.hash_one((host, scheme, token))
    }
}

/// The number of tokens that are kept.
const MAX_TOKENS: usize = 16_384;

/// The longest token that is kept.
const MAX_TOKEN_BYTES: usize = 8 << 10;

/// The longest time that an answer is kept.
const MAX_TTL: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::server::Principal;

    const BEARER: TokenScheme = TokenScheme::Bearer;

    fn verified(ttl: u64) -> Verified {
        Verified::new(Principal::new("ann")).cache_for(Duration::from_secs(ttl))
    }

    #[tokio::test(start_paused = true)]
    async fn token_is_kept_until_its_time_or_expiry() {
        let cache = TokenCache::default();
        let insert = |token: &str, verified: Verified| {
            cache.insert(token.as_bytes(), BEARER, HostName::Other, Arc::new(verified))
        };
        let has = |token: &str| cache.get(token.as_bytes(), BEARER, HostName::Other).is_some();
        let expires =
            |seconds| Principal::new("ann").with_expiry(SystemTime::now() + Duration::from_secs(seconds));
        insert("never", verified(0));
        insert("minute", verified(60));
        insert("expires", Verified::new(expires(30)).cache_for(Duration::MAX));
        insert(
            "expired",
            Verified::new(Principal::new("ann").with_expiry(SystemTime::UNIX_EPOCH)).cache_for(Duration::MAX),
        );
        insert("long", Verified::new(Principal::new("ann")).cache_for(Duration::MAX));
        insert(&"x".repeat(MAX_TOKEN_BYTES + 1), verified(60));
        assert!(has("minute") && has("expires") && has("long"));
        assert!(!has("never") && !has("expired") && !has("minut") && !has(&"x".repeat(MAX_TOKEN_BYTES + 1)));
        assert!(cache.get(b"minute", BEARER, HostName::Localhost).is_none(), "the audience is another");
        assert!(
            cache.get(b"minute", TokenScheme::ApiKey, HostName::Other).is_none(),
            "the header is another"
        );
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(has("minute") && !has("expires"));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(!has("minute") && has("long"));
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_tokens_is_limited() {
        let cache = TokenCache::default();
        let one = Arc::new(verified(60));
        for number in 0..MAX_TOKENS + 10 {
            cache.insert(number.to_string().as_bytes(), BEARER, HostName::Other, one.clone());
        }
        assert_eq!(lock(&cache.entries).len(), MAX_TOKENS);
    }
}
