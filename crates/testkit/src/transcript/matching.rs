//! Placeholders in expected messages: values that a peer chooses.

use std::collections::HashMap;

use serde_json::Value;

/// The values of the placeholders in a transcript, as far as they have been received.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings(HashMap<String, Value>);

impl Bindings {
    pub(super) fn bind(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Whether both are the same: `"$_"` matches anything, and `"$name"` the value it matched the first time. Inside a
    /// string `$#` matches digits and `$*` any text.
    pub(super) fn matches(&mut self, expected: &Value, received: &Value) -> bool {
        match (expected, received) {
            (Value::String(name), _) if name == "$_" => true,
            (Value::String(name), _) if is_placeholder(name) => {
                let known = self.0.entry(name.clone()).or_insert_with(|| received.clone());
                known == received
            }
            (Value::Object(expected), Value::Object(received)) => {
                expected.len() == received.len()
                    && expected.iter().all(|(key, value)| {
                        received.get(key).is_some_and(|received| self.matches(value, received))
                    })
            }
            (Value::Array(expected), Value::Array(received)) => {
                expected.len() == received.len()
                    && expected
                        .iter()
                        .zip(received)
                        .all(|(expected, received)| self.matches(expected, received))
            }
            (Value::String(expected), Value::String(received)) => text_matches(expected, received),
            _ => expected == received,
        }
    }

    /// Replaces every placeholder with its value. Fails if one has none yet.
    pub(super) fn substitute(&self, value: &Value) -> Result<Value, String> {
        self.replace(value, &|name| Err(format!("{name} has no value yet")))
    }

    /// Replaces the placeholders that have a value.
    pub(super) fn substitute_known(&self, value: &Value) -> Value {
        self.replace(value, &|name| Ok(Value::String(name.to_owned()))).unwrap_or_default()
    }

    fn replace(
        &self,
        value: &Value,
        unknown: &dyn Fn(&str) -> Result<Value, String>,
    ) -> Result<Value, String> {
        Ok(match value {
            Value::String(name) if is_placeholder(name) => match self.0.get(name) {
                Some(value) => value.clone(),
                None => unknown(name)?,
            },
            Value::Object(members) => {
                let filled =
                    members.iter().map(|(key, value)| Ok((key.clone(), self.replace(value, unknown)?)));
                Value::Object(filled.collect::<Result<_, String>>()?)
            }
            Value::Array(items) => Value::Array(
                items.iter().map(|item| self.replace(item, unknown)).collect::<Result<_, String>>()?,
            ),
            other => other.clone(),
        })
    }
}

fn is_placeholder(text: &str) -> bool {
    text.strip_prefix('$')
        .is_some_and(|name| name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_'))
}

/// Whether `text` fits a pattern in which `$#` stands for digits and `$*` for any text.
fn text_matches(pattern: &str, text: &str) -> bool {
    let Some(at) = pattern.find("$#").into_iter().chain(pattern.find("$*")).min() else {
        return pattern == text;
    };
    let (before, wildcard) = pattern.split_at(at);
    let (wildcard, after) = wildcard.split_at(2);
    let Some(rest) = text.strip_prefix(before) else { return false };
    match wildcard {
        "$#" => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && text_matches(after, rest.split_at(digits).1)
        }
        _ => rest
            .char_indices()
            .map(|(at, _)| at)
            .chain([rest.len()])
            .any(|at| text_matches(after, rest.split_at(at).1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_digits_and_text() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a $# b", "a 12 b", true),
            ("a $# b", "a  b", false),
            ("a $# b", "a x b", false),
            ("a $*", "a ", true),
            ("a $* b", "a x y b", true),
            ("a $* b", "a x y c", false),
            ("$*", "日本", true),
        ] {
            assert_eq!(text_matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
