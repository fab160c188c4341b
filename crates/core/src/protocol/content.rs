//! Content blocks of tools, prompts and models.
//!
//! A block is deserialized in one pass with the members of all kinds, and its `type` selects the kind; nothing is
//! inferred from its shape.

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
#[doc(alias = "Content")]
pub enum ContentBlock {
    /// Text.
    Text(Text),
    /// An image.
    Image(Image),
    /// Audio (from 2025-03-26).
    Audio(Audio),
    /// A link to a resource (from 2025-06-18).
    ResourceLink(ResourceLink),
    /// An embedded resource.
    Resource(EmbeddedResource),
}

/// A block in a conversation with a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(alias = "SamplingMessageContentBlock")]
pub enum SamplingBlock {
    /// Text.
    Text(Text),
    /// An image.
    Image(Image),
    /// Audio (from 2025-03-26).
    Audio(Audio),
    /// A tool call of the model (from 2025-11-25).
    ToolUse(ToolUse),
    /// The result of a tool call (from 2025-11-25).
    ToolResult(ToolResult),
}

wire! {
    /// Text.
    #[serde(tag = "type", rename = "text")]
    #[doc(alias = "TextContent")]
    pub struct Text {
        /// The text.
        text: String,
    }
    optional {
        /// Hints about use and display.
        annotations: Annotations,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// An image.
    #[serde(tag = "type", rename = "image")]
    #[doc(alias = "ImageContent")]
    pub struct Image {
        /// The data in base64.
        data: String,
        /// The MIME type.
        mime_type: String,
    }
    optional {
        /// Hints about use and display.
        annotations: Annotations,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Audio.
    #[serde(tag = "type", rename = "audio")]
    #[doc(alias = "AudioContent")]
    pub struct Audio {
        /// The data in base64.
        data: String,
        /// The MIME type.
        mime_type: String,
    }
    optional {
        /// Hints about use and display.
        annotations: Annotations,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A link to a resource.
    #[serde(tag = "type", rename = "resource_link")]
    pub struct ResourceLink {
        /// The URI.
        uri: String,
        /// The programmatic name.
        name: String,
    }
    optional {
        /// The display name.
        title: String,
        /// A description.
        description: String,
        /// The MIME type.
        mime_type: String,
        /// The size in bytes.
        #[serde(with = "super::number::maybe_count")]
        size: u64,
        /// Icons.
        icons: Vec<Icon>,
        /// Hints about use and display.
        annotations: Annotations,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A resource embedded in the message.
    #[serde(tag = "type", rename = "resource")]
    pub struct EmbeddedResource {
        /// The contents of the resource.
        resource: ResourceContents,
    }
    optional {
        /// Hints about use and display; beside the resource, not inside it.
        annotations: Annotations,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A tool call of the model.
    #[serde(tag = "type", rename = "tool_use")]
    #[doc(alias = "ToolUseContent")]
    pub struct ToolUse {
        /// The id for the result.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments, an object.
        input: RawJson,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The result of a tool call, for the model.
    #[serde(tag = "type", rename = "tool_result")]
    #[doc(alias = "ToolResultContent")]
    pub struct ToolResult {
        /// The id of the tool call.
        tool_use_id: String,
        /// The content.
        content: Vec<ContentBlock>,
    }
    optional {
        /// The structured content: any JSON value (an object on 2025-11-25).
        structured_content: RawJson,
        /// Whether the tool failed.
        is_error: bool,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl Image {
    /// An image from bytes.
    pub fn from_bytes(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::new(base64::encode(bytes), mime_type)
    }
}

impl Audio {
    /// Audio from bytes.
    pub fn from_bytes(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::new(base64::encode(bytes), mime_type)
    }
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        ContentBlock::Text(Text::new(text))
    }

    /// The text, if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ContentBlock::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl SamplingBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        SamplingBlock::Text(Text::new(text))
    }

    /// The text, if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            SamplingBlock::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

/// Joins texts by newlines.
pub(super) fn join_lines<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

/// The contents of a resource: text, or bytes in base64. They have no `type`; the members `text` and `blob` tell them
/// apart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(alias("TextResourceContents", "BlobResourceContents"))]
pub struct ResourceContents {
    /// The URI of the resource, or of a part of it.
    pub uri: String,
    /// The contents.
    pub body: ResourceBody,
    /// The MIME type.
    pub mime_type: Option<String>,
    /// Metadata, `_meta`.
    pub meta: Option<Meta>,
}

/// The contents of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes in base64.
    Blob(String),
}

impl ResourceContents {
    /// Text contents.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), body: ResourceBody::Text(text.into()), mime_type: None, meta: None }
    }

    /// Binary contents, in base64.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> Self {
        Self { uri: uri.into(), body: ResourceBody::Blob(base64.into()), mime_type: None, meta: None }
    }

    /// Binary contents.
    pub fn bytes(uri: impl Into<String>, bytes: &[u8]) -> Self {
        Self::blob(uri, base64::encode(bytes))
    }

    /// The text, if the contents are text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            ResourceBody::Text(text) => Some(text),
            ResourceBody::Blob(_) => None,
        }
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

/// The members of all kinds of blocks, so that a block is deserialized in one pass wherever its `type` is.
///
/// A member is checked only if the kind of block has it: blocks are open, and an image may have an `id` of another
/// meaning.
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

/// A string, or a value of another type.
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
        // Some examples have the annotations inside the resource; the schema has them beside it.
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
