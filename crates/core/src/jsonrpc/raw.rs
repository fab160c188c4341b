//! JSON text that is known to be valid but not deserialized yet.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::json_path::path_at;
use super::json_serializer;
use super::scan::{self, JsonSyntaxError, MAX_DEPTH, Scanner};

/// JSON text borrowed from a message: valid syntax, contents not checked yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// Wraps text that the caller has scanned.
    pub(crate) fn from_validated(text: &'a str) -> Self {
        Self(text)
    }

    /// An empty object, the value of absent `params`.
    pub const fn empty_object() -> Raw<'static> {
        Raw("{}")
    }

    /// The text.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// Deserializes it. Fails on lone surrogates, and on duplicate members that the type knows.
    pub fn read<T: Deserialize<'a>>(self) -> Result<T, JsonError> {
        serde_json::from_str(self.0).map_err(|error| JsonError::locate(self.0, error))
    }

    /// Deserializes an object. Fails on anything else, also on an array of the members' values.
    pub fn read_object<T: Deserialize<'a>>(self) -> Result<T, JsonError> {
        if self.is_object() { self.read() } else { Err(JsonError::new("expected an object")) }
    }

    /// The string value, borrowed unless it has an escape. `None` if it is not a string or has a lone surrogate.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        scan::decode_string(self.0)
    }

    /// A scanner over the text.
    pub(crate) fn scanner(self) -> Scanner<'a> {
        Scanner::new(self.0, MAX_DEPTH)
    }

    /// An owned copy.
    pub fn to_owned(self) -> RawJson {
        RawJson(self.0.into())
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Prints the JSON text.
impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Serializes like `serde_json`'s [`RawValue`], which could only be created by scanning the text again.
impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut as_it_is = serializer.serialize_struct(json_serializer::RAW_VALUE_TOKEN, 1)?;
        as_it_is.serialize_field(json_serializer::RAW_VALUE_TOKEN, self.0)?;
        as_it_is.end()
    }
}

impl<'a> From<&'a RawJson> for Raw<'a> {
    fn from(json: &'a RawJson) -> Self {
        Raw(json.text())
    }
}

impl<'a> From<&'a RawValue> for Raw<'a> {
    fn from(json: &'a RawValue) -> Self {
        Raw(json.get())
    }
}

/// JSON kept as text, so that nothing in it is lost or rounded.
///
/// Two values are equal if they mean the same, independent of whitespace.
///
/// ```
/// use tsugite_core::jsonrpc::RawJson;
///
/// let sum = RawJson::from_value(&serde_json::json!({"sum": 3})).unwrap();
/// assert_eq!(sum.text(), r#"{"sum":3}"#);
/// assert_eq!(sum.to_string(), r#"{"sum":3}"#);
/// ```
#[derive(Clone)]
pub struct RawJson(Box<str>);

impl RawJson {
    /// Serializes `value` as JSON. Fails if the value cannot be serialized, such as a map whose keys are not strings.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        let mut out = Vec::new();
        json_serializer::write_value(&mut out, value)?;
        let text = String::from_utf8(out).map_err(|_| JsonError::new("the serialized value is not UTF-8"))?;
        Ok(RawJson(text.into()))
    }

    /// Takes JSON text as it is. Fails if it is not JSON.
    pub fn parse(text: impl Into<String>) -> Result<Self, JsonError> {
        RawValue::from_string(text.into()).map(Self::from).map_err(JsonError::from)
    }

    /// Wraps text that was assembled from JSON.
    pub(crate) fn from_validated(text: String) -> Self {
        RawJson(text.into())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Raw::empty_object().to_owned()
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }

    /// Deserializes it.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(self.text()).map_err(|error| JsonError::locate(self.text(), error))
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        // Deserializing first bounds the depth of the comparison.
        self.text() == other.text()
            || self.read::<serde_json::Value>().is_ok()
                && other.read::<serde_json::Value>().is_ok()
                && json_eq(self.text(), other.text())
    }
}

/// Whether two JSON texts mean the same: members in any order, strings by value, numbers without rounding.
fn json_eq(ours: &str, theirs: &str) -> bool {
    type Members<'a> = std::collections::HashMap<Cow<'a, str>, &'a RawValue>;
    let read = |text| serde_json::from_str::<Members<'_>>(text);
    match (ours.as_bytes().first(), theirs.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => match (read(ours), read(theirs)) {
            (Ok(ours), Ok(theirs)) => {
                ours.len() == theirs.len()
                    && ours.iter().all(|(name, value)| {
                        theirs.get(name).is_some_and(|other| json_eq(value.get(), other.get()))
                    })
            }
            _ => false,
        },
        (Some(b'['), Some(b'[')) => {
            match (
                serde_json::from_str::<Vec<&RawValue>>(ours),
                serde_json::from_str::<Vec<&RawValue>>(theirs),
            ) {
                (Ok(ours), Ok(theirs)) => {
                    ours.len() == theirs.len()
                        && ours.iter().zip(theirs).all(|(ours, theirs)| json_eq(ours.get(), theirs.get()))
                }
                _ => false,
            }
        }
        (Some(b'"'), Some(b'"')) => {
            matches!((serde_json::from_str::<String>(ours), serde_json::from_str::<String>(theirs)), (Ok(a), Ok(b)) if a == b)
        }
        // An integer has one spelling; other numbers are compared as `f64`.
        (Some(b'-' | b'0'..=b'9'), Some(b'-' | b'0'..=b'9')) => {
            let fraction = |text: &str| text.contains(['.', 'e', 'E']);
            ours == theirs
                || (fraction(ours) || fraction(theirs))
                    && ours.parse::<f64>().ok() == theirs.parse::<f64>().ok()
        }
        _ => ours == theirs,
    }
}

/// Prints the JSON text.
impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Raw(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

/// Deserializes an optional member whose `null` differs from an absent member.
pub(crate) fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

impl From<Box<RawValue>> for RawJson {
    fn from(value: Box<RawValue>) -> Self {
        Self(value.into())
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        // A `WriteValue` always has text.
        Self::from_value(&value).unwrap_or_else(|_| Self::empty_object())
    }
}

/// JSON that does not have the expected shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    text: Cow<'static, str>,
    /// The path of the wrong value; empty for the whole value.
    path: String,
}

impl JsonError {
    /// An error with a description that the peer may read.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { text: message.into(), path: String::new() }
    }

    /// The path of the value that is wrong or missing, such as `items[2].name`; empty if it is the whole value, or not
    /// known.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The type or value that would have been right, if that is known.
    pub fn expected(&self) -> Option<&str> {
        self.text.rsplit_once("expected ").map(|(_, expected)| expected)
    }

    /// An error of deserializing `text`, with the path of the value.
    fn locate(text: &str, error: serde_json::Error) -> Self {
        let mut path = path_at(text, error.line(), error.column());
        let located = Self::from(error);
        let missing = located.text.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        if let Some(missing) = missing {
            let dot = if path.is_empty() { "" } else { "." };
            path = format!("{path}{dot}{missing}");
        }
        Self { path, ..located }
    }
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        // The position is relative to a part of the message and would mislead.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = text.strip_suffix(&place).unwrap_or(&text);
        // It may quote the peer's input; a long quote is truncated.
        const MAX_CHARS: usize = 300;
        Self::new(match text.char_indices().nth(MAX_CHARS) {
            Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
            None => text.to_owned(),
        })
    }
}

impl From<JsonSyntaxError> for JsonError {
    fn from(_: JsonSyntaxError) -> Self {
        Self::new("expected an object whose keys are strings")
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for JsonError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_displays_as_its_text() {
        for text in [r#""a \u00e9""#, r#"{"a": 1.50}"#, "null"] {
            let json = RawJson::parse(text).unwrap();
            assert_eq!((json.to_string(), Raw::from(&json).to_string()), (text.to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn serde_json_writes_the_text_verbatim() {
        let text = r#"{"a": 1.50, "b": [1e2]}"#;
        let raw = RawJson::parse(text).unwrap();
        assert_eq!(serde_json::to_string(&[&raw]).unwrap(), format!("[{text}]"));
        assert_eq!(RawJson::from_value(&[Raw::from(&raw)]).unwrap().text(), format!("[{text}]"));
        assert_eq!(serde_json::to_value(&raw).unwrap(), serde_json::json!({"a": 1.5, "b": [100.0]}));
    }
}
