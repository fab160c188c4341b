//! Cache hints: how long a result may be cached, and for whom.
//!
//! On 2026-07-28 the discover result, the four lists and `resources/read` carry `ttlMs` and `cacheScope`. A result
//! without hints is sent as `0` and `private` there, and without hints to older peers.

use super::wire::string_enum;

/// The part of a server that a cacheable result describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSubject<'a> {
    /// A page of a list, by its cursor; the first page has none.
    Page(Option<&'a str>),
    /// A resource, by its URI.
    Resource(&'a str),
}

impl<'a> CacheSubject<'a> {
    /// The cursor or the URI.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            CacheSubject::Page(cursor) => cursor,
            CacheSubject::Resource(uri) => Some(uri),
        }
    }
}

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
