//! Parses arguments from the command line: `k=v`, `k:=JSON`, `{…}` and `@file.json`.
//!
//! The value of `k=v` is converted to the type that the tool's input schema declares for `k`.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use tsugite::jsonrpc::RawJson;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::prompts::PromptArgument;

use crate::error::{CliError, Result};
use crate::schema;
use crate::suggest::did_you_mean;

/// A parsed argument word.
#[derive(Debug, PartialEq)]
enum CliArgument {
    Text(String, String),
    Json(String, RawJson),
    /// All arguments of a file or of a JSON object.
    Members(OrderedMap<RawJson>),
}

/// Parses the arguments of a tool call. Numbers keep their original spelling.
pub(crate) fn tool_arguments(words: &[String], schema: &Value) -> Result<OrderedMap<RawJson>> {
    let (mut arguments, mut seen) = (OrderedMap::new(), HashSet::new());
    for word in words {
        match parse_word(word)? {
            CliArgument::Members(members) => {
                for (name, value) in members {
                    ensure_known(&name, schema)?;
                    arguments.insert(name, value);
                }
            }
            CliArgument::Json(name, value) => {
                ensure_known(&name, schema)?;
                arguments.insert(name, value);
            }
            CliArgument::Text(name, text) => {
                ensure_known(&name, schema)?;
                let property = schema::property(schema, &name);
                let value = coerce_to_schema(&text, property.as_ref(), schema).map_err(|expected| {
                    CliError::usage(format!("`{name}`: expected {expected}, got {text:?}"))
                })?;
                let is_list = accepts_array(property.as_ref(), schema);
                if !seen.insert(name.clone()) && !is_list {
                    return Err(duplicate_argument(&name));
                }
                let value = match arguments.get(&name) {
                    // `k=a k=b` appends to an array.
                    Some(before) if is_list => concat_arrays(before, &value),
                    _ => value,
                };
                arguments.insert(name, value);
            }
        }
    }
    match schema::required(schema).find(|name| arguments.get(name).is_none()) {
        None => Ok(arguments),
        Some(name) => {
            let property = schema::property(schema, name).unwrap_or_default();
            let failure = CliError::usage(format!("missing argument `{name}`"));
            let type_name = schema::type_name(&property, schema);
            Err(match property.get("description").and_then(Value::as_str) {
                Some(about) => failure.hint(format!("{name}=… ({type_name}): {about}")),
                None => failure.hint(format!("{name}=… ({type_name})")),
            })
        }
    }
}

fn duplicate_argument(name: &str) -> CliError {
    CliError::usage(format!("argument `{name}` given twice, but it is not an array"))
        .hint(format!("pass {name}=… once"))
}

/// Parses the arguments of a prompt, which are all strings.
pub(crate) fn prompt_arguments(words: &[String], declared: &[PromptArgument]) -> Result<OrderedMap<String>> {
    let (mut arguments, mut seen) = (OrderedMap::new(), HashSet::new());
    let names = || declared.iter().map(|argument| argument.name.as_str());
    for word in words {
        let members = match parse_word(word)? {
            CliArgument::Text(name, _) if !seen.insert(name.clone()) => {
                return Err(duplicate_argument(&name));
            }
            CliArgument::Text(name, text) => vec![(name, text)],
            CliArgument::Json(name, value) => vec![(name, to_plain_string(&value))],
            CliArgument::Members(members) => {
                members.into_iter().map(|(name, value)| (name, to_plain_string(&value))).collect()
            }
        };
        for (name, text) in members {
            if !names().any(|known| known == name) {
                return Err(unknown_argument(&name, names()));
            }
            arguments.insert(name, text);
        }
    }
    let needed = |argument: &&PromptArgument| {
        argument.required == Some(true) && arguments.get(&argument.name).is_none()
    };
    match declared.iter().find(needed) {
        None => Ok(arguments),
        Some(missing) => {
            let about = missing.description.as_deref().map(|about| format!(": {about}")).unwrap_or_default();
            let failure = CliError::usage(format!("missing argument `{}`", missing.name));
            Err(failure.hint(format!("{}=…{about}", missing.name)))
        }
    }
}

/// Parses arguments that have no declaration to check them against: strings by name.
pub(crate) fn string_arguments(words: &[String]) -> Result<OrderedMap<String>> {
    let mut arguments = OrderedMap::new();
    for word in words {
        match parse_word(word)? {
            CliArgument::Text(name, text) => drop(arguments.insert(name, text)),
            CliArgument::Json(name, value) => drop(arguments.insert(name, to_plain_string(&value))),
            CliArgument::Members(members) => {
                for (name, value) in members {
                    arguments.insert(name, to_plain_string(&value));
                }
            }
        }
    }
    Ok(arguments)
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read_input(path: &str) -> Result<String> {
    let text = match path {
        "-" => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        path => std::fs::read_to_string(Path::new(path)),
    };
    text.map_err(|error| CliError::usage(format!("cannot read {path}: {error}")))
}

fn parse_word(word: &str) -> Result<CliArgument> {
    if let Some(path) = word.strip_prefix('@') {
        let text = read_input(path)?;
        // Some editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let members = RawJson::parse(text).and_then(|json| json.read());
        return members
            .map(CliArgument::Members)
            .map_err(|wrong| CliError::usage(format!("{path} is not a JSON object: {wrong}")));
    }
    if word.trim_start().starts_with('{') {
        let members = RawJson::parse(word.trim()).and_then(|json| json.read());
        return members.map(CliArgument::Members).map_err(|wrong| {
            CliError::usage(format!("{word} is not a JSON object: {wrong}"))
                .hint("put the whole object in single quotes, for the shell: '{\"name\":\"value\"}'")
                .hint("or pass each argument as name=value")
        });
    }
    match word.split_once('=') {
        Some(("" | ":", _)) | None => {
            let failure = CliError::usage(format!("{word:?} is not an argument"));
            Err(failure.hint("use name=value, name:=JSON, a JSON object, or @file.json"))
        }
        Some((name, text)) => match name.strip_suffix(':') {
            None => Ok(CliArgument::Text(name.to_owned(), text.to_owned())),
            Some(name) => match RawJson::parse(text) {
                Ok(value) => Ok(CliArgument::Json(name.to_owned(), value)),
                Err(wrong) => Err(CliError::usage(format!("`{name}`: {text:?} is not valid JSON: {wrong}"))
                    .hint(format!("{name}={text} passes it as a string"))),
            },
        },
    }
}

fn ensure_known(name: &str, schema: &Value) -> Result<()> {
    match schema::allows_additional_properties(schema)
        || schema::property_names(schema).any(|known| known == name)
    {
        true => Ok(()),
        false => Err(unknown_argument(name, schema::property_names(schema))),
    }
}

fn unknown_argument<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> CliError {
    let failure = CliError::usage(format!("unknown argument `{name}`"));
    match did_you_mean(name, names.clone()) {
        Some(advice) => failure.hint(advice),
        None => {
            let all: Vec<&str> = names.collect();
            match all.is_empty() {
                true => failure.hint("it takes no arguments"),
                false => failure.hint(format!("the arguments are {}", all.join(", "))),
            }
        }
    }
}

/// Converts a text to the type that the schema declares. The error describes the expected type.
fn coerce_to_schema(text: &str, property: Option<&Value>, root: &Value) -> Result<RawJson, String> {
    let as_text = || RawJson::from_value(text).map_err(|wrong| wrong.to_string());
    let Some(property) = property else { return as_text() };
    if let Some(allowed) = schema::allowed_values(property, root) {
        let same = |value: &&Value| match value {
            Value::String(value) => value == text,
            other => serde_json::to_string(other).is_ok_and(|json| json == text),
        };
        return match allowed.iter().find(same) {
            Some(value) => RawJson::from_value(value).map_err(|wrong| wrong.to_string()),
            None => {
                let words: Vec<String> = allowed.iter().map(Value::to_string).collect();
                let names = allowed.iter().filter_map(Value::as_str);
                let advice =
                    did_you_mean(text, names).map(|advice| format!(" ({advice})")).unwrap_or_default();
                Err(format!("one of {}{advice}", words.join(", ")))
            }
        };
    }
    let types = schema::types(property, root);
    let json = RawJson::parse(text.trim()).ok();
    let begins = |wanted: &[u8]| {
        json.clone().filter(|json| json.text().as_bytes().first().is_some_and(|byte| wanted.contains(byte)))
    };
    for name in &types {
        let found = match name.as_str() {
            "null" if text == "null" => begins(b"n"),
            "boolean" => {
                crate::server_requests::parse_bool(text).and_then(|flag| RawJson::from_value(&flag).ok())
            }
            "integer" => begins(b"-0123456789").filter(|json| is_integer(json.text())),
            "number" => begins(b"-0123456789"),
            "object" => begins(b"{"),
            "array" => match begins(b"[") {
                Some(list) => Some(list),
                None => {
                    let item = schema::items(property, root);
                    let item = coerce_to_schema(text, item.as_ref(), root)?;
                    RawJson::parse(format!("[{}]", item.text())).ok()
                }
            },
            _ => None,
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    match types.is_empty() || types.iter().any(|name| name == "string") {
        true => as_text(),
        false => Err(schema::type_name(property, root)),
    }
}

fn accepts_array(property: Option<&Value>, root: &Value) -> bool {
    property.is_some_and(|property| schema::types(property, root).iter().any(|name| name == "array"))
}

fn is_integer(number: &str) -> bool {
    number.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit())
        || number.parse::<f64>().is_ok_and(|number| number.fract() == 0.0)
}

/// Concatenates two JSON arrays.
fn concat_arrays(before: &RawJson, after: &RawJson) -> RawJson {
    let inner = |list: &RawJson| list.text().trim().trim_start_matches('[').trim_end_matches(']').to_owned();
    match (before.read::<Vec<RawJson>>(), after.read::<Vec<RawJson>>()) {
        (Ok(before), Ok(after)) => {
            let all: Vec<RawJson> = before.into_iter().chain(after).collect();
            RawJson::from_value(&all).unwrap_or_else(|_| RawJson::empty_object())
        }
        _ => {
            RawJson::parse(format!("[{},{}]", inner(before), inner(after))).unwrap_or_else(|_| after.clone())
        }
    }
}

/// Converts a JSON value to a string: a string unquoted, anything else as JSON text.
fn to_plain_string(value: &RawJson) -> String {
    value.read::<String>().unwrap_or_else(|_| value.text().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(words: &[&str], schema: Value) -> Result<String, CliError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(serde_json::to_string(&tool_arguments(&words, &schema)?).unwrap())
    }

    fn error_for(words: &[&str], schema: Value) -> (String, Vec<String>) {
        let failure = arguments(words, schema).unwrap_err();
        (failure.message, failure.hints)
    }

    fn sample_schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "count": {"type": "integer", "description": "How many."},
                "factor": {"type": ["number", "null"]},
                "sure": {"type": "boolean"},
                "size": {"$ref": "#/$defs/Size"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "near": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "any": {},
            },
            "$defs": {"Size": {"enum": ["small", "large"]}},
        })
    }

    #[test]
    fn text_is_converted_to_the_declared_type() {
        let words =
            ["name=5", "count=5", "factor=1.50", "sure=yes", "size=large", "tags=a", "tags=b", "near=null"];
        let expected =
            r#"{"name":"5","count":5,"factor":1.50,"sure":true,"size":"large","tags":["a","b"],"near":null}"#;
        assert_eq!(arguments(&words, sample_schema()).unwrap(), expected);
        assert_eq!(arguments(&["any=5", "near=-3"], sample_schema()).unwrap(), r#"{"any":"5","near":-3}"#);
        assert_eq!(arguments(&["tags=[\"x\",\"y\"]"], sample_schema()).unwrap(), r#"{"tags":["x","y"]}"#);
        let huge = "count=123456789012345678901234567890";
        assert_eq!(
            arguments(&[huge], sample_schema()).unwrap(),
            r#"{"count":123456789012345678901234567890}"#
        );
        assert_eq!(
            arguments(&["name=a=b", "any:={\"x\":[1]}"], sample_schema()).unwrap(),
            r#"{"name":"a=b","any":{"x":[1]}}"#
        );
    }

    #[test]
    fn object_gives_arguments_and_merges_with_others() {
        let one = |words: &[&str]| arguments(words, sample_schema());
        assert_eq!(one(&[r#"{"count":1.0,"name":"x"}"#]).unwrap(), r#"{"count":1.0,"name":"x"}"#);
        assert_eq!(one(&[" {} "]).unwrap(), "{}");
        assert_eq!(
            one(&[r#"{"count":1,"tags":["a"]}"#, "count=2", "tags=b"]).unwrap(),
            r#"{"count":2,"tags":["a","b"]}"#
        );
        assert_eq!(one(&["count=2", r#"{"count":1}"#]).unwrap(), r#"{"count":1}"#);
        assert_eq!(error_for(&[r#"{"cuont":1}"#], sample_schema()).0, "unknown argument `cuont`");
        for wrong in ["{", "{count:1}", r#"{"count":1"#, r#"{"count":1} {}"#, "{a}=1"] {
            let (message, hints) = error_for(&[wrong], sample_schema());
            assert!(message.starts_with(&format!("{wrong} is not a JSON object: ")), "{message}");
            assert!(hints.iter().any(|hint| hint.contains("single quotes")), "{hints:?}");
        }
    }

    #[test]
    fn wrong_argument_error_names_the_expected_type() {
        assert_eq!(error_for(&["count=many"], sample_schema()).0, "`count`: expected integer, got \"many\"");
        assert_eq!(error_for(&["count=1.5"], sample_schema()).0, "`count`: expected integer, got \"1.5\"");
        assert_eq!(
            error_for(&["size=lrage"], sample_schema()).0,
            "`size`: expected one of \"small\", \"large\" (did you mean `large`?), got \"lrage\""
        );
        assert_eq!(
            error_for(&["nmae=x"], sample_schema()),
            ("unknown argument `nmae`".to_owned(), vec!["did you mean `name`?".to_owned()])
        );
        assert!(
            error_for(&["count:=x"], sample_schema()).0.starts_with("`count`: \"x\" is not valid JSON"),
            "{:?}",
            error_for(&["count:=x"], sample_schema())
        );
        assert_eq!(error_for(&["five"], sample_schema()).0, "\"five\" is not an argument");
        let needs = json!({"type": "object", "properties": {"count": {"type": "integer", "description": "How many."}}, "required": ["count"]});
        assert_eq!(
            error_for(&[], needs),
            ("missing argument `count`".to_owned(), vec!["count=… (integer): How many.".to_owned()])
        );
        assert_eq!(
            error_for(&["x=1"], json!({"type": "object", "properties": {}})).1,
            ["it takes no arguments"]
        );
    }

    #[test]
    fn open_schema_accepts_unnamed_arguments() {
        assert_eq!(arguments(&["x=1"], json!({"type": "object"})).unwrap(), r#"{"x":"1"}"#);
        let open =
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}});
        assert_eq!(arguments(&["x=1"], open).unwrap(), r#"{"x":1}"#);
    }
}
