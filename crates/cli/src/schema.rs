//! Reads names, types and a signature from a JSON Schema, for the command line. It does not validate.

use serde_json::Value;

/// Returns the names of the properties, in order.
pub(crate) fn property_names(schema: &Value) -> impl Iterator<Item = &str> + Clone {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
}

/// Returns the names of the required properties.
pub(crate) fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Whether the schema allows properties that it does not name.
///
/// By the standard most schemas are open. Here, a schema that names properties and does not say that it is open is
/// treated as closed, so that a misspelt argument is found.
pub(crate) fn allows_additional_properties(schema: &Value) -> bool {
    let has_no_properties = schema.get("properties").is_none();
    let is_declared_open = match schema.get("additionalProperties") {
        Some(Value::Bool(open)) => *open,
        Some(_) => true,
        None => false,
    };
    let combined = ["patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
    is_declared_open
        || (has_no_properties && schema.get("additionalProperties").is_none())
        || combined.iter().any(|keyword| schema.get(keyword).is_some())
}

/// Returns the schema of a property.
pub(crate) fn property(schema: &Value, name: &str) -> Option<Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|other| other.is_object())).cloned()
}

/// Returns the schema of the items of an array.
pub(crate) fn items(schema: &Value, root: &Value) -> Option<Value> {
    let here = resolve_ref(schema, root);
    let mut alternatives =
        here.get("anyOf").or(here.get("oneOf")).and_then(Value::as_array).into_iter().flatten();
    here.get("items")
        .cloned()
        .or_else(|| alternatives.find_map(|one| resolve_ref(one, root).get("items").cloned()))
}

/// Returns the allowed values, if the schema lists them.
pub(crate) fn allowed_values(schema: &Value, root: &Value) -> Option<Vec<Value>> {
    let here = resolve_ref(schema, root);
    if let Some(only) = here.get("const") {
        return Some(vec![only.clone()]);
    }
    if let Some(listed) = here.get("enum").and_then(Value::as_array) {
        return Some(listed.clone());
    }
    let alternatives = here.get("oneOf").or(here.get("anyOf")).and_then(Value::as_array)?;
    let mut all = Vec::new();
    for one in alternatives {
        let one = resolve_ref(one, root);
        match (one.get("const"), one.get("enum").and_then(Value::as_array), one.get("type")) {
            (Some(only), ..) => all.push(only.clone()),
            (None, Some(listed), _) => all.extend(listed.iter().cloned()),
            (None, None, Some(Value::String(name))) if name == "null" => all.push(Value::Null),
            _ => return None,
        }
    }
    all.iter().any(|value| !value.is_null()).then_some(all)
}

/// Returns the allowed types, the strictest first; empty if the schema does not restrict them.
pub(crate) fn types(schema: &Value, root: &Value) -> Vec<String> {
    let here = resolve_ref(schema, root);
    let mut found: Vec<String> = match here.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => {
            let alternatives = here.get("anyOf").or(here.get("oneOf")).and_then(Value::as_array);
            let mut found = Vec::new();
            for one in alternatives.into_iter().flatten() {
                let one = resolve_ref(one, root);
                match one.get("type") {
                    Some(Value::String(name)) => found.push(name.clone()),
                    _ => return Vec::new(),
                }
            }
            found
        }
    };
    let strictness = |name: &str| {
        let order = ["null", "boolean", "integer", "number", "object", "array", "string"];
        order.iter().position(|known| *known == name).unwrap_or(order.len())
    };
    found.sort_by_key(|name| strictness(name));
    found.dedup();
    found
}

/// Formats a type in a few words: `integer`, `string[]`, `"small" | "large"`.
pub(crate) fn type_name(schema: &Value, root: &Value) -> String {
    format_type(schema, root, true)
}

/// Formats the type of an argument that can be left out: that it may also be `null` is of no interest.
pub(crate) fn optional_type_name(schema: &Value, root: &Value) -> String {
    format_type(schema, root, false)
}

fn format_type(schema: &Value, root: &Value, shows_null: bool) -> String {
    if let Some(mut allowed) = allowed_values(schema, root) {
        let is_nullable = allowed.iter().any(Value::is_null);
        allowed.retain(|value| !value.is_null());
        let mut words: Vec<String> = allowed.iter().take(MAX_SHOWN_VALUES).map(Value::to_string).collect();
        if allowed.len() > MAX_SHOWN_VALUES {
            words.push("…".to_owned());
        }
        if is_nullable && (shows_null || words.is_empty()) {
            words.push("null".to_owned());
        }
        return words.join(" | ");
    }
    let types = types(schema, root);
    let (nulls, others): (Vec<&String>, Vec<&String>) = types.iter().partition(|name| *name == "null");
    let mut words: Vec<String> = others
        .into_iter()
        .map(|name| match (name.as_str(), items(schema, root)) {
            ("array", Some(item)) => match item_type(&item, root) {
                Some(item) => format!("{item}[]"),
                None => "array".to_owned(),
            },
            (name, _) => name.to_owned(),
        })
        .collect();
    if !nulls.is_empty() && (shows_null || words.is_empty()) {
        words.push("null".to_owned());
    }
    if words.is_empty() { "any".to_owned() } else { words.join(" | ") }
}

/// Formats a signature: `name(a: integer, b?: string = "x") → number`.
pub(crate) fn signature(name: &str, input: &Value, output: Option<&Value>) -> String {
    let needed: Vec<&str> = required(input).collect();
    let arguments: Vec<String> = property_names(input)
        .map(|name| {
            let property = property(input, name).unwrap_or_default();
            let (mark, type_name) = match needed.contains(&name) {
                true => ("", type_name(&property, input)),
                false => ("?", optional_type_name(&property, input)),
            };
            let default = match property.get("default") {
                Some(default) if !default.is_null() => format!(" = {default}"),
                _ => String::new(),
            };
            format!("{name}{mark}: {type_name}{default}")
        })
        .collect();
    let result = output.map(|output| format!(" → {}", type_name(output, output))).unwrap_or_default();
    format!("{name}({}){result}", arguments.join(", "))
}

fn item_type(item: &Value, root: &Value) -> Option<String> {
    let types = types(item, root);
    match types.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Follows a `$ref` within the same schema.
pub(crate) fn resolve_ref<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut here = schema;
    // The limit ends circular references.
    for _ in 0..8 {
        let Some(path) = here.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'))
        else {
            return here;
        };
        match root.pointer(path) {
            Some(next) => here = next,
            None => return here,
        }
    }
    here
}

/// Values of an enumeration to show.
pub(crate) const MAX_SHOWN_VALUES: usize = 6;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn signature_marks_optional_arguments() {
        let input = json!({
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": ["string", "null"], "default": "x"},
                "c": {"type": "array", "items": {"type": "string"}},
                "d": {"$ref": "#/$defs/D"},
                "e": {"$ref": "#/$defs/E"},
            },
            "required": ["a", "d"],
            "$defs": {"D": {"enum": ["s", "l"]}, "E": {"$ref": "#/$defs/E"}},
        });
        let output = json!({"type": "number"});
        assert_eq!(
            signature("f", &input, Some(&output)),
            r#"f(a: integer, b?: string = "x", c?: string[], d: "s" | "l", e?: any) → number"#
        );
        let nullable = json!({"properties": {"a": {"type": ["null", "string"]}, "b": {"enum": [null, 1]}}, "required": ["a"]});
        assert_eq!(signature("h", &nullable, None), "h(a: string | null, b?: 1)");
        assert_eq!(signature("g", &json!({"type": "object"}), None), "g()");
    }
}
