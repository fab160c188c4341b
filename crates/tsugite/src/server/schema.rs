//! JSON Schemas of Rust types, in the 2020-12 dialect.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Value, json};
use tsugite_core::protocol::{Object, Schema};

/// Generates the schema of a type. Subschemas are inlined unless they recurse.
pub(crate) fn schema_of<T: JsonSchema>() -> Schema {
    let mut schema = settings().into_generator().into_root_schema_for::<T>();
    // The name of a Rust type means nothing to a client.
    schema.remove("title");
    schema.remove("$schema");
    Schema::from(Value::from(schema))
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true)
}

/// Removes formats that only Rust uses: other validators warn about them.
pub(crate) fn strip_rust_formats(schema: &mut Schema) {
    let mut root = Value::Object(std::mem::take(schema.keywords_mut()));
    strip_formats(&mut root);
    *schema = Schema::from(root);
}

fn strip_formats(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            let rust_only = |format: &str| {
                format.starts_with("uint") || matches!(format, "int8" | "int16" | "int" | "int128")
            };
            if keywords.get("type").is_some_and(|kind| kind == "integer" || kind.is_array())
                && keywords.get("format").and_then(Value::as_str).is_some_and(rust_only)
            {
                keywords.remove("format");
            }
            keywords.values_mut().for_each(strip_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_formats),
        _ => {}
    }
}

/// Builds the schema of a function's arguments, one by one.
#[derive(Debug)]
pub struct ArgumentsSchema {
    generator: SchemaGenerator,
    properties: Object,
    required: Vec<Value>,
    /// Definitions of parameters that hold arguments of their own.
    definitions: Object,
}

/// The properties of one argument.
#[derive(Debug, Default)]
pub struct ArgumentInfo {
    /// The name.
    pub name: &'static str,
    /// The description.
    pub description: Option<String>,
    /// The default value, if it can be expressed as JSON.
    pub default: Option<Value>,
    /// Whether the argument is optional.
    pub optional: bool,
    /// The HTTP header that mirrors the argument.
    pub header: Option<&'static str>,
    /// Generates the schema of a struct whose field `value` has the type and the rules of the argument.
    pub rules: Option<fn(&mut SchemaGenerator) -> schemars::Schema>,
}

impl Default for ArgumentsSchema {
    fn default() -> Self {
        Self::new()
    }
}

impl ArgumentsSchema {
    /// Creates a schema without arguments.
    pub fn new() -> Self {
        let (properties, definitions) = (Object::new(), Object::new());
        Self { generator: settings().into_generator(), properties, required: Vec::new(), definitions }
    }

    /// Adds an argument.
    pub fn argument<T: JsonSchema>(&mut self, info: ArgumentInfo) {
        let schema = match info.rules {
            None => Value::from(self.generator.subschema_for::<T>()),
            Some(rules) => {
                let schema = Value::from(rules(&mut self.generator));
                schema.pointer("/properties/value").cloned().unwrap_or_default()
            }
        };
        let mut keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => Object::from_iter([("not".to_owned(), json!({}))]),
            _ => Object::new(),
        };
        keywords.remove("title");
        if let Some(text) = info.description {
            keywords.insert("description".to_owned(), text.into());
        }
        if let Some(default) = info.default {
            keywords.insert("default".to_owned(), default);
        }
        if let Some(header) = info.header {
            keywords.insert("x-mcp-header".to_owned(), header.into());
        }
        if !info.optional {
            self.required.push(info.name.into());
        }
        self.properties.insert(info.name.to_owned(), keywords.into());
    }

    /// Adds the arguments of a parameter that holds several.
    pub fn merge(&mut self, schema: Schema) {
        let mut keywords = schema.keywords().clone();
        for (place, name) in [(&mut self.properties, "properties"), (&mut self.definitions, "$defs")] {
            if let Some(Value::Object(members)) = keywords.remove(name) {
                place.extend(members);
            }
        }
        if let Some(Value::Array(names)) = keywords.remove("required") {
            self.required.extend(names);
        }
    }

    /// Returns the schema.
    pub fn finish(mut self) -> Schema {
        self.definitions.extend(self.generator.take_definitions(true));
        let mut keywords = Object::from_iter([("type".to_owned(), json!("object"))]);
        if !self.properties.is_empty() {
            keywords.insert("properties".to_owned(), self.properties.into());
        }
        if !self.required.is_empty() {
            keywords.insert("required".to_owned(), self.required.into());
        }
        if !self.definitions.is_empty() {
            keywords.insert("$defs".to_owned(), self.definitions.into());
        }
        Schema::from(keywords)
    }
}
