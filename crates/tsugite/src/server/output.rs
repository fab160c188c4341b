//! Converts the return value of a handler into the result of a tool, a resource or a prompt.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::content::{Audio, EmbeddedResource, Image, ResourceContents, ResourceLink, Text};
use tsugite_core::protocol::prompts::{GetResult, PromptMessage};
use tsugite_core::protocol::resources::ReadResult;
use tsugite_core::protocol::tools::CallResult;
use tsugite_core::protocol::{ContentBlock, Role, Schema};

use super::handler_error::{HandlerError, InvocationError};
use super::schema::schema_of;

/// A type that a handler may return: `O` is a [`CallResult`] for tools, a [`ReadResult`] for resources, a [`GetResult`]
/// for prompts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned by a handler as `{O}`",
    label = "cannot be returned here",
    note = "tools return text, numbers, content blocks, `Json<T>` or a `CallResult`; resources text, bytes, `Json<T>` or a `ReadResult`; prompts text, messages or a `GetResult`",
    note = "a `Result` of these is fine if its error converts into `HandlerError`"
)]
#[doc(alias("IntoCallToolResult", "IntoContents"))]
pub trait IntoOutput<O> {
    /// Converts into the result.
    fn into_output(self) -> Result<O, InvocationError>;

    /// The schema of `structuredContent`; `None` if there is none.
    fn output_schema() -> Option<Schema> {
        None
    }
}

/// Returns a value both as structured content with a schema and as text.
#[derive(Debug, Clone, Copy)]
#[doc(alias("structured_output", "structured_content", "structuredContent"))]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoOutput<CallResult> for Json<T> {
    fn into_output(self) -> Result<CallResult, InvocationError> {
        let json = to_raw_json(&self.0)?;
        Ok(CallResult::from_text(json.text()).structured_content(json))
    }

    fn output_schema() -> Option<Schema> {
        Some(schema_of::<T>())
    }
}

impl<T: Serialize> IntoOutput<ReadResult> for Json<T> {
    fn into_output(self) -> Result<ReadResult, InvocationError> {
        let json = to_raw_json(&self.0)?;
        ResourceContents::text("", json.text()).mime_type("application/json").into_output()
    }
}

fn to_raw_json<T: Serialize>(value: &T) -> Result<RawJson, InvocationError> {
    RawJson::from_value(value).map_err(|error| {
        InvocationError::internal(format!("the handler returned a value that JSON cannot express: {error}"))
    })
}

macro_rules! json_values {
    ($($name:ty),*) => {$(
        impl IntoOutput<CallResult> for $name {
            fn into_output(self) -> Result<CallResult, InvocationError> {
                Json(self).into_output()
            }

            fn output_schema() -> Option<Schema> {
                <Json<$name> as IntoOutput<CallResult>>::output_schema()
            }
        }
    )*};
}

json_values!(bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64);

/// Implements [`IntoOutput`] for types that convert into a result.
macro_rules! impl_into_output {
    ($output:ty: $($name:ty = |$value:ident| $result:expr;)*) => {$(
        impl IntoOutput<$output> for $name {
            fn into_output(self) -> Result<$output, InvocationError> {
                let $value = self;
                Ok($result)
            }
        }
    )*};
}

impl_into_output! { CallResult:
    () = |_none| CallResult::new([]);
    String = |text| CallResult::from_text(text);
    &'static str = |text| CallResult::from_text(text);
    Cow<'static, str> = |text| CallResult::from_text(text);
    ContentBlock = |block| CallResult::new([block]);
    Vec<ContentBlock> = |blocks| CallResult::new(blocks);
    Text = |block| CallResult::new([ContentBlock::Text(block)]);
    Image = |block| CallResult::new([ContentBlock::Image(block)]);
    Audio = |block| CallResult::new([ContentBlock::Audio(block)]);
    ResourceLink = |block| CallResult::new([ContentBlock::ResourceLink(block)]);
    EmbeddedResource = |block| CallResult::new([ContentBlock::Resource(block)]);
    CallResult = |result| result;
}

// The URI and the MIME type are filled in by the resource lookup.
impl_into_output! { ReadResult:
    String = |text| ReadResult::new([ResourceContents::text("", text)]);
    &'static str = |text| ReadResult::new([ResourceContents::text("", text)]);
    Cow<'static, str> = |text| ReadResult::new([ResourceContents::text("", text)]);
    Vec<u8> = |bytes| ReadResult::new([ResourceContents::bytes("", &bytes)]);
    &'static [u8] = |bytes| ReadResult::new([ResourceContents::bytes("", bytes)]);
    ResourceContents = |contents| ReadResult::new([contents]);
    Vec<ResourceContents> = |contents| ReadResult::new(contents);
    ReadResult = |result| result;
}

impl_into_output! { GetResult:
    String = |text| GetResult::new([PromptMessage::new(Role::User, ContentBlock::text(text))]);
    &'static str = |text| GetResult::new([PromptMessage::new(Role::User, ContentBlock::text(text))]);
    ContentBlock = |block| GetResult::new([PromptMessage::new(Role::User, block)]);
    PromptMessage = |message| GetResult::new([message]);
    Vec<PromptMessage> = |messages| GetResult::new(messages);
    GetResult = |result| result;
}

/// `None` means that the resource does not exist.
impl<T: IntoOutput<ReadResult>> IntoOutput<ReadResult> for Option<T> {
    fn into_output(self) -> Result<ReadResult, InvocationError> {
        match self {
            Some(contents) => contents.into_output(),
            None => Err(InvocationError::NotFound),
        }
    }
}

impl<O, T: IntoOutput<O>, E: Into<HandlerError>> IntoOutput<O> for Result<T, E> {
    fn into_output(self) -> Result<O, InvocationError> {
        match self {
            Ok(output) => output.into_output(),
            Err(error) => Err(InvocationError::Handler(error.into())),
        }
    }

    fn output_schema() -> Option<Schema> {
        T::output_schema()
    }
}
