//! Resources: data of the server, by URI.

use super::caching::{CacheScope, cacheable};
use super::content::ResourceContents;
use super::mrtr::{InputResponses, MaybeInputRequired};
use super::pagination::PaginatedParams;
use super::result::{EmptyResult, complete};
use super::wire::{has_meta, method, notification, wire};
use super::{Annotations, CacheSubject, EmptyParams, Icon, Meta};

method! {
    /// Which resources there are.
    List = "resources/list", PaginatedParams => ListResult {
        fn cache_subject(params: &PaginatedParams) -> Option<CacheSubject<'_>> {
            Some(CacheSubject::Page(params.cursor.as_deref()))
        }
    }
}

method! {
    /// Which families of resources there are.
    ListTemplates = "resources/templates/list", PaginatedParams => ListTemplatesResult {
        fn cache_subject(params: &PaginatedParams) -> Option<CacheSubject<'_>> {
            Some(CacheSubject::Page(params.cursor.as_deref()))
        }
    }
}

method! {
    /// What a resource holds.
    Read = "resources/read", ReadParams => MaybeInputRequired<ReadResult> {
        fn subject(params: &ReadParams) -> Option<&str> {
            Some(&params.uri)
        }

        fn cache_subject(params: &ReadParams) -> Option<CacheSubject<'_>> {
            // A later round belongs to one call and is not for others.
            let first_round = params.input_responses.is_none() && params.request_state.is_none();
            first_round.then_some(CacheSubject::Resource(&params.uri))
        }
    }
}

method! {
    /// Tell me when this resource changes (up to 2025-11-25).
    Subscribe = "resources/subscribe", UriParams => EmptyResult
}

method! {
    /// No longer tell me (up to 2025-11-25).
    Unsubscribe = "resources/unsubscribe", UriParams => EmptyResult
}

notification! {
    /// The list of resources has changed.
    ListChanged = "notifications/resources/list_changed", EmptyParams
}

notification! {
    /// A resource has changed.
    Updated = "notifications/resources/updated", UriParams
}

wire! {
    /// A resource.
    pub struct Resource {
        /// Where it is.
        uri: String,
        /// For programs.
        name: String,
    }
    optional {
        /// For people (from 2025-06-18).
        title: String,
        /// What it is.
        description: String,
        /// Its type.
        mime_type: String,
        /// Its size in bytes, before any encoding.
        #[serde(with = "super::number::maybe_count")]
        size: u64,
        /// Hints.
        annotations: Annotations,
        /// Pictures of it (from 2025-11-25).
        icons: Vec<Icon>,
        /// Data beside the protocol (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A family of resources.
    pub struct ResourceTemplate {
        /// RFC 6570; see [`crate::uri_template`].
        uri_template: String,
        /// For programs.
        name: String,
    }
    optional {
        /// For people (from 2025-06-18).
        title: String,
        /// What they are.
        description: String,
        /// Their type, if they share one.
        mime_type: String,
        /// Hints.
        annotations: Annotations,
        /// Pictures (from 2025-11-25).
        icons: Vec<Icon>,
        /// Data beside the protocol (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One page of resources.
    pub struct ListResult {
        /// The resources.
        resources: Vec<Resource>,
    }
    optional {
        /// Where the next page begins; absent on the last.
        next_cursor: String,
        /// For how long the page stays good, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// Who may share the page.
        cache_scope: CacheScope,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One page of templates.
    pub struct ListTemplatesResult {
        /// The templates.
        resource_templates: Vec<ResourceTemplate>,
    }
    optional {
        /// Where the next page begins; absent on the last.
        next_cursor: String,
        /// For how long the page stays good, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// Who may share the page.
        cache_scope: CacheScope,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Which resource to read.
    pub struct ReadParams {
        /// Where it is.
        uri: String,
    }
    optional {
        /// Answers to what an earlier attempt asked for.
        input_responses: InputResponses,
        /// What an earlier attempt wanted back, unchanged.
        request_state: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// What a resource holds, one part or several.
    pub struct ReadResult {
        /// The parts.
        contents: Vec<ResourceContents>,
    }
    optional {
        /// For how long they stay good, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// Who may share them.
        cache_scope: CacheScope,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One resource, by its URI.
    pub struct UriParams {
        /// Where it is.
        uri: String,
    }
    optional {
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

cacheable!(ListResult, ListTemplatesResult, ReadResult);
complete!(ListResult, ListTemplatesResult, ReadResult);
has_meta!(ListResult, ListTemplatesResult, ReadParams, ReadResult, UriParams);
