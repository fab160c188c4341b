//! Results that may be used again, as long as the server said so (2026-07-28).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::{Method, prompts, resources, tools};

use super::handler::Change;
use crate::lock::lock;

/// Whether a call may be answered from memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caching {
    /// What is fresh is used, and what comes is kept.
    #[default]
    Use,
    /// The server is asked, and what comes is kept.
    Refresh,
    /// The server is asked, and nothing is kept.
    Bypass,
}

/// What is kept. One client acts for one principal, so `private` and `public` results may both be kept for it.
#[derive(Default)]
pub(super) struct Cache {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    results: HashMap<Key, Entry>,
    bytes: usize,
    /// Grows with each change: what was asked before one must not be kept after it.
    changes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    method: &'static str,
    /// A cursor, or an URI.
    subject: Option<String>,
}

struct Entry {
    result: RawJson,
    until: Instant,
}

/// Says when a question was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment(u64);

impl Cache {
    /// Before the server is asked.
    pub(super) fn now(&self) -> Moment {
        Moment(lock(&self.kept).changes)
    }

    /// What may be used instead of asking.
    pub(super) fn find(&self, method: &'static str, subject: Option<&str>) -> Option<RawJson> {
        let key = Key { method, subject: subject.map(str::to_owned) };
        let mut kept = lock(&self.kept);
        let entry = kept.results.get(&key)?;
        if entry.until > Instant::now() {
            return Some(entry.result.clone());
        }
        kept.remove(&key);
        None
    }

    /// Keeps a result that says it may be kept. What was asked before the last change is not.
    pub(super) fn keep(&self, method: &'static str, subject: Option<&str>, result: &RawJson, asked: Moment) {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hint {
            ttl_ms: Option<f64>,
        }
        let ttl = match Raw::from(result).read::<Hint>() {
            Ok(Hint { ttl_ms: Some(ttl) }) if ttl >= 1.0 => Duration::from_millis(ttl.min(LONGEST) as u64),
            _ => return,
        };
        let size = result.text().len();
        let mut kept = lock(&self.kept);
        if size > BYTES / 4 || kept.changes != asked.0 {
            return;
        }
        let now = Instant::now();
        if kept.results.len() >= ENTRIES || kept.bytes + size > BYTES {
            kept.drop_stale(now);
        }
        if kept.results.len() >= ENTRIES || kept.bytes + size > BYTES {
            kept.results.clear();
            kept.bytes = 0;
        }
        let key = Key { method, subject: subject.map(str::to_owned) };
        kept.remove(&key);
        kept.bytes += size;
        kept.results.insert(key, Entry { result: result.clone(), until: now + ttl });
    }

    /// Something has changed: what depends on it is no longer true.
    pub(super) fn forget(&self, change: &Change) {
        let mut kept = lock(&self.kept);
        kept.changes += 1;
        let gone = |key: &Key| match change {
            Change::Tools => key.method == tools::List::NAME,
            Change::Prompts => key.method == prompts::List::NAME,
            Change::Resources => {
                [resources::List::NAME, resources::ListTemplates::NAME].contains(&key.method)
            }
            Change::Resource { uri } => {
                key.method == resources::Read::NAME && key.subject.as_deref() == Some(uri)
            }
            Change::Elicitation { .. } => false,
            Change::Everything => true,
        };
        let keys: Vec<Key> = kept.results.keys().filter(|key| gone(key)).cloned().collect();
        for key in keys {
            kept.remove(&key);
        }
    }
}

impl Kept {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.results.remove(key) {
            self.bytes = self.bytes.saturating_sub(entry.result.text().len());
        }
    }

    fn drop_stale(&mut self, now: Instant) {
        self.results.retain(|_, entry| entry.until > now);
        self.bytes = self.results.values().map(|entry| entry.result.text().len()).sum();
    }
}

/// Results that are kept.
const ENTRIES: usize = 512;
/// Their bytes.
const BYTES: usize = 16 << 20;
/// A day, in milliseconds: nobody believes a server for longer.
const LONGEST: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn result(ttl: u64) -> RawJson {
        RawJson::parse(format!(r#"{{"tools":[],"ttlMs":{ttl},"cacheScope":"private"}}"#)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_used_until_its_time_is_over() {
        let cache = Cache::default();
        cache.keep(tools::List::NAME, None, &result(1000), cache.now());
        assert!(cache.find(tools::List::NAME, None).is_some());
        assert!(cache.find(tools::List::NAME, Some("page2")).is_none());
        tokio::time::advance(Duration::from_millis(1000)).await;
        assert!(cache.find(tools::List::NAME, None).is_none());
    }

    #[tokio::test]
    async fn what_has_no_time_is_not_kept() {
        let cache = Cache::default();
        for result in [result(0), RawJson::empty_object()] {
            cache.keep(tools::List::NAME, None, &result, cache.now());
            assert!(cache.find(tools::List::NAME, None).is_none());
        }
    }

    #[tokio::test]
    async fn a_change_forgets_what_depends_on_it_and_nothing_else() {
        let cache = Cache::default();
        let now = cache.now();
        cache.keep(tools::List::NAME, None, &result(9000), now);
        cache.keep(resources::Read::NAME, Some("a:1"), &result(9000), now);
        cache.keep(resources::Read::NAME, Some("a:2"), &result(9000), now);
        cache.forget(&Change::Resource { uri: "a:1".to_owned() });
        assert!(cache.find(resources::Read::NAME, Some("a:1")).is_none());
        assert!(cache.find(resources::Read::NAME, Some("a:2")).is_some());
        cache.forget(&Change::Tools);
        assert!(cache.find(tools::List::NAME, None).is_none());
    }

    #[tokio::test]
    async fn what_was_asked_before_a_change_is_not_kept_after_it() {
        let cache = Cache::default();
        let asked = cache.now();
        cache.forget(&Change::Tools);
        cache.keep(tools::List::NAME, None, &result(9000), asked);
        assert!(cache.find(tools::List::NAME, None).is_none());
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let cache = Cache::default();
        for number in 0..ENTRIES * 3 {
            cache.keep(resources::Read::NAME, Some(&format!("a:{number}")), &result(9000), cache.now());
        }
        assert!(lock(&cache.kept).results.len() <= ENTRIES);
        let large = RawJson::from_value(&serde_json::json!({"ttlMs": 9000, "x": "y".repeat(BYTES / 2)})).unwrap();
        cache.keep(tools::List::NAME, None, &large, cache.now());
        assert!(cache.find(tools::List::NAME, None).is_none());
    }
}
