//! Results that may be reused as long as the server says (2026-07-28).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::{CacheScope, CacheSubject, Method, prompts, resources, tools};

use super::client_handler::Change;
use crate::lock::lock;

/// Whether a call may be answered from the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caching {
    /// Uses a fresh result, else asks the server and keeps its result.
    #[default]
    Use,
    /// Asks the server and keeps its result.
    Refresh,
    /// Asks the server and keeps nothing.
    Bypass,
}

/// The cache of one client. It keeps `public` results for every identity, and `private` results for the current one.
#[derive(Default)]
pub(super) struct Cache {
    entries: Mutex<CacheEntries>,
    hasher: RandomState,
}

/// The identity and scopes for which a result was requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum CacheIdentity {
    /// The client acts for one identity only.
    #[default]
    Fixed,
    /// The identity that the authorizer returns.
    Named { subject: String, scopes: String },
    /// A digest of the credentials, with a key of this process.
    Digest(u64),
}

#[derive(Default)]
struct CacheEntries {
    results: HashMap<CacheKey, CacheEntry>,
    /// The identity of the private results.
    identity: CacheIdentity,
    bytes: usize,
    /// Grows with each change: a result requested before a change must not be kept after it.
    generation: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CacheKey {
    method: &'static str,
    /// A cursor or a URI.
    subject: Option<String>,
}

impl CacheKey {
    fn new(method: &'static str, subject: CacheSubject<'_>) -> Self {
        Self { method, subject: subject.as_str().map(str::to_owned) }
    }
}

struct CacheEntry {
    result: RawJson,
    scope: CacheScope,
    expires_at: Instant,
}

/// The generation in which a result was requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheGeneration(u64);

impl Cache {
    /// The identity of credentials that the authorizer does not name.
    pub(super) fn identity_of_credentials(&self, credentials: Option<&str>) -> CacheIdentity {
        CacheIdentity::Digest(self.hasher.hash_one(credentials))
    }

    /// Drops the private results of every other identity. Results requested before are not kept either. Returns true if the
    /// identity has changed.
    pub(super) fn set_identity(&self, identity: &CacheIdentity) -> bool {
        let mut entries = lock(&self.entries);
        if entries.identity == *identity {
            return false;
        }
        entries.identity = identity.clone();
        entries.generation += 1;
        entries.results.retain(|_, entry| entry.scope == CacheScope::Public);
        entries.bytes = entries.results.values().map(|entry| entry.result.text().len()).sum();
        true
    }

    /// The current generation, to be taken before the request is sent.
    pub(super) fn generation(&self) -> CacheGeneration {
        CacheGeneration(lock(&self.entries).generation)
    }

    /// A fresh result.
    pub(super) fn get(&self, method: &'static str, subject: CacheSubject<'_>) -> Option<RawJson> {
        let key = CacheKey::new(method, subject);
        let mut entries = lock(&self.entries);
        let entry = entries.results.get(&key)?;
        if entry.expires_at > Instant::now() {
            return Some(entry.result.clone());
        }
        entries.remove(&key);
        None
    }

    /// Keeps a result that may be kept, unless it was requested before the last change.
    pub(super) fn insert(
        &self,
        method: &'static str,
        subject: CacheSubject<'_>,
        result: &RawJson,
        generation: CacheGeneration,
    ) {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hint {
            ttl_ms: Option<f64>,
            #[serde(default)]
            cache_scope: Option<RawJson>,
        }
        let (ttl, scope) = match Raw::from(result).read::<Hint>() {
            Ok(Hint { ttl_ms: Some(ttl), cache_scope }) if ttl >= 1.0 => {
                // Without a scope that the client knows, the result is private.
                let scope = cache_scope.and_then(|scope| scope.read().ok()).unwrap_or(CacheScope::Private);
                (Duration::from_millis(ttl.min(MAX_TTL_MS) as u64), scope)
            }
            _ => return,
        };
        let size = result.text().len();
        let mut entries = lock(&self.entries);
        if size > MAX_BYTES / 4 || entries.generation != generation.0 {
            return;
        }
        let now = Instant::now();
        if entries.results.len() >= MAX_ENTRIES || entries.bytes + size > MAX_BYTES {
            entries.evict_expired(now);
        }
        if entries.results.len() >= MAX_ENTRIES || entries.bytes + size > MAX_BYTES {
            entries.results.clear();
            entries.bytes = 0;
        }
        let key = CacheKey::new(method, subject);
        entries.remove(&key);
        entries.bytes += size;
        entries.results.insert(key, CacheEntry { result: result.clone(), scope, expires_at: now + ttl });
    }

    /// Removes every page of a list. Pages requested before are not kept either.
    pub(super) fn remove_list(&self, method: &str) {
        let mut entries = lock(&self.entries);
        entries.generation += 1;
        entries.remove_if(|key| key.method == method);
    }

    /// Removes the results that depend on a change.
    pub(super) fn invalidate(&self, change: &Change) {
        let mut entries = lock(&self.entries);
        entries.generation += 1;
        let depends_on_change = |key: &CacheKey| match change {
            Change::Tools => key.method == tools::List::NAME,
            Change::Prompts => key.method == prompts::List::NAME,
            Change::Resources => {
                [resources::List::NAME, resources::ListTemplates::NAME].contains(&key.method)
            }
            Change::Resource { uri } => {
                key.method == resources::Read::NAME && key.subject.as_deref() == Some(uri)
            }
            Change::ElicitationComplete { .. } => false,
            Change::All => true,
        };
        entries.remove_if(depends_on_change);
    }
}

impl CacheEntries {
    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.results.remove(key) {
            self.bytes = self.bytes.saturating_sub(entry.result.text().len());
        }
    }

    fn remove_if(&mut self, is_stale: impl Fn(&CacheKey) -> bool) {
        let keys: Vec<CacheKey> = self.results.keys().filter(|key| is_stale(key)).cloned().collect();
        for key in keys {
            self.remove(&key);
        }
    }

    fn evict_expired(&mut self, now: Instant) {
        self.results.retain(|_, entry| entry.expires_at > now);
        self.bytes = self.results.values().map(|entry| entry.result.text().len()).sum();
    }
}

/// Results in the cache.
const MAX_ENTRIES: usize = 512;
/// Bytes of all results in the cache.
const MAX_BYTES: usize = 16 << 20;
/// The longest time a result is kept: a day, in milliseconds.
const MAX_TTL_MS: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: CacheSubject<'static> = CacheSubject::Page(None);

    fn result(ttl: u64) -> RawJson {
        RawJson::parse(format!(r#"{{"tools":[],"ttlMs":{ttl},"cacheScope":"private"}}"#)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn result_is_used_until_its_ttl_is_over() {
        // CACH-008
        let cache = Cache::default();
        cache.insert(tools::List::NAME, FIRST, &result(1000), cache.generation());
        assert!(cache.get(tools::List::NAME, FIRST).is_some());
        assert!(cache.get(tools::List::NAME, CacheSubject::Page(Some("page2"))).is_none());
        tokio::time::advance(Duration::from_millis(1000)).await;
        assert!(cache.get(tools::List::NAME, FIRST).is_none());
    }

    #[tokio::test]
    async fn result_without_ttl_is_not_kept() {
        let cache = Cache::default();
        for result in [result(0), RawJson::empty_object()] {
            cache.insert(tools::List::NAME, FIRST, &result, cache.generation());
            assert!(cache.get(tools::List::NAME, FIRST).is_none());
        }
    }

    #[tokio::test]
    async fn change_removes_only_results_that_depend_on_it() {
        let cache = Cache::default();
        let now = cache.generation();
        cache.insert(tools::List::NAME, FIRST, &result(9000), now);
        cache.insert(resources::Read::NAME, CacheSubject::Resource("a:1"), &result(9000), now);
        cache.insert(resources::Read::NAME, CacheSubject::Resource("a:2"), &result(9000), now);
        cache.invalidate(&Change::Resource { uri: "a:1".to_owned() });
        assert!(cache.get(resources::Read::NAME, CacheSubject::Resource("a:1")).is_none());
        assert!(cache.get(resources::Read::NAME, CacheSubject::Resource("a:2")).is_some());
        cache.invalidate(&Change::Tools);
        assert!(cache.get(tools::List::NAME, FIRST).is_none());
    }

    #[tokio::test]
    async fn result_requested_before_a_change_is_not_kept() {
        let cache = Cache::default();
        let generation = cache.generation();
        cache.invalidate(&Change::Tools);
        cache.insert(tools::List::NAME, FIRST, &result(9000), generation);
        assert!(cache.get(tools::List::NAME, FIRST).is_none());
    }

    #[tokio::test]
    async fn other_identity_drops_private_results_only() {
        // CACH-013
        let cache = Cache::default();
        let generation = cache.generation();
        for (uri, scope) in [("a:1", "private"), ("a:2", "public"), ("a:3", "unknown")] {
            let text = format!(r#"{{"ttlMs":9000,"cacheScope":"{scope}"}}"#);
            let result = RawJson::parse(text).unwrap();
            cache.insert(resources::Read::NAME, CacheSubject::Resource(uri), &result, generation);
        }
        let kept = |uri| cache.get(resources::Read::NAME, CacheSubject::Resource(uri)).is_some();
        assert!(!cache.set_identity(&CacheIdentity::Fixed));
        assert!(kept("a:1") && kept("a:2") && kept("a:3"));
        assert!(cache.set_identity(&cache.identity_of_credentials(Some("Bearer t"))));
        assert!(!kept("a:1") && kept("a:2") && !kept("a:3"));
        // Nor is a result kept that was requested before.
        cache.insert(tools::List::NAME, FIRST, &result(9000), generation);
        assert!(cache.get(tools::List::NAME, FIRST).is_none());
    }

    #[tokio::test]
    async fn cache_size_is_limited() {
        let cache = Cache::default();
        for number in 0..MAX_ENTRIES * 3 {
            cache.insert(
                resources::Read::NAME,
                CacheSubject::Resource(&format!("a:{number}")),
                &result(9000),
                cache.generation(),
            );
        }
        assert!(lock(&cache.entries).results.len() <= MAX_ENTRIES);
        let large =
            RawJson::from_value(&serde_json::json!({"ttlMs": 9000, "x": "y".repeat(MAX_BYTES / 2)})).unwrap();
        cache.insert(tools::List::NAME, FIRST, &large, cache.generation());
        assert!(cache.get(tools::List::NAME, FIRST).is_none());
    }
}
