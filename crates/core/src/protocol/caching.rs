//! How long a result may be kept, and for whom.
//!
//! On 2026-07-28 the discover result, the four lists and `resources/read` carry `ttlMs` and `cacheScope`. A result
//! that says nothing is sent as `0` and `private` there, and without the hints to older peers.

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
    /// Who may share a cached result.
    pub enum CacheScope {
        /// Only the caller it was made for.
        Private = "private",
        /// Anyone.
        Public = "public",
    }
}

/// A result with cache hints.
pub trait Cacheable {
    /// For how many milliseconds the result stays good; 0 is "ask again".
    fn ttl_ms_mut(&mut self) -> &mut Option<u64>;
    /// Who may share it.
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
