//! Stands in for the validator where the cargo feature `validate` is off.

use std::convert::Infallible;

use serde_json::Value;
use tsugite_core::protocol::Schema;

use super::unenforced_keyword;

/// Whether schemas can be compiled.
pub(crate) const AVAILABLE: bool = false;

/// A compiled schema, which cannot be without the feature.
#[derive(Clone)]
pub(crate) struct Validator(Infallible);

impl Validator {
    /// Fails: a schema that is not enforced would be a promise that does not hold.
    pub(crate) fn compile(schema: &Schema) -> Result<Self, String> {
        let what = unenforced_keyword(schema).unwrap_or_else(|| "checking against a schema".to_owned());
        Err(format!("{what} needs the cargo feature `validate`"))
    }

    pub(crate) fn check(&self, _: &Value) -> Result<(), String> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_names_the_keyword_that_needs_the_feature() {
        let schema = Schema::from(json!({"type": "object", "properties": {"a": {"minimum": 1}}}));
        let error = Validator::compile(&schema).err().unwrap();
        assert_eq!(error, "`minimum` at `#/properties/a` needs the cargo feature `validate`");
        let _: fn(&Validator, &Value) -> Result<(), String> = Validator::check;
        let error = Validator::compile(&Schema::object()).err().unwrap();
        assert_eq!(error, "checking against a schema needs the cargo feature `validate`");
    }
}
