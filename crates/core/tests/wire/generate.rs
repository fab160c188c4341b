//! Values generated from a schema and a sequence of bytes.
//!
//! Each choice takes one byte; when they run out, the simplest choice is taken. So shorter input gives simpler values,
//! and proptest shrinks to them.

use serde_json::{Map, Value, json};

use crate::official::Official;

pub(crate) struct Choices<'a> {
    bytes: std::slice::Iter<'a, u8>,
    /// How many strange members there are so far; `None` if there are to be none.
    strange: Option<usize>,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), strange: None }
    }

    /// Like `new`, with an unknown member in every open object, each with its own name.
    pub(crate) fn with_strange_members(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), strange: Some(0) }
    }

    fn below(&mut self, options: usize) -> usize {
        usize::from(self.bytes.next().copied().unwrap_or(0)) % options.max(1)
    }

    fn pick<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())].clone()
    }

    /// A value of the definition `name`.
    pub(crate) fn value_of(&mut self, official: &Official, name: &str) -> Value {
        let schema =
            official.defs().get(name).unwrap_or_else(|| panic!("{} has no {name}", official.revision));
        self.value(official, schema, 0)
    }

    fn value(&mut self, official: &Official, schema: &Value, depth: usize) -> Value {
        let Value::Object(schema) = schema else { return self.anything() };
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let name = reference.rsplit('/').next().unwrap();
            return self.value(official, &official.defs()[name], depth);
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            return self.pick(values);
        }
        if let Some(Value::Array(options)) = schema.get("anyOf") {
            let option = if depth > 8 { options[0].clone() } else { self.pick(options) };
            return self.value(official, &option, depth + 1);
        }
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            let mut whole = Map::new();
            for part in parts {
                if let Value::Object(part) = self.value(official, part, depth + 1) {
                    whole.extend(part);
                }
            }
            // `Result & Task` must not hold a stray member of the open half.
            whole.retain(|name, _| !STRAY.contains(&name.as_str()));
            return Value::Object(whole);
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => self.pick(kinds),
            Some(kind) => kind.clone(),
            None if schema.contains_key("properties") => json!("object"),
            None => return self.anything(),
        };
        match kind.as_str().unwrap() {
            "string" => self.text(schema),
            "integer" => self.integer(schema),
            "number" => self.number(schema),
            "boolean" => json!(self.below(2) == 1),
            "null" => Value::Null,
            "array" => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
                let length = if depth > 8 { least } else { least + self.below(3) };
                let items = schema.get("items").cloned().unwrap_or(json!({}));
                (0..length).map(|_| self.value(official, &items, depth + 1)).collect()
            }
            "object" => self.object(official, schema, depth),
            other => panic!("type {other}"),
        }
    }

    fn object(&mut self, official: &Official, schema: &Map<String, Value>, depth: usize) -> Value {
        let mut members = Map::new();
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        for (name, property) in properties {
            if required.contains(&name.as_str()) || (depth <= 8 && self.below(2) == 1) {
                members.insert(name.clone(), self.value(official, property, depth + 1));
            }
        }
        // `_meta` takes any key, though its definition does not say so.
        if let Some(Value::Object(meta)) = members.get_mut("_meta")
            && self.below(2) == 1
        {
            meta.insert("com.example/shelf".to_owned(), self.anything());
        }
        let additional = schema.get("additionalProperties");
        let open = additional.is_none_or(|additional| *additional == json!({}) || *additional == json!(true));
        if let Some(count) = &mut self.strange
            && open
        {
            members.insert(format!("{STRANGE}{count}"), json!({"count": count}));
            *count += 1;
            return Value::Object(members);
        }
        match additional {
            Some(Value::Bool(false)) | None => {}
            Some(extra) if depth <= 8 => {
                for name in STRAY.into_iter().take(self.below(3)) {
                    if !properties.contains_key(name) {
                        members.insert(name.to_owned(), self.value(official, extra, depth + 1));
                    }
                }
            }
            Some(_) => {}
        }
        Value::Object(members)
    }

    fn text(&mut self, schema: &Map<String, Value>) -> Value {
        match schema.get("format").and_then(Value::as_str) {
            Some("uri") => json!(self.pick(&["https://example.com/a?b=c#d", "file:///tmp/x", "urn:x:1"])),
            Some("uri-template") => json!(self.pick(&["file:///{path}", "notes://{owner}{/rest*}"])),
            Some("byte") => json!(self.pick(&["", "aGk=", "AAECAw=="])),
            _ => json!(self.pick(&["a", "", "two words", "\"quoted\\\" \n\t", "継手 \u{1f528}", "\u{2028}"])),
        }
    }

    /// Counts and the like: what is negative or fractional is read on purpose as something else.
    fn integer(&mut self, schema: &Map<String, Value>) -> Value {
        let least = schema.get("minimum").and_then(Value::as_i64).unwrap_or(0);
        json!(least + self.pick(&[0, 1, 42, 9_007_199_254_740_991]))
    }

    fn number(&mut self, schema: &Map<String, Value>) -> Value {
        match schema.get("maximum").and_then(Value::as_f64) {
            Some(_) => self.pick(&[json!(0), json!(1), json!(0.5)]),
            None => self.pick(&[json!(0), json!(1), json!(22.5), json!(-3), json!(1e300)]),
        }
    }

    fn anything(&mut self) -> Value {
        self.pick(&[
            json!({}),
            json!("text"),
            json!(7),
            json!(-0.25),
            json!(true),
            json!([1, "b", {"c": null}]),
            json!({"deep": {"deeper": [[]]}}),
        ])
    }
}

/// How the names of strange members begin.
pub(crate) const STRANGE: &str = "x-strange-";

/// Names for members that an open object holds beside its own.
const STRAY: [&str; 3] = ["extra", "b", "a"];
