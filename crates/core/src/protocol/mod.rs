//! The messages of MCP in the shape of the newest revision: one file per page of the specification.
//!
//! Each request is a type that implements [`Method`], each notification one that implements [`NotificationMethod`]; the
//! request determines the type of its result. How older revisions write the same message is only known in
//! [`crate::revision`]. Members that only an older revision has (such as `elicitationId`) are `Option`s with a note.

mod form_check;
mod map_only;
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
pub use caching::CacheSubject;
pub use capabilities::{ClientCapabilities, ServerCapabilities};
pub use content::ContentBlock;
pub use implementation::{Icon, Implementation};
pub use meta::Meta;
pub use ordered_map::OrderedMap;
pub use result::{Output, ResultType};
pub use schema::Schema;

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
