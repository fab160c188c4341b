//! The id of a request, kept exactly as its sender wrote it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::json_serializer;

/// A request id: a string or an integer, never null and never a fraction.
///
/// `1` and `"1"` are different ids, and an integer of any size survives: what comes back is what was sent.
/// `1` and `"1"` are different ids, and an integer of any size is kept as it was written. Progress tokens follow the
/// same rule and use the same type.
/// ```
/// use tsugite_core::jsonrpc::Id;
///
/// assert_ne!(Id::from(1), Id::from("1"));
/// let huge: Id = serde_json::from_str("123456789012345678901234567890").unwrap();
/// assert_eq!(huge.to_string(), "123456789012345678901234567890");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id<'a>(IdRepr<'a>);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum IdRepr<'a> {
    Integer(i64),
    /// Digits that do not fit into an `i64`, or are not its canonical form.
    Digits(Cow<'a, str>),
    Text(Cow<'a, str>),
}

impl<'a> Id<'a> {
    /// The integer, if it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            IdRepr::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// The string, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            IdRepr::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Id<'static> {
        Id(match self.0 {
            IdRepr::Integer(value) => IdRepr::Integer(value),
            IdRepr::Digits(digits) => IdRepr::Digits(Cow::Owned(digits.into_owned())),
            IdRepr::Text(text) => IdRepr::Text(Cow::Owned(text.into_owned())),
        })
    }

    /// Reads the text of a JSON number; `None` if it has a fraction or an exponent.
    pub(super) fn from_number_text(text: &'a str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Id(match text.parse() {
            Ok(value) if text != "-0" => IdRepr::Integer(value),
            _ => IdRepr::Digits(Cow::Borrowed(text)),
        }))
    }

    pub(super) fn from_text(text: Cow<'a, str>) -> Self {
        Id(IdRepr::Text(text))
    }

    /// Appends the id as JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            IdRepr::Digits(digits) => out.extend_from_slice(digits.as_bytes()),
            // Writing an integer into memory cannot fail.
            IdRepr::Integer(value) => drop(serde_json::to_writer(out, value)),
            IdRepr::Text(text) => json_serializer::write_string(out, text),
        }
    }
}

impl From<i64> for Id<'_> {
    fn from(value: i64) -> Self {
        Id(IdRepr::Integer(value))
    }
}

impl<'a> From<&'a str> for Id<'a> {
    fn from(text: &'a str) -> Self {
        Id(IdRepr::Text(Cow::Borrowed(text)))
    }
}

impl From<String> for Id<'_> {
    fn from(text: String) -> Self {
        Id(IdRepr::Text(Cow::Owned(text)))
    }
}

/// Formats the id as JSON, so that `1` and `"1"` differ in a log.
impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            IdRepr::Integer(value) => value.fmt(f),
            IdRepr::Digits(digits) => f.write_str(digits),
            IdRepr::Text(text) => f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?),
        }
    }
}

impl fmt::Debug for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

impl Serialize for Id<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            IdRepr::Integer(value) => serializer.serialize_i64(*value),
            IdRepr::Text(text) => serializer.serialize_str(text),
            IdRepr::Digits(digits) => serde_json::value::RawValue::from_string(digits.clone().into_owned())
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
        }
    }
}

/// Only from JSON text, because the id must be kept exactly as it was written.
impl<'de> Deserialize<'de> for Id<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        if text.starts_with('"') {
            let text: String = serde_json::from_str(text).map_err(de::Error::custom)?;
            return Ok(Id::from(text));
        }
        match Id::from_number_text(text) {
            Some(id) => Ok(id.into_owned()),
            None => Err(de::Error::custom("expected a string or an integer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Id<'static>, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn ids_round_trip_as_they_were_written() {
        // JRPC-006: the same type and value; JRPC-002: strings and integers only.
        for json in
            ["0", "-0", "-7", "9007199254740993", "18446744073709551616", "\"\"", "\"1\"", "\"a\\\"b\""]
        {
            let id = read(json).unwrap();
            let mut out = Vec::new();
            id.write(&mut out);
            assert_eq!(out, json.as_bytes());
            assert_eq!(serde_json::to_string(&id).unwrap(), json);
        }
        assert_ne!(read("1").unwrap(), read("\"1\"").unwrap());
    }

    #[test]
    fn other_types_are_rejected() {
        for json in ["null", "1.5", "1.0", "1e3", "true", "[]", "{}", "\"\\ud800\""] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
