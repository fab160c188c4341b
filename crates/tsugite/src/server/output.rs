//! From what a handler returns to the result of a call.

use schemars::JsonSchema;
use serde::Serialize;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::tools::CallResult;
use tsugite_core::protocol::{ContentBlock, Schema};

use super::failure::{Failure, ToolError};
use super::tool_fn::schema_of;

/// What a handler may return.
pub trait IntoOutput {
    /// As the result of the call.
    fn into_output(self) -> Result<CallResult, Failure>;

    /// What its `structuredContent` looks like; `None` if it has none.
    fn output_schema() -> Option<Schema> {
        None
    }
}

/// A value told both ways: as structured content with a schema, and as text.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoOutput for Json<T> {
    fn into_output(self) -> Result<CallResult, Failure> {
        match RawJson::of(&self.0) {
            Ok(json) => Ok(CallResult::text(json.text()).structured_content(json)),
            Err(error) => {
                tracing::error!(%error, "a tool returned a value that has no JSON");
                Err(Failure::internal())
            }
        }
    }

    fn output_schema() -> Option<Schema> {
        Some(schema_of::<T>())
    }
}

macro_rules! plain_values {
    ($($name:ty),*) => {$(
        impl IntoOutput for $name {
            fn into_output(self) -> Result<CallResult, Failure> {
                Json(self).into_output()
            }

            fn output_schema() -> Option<Schema> {
                Json::<$name>::output_schema()
            }
        }
    )*};
}

plain_values!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

impl IntoOutput for () {
    fn into_output(self) -> Result<CallResult, Failure> {
        Ok(CallResult::new([]))
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<CallResult, Failure> {
        Ok(CallResult::text(self))
    }
}

impl IntoOutput for &'static str {
    fn into_output(self) -> Result<CallResult, Failure> {
        Ok(CallResult::text(self))
    }
}

impl IntoOutput for ContentBlock {
    fn into_output(self) -> Result<CallResult, Failure> {
        Ok(CallResult::new([self]))
    }
}

impl IntoOutput for Vec<ContentBlock> {
    fn into_output(self) -> Result<CallResult, Failure> {
        Ok(CallResult::new(self))
    }
}

impl IntoOutput for CallResult {
    fn into_output(self) -> Result<CallResult, Failure> {
        Ok(self)
    }
}

impl<T: IntoOutput, E: Into<ToolError>> IntoOutput for Result<T, E> {
    fn into_output(self) -> Result<CallResult, Failure> {
        match self {
            Ok(output) => output.into_output(),
            Err(error) => Err(Failure::Tool(error.into())),
        }
    }

    fn output_schema() -> Option<Schema> {
        T::output_schema()
    }
}
