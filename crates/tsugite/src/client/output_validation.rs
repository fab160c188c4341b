//! Whether what a tool gave is what it promised.

use serde_json::Value;
use tsugite_core::jsonrpc::{JsonError, RawJson};
use tsugite_core::protocol::Schema;
use tsugite_core::protocol::tools::CallResult;

use crate::shared::validate::Validator;

/// Compares structured content with the output schema of its tool. Fails as well when there is none, or when the schema
/// cannot be enforced: without the cargo feature `validate` none can. Nothing is fetched for a schema.
pub(super) fn validate_output(schema: &Schema, result: &CallResult) -> Result<(), JsonError> {
    let Some(structured) = &result.structured_content else {
        return Err(JsonError::new("the tool declares an output schema and gave no structured content"));
    };
    let value: Value = RawJson::read(structured)?;
    let checked = Validator::compile(schema).and_then(|validator| validator.check(&value));
    checked.map_err(|what| JsonError::new(format!("its output does not fit its own schema: {what}")))
}
