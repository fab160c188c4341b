//! Validates JSON against a JSON Schema: for keywords that a Rust type cannot enforce, for tools that are defined at run
//! time, and for the output schemas of a peer.
//!
//! - [`unenforced_keyword`]: finds a keyword that the Rust type of a schema does not enforce.
//! - [`SimpleValidator`]: checks keywords that only count and compare.
//! - [`Validator`]: a compiled schema, for all other keywords. Without the cargo feature `validate` no schema can be
//!   compiled, and the error names the keyword that needs it. The validator is large, so it is linked only into programs
//!   that use a [`CompileFn`].
//! - `subschemas`: the schemas inside a schema. `bounds`: limits on the work a schema may cause. `messages`: error messages
//!   for values that do not match.

#[cfg(feature = "validate")]
mod bounds;
#[cfg(feature = "validate")]
mod messages;
#[cfg(not(feature = "validate"))]
mod no_validator;
mod simple;
mod subschemas;
mod unenforced;
#[cfg(feature = "validate")]
mod validator;

use serde_json::Value;
use tsugite_core::protocol::Schema;

#[cfg(not(feature = "validate"))]
pub(crate) use no_validator::{AVAILABLE, Validator};
pub(crate) use simple::SimpleValidator;
pub(crate) use unenforced::unenforced_keyword;
#[cfg(feature = "validate")]
pub(crate) use validator::{AVAILABLE, Validator};

/// A function that compiles a schema. A program that uses none does not link the validator.
pub(crate) type CompileFn = fn(&Schema) -> Result<Validator, String>;

/// Validates the arguments of a tool.
#[derive(Clone)]
pub(crate) enum ArgumentValidator {
    Simple(SimpleValidator),
    Full(Validator),
}

impl ArgumentValidator {
    /// Returns the validator for the arguments of a tool; none if deserializing them into their type enforces the schema.
    /// Fails if the schema needs the full validator and `compile` is none.
    pub(crate) fn for_arguments(
        schema: &Schema,
        typed: bool,
        compile: Option<CompileFn>,
    ) -> Result<Option<Self>, String> {
        if typed && unenforced_keyword(schema).is_none() || is_any_object(schema) {
            return Ok(None);
        }
        match (typed.then(|| SimpleValidator::from_schema(schema)), compile) {
            (Some(Ok(simple)), _) => Ok(Some(ArgumentValidator::Simple(simple))),
            (_, Some(compile)) => compile(schema).map(|validator| Some(ArgumentValidator::Full(validator))),
            (Some(Err(keyword)), None) => Err(format!(
                "{keyword} needs the JSON Schema validator: add `#[tool(validated)]` or `.validated(true)`"
            )),
            (None, None) => {
                Err("the schema belongs to no Rust type and is not enforced: add `.validated(true)`"
                    .to_owned())
            }
        }
    }

    /// Validates `instance`. The error lists at most three violations.
    pub(crate) fn check(&self, instance: &Value) -> Result<(), String> {
        match self {
            ArgumentValidator::Simple(simple) => simple.check(instance),
            ArgumentValidator::Full(validator) => validator.check(instance),
        }
    }
}

/// Whether a schema is `{"type": "object"}` with annotations, which needs no validation.
fn is_any_object(schema: &Schema) -> bool {
    schema.keywords().keys().all(|keyword| matches!(keyword.as_str(), "type" | "title" | "description"))
}
