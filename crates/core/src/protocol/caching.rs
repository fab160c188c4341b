//! Cache hints: how long a result may be cached, and for whom.
//!
//! On 2026-07-28 the discover result, the four lists and `resources/read` carry `ttlMs` and `cacheScope`. A result
//! without hints is sent as `0` and `private` there, and without hints to older peers.

use super::wire::string_enum;

string_enum! {
    /// The scope of a cached result.
    pub enum CacheScope {
        /// Only for the caller it was produced for.
        Private = "private",
        /// For every caller.
        Public = "public",
    }
}

/// A result with cache hints.
pub trait Cacheable {
    /// How many milliseconds the result may be cached; 0 forbids it.
    fn ttl_ms_mut(&mut self) -> &mut Option<u64>;
    /// The cache scope of the result.
    fn cache_scope_mut(&mut self) -> &mut Option<CacheScope>;
}

macro_rules! cacheable {
    ($($name:ty),* $(,)?) => {$(
        impl $crate::protocol::caching::Cacheable for $name {
            fn ttl_ms_mut(&mut self) -> &mut Option<u64> {
                &mut self.ttl_ms
            }

            fn cache_scope_mut(&mut self) -> &mut Option<$crate::protocol::caching::CacheScope> {
                &mut self.cache_scope
            }
        }
    )*};
}

pub(super) use cacheable;
