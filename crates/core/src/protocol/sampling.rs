//! Sampling: the server asks the client's model.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::content::SamplingBlock;
use super::result::complete;
use super::tasks::{MaybeTask, TaskRequest};
use super::tools::Tool;
use super::wire::{has_meta, method, string_enum, wire};
use super::{Meta, Role};
use crate::jsonrpc::RawJson;

method! {
    /// Asks the client's model. On 2026-07-28 it travels inside a result.
    CreateMessage = "sampling/createMessage", CreateMessageParams => MaybeTask<CreateMessageResult>
}

wire! {
    /// What to ask the model.
    pub struct CreateMessageParams {
        /// The conversation so far.
        messages: Vec<SamplingMessage>,
        /// How much it may say.
        #[serde(with = "super::number::count")]
        max_tokens: u64,
    }
    optional {
        /// Which model would suit.
        model_preferences: ModelPreferences,
        /// What to tell the model first. The client may change it.
        system_prompt: String,
        /// What else the client should add; more than `None` needs `sampling.context`.
        include_context: IncludeContext,
        /// How freely it may speak.
        #[serde(with = "super::number::maybe_measure")]
        temperature: f64,
        /// What makes it stop.
        stop_sequences: Vec<String>,
        /// For the provider of the model, an object.
        #[serde(deserialize_with = "super::mrtr::deserialize_object")]
        metadata: RawJson,
        /// Tools it may use (from 2025-11-25, needs `sampling.tools`).
        tools: Vec<Tool>,
        /// Whether it must use them (from 2025-11-25).
        tool_choice: ToolChoice,
        /// Asks for a task (2025-11-25 only).
        task: TaskRequest,
        /// Data beside the protocol (up to 2025-11-25; embedded requests have none).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One message of the conversation.
    pub struct SamplingMessage {
        /// Who said it.
        role: Role,
        /// What was said.
        content: SamplingContent,
    }
    optional {
        /// Data beside the protocol (from 2025-11-25).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

/// One block, or from 2025-11-25 on any number of them.
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingContent {
    /// One, as every revision writes it.
    Single(SamplingBlock),
    /// An array.
    Multiple(Vec<SamplingBlock>),
}

impl SamplingContent {
    /// The blocks, however many.
    pub fn as_slice(&self) -> &[SamplingBlock] {
        match self {
            SamplingContent::Single(block) => std::slice::from_ref(block),
            SamplingContent::Multiple(blocks) => blocks,
        }
    }

    /// The blocks, however many.
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
    /// Which model would suit. Wishes, not orders.
    #[derive(Default)]
    pub struct ModelPreferences {
    }
    optional {
        /// Names or parts of names, best first.
        hints: Vec<ModelHint>,
        /// How much cost matters, 0 to 1.
        #[serde(with = "super::number::maybe_measure")]
        cost_priority: f64,
        /// How much speed matters, 0 to 1.
        #[serde(with = "super::number::maybe_measure")]
        speed_priority: f64,
        /// How much ability matters, 0 to 1.
        #[serde(with = "super::number::maybe_measure")]
        intelligence_priority: f64,
    }
}

wire! {
    /// A wish for a model.
    #[derive(Default, Eq)]
    pub struct ModelHint {
    }
    optional {
        /// A name or a part of one.
        name: String,
    }
}

string_enum! {
    /// Which context the client should add.
    pub enum IncludeContext {
        /// None.
        None = "none",
        /// That of this server.
        ThisServer = "thisServer",
        /// That of all servers.
        AllServers = "allServers",
    }
}

wire! {
    /// Whether the model must use its tools.
    #[derive(Default, Copy, Eq)]
    pub struct ToolChoice {
    }
    optional {
        /// How.
        mode: ToolChoiceMode,
    }
}

string_enum! {
    /// Whether the model must use its tools.
    pub enum ToolChoiceMode {
        /// As it likes; also what silence means.
        Auto = "auto",
        /// It must use one at least.
        Required = "required",
        /// It must not.
        None = "none",
    }
}

wire! {
    /// What the model said.
    pub struct CreateMessageResult {
        /// Who speaks: the assistant.
        role: Role,
        /// What it said.
        content: SamplingContent,
        /// Which model it was.
        model: String,
    }
    optional {
        /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a word of the provider.
        stop_reason: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

complete!(CreateMessageResult);
has_meta!(CreateMessageParams, CreateMessageResult);
