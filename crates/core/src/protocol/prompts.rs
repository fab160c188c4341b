//! Prompts: templates of the server that a user selects.

use super::caching::{CacheScope, cacheable};
use super::mrtr::{InputResponses, MaybeInputRequired};
use super::pagination::PaginatedParams;
use super::result::complete;
use super::wire::{has_meta, method, notification, wire};
use super::{CacheSubject, ContentBlock, EmptyParams, Icon, Meta, OrderedMap, Role};

method! {
    /// Lists the prompts.
    List = "prompts/list", PaginatedParams => ListResult {
        fn cache_subject(params: &PaginatedParams) -> Option<CacheSubject<'_>> {
            Some(CacheSubject::Page(params.cursor.as_deref()))
        }
    }
}

method! {
    /// Gets a prompt with its arguments filled in.
    Get = "prompts/get", GetParams => MaybeInputRequired<GetResult> {
        fn subject(params: &GetParams) -> Option<&str> {
            Some(&params.name)
        }
    }
}

notification! {
    /// The list of prompts has changed.
    ListChanged = "notifications/prompts/list_changed", EmptyParams
}

wire! {
    /// A prompt.
    pub struct Prompt {
        /// The name.
        name: String,
    }
    optional {
        /// The display name (from 2025-06-18).
        title: String,
        /// A description.
        description: String,
        /// The arguments.
        arguments: Vec<PromptArgument>,
        /// Icons (from 2025-11-25).
        icons: Vec<Icon>,
        /// Metadata, `_meta` (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// An argument of a prompt.
    #[derive(Eq)]
    pub struct PromptArgument {
        /// The name.
        name: String,
    }
    optional {
        /// The display name (from 2025-06-18).
        title: String,
        /// A description.
        description: String,
        /// Whether it is required.
        required: bool,
    }
}

wire! {
    /// One page of prompts.
    pub struct ListResult {
        /// The prompts.
        prompts: Vec<Prompt>,
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
    /// The prompt and its arguments.
    #[doc(alias("GetPromptRequest", "GetPromptRequestParams"))]
    pub struct GetParams {
        /// The name of the prompt.
        name: String,
    }
    optional {
        /// The arguments.
        arguments: OrderedMap<String>,
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
    /// A prompt with its arguments filled in.
    #[doc(alias = "GetPromptResult")]
    pub struct GetResult {
        /// The messages for the model.
        messages: Vec<PromptMessage>,
    }
    optional {
        /// A description.
        description: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One message of a prompt.
    pub struct PromptMessage {
        /// The speaker.
        role: Role,
        /// The content.
        content: ContentBlock,
    }
    optional {
    }
}

cacheable!(ListResult);
complete!(ListResult, GetResult);
has_meta!(ListResult, GetParams, GetResult);
