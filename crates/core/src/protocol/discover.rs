//! Discover: describes the server without a handshake (2026-07-28).

use super::caching::{CacheScope, cacheable};
use super::result::{require_complete, require_object};
use super::wire::{has_meta, method, wire};
use serde::Deserialize;

use super::{EmptyParams, Implementation, Meta, Output, ResultType, ServerCapabilities};
use crate::jsonrpc::{JsonError, Raw};

method! {
    /// Requests the server's description.
    Discover = "server/discover", EmptyParams => DiscoverResult
}

wire! {
    /// The server's capabilities. Its name and version are in `_meta`.
    pub struct DiscoverResult {
        /// The supported versions.
        supported_versions: Vec<String>,
        /// The capabilities.
        capabilities: ServerCapabilities,
    }
    optional {
        /// Instructions for the model.
        instructions: String,
        /// How long the result may be cached, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// The cache scope of the result.
        cache_scope: CacheScope,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl Output for DiscoverResult {
    /// Drafts had `serverInfo` in the body, and some servers still do; it is used if `_meta` has none.
    #[inline]
    fn read(kind: ResultType, result: Raw<'_>) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct DraftBody {
            server_info: Option<Implementation>,
        }
        require_complete(kind)?;
        let mut discovered: Self = require_object(result)?.read()?;
        let named = discovered.meta.as_ref().is_some_and(|meta| meta.server_info().is_some());
        if let Ok(DraftBody { server_info: Some(server) }) = result.read()
            && !named
        {
            discovered.meta.get_or_insert_default().set_server_info(&server);
        }
        Ok(discovered)
    }
}

cacheable!(DiscoverResult);
has_meta!(DiscoverResult);
