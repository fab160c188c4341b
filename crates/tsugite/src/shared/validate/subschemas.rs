//! The schemas inside a schema, in every draft. All other values are data: a property may be named `not`.
//!
//! Also formats paths and values for error messages.

use serde_json::{Map, Value};

/// A schema inside another one.
pub(super) struct Subschema<'a> {
    #[allow(dead_code, reason = "read only by `bounds`, which needs the feature")]
    pub(super) location: InstanceLocation<'a>,
    /// A JSON Pointer from the outer schema to this one.
    pub(super) pointer: String,
    pub(super) schema: &'a Value,
}

/// The part of the instance that a subschema applies to, relative to the instance of the outer schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InstanceLocation<'a> {
    /// The whole instance.
    Same,
    /// The property with this name.
    Property(&'a str),
    /// Some of its properties, property names or items.
    Children,
    /// None, unless a reference leads to the subschema.
    Definition,
}

/// Returns the direct subschemas of `schema`, in document order.
pub(super) fn subschemas<'a>(schema: &'a Map<String, Value>) -> Vec<Subschema<'a>> {
    let mut found = Vec::new();
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        let location = match keyword {
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas"
            | "dependencies" => InstanceLocation::Same,
            "properties"
            | "patternProperties"
            | "additionalProperties"
            | "propertyNames"
            | "items"
            | "prefixItems"
            | "additionalItems"
            | "contains"
            | "unevaluatedItems"
            | "unevaluatedProperties" => InstanceLocation::Children,
            "$defs" | "definitions" | "contentSchema" => InstanceLocation::Definition,
            _ => continue,
        };
        let named = matches!(
            keyword,
            "properties"
                | "patternProperties"
                | "dependentSchemas"
                | "dependencies"
                | "$defs"
                | "definitions"
        );
        let mut add = |location, pointer, schema: &'a Value| {
            // `dependencies` may also hold lists of names; other invalid values are found when the schema is compiled.
            if matches!(schema, Value::Object(_) | Value::Bool(_)) {
                found.push(Subschema { location, pointer, schema });
            }
        };
        match value {
            Value::Object(members) if named => {
                for (name, schema) in members {
                    let location =
                        if keyword == "properties" { InstanceLocation::Property(name) } else { location };
                    add(location, format!("/{keyword}/{}", escape_pointer(name)), schema);
                }
            }
            Value::Array(list) => {
                for (index, schema) in list.iter().enumerate() {
                    add(location, format!("/{keyword}/{index}"), schema);
                }
            }
            schema => add(location, format!("/{keyword}"), schema),
        }
    }
    found
}

/// Escapes a name for a JSON Pointer (RFC 6901).
fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Shortens a text from a schema or a value for an error message.
pub(super) fn truncate(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        None => text.to_owned(),
        Some((index, _)) => format!("{}…", text.get(..index).unwrap_or_default()),
    }
}

/// Formats a path in a value: `items[2].name`.
pub(super) fn format_path<'a>(segments: impl Iterator<Item = Result<usize, &'a str>>) -> String {
    let mut path = String::new();
    for segment in segments {
        match segment {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(name) if is_bare_name(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Err(name) => path.push_str(&format!("[{}]", summarize(&Value::from(name)))),
        }
    }
    path
}

/// Whether a name needs no quotes in a path.
pub(super) fn is_bare_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-$".contains(letter))
}

/// Formats a short value as JSON, and a long one by its kind and size.
pub(super) fn summarize(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(truncate(text)).to_string(),
        Value::Array(items) if items.is_empty() => "[]".to_owned(),
        Value::Array(items) if items.len() == 1 => "an array of 1 item".to_owned(),
        Value::Array(items) => format!("an array of {} items", items.len()),
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        short => short.to_string(),
    }
}
