//! Discover: what the server is and can do, without a handshake (2026-07-28).

use super::caching::{CacheScope, cacheable};
use super::result::complete;
use super::wire::{has_meta, method, wire};
use super::{Meta, NoParams, ServerCapabilities};

method! {
    /// What the server is and can do.
    Discover = "server/discover", NoParams => DiscoverResult
}

wire! {
    /// What the server can do. Who it is stands in `_meta`.
    pub struct DiscoverResult {
        /// The versions it serves.
        supported_versions: Vec<String>,
        /// What it can do.
        capabilities: ServerCapabilities,
    }
    optional {
        /// How to use it, for the model.
        instructions: String,
        /// For how long this stays good, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// Who may share it.
        cache_scope: CacheScope,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

cacheable!(DiscoverResult);
complete!(DiscoverResult);
has_meta!(DiscoverResult);
