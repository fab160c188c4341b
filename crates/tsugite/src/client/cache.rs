//! Results that may be reused as long as the server says (2026-07-28).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::{CacheSubject, Method, prompts, resources, tools};

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

/// The cache of one client. It acts for one principal, so both `private` and `public` results may be kept.
#[derive(Default)]
pub(super) struct Cache {
    entries: Mutex<CacheEntries>,
}

#[derive(Default)]
struct CacheEntries {
    results: HashMap<CacheKey, CacheEntry>,
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
    expires_at: Instant,
}

/// The generation in which a result was requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheGeneration(u64);

impl Cache {
    /// The current generation, to be taken before the request is sent.
    pub(super) fn generation(&self) -> CacheGeneration {
        CacheGeneration(lock(&self.entries).generation)
    }

    /// A fresh result.
    pub(super) fn get(&self, method: &'static str, subject: CacheSubject<'_>) -> Option<RawJson> {
        let key = CacheKey::new(method, subject);
        let mut kept = lock(&self.entries);
        let entry = kept.results.get(&key)?;
        if entry.expires_at > Instant::now() {
            return Some(entry.result.clone());
        }
        kept.remove(&key);
        None
    }

    /// Keeps a result that may be kept, unless it was requested before the last change.
    pub(super) fn insert(
        &self,
        method: &'static str,
        subject: CacheSubject<'_>,
        result: &RawJson,
        asked: CacheGeneration,
    ) {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hint {
            ttl_ms: Option<f64>,
        }
        let ttl = match Raw::from(result).read::<Hint>() {
            Ok(Hint { ttl_ms: Some(ttl) }) if ttl >= 1.0 => Duration::from_millis(ttl.min(MAX_TTL_MS) as u64),
            _ => return,
        };
        let size = result.text().len();
        let mut kept = lock(&self.entries);
        if size > MAX_BYTES / 4 || kept.generation != asked.0 {
            return;
        }
        let now = Instant::now();
        if kept.results.len() >= MAX_ENTRIES || kept.bytes + size > MAX_BYTES {
            kept.evict_expired(now);
        }
        if kept.results.len() >= MAX_ENTRIES || kept.bytes + size > MAX_BYTES {
            kept.results.clear();
            kept.bytes = 0;
        }
        let key = CacheKey::new(method, subject);
        kept.remove(&key);
        kept.bytes += size;
        kept.results.insert(key, CacheEntry { result: result.clone(), expires_at: now + ttl });
    }

    /// Removes the results that depend on a change.
    pub(super) fn invalidate(&self, change: &Change) {
        let mut kept = lock(&self.entries);
        kept.generation += 1;
        let gone = |key: &CacheKey| match change {
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
        let keys: Vec<CacheKey> = kept.results.keys().filter(|key| gone(key)).cloned().collect();
        for key in keys {
            kept.remove(&key);
        }
    }
}

impl CacheEntries {
    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.results.remove(key) {
            self.bytes = self.bytes.saturating_sub(entry.result.text().len());
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
    async fn result_is_used_until_it_expires() {
        let cache = Cache::default();
        cache.insert(tools::List::NAME, FIRST, &result(1000), cache.generation());
        assert!(cache.get(tools::List::NAME, FIRST).is_some());
        assert!(cache.get(tools::List::NAME, CacheSubject::Page(Some("page2"))).is_none());
        tokio::time::advance(Duration::from_millis(1000)).await;
        assert!(cache.get(tools::List::NAME, FIRST).is_none());
    }

    #[tokio::test]
    async fn result_without_a_ttl_is_not_cached() {
        let cache = Cache::default();
        for result in [result(0), RawJson::empty_object()] {
            cache.insert(tools::List::NAME, FIRST, &result, cache.generation());
            assert!(cache.get(tools::List::NAME, FIRST).is_none());
        }
    }

    #[tokio::test]
    async fn change_invalidates_only_dependent_results() {
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
    async fn result_requested_before_a_change_is_not_cached() {
        let cache = Cache::default();
        let asked = cache.generation();
        cache.invalidate(&Change::Tools);
        cache.insert(tools::List::NAME, FIRST, &result(9000), asked);
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
