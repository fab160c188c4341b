//! The official schemas, as they are and closed.
//!
//! The schemas are open: unknown members are allowed. To check that no unknown member is sent, a second form of each
//! schema allows only the members it names, with the exceptions listed in `close`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use tsugite_core::revision::Revision;

pub(crate) struct Official {
    pub(crate) revision: Revision,
    pub(crate) document: Value,
    closed: Value,
}

impl Official {
    pub(crate) fn of(revision: Revision) -> &'static Official {
        static ALL: OnceLock<Vec<Official>> = OnceLock::new();
        let all = ALL.get_or_init(|| Revision::ALL.into_iter().map(Official::load).collect());
        all.iter().find(|official| official.revision == revision).unwrap()
    }

    fn load(revision: Revision) -> Official {
        let path = format!("{}/tests/data/{revision}/schema.json", env!("CARGO_MANIFEST_DIR"));
        let mut document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        patch(&mut document);
        let mut closed = document.clone();
        for (name, definition) in defs_mut(&mut closed) {
            close(name, definition);
        }
        Official { revision, document, closed }
    }

    pub(crate) fn defs(&self) -> &Map<String, Value> {
        defs(&self.document)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.defs().contains_key(name)
    }

    /// Fails unless `value` is what the schema calls `name`, and holds nothing else.
    #[track_caller]
    pub(crate) fn accept(&self, name: &str, value: &Value) {
        self.judge("open", &self.document, name, value);
        self.judge("closed", &self.closed, name, value);
    }

    /// Fails unless `value` is what the schema calls `name`; what else it holds does not matter.
    #[track_caller]
    pub(crate) fn accept_open(&self, name: &str, value: &Value) {
        self.judge("open", &self.document, name, value);
    }

    #[track_caller]
    fn judge(&self, how: &'static str, document: &Value, name: &str, value: &Value) {
        let validator = cached(self.revision, how, name, document);
        let errors: Vec<_> = validator
            .iter_errors(value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{} ({how}) {name}: {errors:#?}\n{value:#}", self.revision);
    }
}

fn key(document: &Value) -> &'static str {
    if document.get("$defs").is_some() { "$defs" } else { "definitions" }
}

fn defs(document: &Value) -> &Map<String, Value> {
    document[key(document)].as_object().unwrap()
}

fn defs_mut(document: &mut Value) -> &mut Map<String, Value> {
    let key = key(document);
    document[key].as_object_mut().unwrap()
}

/// Compiling a schema takes far longer than using it.
fn cached(revision: Revision, how: &'static str, name: &str, document: &Value) -> Arc<Validator> {
    type Key = (Revision, &'static str, String);
    static CACHE: Mutex<BTreeMap<Key, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = cache.entry((revision, how, name.to_owned()));
    entry.or_insert_with(|| Arc::new(validator(document, name))).clone()
}

fn validator(document: &Value, name: &str) -> Validator {
    let key = key(document);
    let schema = json!({
        "$schema": document["$schema"],
        key: document[key],
        "$ref": format!("#/{key}/{name}"),
    });
    jsonschema::options().should_validate_formats(false).build(&schema).unwrap()
}

/// The two places where the generated files contradict the TypeScript they come from.
fn patch(document: &mut Value) {
    let defs = defs_mut(document);
    // `string | number | boolean` became `["string", "integer", "boolean"]`.
    if let Some(definition) = defs.get_mut("ElicitResult") {
        number_for_integer(definition);
    }
    // The first three revisions demand an id where it could not be read; plain JSON-RPC then writes null.
    if let Some(error) = defs.get_mut("JSONRPCError") {
        error["properties"]["id"] = json!({"anyOf": [{"$ref": "#/definitions/RequestId"}, {"type": "null"}]});
    }
}

fn number_for_integer(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Array(types)) = members.get_mut("type")
                && types.contains(&json!("boolean"))
            {
                types.iter_mut().filter(|kind| *kind == "integer").for_each(|kind| *kind = json!("number"));
            }
            members.values_mut().for_each(number_for_integer);
        }
        Value::Array(items) => items.iter_mut().for_each(number_for_integer),
        _ => {}
    }
}

/// Allows only named members, but for:
/// `_meta` in params (the older files leave it to a base type) and in what is joined by `allOf`,
/// `extensions` among capabilities and what stands in a capability (kept on every revision on purpose),
/// the keywords of a tool's schemas, what stands in `_meta`, and the envelope of older requests, which their definitions leave out.
fn close(name: &str, schema: &mut Value) {
    if matches!(name, "inputSchema" | "outputSchema" | "_meta") {
        return;
    }
    let Value::Object(members) = schema else { return };
    if members.contains_key("allOf") {
        return;
    }
    let joined = matches!(name, "Task" | "Result" | "Error" | "NotificationParams");
    if !joined
        && !name.ends_with("MetaObject")
        && !members.contains_key("additionalProperties")
        && let Some(Value::Object(properties)) = members.get_mut("properties")
    {
        if name == "params" {
            properties.entry("_meta").or_insert(json!({}));
        }
        if name.ends_with("Capabilities") {
            properties.entry("extensions").or_insert(json!({}));
        }
        if name.ends_with("Request") || name.ends_with("Notification") {
            properties.entry("jsonrpc").or_insert(json!({}));
            properties.entry("id").or_insert(json!({}));
        }
        members.insert("additionalProperties".to_owned(), json!(false));
    }
    // What a capability holds is open on purpose.
    if name.ends_with("Capabilities") {
        return;
    }
    for word in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = members.get_mut(word) {
            for (name, property) in properties {
                close(name, property);
            }
        }
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(word) {
            close("", inner);
        }
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(Value::Array(options)) = members.get_mut(word) {
            options.iter_mut().for_each(|option| close("", option));
        }
    }
}
