//! JSON objects of tokens: an object that names a member twice is malformed, at every level.
//!
//! Two readers that choose different ones of two equal members see different tokens (RFC 7515, 4; RFC 7519, 4).

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses an object. `None` if it is malformed, no object, or names a member twice.
pub(crate) fn parse_object(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice::<StrictValue>(text).ok()?.0 {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(StrictValue)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, StrictValue(value))) = members.next_entry::<String, _>()? {
            if all.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is named twice"));
            }
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_named_twice_are_refused() {
        let text = r#"{"a": [1, -2, 1.5, null, true, "x", {"b": {}}]}"#;
        let parsed = parse_object(text.as_bytes()).unwrap();
        assert_eq!(Some(Value::Object(parsed)), serde_json::from_str(text).ok());
        for refused in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 2}"#,
            r#"{"cnf": {"jkt": "x", "jkt": "y"}}"#,
            r#"{"a": [{"b": 1, "b": 2}]}"#,
            "[]",
            "{} {}",
            "{",
            "",
        ] {
            assert_eq!(parse_object(refused.as_bytes()), None, "{refused}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse_object(format!("{{\"a\":{deep}").as_bytes()), None);
    }
}
