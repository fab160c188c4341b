//! Describes a JSON Schema in full: a line for each field with its type, default and limits, then its description,
//! allowed values and nested fields.

use serde_json::Value;

use crate::schema::{self, MAX_SHOWN_VALUES, resolve_ref};

/// Describes the properties of an object schema.
pub(crate) fn field_lines(schema: &Value) -> Vec<String> {
    let mut details = SchemaDetails { root: schema, lines: Vec::new() };
    details.push_fields(schema, 0);
    details.lines
}

/// Describes a value: its properties if it is an object that names them, otherwise its type.
pub(crate) fn value_lines(schema: &Value) -> Vec<String> {
    let fields = field_lines(schema);
    let mut details = SchemaDetails { root: schema, lines: Vec::new() };
    match fields.is_empty() {
        true => details.push_value(String::new(), schema, false, 0),
        false => details
            .lines
            .extend(text(schema, "description").into_iter().flat_map(str::lines).map(str::to_owned)),
    }
    details.lines.extend(fields);
    details.lines
}

struct SchemaDetails<'a> {
    root: &'a Value,
    lines: Vec<String>,
}

impl SchemaDetails<'_> {
    fn push_fields(&mut self, schema: &Value, depth: usize) {
        let object = unwrap_nullable(schema, self.root);
        let required: Vec<&str> = schema::required(object).collect();
        for name in schema::property_names(object) {
            let is_optional = !required.contains(&name);
            let label = format!("{name}{}: ", if is_optional { "?" } else { "" });
            let property = schema::property(object, name).unwrap_or_default();
            self.push_value(label, &property, is_optional, depth);
        }
        if let Some(others) = object.get("additionalProperties").filter(|others| others.is_object()) {
            self.push_value("any other name: ".to_owned(), others, false, depth);
        }
    }

    /// Adds the line of a value, and below it what the line cannot hold.
    fn push_value(&mut self, label: String, schema: &Value, is_optional: bool, depth: usize) {
        let inner = unwrap_nullable(schema, self.root);
        let default = match schema.get("default").or_else(|| inner.get("default")) {
            Some(default) if !default.is_null() => format!(" = {default}"),
            _ => String::new(),
        };
        let limits = limits(inner);
        let limits = if limits.is_empty() { String::new() } else { format!(" ({})", limits.join(", ")) };
        let type_name = match is_optional {
            true => schema::optional_type_name(schema, self.root),
            false => schema::type_name(schema, self.root),
        };
        self.push(depth, &format!("{label}{type_name}{default}{limits}"));
        let description = text(schema, "description").or_else(|| text(inner, "description"));
        if let Some(description) = description {
            for line in description.lines().filter(|line| !line.trim().is_empty()) {
                self.push(depth + 2, line.trim());
            }
        }
        self.push_allowed_values(inner, depth);
        if depth < MAX_DEPTH {
            self.push_nested(inner, depth + 1);
        }
    }

    /// Lists the allowed values one by one, if they are many or have titles.
    fn push_allowed_values(&mut self, schema: &Value, depth: usize) {
        let Some(allowed) = schema::allowed_values(schema, self.root) else { return };
        let titles: Vec<(&Value, Option<&str>)> = alternatives(schema)
            .map(|one| resolve_ref(one, self.root))
            .filter_map(|one| Some((one.get("const")?, value_title(one))))
            .collect();
        if allowed.len() <= MAX_SHOWN_VALUES && titles.iter().all(|(_, title)| title.is_none()) {
            return;
        }
        for value in allowed {
            let title = titles.iter().find(|(known, _)| **known == value).and_then(|(_, title)| *title);
            match title {
                Some(title) => self.push(depth + 1, &format!("{value}  {title}")),
                None => self.push(depth + 1, &value.to_string()),
            }
        }
    }

    /// Describes the fields of an object, the items of an array, and alternatives that have fields.
    fn push_nested(&mut self, schema: &Value, depth: usize) {
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            let item = unwrap_nullable(items, self.root);
            let is_plain = item.get("properties").is_none()
                && (schema::allowed_values(item, self.root).is_some() || !limits(item).is_empty());
            match is_plain {
                true => self.push_value("each item: ".to_owned(), items, false, depth),
                false => self.push_nested(item, depth),
            }
            return;
        }
        self.push_fields(schema, depth);
        if schema::allowed_values(schema, self.root).is_some() {
            return;
        }
        for one in alternatives(schema) {
            if resolve_ref(one, self.root).get("properties").is_some() {
                self.push_value("either ".to_owned(), one, false, depth);
            }
        }
    }

    fn push(&mut self, depth: usize, line: &str) {
        match self.lines.len() {
            ..MAX_LINES => self.lines.push(format!("{}{line}", "  ".repeat(depth))),
            MAX_LINES => self.lines.push("…".to_owned()),
            _ => {}
        }
    }
}

/// Returns the only alternative besides `null`, if there is one; otherwise the schema itself. Follows references.
fn unwrap_nullable<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let here = resolve_ref(schema, root);
    let is_null = |one: &Value| text(one, "type") == Some("null");
    let mut others = alternatives(here).filter(|one| !is_null(resolve_ref(one, root)));
    match (others.next(), others.next()) {
        (Some(only), None) => resolve_ref(only, root),
        _ => here,
    }
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let listed = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array);
    listed.into_iter().flatten()
}

fn value_title(schema: &Value) -> Option<&str> {
    text(schema, "title").or_else(|| text(schema, "description"))
}

fn text<'a>(schema: &'a Value, keyword: &str) -> Option<&'a str> {
    schema.get(keyword).and_then(Value::as_str)
}

/// Formats the keywords that limit a value: `1 to 10`, `at most 20 characters`.
fn limits(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (least, most, unit) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " members"),
    ] {
        match (schema.get(least), schema.get(most)) {
            (Some(least), Some(most)) => found.push(format!("{least} to {most}{unit}")),
            (Some(least), None) => found.push(format!("at least {least}{unit}")),
            (None, Some(most)) => found.push(format!("at most {most}{unit}")),
            (None, None) => {}
        }
    }
    for (keyword, words) in [
        ("exclusiveMinimum", "more than"),
        ("exclusiveMaximum", "less than"),
        ("multipleOf", "a multiple of"),
        ("pattern", "matches"),
    ] {
        match schema.get(keyword) {
            Some(Value::String(text)) => found.push(format!("{words} {text}")),
            Some(value @ Value::Number(_)) => found.push(format!("{words} {value}")),
            _ => {}
        }
    }
    // The formats of numbers are widths of machine types.
    if let (Some("string"), Some(format)) = (text(schema, "type"), text(schema, "format")) {
        found.push(format!("format {format}"));
    }
    if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        found.push("no item twice".to_owned());
    }
    found
}

/// Levels of nested fields to show. It ends schemas that contain themselves.
const MAX_DEPTH: usize = 6;
/// Lines to show of one schema, which may come from a hostile server.
const MAX_LINES: usize = 400;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_described_in_full() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name.\n\nAs on the bill.", "minLength": 1, "maxLength": 20},
                "planks": {"type": "integer", "minimum": 1, "maximum": 10, "default": 2},
                "share": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
                "note": {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true},
                "wood": {"oneOf": [{"const": "oak", "title": "Oak, heavy"}, {"const": "ash"}]},
                "ship": {"$ref": "#/$defs/Ship", "description": "Where to."},
                "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
                "extra": {"type": "object", "additionalProperties": {"type": "boolean"}},
            },
            "required": ["name", "wood", "ship"],
            "$defs": {
                "Ship": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": ["string", "null"]}}, "required": ["city"]},
                "Line": {"type": "object", "properties": {"text": {"type": "string", "format": "uri"}}},
            },
        });
        let expected = "\
name: string (1 to 20 characters)
    The name.
    As on the bill.
planks?: integer = 2 (1 to 10)
share?: number (more than 0, a multiple of 0.5)
note?: string (matches ^a)
tags?: array (no item twice)
  each item: \"a\" | \"b\"
wood: \"oak\" | \"ash\"
  \"oak\"  Oak, heavy
  \"ash\"
ship: object
    Where to.
  city: string
  zip?: string
lines?: object[]
  text?: string (format uri)
extra?: object
  any other name: boolean";
        assert_eq!(field_lines(&schema).join("\n"), expected);
        assert_eq!(value_lines(&json!({"type": "integer", "minimum": 0})), ["integer (at least 0)"]);
        assert_eq!(value_lines(&json!({"type": "object"})), ["object"]);
    }

    #[test]
    fn many_values_and_alternatives_are_listed() {
        let many: Vec<String> = (0..8).map(|number| number.to_string()).collect();
        let schema = json!({"properties": {
            "one": {"enum": many},
            "two": {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
        }});
        let lines = field_lines(&schema).join("\n");
        assert!(lines.starts_with("one?: \"0\" | \"1\""), "{lines}");
        assert!(lines.contains("\n  \"7\"\n"), "{lines}");
        assert!(lines.ends_with("  either object\n    a?: any\n  either object\n    b?: any"), "{lines}");
    }

    #[test]
    fn circular_and_large_schemas_end() {
        let schema =
            json!({"properties": {"next": {"$ref": "#"}, "other": {"$ref": "#"}, "more": {"$ref": "#"}}});
        let lines = field_lines(&schema);
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (MAX_LINES + 1, Some("…")));
        let odd = json!({"properties": {"a": 5, "b": {"anyOf": 3, "items": [1], "minimum": "x", "enum": {}}}, "required": 1});
        assert_eq!(field_lines(&odd).first().map(String::as_str), Some("a?: any"));
    }
}
