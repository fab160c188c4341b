//! Reads the output of a tool as a Rust type.
//!
//! The order of the attempts makes the outcome independent of the revision: structured content came with 2025-06-18, as
//! an object, and older results have the same JSON as text.

use std::any::TypeId;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tsugite_core::jsonrpc::{JsonError, RawJson};
use tsugite_core::protocol::tools::CallResult;

use super::client_error::{ClientError, ErrorKind};

/// Reads the output of `tool` as a `T`: the structured content, the text as JSON, or the text as a string.
pub(super) fn read_output<T: DeserializeOwned + 'static>(
    tool: String,
    result: &CallResult,
) -> Result<T, ClientError> {
    read::<T>(result).map_err(|error| {
        let expected = short_type_name(std::any::type_name::<T>());
        ErrorKind::OutputMismatch { tool, expected, error }.into()
    })
}

fn read<T: DeserializeOwned + 'static>(result: &CallResult) -> Result<T, JsonError> {
    let nothing = result.structured_content.is_none() && result.content.is_empty();
    if nothing || TypeId::of::<T>() == TypeId::of::<()>() {
        return match serde_json::from_value(Value::Null) {
            Ok(output) => Ok(output),
            // A string may be empty.
            Err(_) => serde_json::from_value(Value::String(String::new())).map_err(|_| no_output_error()),
        };
    }
    let structured = result.structured_content.as_ref().map(|json| read_json(json.text()));
    let mismatch = match structured {
        Some(Ok(output)) => return Ok(output),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let Some(text) = text_of(result) else { return Err(mismatch.unwrap_or_else(no_output_error)) };
    let text_error = match read_json(&text) {
        Ok(output) => return Ok(output),
        Err(error) => error,
    };
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    serde_json::from_value(Value::String(text)).map_err(|error| match mismatch {
        Some(mismatch) => mismatch,
        None if is_json => text_error,
        None => error.into(),
    })
}

/// Reads a value, or the `result` that some servers wrap around it.
fn read_json<T: DeserializeOwned>(json: &str) -> Result<T, JsonError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapped {
        result: RawJson,
    }
    serde_json::from_str(json).or_else(|error| match serde_json::from_str::<Wrapped>(json) {
        Ok(wrapped) if json.trim_start().starts_with('{') => wrapped.result.read(),
        _ => Err(error.into()),
    })
}

/// The text blocks, joined by newlines. A result without content has its JSON as text, as in older revisions.
fn text_of(result: &CallResult) -> Option<String> {
    if result.content.is_empty() {
        return result.structured_content.as_ref().map(|json| json.text().to_owned());
    }
    let texts: Vec<&str> = result.content.iter().filter_map(|block| block.as_text()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn no_output_error() -> JsonError {
    JsonError::new("it has no text and no structured content")
}

/// The name of a type without the paths of its modules: `Vec<String>`.
fn short_type_name(full: &str) -> String {
    let is_path = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
    let mut short = String::new();
    let mut segment = String::new();
    for letter in full.chars() {
        match letter {
            ':' => segment.clear(),
            _ if is_path(letter) => segment.push(letter),
            _ => {
                short.push_str(&segment);
                segment.clear();
                short.push(letter);
            }
        }
    }
    short + &segment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structured(text: &str) -> CallResult {
        CallResult::from_text("?").structured_content(RawJson::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn output_is_read_from_wrapped_or_bare_structured_content() {
        assert_eq!(read::<i64>(&structured("{\"result\":3}")), Ok(3));
        assert_eq!(read::<i64>(&structured("3")), Ok(3));
        let whole: Value = read(&structured("{\"result\":3}")).unwrap();
        assert_eq!(whole, serde_json::json!({"result": 3}));
        assert!(read::<i64>(&structured("{\"result\":3,\"more\":1}")).is_err());
    }

    #[test]
    fn output_without_structure_is_read_from_the_text() {
        assert_eq!(read::<i64>(&CallResult::from_text("42")), Ok(42));
        assert_eq!(read::<String>(&CallResult::from_text("hello")), Ok("hello".to_owned()));
        assert_eq!(read::<Vec<i64>>(&CallResult::from_text("[1,2]")), Ok(vec![1, 2]));
        assert!(read::<i64>(&CallResult::from_text("many")).is_err());
    }

    #[test]
    fn type_names_lose_the_paths_of_their_modules() {
        for (full, short) in [
            ("i64", "i64"),
            ("alloc::vec::Vec<alloc::string::String>", "Vec<String>"),
            ("(app::a_b::Point, [core::option::Option<u8>; 2])", "(Point, [Option<u8>; 2])"),
        ] {
            assert_eq!(short_type_name(full), short);
        }
    }
}
