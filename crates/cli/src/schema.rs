//! What can be told from a JSON Schema without understanding all of it: names, types and a signature.

use serde_json::Value;

/// The names of the arguments, in their order.
pub(crate) fn property_names(schema: &Value) -> impl Iterator<Item = &str> + Clone {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
}

/// The names of those that must be there.
pub(crate) fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Whether arguments may be there that it does not name. Strictly most schemas are open; whoever names arguments and
/// does not say so means these.
pub(crate) fn allows_additional_properties(schema: &Value) -> bool {
    let names_none = schema.get("properties").is_none();
    let says_so = match schema.get("additionalProperties") {
        Some(Value::Bool(open)) => *open,
        Some(_) => true,
        None => false,
    };
    let combined = ["patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
    says_so
        || (names_none && schema.get("additionalProperties").is_none())
        || combined.iter().any(|keyword| schema.get(keyword).is_some())
}

/// The schema of one argument.
pub(crate) fn property(schema: &Value, name: &str) -> Option<Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|other| other.is_object())).cloned()
}

/// The schema of the items of a list.
pub(crate) fn items(schema: &Value, root: &Value) -> Option<Value> {
    let here = resolve_ref(schema, root);
    let mut alternatives =
        here.get("anyOf").or(here.get("oneOf")).and_then(Value::as_array).into_iter().flatten();
    here.get("items")
        .cloned()
        .or_else(|| alternatives.find_map(|one| resolve_ref(one, root).get("items").cloned()))
}

/// The only values that are allowed, if they are listed.
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

/// The types that are allowed, the strictest first; none if nothing is said.
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

/// A type in a word or two: `integer`, `string[]`, `"small" | "large"`.
pub(crate) fn type_name(schema: &Value, root: &Value) -> String {
    if let Some(allowed) = allowed_values(schema, root) {
        let mut words: Vec<String> = allowed.iter().take(MAX_SHOWN_VALUES).map(Value::to_string).collect();
        if allowed.len() > MAX_SHOWN_VALUES {
            words.push("…".to_owned());
        }
        return words.join(" | ");
    }
    let types = types(schema, root);
    let words: Vec<String> = types
        .iter()
        .map(|name| match (name.as_str(), items(schema, root)) {
            ("array", Some(item)) => match item_type(&item, root) {
                Some(item) => format!("{item}[]"),
                None => "array".to_owned(),
            },
            (name, _) => name.to_owned(),
        })
        .collect();
    if words.is_empty() { "any".to_owned() } else { words.join(" | ") }
}

/// `name(a: integer, b?: string = "x") → number`
pub(crate) fn signature(name: &str, input: &Value, output: Option<&Value>) -> String {
    let needed: Vec<&str> = required(input).collect();
    let arguments: Vec<String> = property_names(input)
        .map(|name| {
            let asked = property(input, name).unwrap_or_default();
            let mark = if needed.contains(&name) { "" } else { "?" };
            let preset = match asked.get("default") {
                Some(preset) if !preset.is_null() => format!(" = {preset}"),
                _ => String::new(),
            };
            format!("{name}{mark}: {}{preset}", type_name(&asked, input))
        })
        .collect();
    let gives = output.map(|output| format!(" → {}", type_name(output, output))).unwrap_or_default();
    format!("{name}({}){gives}", arguments.join(", "))
}

fn item_type(item: &Value, root: &Value) -> Option<String> {
    let types = types(item, root);
    match types.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Where a `$ref` inside the same schema leads.
fn resolve_ref<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut here = schema;
    // One that leads in circles is given up.
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

/// Values of an enumeration that are shown.
const MAX_SHOWN_VALUES: usize = 6;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_signature_says_what_is_needed() {
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
            r#"f(a: integer, b?: null | string = "x", c?: string[], d: "s" | "l", e?: any) → number"#
        );
        assert_eq!(signature("g", &json!({"type": "object"}), None), "g()");
    }
}
