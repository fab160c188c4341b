//! Checks the structured content of a tool result against the tool's output schema.

use serde_json::Value;
use tsugite_core::jsonrpc::{JsonError, RawJson};
use tsugite_core::protocol::Schema;
use tsugite_core::protocol::tools::CallResult;

use crate::shared::validate::Validator;

/// Validates structured content against the output schema. Also fails if there is no structured content, or if the
/// schema cannot be enforced: without the cargo feature `validate` none can. No external reference is fetched.
pub(super) fn validate_output(schema: &Schema, result: &CallResult) -> Result<(), JsonError> {
    let Some(structured) = &result.structured_content else {
        return Err(JsonError::new("the tool declares an output schema but returned no structured content"));
    };
    let value: Value = RawJson::read(structured)?;
    let checked = Validator::compile(schema).and_then(|validator| validator.check(&value));
    checked.map_err(|error| {
        JsonError::new(format!("the output does not match the tool's output schema: {error}"))
    })
}
