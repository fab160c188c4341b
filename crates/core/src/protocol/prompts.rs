//! Prompts: texts of the server that a person picks.

use super::caching::{CacheScope, cacheable};
use super::mrtr::{InputResponses, MaybeInputRequired};
use super::pagination::PaginatedParams;
use super::result::complete;
use super::wire::{has_meta, method, notification, wire};
use super::{CacheSubject, ContentBlock, EmptyParams, Icon, Meta, OrderedMap, Role};

method! {
    /// Which prompts there are.
    List = "prompts/list", PaginatedParams => ListResult {
        fn cache_subject(params: &PaginatedParams) -> Option<CacheSubject<'_>> {
            Some(CacheSubject::Page(params.cursor.as_deref()))
        }
    }
}

method! {
    /// A prompt, filled in.
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
        /// What it is called by.
        name: String,
    }
    optional {
        /// For people (from 2025-06-18).
        title: String,
        /// What it is for.
        description: String,
        /// What it wants to know.
        arguments: Vec<PromptArgument>,
        /// Pictures of it (from 2025-11-25).
        icons: Vec<Icon>,
        /// Data beside the protocol (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Something a prompt wants to know.
    #[derive(Eq)]
    pub struct PromptArgument {
        /// What it is called by.
        name: String,
    }
    optional {
        /// For people (from 2025-06-18).
        title: String,
        /// What it means.
        description: String,
        /// Whether it must be given.
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
    /// Which prompt, and what it wants to know.
    pub struct GetParams {
        /// The prompt.
        name: String,
    }
    optional {
        /// Its arguments.
        arguments: OrderedMap<String>,
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
    /// A prompt, filled in.
    pub struct GetResult {
        /// What to say to the model.
        messages: Vec<PromptMessage>,
    }
    optional {
        /// What it is for.
        description: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One message of a prompt.
    pub struct PromptMessage {
        /// Who says it.
        role: Role,
        /// What is said.
        content: ContentBlock,
    }
    optional {
    }
}

cacheable!(ListResult);
complete!(ListResult, GetResult);
has_meta!(ListResult, GetParams, GetResult);
