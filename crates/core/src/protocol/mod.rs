//! The messages of MCP in the shape of the newest revision: one file per page of the specification.
//!
//! Each request is a type that implements [`Method`], each notification one that implements [`NotificationMethod`]; the
//! request determines the type of its result. How older revisions write the same message is only known in
//! [`crate::revision`]. Members that only an older revision has (such as `elicitationId`) are `Option`s with a note.
//!
//! The types of the messages are also directly in this module. A method keeps its page (`tools::Call`, `prompts::List`),
//! and so does a type whose name two pages share (`tools::ListResult`).

mod form_check;
mod map_only;
pub(crate) mod meta_key_error;
mod model_choice;
mod sampling_check;
mod trace_context;
mod url_target;
mod wire;

pub mod annotations;
pub mod caching;
pub mod cancellation;
pub mod capabilities;
pub mod completion;
pub mod content;
pub mod discover;
pub mod elicitation;
pub mod form;
pub mod idempotency;
pub mod implementation;
pub mod lifecycle;
pub mod logging;
pub mod meta;
pub mod mrtr;
pub mod number;
pub mod ordered_map;
pub mod pagination;
pub mod ping;
pub mod progress;
pub mod prompts;
pub mod raw_tasks;
pub mod resources;
pub mod result;
pub mod roots;
pub mod sampling;
pub mod schema;
pub mod subscriptions;
pub mod tasks;
pub mod tools;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use annotations::{Annotations, Role};
pub use caching::{CacheScope, CacheSubject};
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, ListCapability, ResourcesCapability, RootsCapability,
    SamplingCapability, ServerCapabilities, TasksCapability,
};
pub use completion::{
    CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext, Reference,
};
pub use content::{
    Audio, ContentBlock, EmbeddedResource, Image, ResourceBody, ResourceContents, ResourceLink,
    SamplingBlock, Text, ToolResult, ToolUse,
};
pub use discover::DiscoverResult;
pub use elicitation::{ElicitAction, ElicitParams, ElicitResult, FieldValue, FormParams, UrlParams};
pub use form::{ChoiceOptions, Field, FieldKind, FormSchema, TextFormat, TitledOption};
pub use idempotency::{Idempotency, IdempotencyKey, KeyFault};
pub use implementation::{Icon, Implementation, Theme};
pub use lifecycle::{InitializeParams, InitializeResult};
pub use logging::{Level, LogParams};
pub use meta::{ClientMeta, Meta};
pub use meta_key_error::MetaKeyError;
pub use model_choice::ModelProfile;
pub use mrtr::{InputRequest, InputRequests, InputRequired, InputResponses, MaybeInputRequired};
pub use ordered_map::OrderedMap;
pub use pagination::PaginatedParams;
pub use progress::ProgressParams;
pub use prompts::{GetParams, GetResult, Prompt, PromptArgument, PromptMessage};
pub use resources::{ReadParams, ReadResult, Resource, ResourceTemplate};
pub use result::{EmptyResult, Output, ResultType};
pub use roots::Root;
pub use sampling::{
    CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingContent,
    SamplingMessage, ToolChoice, ToolChoiceMode,
};
pub use schema::Schema;
pub use tasks::{MaybeTask, Task, TaskParams, TaskRequest, TaskStatus, UpdateParams};
pub use tools::{CallOutput, CallParams, CallResult, TaskSupport, Tool, ToolAnnotations, ToolExecution};
pub use trace_context::TraceContext;
pub use url_target::UrlTarget;

/// A JSON object with unknown members.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// A request of the protocol.
pub trait Method {
    /// The name on the wire.
    const NAME: &'static str;
    /// The type of the params.
    type Params: Serialize + DeserializeOwned + HasMeta;
    /// The type of the result.
    type Output: Output;

    /// The tool, prompt, resource or task that a request is about, which the `Mcp-Name` header repeats.
    fn subject(_params: &Self::Params) -> Option<&str> {
        None
    }

    /// The part of the server that a result describes, if the result may be cached.
    fn cache_subject(_params: &Self::Params) -> Option<CacheSubject<'_>> {
        None
    }

    /// The call, if the method calls a tool: headers may repeat some of its arguments.
    fn tool_call(_params: &Self::Params) -> Option<&tools::CallParams> {
        None
    }

    /// The tools in a result, if the method lists tools.
    fn listed_tools(_output: &mut Self::Output) -> Option<&mut Vec<tools::Tool>> {
        None
    }
}

/// A notification of the protocol.
pub trait NotificationMethod {
    /// The name on the wire.
    const NAME: &'static str;
    /// The type of the params.
    type Params: Serialize + DeserializeOwned + HasMeta;
}

/// A type with a `_meta` member.
pub trait HasMeta {
    /// The `_meta`, if present.
    fn meta(&self) -> Option<&Meta>;
    /// The `_meta`, to set or change it.
    fn meta_mut(&mut self) -> &mut Option<Meta>;
}

wire::wire! {
    /// Params without members except `_meta`.
    #[derive(Default)]
    pub struct EmptyParams {
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire::has_meta!(EmptyParams);
