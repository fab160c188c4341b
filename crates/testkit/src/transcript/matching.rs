//! Placeholders in expected messages: values that a peer chooses.

use std::collections::HashMap;

use serde_json::Value;

/// The values of the placeholders in a transcript, as far as they have been received.
#[derive(Debug, Default)]
pub(super) struct Bindings(HashMap<String, Value>);

impl Bindings {
    pub(super) fn bind(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Whether both are the same: `"$_"` matches anything, and `"$name"` the value it matched the first time.
    pub(super) fn matches(&mut self, expected: &Value, received: &Value) -> bool {
        match (expected, received) {
            (Value::String(name), _) if name == "$_" => true,
            (Value::String(name), _) if name.starts_with('$') => {
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
            Value::String(name) if name.starts_with('$') => match self.0.get(name) {
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
