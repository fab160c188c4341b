//! Resources: data of the server, identified by URIs.

use super::caching::{CacheScope, cacheable};
use super::content::{ResourceContents, join_lines};
use super::mrtr::{InputResponses, MaybeInputRequired};
use super::pagination::PaginatedParams;
use super::result::{EmptyResult, complete};
use super::wire::{has_meta, method, notification, wire};
use super::{Annotations, CacheSubject, EmptyParams, Icon, Meta};

method! {
    /// Lists the resources.
    List = "resources/list", PaginatedParams => ListResult {
        fn cache_subject(params: &PaginatedParams) -> Option<CacheSubject<'_>> {
            Some(CacheSubject::Page(params.cursor.as_deref()))
        }
    }
}

method! {
    /// Lists the resource templates.
    ListTemplates = "resources/templates/list", PaginatedParams => ListTemplatesResult {
        fn cache_subject(params: &PaginatedParams) -> Option<CacheSubject<'_>> {
            Some(CacheSubject::Page(params.cursor.as_deref()))
        }
    }
}

method! {
    /// Reads a resource.
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
    /// Subscribes to changes of a resource (up to 2025-11-25).
    Subscribe = "resources/subscribe", UriParams => EmptyResult
}

method! {
    /// Ends a subscription to a resource (up to 2025-11-25).
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
        /// The URI.
        uri: String,
        /// The programmatic name.
        name: String,
    }
    optional {
        /// The display name (from 2025-06-18).
        title: String,
        /// A description.
        description: String,
        /// The MIME type.
        mime_type: String,
        /// The size in bytes, before any encoding.
        #[serde(with = "super::number::maybe_count")]
        size: u64,
        /// Hints about use and display.
        annotations: Annotations,
        /// Icons (from 2025-11-25).
        icons: Vec<Icon>,
        /// Metadata, `_meta` (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A template for the URIs of resources.
    pub struct ResourceTemplate {
        /// The URI template (RFC 6570); see [`crate::uri_template`].
        uri_template: String,
        /// The programmatic name.
        name: String,
    }
    optional {
        /// The display name (from 2025-06-18).
        title: String,
        /// A description.
        description: String,
        /// The MIME type, if all resources have the same.
        mime_type: String,
        /// Hints about use and display.
        annotations: Annotations,
        /// Icons (from 2025-11-25).
        icons: Vec<Icon>,
        /// Metadata, `_meta` (from 2025-06-18).
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
        /// The cursor of the next page; absent on the last page.
        next_cursor: String,
        /// How long the page may be cached, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// The cache scope of the page.
        cache_scope: CacheScope,
        /// Metadata, `_meta`.
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
        /// The cursor of the next page; absent on the last page.
        next_cursor: String,
        /// How long the page may be cached, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// The cache scope of the page.
        cache_scope: CacheScope,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The resource to read.
    #[doc(alias("ReadResourceRequest", "ReadResourceRequestParams"))]
    pub struct ReadParams {
        /// The URI.
        uri: String,
    }
    optional {
        /// The responses to the input requests of an earlier attempt.
        input_responses: InputResponses,
        /// The `requestState` of an earlier attempt, unchanged.
        request_state: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The contents of a resource, one part or several.
    #[doc(alias = "ReadResourceResult")]
    pub struct ReadResult {
        /// The parts.
        contents: Vec<ResourceContents>,
    }
    optional {
        /// How long the contents may be cached, in milliseconds.
        #[serde(with = "super::number::maybe_count")]
        ttl_ms: u64,
        /// The cache scope of the contents.
        cache_scope: CacheScope,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl ReadResult {
    /// The text of the resource: all parts that are text, joined by newlines. Empty if there is none.
    pub fn text(&self) -> String {
        join_lines(self.contents.iter().filter_map(ResourceContents::as_text))
    }
}

wire! {
    /// The URI of a resource.
    pub struct UriParams {
        /// The URI.
        uri: String,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

cacheable!(ListResult, ListTemplatesResult, ReadResult);
complete!(ListResult, ListTemplatesResult, ReadResult);
has_meta!(ListResult, ListTemplatesResult, ReadParams, ReadResult, UriParams);
