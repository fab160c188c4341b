//! JSON Schemas of tools, kept complete and in order.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Object;

/// A JSON Schema object. Every keyword is kept, in the order it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema(Object);

impl Schema {
    /// The schema of any object: `{"type": "object"}`.
    pub fn object() -> Self {
        Self(Object::from_iter([("type".to_owned(), json!("object"))]))
    }

    /// The keywords.
    pub fn keywords(&self) -> &Object {
        &self.0
    }

    /// The keywords, mutable.
    pub fn keywords_mut(&mut self) -> &mut Object {
        &mut self.0
    }

    /// Whether the root has `"type": "object"`, as input schemas must.
    pub fn is_object_rooted(&self) -> bool {
        self.0.get("type").and_then(Value::as_str) == Some("object")
    }
}

impl From<Object> for Schema {
    fn from(keywords: Object) -> Self {
        Self(keywords)
    }
}

/// `true` and values that are not schemas become the empty schema, which accepts everything; `false` becomes one that
/// accepts nothing.
impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(keywords) => Self(keywords),
            Value::Bool(false) => Self(Object::from_iter([("not".to_owned(), json!({}))])),
            _ => Self(Object::new()),
        }
    }
}
