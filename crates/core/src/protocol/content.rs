//! Content blocks: what tools, prompts and models say.
//!
//! A block is read in one pass by the members it has and told apart by its `type`; nothing is guessed from shape.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::wire::wire;
use super::{Annotations, Icon, Meta, map_only};
use crate::base64;
use crate::jsonrpc::RawJson;

/// A block in the result of a tool or in a prompt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Words.
    Text(Text),
    /// A picture.
    Image(Image),
    /// Sound (from 2025-03-26).
    Audio(Audio),
    /// A pointer to a resource (from 2025-06-18).
    ResourceLink(ResourceLink),
    /// A resource itself.
    Resource(EmbeddedResource),
}

/// A block in a conversation with a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SamplingBlock {
    /// Words.
    Text(Text),
    /// A picture.
    Image(Image),
    /// Sound (from 2025-03-26).
    Audio(Audio),
    /// The model wants a tool called (from 2025-11-25).
    ToolUse(ToolUse),
    /// What the tool answered (from 2025-11-25).
    ToolResult(ToolResult),
}

wire! {
    /// Words.
    #[serde(tag = "type", rename = "text")]
    pub struct Text {
        /// The words.
        text: String,
    }
    optional {
        /// Hints.
        annotations: Annotations,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A picture.
    #[serde(tag = "type", rename = "image")]
    pub struct Image {
        /// Its bytes in base64.
        data: String,
        /// Its type.
        mime_type: String,
    }
    optional {
        /// Hints.
        annotations: Annotations,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Sound.
    #[serde(tag = "type", rename = "audio")]
    pub struct Audio {
        /// Its bytes in base64.
        data: String,
        /// Its type.
        mime_type: String,
    }
    optional {
        /// Hints.
        annotations: Annotations,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A pointer to a resource the server may know more about.
    #[serde(tag = "type", rename = "resource_link")]
    pub struct ResourceLink {
        /// Where it is.
        uri: String,
        /// For programs.
        name: String,
    }
    optional {
        /// For people.
        title: String,
        /// What it is.
        description: String,
        /// Its type.
        mime_type: String,
        /// Its size in bytes.
        #[serde(with = "super::number::maybe_count")]
        size: u64,
        /// Pictures of it.
        icons: Vec<Icon>,
        /// Hints.
        annotations: Annotations,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A resource inside the message.
    #[serde(tag = "type", rename = "resource")]
    pub struct EmbeddedResource {
        /// Its contents.
        resource: ResourceContents,
    }
    optional {
        /// Hints; beside the resource, not inside it.
        annotations: Annotations,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The model wants a tool called.
    #[serde(tag = "type", rename = "tool_use")]
    pub struct ToolUse {
        /// What its result must name.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, an object.
        input: RawJson,
    }
    optional {
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// What a tool answered the model.
    #[serde(tag = "type", rename = "tool_result")]
    pub struct ToolResult {
        /// Which use this answers.
        tool_use_id: String,
        /// What it said.
        content: Vec<ContentBlock>,
    }
    optional {
        /// What it said, for programs: any JSON value (an object on 2025-11-25).
        structured_content: RawJson,
        /// Whether it failed.
        is_error: bool,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl Image {
    /// A picture of bytes.
    pub fn from_bytes(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::new(base64::encode(bytes), mime_type)
    }
}

impl Audio {
    /// Sound of bytes.
    pub fn from_bytes(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::new(base64::encode(bytes), mime_type)
    }
}

impl ContentBlock {
    /// A block of words.
    pub fn text(text: impl Into<String>) -> Self {
        ContentBlock::Text(Text::new(text))
    }

    /// The words, if it is a block of words.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ContentBlock::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl SamplingBlock {
    /// A block of words.
    pub fn text(text: impl Into<String>) -> Self {
        SamplingBlock::Text(Text::new(text))
    }
}

/// The contents of a resource: text, or bytes in base64. They have no `type`; `text` and `blob` tell them apart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ResourceContents {
    /// Which resource, or which part of one.
    pub uri: String,
    /// What it holds.
    pub body: ResourceBody,
    /// Its type.
    pub mime_type: Option<String>,
    /// Data beside the protocol.
    pub meta: Option<Meta>,
}

/// What a resource holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes in base64.
    Blob(String),
}

impl ResourceContents {
    /// Contents that are text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), body: ResourceBody::Text(text.into()), mime_type: None, meta: None }
    }

    /// Contents that are bytes, in base64.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> Self {
        Self { uri: uri.into(), body: ResourceBody::Blob(base64.into()), mime_type: None, meta: None }
    }

    /// Contents that are bytes.
    pub fn bytes(uri: impl Into<String>, bytes: &[u8]) -> Self {
        Self::blob(uri, base64::encode(bytes))
    }

    /// Sets `mime_type`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets `meta`.
    #[must_use]
    pub fn meta(mut self, meta: impl Into<Meta>) -> Self {
        self.meta = Some(meta.into());
        self
    }
}

impl Serialize for ResourceContents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ContentSer<'a> {
            uri: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            mime_type: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            text: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            blob: Option<&'a str>,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<&'a Meta>,
        }
        let (text, blob) = match &self.body {
            ResourceBody::Text(text) => (Some(text.as_str()), None),
            ResourceBody::Blob(blob) => (None, Some(blob.as_str())),
        };
        let (mime_type, meta) = (self.mime_type.as_deref(), self.meta.as_ref());
        ContentSer { uri: &self.uri, mime_type, text, blob, meta }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ResourceContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ContentDe {
            uri: String,
            mime_type: Option<String>,
            text: Option<String>,
            blob: Option<String>,
            #[serde(rename = "_meta")]
            meta: Option<Meta>,
        }
        let ContentDe { uri, mime_type, text, blob, meta } = map_only::deserialize_map(deserializer)?;
        let body = match (text, blob) {
            (Some(text), None) => ResourceBody::Text(text),
            (None, Some(blob)) => ResourceBody::Blob(blob),
            _ => return Err(D::Error::custom("resource contents have either `text` or `blob`")),
        };
        Ok(Self { uri, body, mime_type, meta })
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ContentBlock::Text(block) => block.serialize(serializer),
            ContentBlock::Image(block) => block.serialize(serializer),
            ContentBlock::Audio(block) => block.serialize(serializer),
            ContentBlock::ResourceLink(block) => block.serialize(serializer),
            ContentBlock::Resource(block) => block.serialize(serializer),
        }
    }
}

impl Serialize for SamplingBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SamplingBlock::Text(block) => block.serialize(serializer),
            SamplingBlock::Image(block) => block.serialize(serializer),
            SamplingBlock::Audio(block) => block.serialize(serializer),
            SamplingBlock::ToolUse(block) => block.serialize(serializer),
            SamplingBlock::ToolResult(block) => block.serialize(serializer),
        }
    }
}

/// Every member any block has, so that a block is read in one pass wherever its `type` stands.
///
/// A member is judged only if its block is of a kind that has it: blocks are open, and an image may well have an `id`
/// that is none of ours.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyBlock {
    r#type: String,
    text: Option<MaybeString>,
    data: Option<MaybeString>,
    mime_type: Option<MaybeString>,
    uri: Option<RawJson>,
    name: Option<RawJson>,
    title: Option<RawJson>,
    description: Option<RawJson>,
    size: Option<RawJson>,
    icons: Option<RawJson>,
    resource: Option<RawJson>,
    id: Option<RawJson>,
    input: Option<RawJson>,
    tool_use_id: Option<RawJson>,
    content: Option<RawJson>,
    #[serde(default, deserialize_with = "crate::jsonrpc::deserialize_present")]
    structured_content: Option<RawJson>,
    is_error: Option<RawJson>,
    annotations: Option<Annotations>,
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

/// A string, or something that is not one.
struct MaybeString(Option<String>);

impl<'de> Deserialize<'de> for MaybeString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = MaybeString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_str<E>(self, text: &str) -> Result<MaybeString, E> {
                Ok(MaybeString(Some(text.to_owned())))
            }

            fn visit_bool<E>(self, _: bool) -> Result<MaybeString, E> {
                Ok(MaybeString(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<MaybeString, E> {
                Ok(MaybeString(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<MaybeString, E> {
                Ok(MaybeString(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<MaybeString, E> {
                Ok(MaybeString(None))
            }

            fn visit_unit<E>(self) -> Result<MaybeString, E> {
                Ok(MaybeString(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<MaybeString, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| MaybeString(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MaybeString, A::Error> {
                IgnoredAny.visit_map(map).map(|_| MaybeString(None))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

impl AnyBlock {
    fn text<E: serde::de::Error>(self) -> Result<Text, E> {
        Ok(Text { text: required_string(self.text, "text")?, annotations: self.annotations, meta: self.meta })
    }

    fn image<E: serde::de::Error>(self) -> Result<Image, E> {
        Ok(Image {
            data: required_string(self.data, "data")?,
            mime_type: required_string(self.mime_type, "mimeType")?,
            annotations: self.annotations,
            meta: self.meta,
        })
    }

    fn audio<E: serde::de::Error>(self) -> Result<Audio, E> {
        let Image { data, mime_type, annotations, meta } = self.image()?;
        Ok(Audio { data, mime_type, annotations, meta })
    }

    fn link<E: serde::de::Error>(self) -> Result<ResourceLink, E> {
        let size = optional::<CountValue, E>(self.size, "size")?;
        Ok(ResourceLink {
            uri: required(self.uri, "uri")?,
            name: required(self.name, "name")?,
            title: optional(self.title, "title")?,
            description: optional(self.description, "description")?,
            mime_type: self.mime_type.and_then(|MaybeString(text)| text),
            size: size.map(|CountValue(size)| size),
            icons: optional(self.icons, "icons")?,
            annotations: self.annotations,
            meta: self.meta,
        })
    }

    fn resource<E: serde::de::Error>(self) -> Result<EmbeddedResource, E> {
        // Some examples put the annotations inside the resource; the schema puts them beside it.
        #[derive(Deserialize)]
        struct Inner {
            annotations: Option<Annotations>,
        }
        let inside = self.resource.as_ref().and_then(|resource| resource.read::<Inner>().ok());
        Ok(EmbeddedResource {
            resource: required(self.resource, "resource")?,
            annotations: self.annotations.or(inside.and_then(|inner| inner.annotations)),
            meta: self.meta,
        })
    }

    fn tool_use<E: serde::de::Error>(self) -> Result<ToolUse, E> {
        let input: RawJson = required(self.input, "input")?;
        if !input.is_object() {
            return Err(E::custom("`input` is not an object"));
        }
        Ok(ToolUse {
            id: required(self.id, "id")?,
            name: required(self.name, "name")?,
            input,
            meta: self.meta,
        })
    }

    fn tool_result<E: serde::de::Error>(self) -> Result<ToolResult, E> {
        Ok(ToolResult {
            tool_use_id: required(self.tool_use_id, "toolUseId")?,
            content: required(self.content, "content")?,
            structured_content: self.structured_content,
            is_error: optional(self.is_error, "isError")?,
            meta: self.meta,
        })
    }
}

#[derive(Deserialize)]
struct CountValue(#[serde(with = "super::number::count")] u64);

fn required_string<E: serde::de::Error>(
    member: Option<MaybeString>,
    name: &'static str,
) -> Result<String, E> {
    match member {
        Some(MaybeString(Some(text))) => Ok(text),
        Some(MaybeString(None)) => Err(E::custom(format_args!("`{name}` is not a string"))),
        None => Err(E::missing_field(name)),
    }
}

fn optional<T: DeserializeOwned, E: serde::de::Error>(
    member: Option<RawJson>,
    name: &'static str,
) -> Result<Option<T>, E> {
    let read = |json: RawJson| json.read().map_err(|error| E::custom(format_args!("`{name}`: {error}")));
    member.map(read).transpose()
}

fn required<T: DeserializeOwned, E: serde::de::Error>(
    member: Option<RawJson>,
    name: &'static str,
) -> Result<T, E> {
    optional(member, name)?.ok_or_else(|| E::missing_field(name))
}

fn unknown_type<E: serde::de::Error>(kind: &str) -> E {
    let shown: String = kind.chars().take(40).collect();
    E::custom(format_args!("unknown content type {shown:?}"))
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let block: AnyBlock = map_only::deserialize_map(deserializer)?;
        Ok(match block.r#type.as_str() {
            "text" => ContentBlock::Text(block.text()?),
            "image" => ContentBlock::Image(block.image()?),
            "audio" => ContentBlock::Audio(block.audio()?),
            "resource_link" => ContentBlock::ResourceLink(block.link()?),
            "resource" => ContentBlock::Resource(block.resource()?),
            other => return Err(unknown_type(other)),
        })
    }
}

impl<'de> Deserialize<'de> for SamplingBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let block: AnyBlock = map_only::deserialize_map(deserializer)?;
        Ok(match block.r#type.as_str() {
            "text" => SamplingBlock::Text(block.text()?),
            "image" => SamplingBlock::Image(block.image()?),
            "audio" => SamplingBlock::Audio(block.audio()?),
            "tool_use" => SamplingBlock::ToolUse(block.tool_use()?),
            "tool_result" => SamplingBlock::ToolResult(block.tool_result()?),
            other => return Err(unknown_type(other)),
        })
    }
}
