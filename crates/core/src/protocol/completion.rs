//! Completion of arguments while the user types.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::result::complete;
use super::wire::{has_meta, method, wire};
use super::{Meta, OrderedMap};

method! {
    /// Completes an argument.
    Complete = "completion/complete", CompleteParams => CompleteResult
}

wire! {
    /// The argument to complete.
    #[doc(alias("CompleteRequest", "CompleteRequestParams"))]
    pub struct CompleteParams {
        /// The prompt or template with the argument.
        r#ref: Reference,
        /// The argument.
        argument: CompletionArgument,
    }
    optional {
        /// The other arguments (from 2025-06-18).
        context: CompletionContext,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// An argument that is being typed.
    #[derive(Eq)]
    pub struct CompletionArgument {
        /// The name of the argument.
        name: String,
        /// The text typed so far.
        value: String,
    }
    optional {
    }
}

wire! {
    /// The context of a completion.
    #[derive(Default)]
    pub struct CompletionContext {
    }
    optional {
        /// The arguments that are filled in already.
        arguments: OrderedMap<String>,
    }
}

/// The owner of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias("PromptReference", "ResourceTemplateReference"))]
pub enum Reference {
    /// A prompt.
    Prompt {
        /// The name of the prompt.
        name: String,
        /// The display name (from 2025-06-18).
        title: Option<String>,
    },
    /// A resource template.
    Resource {
        /// The template, or a URI.
        uri: String,
    },
}

impl Reference {
    /// An argument of a prompt.
    pub fn prompt(name: impl Into<String>) -> Self {
        Reference::Prompt { name: name.into(), title: None }
    }

    /// A variable of a resource template.
    pub fn resource(uri: impl Into<String>) -> Self {
        Reference::Resource { uri: uri.into() }
    }
}

#[derive(Serialize, Deserialize)]
struct ReferenceWire {
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = match self.clone() {
            Reference::Prompt { name, title } => {
                ReferenceWire { r#type: "ref/prompt".to_owned(), name: Some(name), title, uri: None }
            }
            Reference::Resource { uri } => {
                ReferenceWire { r#type: "ref/resource".to_owned(), name: None, title: None, uri: Some(uri) }
            }
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = ReferenceWire::deserialize(deserializer)?;
        match (wire.r#type.as_str(), wire.name, wire.uri) {
            ("ref/prompt", Some(name), _) => Ok(Reference::Prompt { name, title: wire.title }),
            ("ref/prompt", None, _) => Err(D::Error::missing_field("name")),
            ("ref/resource", _, Some(uri)) => Ok(Reference::Resource { uri }),
            ("ref/resource", _, None) => Err(D::Error::missing_field("uri")),
            _ => Err(D::Error::custom("`type` must be \"ref/prompt\" or \"ref/resource\"")),
        }
    }
}

wire! {
    /// The suggested values.
    pub struct CompleteResult {
        /// The values.
        completion: Completion,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// At most [`MAX_VALUES`] values, best first.
    #[derive(Eq)]
    pub struct Completion {
        /// The values.
        values: Vec<String>,
    }
    optional {
        /// The total number of values.
        #[serde(with = "super::number::maybe_count")]
        total: u64,
        /// Whether there are more values.
        has_more: bool,
    }
}

/// The maximum number of values in one result.
pub const MAX_VALUES: usize = 100;

complete!(CompleteResult);
has_meta!(CompleteParams, CompleteResult);
