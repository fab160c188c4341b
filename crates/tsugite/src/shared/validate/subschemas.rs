//! Where schemas stand inside a schema, in every draft. Everything else in it is data: a property may be called `not`.

use serde_json::{Map, Value};

/// A schema inside another one.
pub(super) struct Subschema<'a> {
    #[allow(dead_code, reason = "only `bounds` asks, which is there with the feature")]
    pub(super) location: InstanceLocation<'a>,
    /// From the outer schema to this one, as a JSON Pointer.
    pub(super) pointer: String,
    pub(super) schema: &'a Value,
}

/// What a schema is about, seen from the value that the outer one is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InstanceLocation<'a> {
    /// The same value.
    Same,
    /// The property of this name.
    Property(&'a str),
    /// Some of its properties, their names, or items.
    Children,
    /// Nothing, until it is referred to.
    Definition,
}

/// The schemas right inside `schema`, in the order they are written.
pub(super) fn subschemas<'a>(schema: &'a Map<String, Value>) -> Vec<Subschema<'a>> {
    let mut found = Vec::new();
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        let place = match keyword {
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
        let mut add = |place, pointer, schema: &'a Value| {
            // `dependencies` also has lists of names; what is wrong in other places is found when it is compiled.
            if matches!(schema, Value::Object(_) | Value::Bool(_)) {
                found.push(Subschema { location: place, pointer, schema });
            }
        };
        match value {
            Value::Object(members) if named => {
                for (name, schema) in members {
                    let place =
                        if keyword == "properties" { InstanceLocation::Property(name) } else { place };
                    add(place, format!("/{keyword}/{}", escape_pointer(name)), schema);
                }
            }
            Value::Array(list) => {
                for (at, schema) in list.iter().enumerate() {
                    add(place, format!("/{keyword}/{at}"), schema);
                }
            }
            schema => add(place, format!("/{keyword}"), schema),
        }
    }
    found
}

/// A name as it stands in a JSON Pointer (RFC 6901).
fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// What stands in a schema or a value, but never more of it than helps.
pub(super) fn truncate(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

/// A place in a value, by items and members: `items[2].name`.
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

/// Whether a name can stand in a path as it is.
pub(super) fn is_bare_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-$".contains(letter))
}

/// A value, if it is short; of a long one, what it is.
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
