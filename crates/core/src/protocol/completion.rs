//! Completion: what could stand in an argument, while a person is typing it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::result::complete;
use super::wire::{has_meta, method, wire};
use super::{Meta, OrderedMap};

method! {
    /// What could stand here.
    Complete = "completion/complete", CompleteParams => CompleteResult
}

wire! {
    /// Which argument of what, and what was typed so far.
    pub struct CompleteParams {
        /// The prompt or template whose argument it is.
        r#ref: Reference,
        /// The argument.
        argument: CompletionArgument,
    }
    optional {
        /// What is already known (from 2025-06-18).
        context: CompletionContext,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// An argument being typed.
    #[derive(Eq)]
    pub struct CompletionArgument {
        /// Which.
        name: String,
        /// What was typed so far.
        value: String,
    }
    optional {
    }
}

wire! {
    /// What is already known.
    #[derive(Default)]
    pub struct CompletionContext {
    }
    optional {
        /// Arguments already filled in.
        arguments: OrderedMap<String>,
    }
}

/// Whose argument is completed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reference {
    /// A prompt's.
    Prompt {
        /// What it is called by.
        name: String,
        /// For people (from 2025-06-18).
        title: Option<String>,
    },
    /// A resource template's.
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
    /// What could stand there.
    pub struct CompleteResult {
        /// The values.
        completion: Completion,
    }
    optional {
        /// Data beside the protocol.
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
        /// How many there are in all.
        #[serde(with = "super::number::maybe_count")]
        total: u64,
        /// Whether there are more than stand here.
        has_more: bool,
    }
}

/// How many values one answer may hold.
pub const MAX_VALUES: usize = 100;

complete!(CompleteResult);
has_meta!(CompleteParams, CompleteResult);
