//! Sampling: the server uses the client's model.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::content::{SamplingBlock, join_lines};
use super::result::complete;
use super::tasks::{MaybeTask, TaskRequest};
use super::tools::Tool;
use super::wire::{has_meta, method, string_enum, wire};
use super::{Meta, Role};
use crate::jsonrpc::RawJson;

method! {
    /// Requests a message from the client's model. On 2026-07-28 it is part of a result.
    CreateMessage = "sampling/createMessage", CreateMessageParams => MaybeTask<CreateMessageResult>
}

wire! {
    /// The request to the model.
    #[doc(alias("CreateMessageRequest", "sampling"))]
    pub struct CreateMessageParams {
        /// The messages so far.
        messages: Vec<SamplingMessage>,
        /// The maximum number of tokens.
        #[serde(with = "super::number::count")]
        max_tokens: u64,
    }
    optional {
        /// Preferences for the model.
        model_preferences: ModelPreferences,
        /// The system prompt. The client may change it.
        system_prompt: String,
        /// The context to include; anything but `None` needs `sampling.context`.
        include_context: IncludeContext,
        /// The temperature.
        #[serde(with = "super::number::maybe_measure")]
        temperature: f64,
        /// The sequences that stop the model.
        stop_sequences: Vec<String>,
        /// Data for the provider of the model, an object.
        #[serde(deserialize_with = "super::mrtr::deserialize_object")]
        metadata: RawJson,
        /// The tools it may use (from 2025-11-25, needs `sampling.tools`).
        tools: Vec<Tool>,
        /// Whether it must use tools (from 2025-11-25).
        tool_choice: ToolChoice,
        /// Requests to run as a task (2025-11-25 only).
        task: TaskRequest,
        /// Metadata, `_meta` (up to 2025-11-25; embedded requests have none).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One message of the conversation.
    pub struct SamplingMessage {
        /// The speaker.
        role: Role,
        /// The content.
        content: SamplingContent,
    }
    optional {
        /// Metadata, `_meta` (from 2025-11-25).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

/// One block, or from 2025-11-25 on any number of blocks.
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingContent {
    /// One block, as every revision writes it.
    Single(SamplingBlock),
    /// An array of blocks.
    Multiple(Vec<SamplingBlock>),
}

impl SamplingContent {
    /// All blocks.
    pub fn as_slice(&self) -> &[SamplingBlock] {
        match self {
            SamplingContent::Single(block) => std::slice::from_ref(block),
            SamplingContent::Multiple(blocks) => blocks,
        }
    }

    /// All text blocks, joined by newlines. Empty if there is none.
    pub fn text(&self) -> String {
        join_lines(self.as_slice().iter().filter_map(SamplingBlock::as_text))
    }

    /// All blocks.
    pub fn into_vec(self) -> Vec<SamplingBlock> {
        match self {
            SamplingContent::Single(block) => vec![block],
            SamplingContent::Multiple(blocks) => blocks,
        }
    }
}

impl From<SamplingBlock> for SamplingContent {
    fn from(block: SamplingBlock) -> Self {
        SamplingContent::Single(block)
    }
}

impl From<Vec<SamplingBlock>> for SamplingContent {
    fn from(blocks: Vec<SamplingBlock>) -> Self {
        SamplingContent::Multiple(blocks)
    }
}

impl Serialize for SamplingContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SamplingContent::Single(block) => block.serialize(serializer),
            SamplingContent::Multiple(blocks) => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = SamplingContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block or an array of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SamplingContent, A::Error> {
                SamplingBlock::deserialize(MapAccessDeserializer::new(map)).map(SamplingContent::Single)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<SamplingContent, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(SamplingContent::Multiple)
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

wire! {
    /// Preferences for the model. They are not binding.
    #[derive(Default)]
    pub struct ModelPreferences {
    }
    optional {
        /// Names or parts of names, best first.
        hints: Vec<ModelHint>,
        /// The importance of cost, 0 to 1.
        #[serde(with = "super::number::maybe_measure")]
        cost_priority: f64,
        /// The importance of speed, 0 to 1.
        #[serde(with = "super::number::maybe_measure")]
        speed_priority: f64,
        /// The importance of capability, 0 to 1.
        #[serde(with = "super::number::maybe_measure")]
        intelligence_priority: f64,
    }
}

wire! {
    /// A preferred model.
    #[derive(Default, Eq)]
    pub struct ModelHint {
    }
    optional {
        /// A name or a part of it.
        name: String,
    }
}

string_enum! {
    /// The context to include.
    pub enum IncludeContext {
        /// No context.
        None = "none",
        /// The context of this server.
        ThisServer = "thisServer",
        /// The context of all servers.
        AllServers = "allServers",
    }
}

wire! {
    /// Whether the model must use its tools.
    #[derive(Default, Copy, Eq)]
    pub struct ToolChoice {
    }
    optional {
        /// The mode.
        mode: ToolChoiceMode,
    }
}

string_enum! {
    /// Whether the model must use its tools.
    pub enum ToolChoiceMode {
        /// The model decides; also the default.
        Auto = "auto",
        /// The model must use at least one tool.
        Required = "required",
        /// The model must not use tools.
        None = "none",
    }
}

wire! {
    /// The message of the model.
    #[doc(alias = "sampling")]
    pub struct CreateMessageResult {
        /// The speaker: the assistant.
        role: Role,
        /// The content.
        content: SamplingContent,
        /// The name of the model.
        model: String,
    }
    optional {
        /// The reason to stop: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or one of the provider.
        stop_reason: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl CreateMessageResult {
    /// The text of the model: all text blocks, joined by newlines. Empty if there is none.
    pub fn text(&self) -> String {
        self.content.text()
    }
}

complete!(CreateMessageResult);
has_meta!(CreateMessageParams, CreateMessageResult);
