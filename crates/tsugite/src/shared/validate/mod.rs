//! Checking JSON against a JSON Schema: for keywords a Rust type cannot say, for tools known only at run time, and for
//! what a peer promised.
//!
//! - [`beyond_types`]: whether a schema says more than the type it was made from.
//! - [`Plain`]: what it says more, where that only counts and compares.
//! - [`Validator`]: a compiled schema, for everything else. Without the cargo feature `validate` none can be compiled, and
//!   the error says which keyword asked for it. It is large, so whoever needs it says so with a [`CompileFn`], and a server
//!   that has no use for it does not carry it.
//! - `places`: where schemas stand inside a schema. `bounds`: how much work a schema may cause. `sentences`: what is
//!   said about a value that does not fit.

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

/// How a schema is compiled. Only what holds one keeps the validator in the executable.
pub(crate) type CompileFn = fn(&Schema) -> Result<Validator, String>;

/// Checks arguments.
#[derive(Clone)]
pub(crate) enum ArgumentValidator {
    Simple(SimpleValidator),
    Full(Validator),
}

impl ArgumentValidator {
    /// What checks the arguments of a tool; nothing where reading them into their type does. Fails where that takes the
    /// validator and there is no `compile`.
    pub(crate) fn for_arguments(
        schema: &Schema,
        typed: bool,
        compile: Option<CompileFn>,
    ) -> Result<Option<Self>, String> {
        if typed && unenforced_keyword(schema).is_none() || is_any_object(schema) {
            return Ok(None);
        }
        match (typed.then(|| SimpleValidator::from_schema(schema)), compile) {
            (Some(Ok(plain)), _) => Ok(Some(ArgumentValidator::Simple(plain))),
            (_, Some(compile)) => compile(schema).map(|validator| Some(ArgumentValidator::Full(validator))),
            (Some(Err(found)), None) => Err(format!(
                "{found} is checked by the validator of JSON Schema alone: say `#[tool(validated)]` or `.validated(true)`"
            )),
            (None, None) => {
                Err("it is made by no type, and nothing checks it: say `.validated(true)`".to_owned())
            }
        }
    }

    /// Whether `instance` fits. The error is at most three sentences about what does not.
    pub(crate) fn check(&self, instance: &Value) -> Result<(), String> {
        match self {
            ArgumentValidator::Simple(plain) => plain.check(instance),
            ArgumentValidator::Full(validator) => validator.check(instance),
        }
    }
}

/// `{"type": "object"}` and annotations: there is nothing to check.
fn is_any_object(schema: &Schema) -> bool {
    schema.keywords().keys().all(|word| matches!(word.as_str(), "type" | "title" | "description"))
}
