//! JSON that was checked to be JSON and is not read yet.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::json_serializer;
use super::scan::{self, JsonSyntaxError, MAX_DEPTH, Scanner};

/// JSON text borrowed from a message: valid by grammar, its meaning still open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// The caller has scanned `text`.
    pub(crate) fn from_validated(text: &'a str) -> Self {
        Self(text)
    }

    /// An empty object, which absent `params` stand for.
    pub const fn empty_object() -> Raw<'static> {
        Raw("{}")
    }

    /// The text itself.
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

    /// Reads it into a type. Lone surrogates, and members that stand there twice although the type knows them, come to
    /// light here.
    pub fn read<T: Deserialize<'a>>(self) -> Result<T, JsonError> {
        serde_json::from_str(self.0).map_err(JsonError::from)
    }

    /// Reads an object into a type. Anything else fails, an array of the members' values too.
    pub fn read_object<T: Deserialize<'a>>(self) -> Result<T, JsonError> {
        if self.is_object() { self.read() } else { Err(JsonError::new("expected an object")) }
    }

    /// The string it is, borrowed unless there is an escape in it. `None` if it is none, or has a lone surrogate.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        scan::decode_string(self.0)
    }

    /// Goes through it without reading it.
    pub(crate) fn scanner(self) -> Scanner<'a> {
        Scanner::new(self.0, MAX_DEPTH)
    }

    /// A copy that borrows nothing.
    pub fn to_owned(self) -> RawJson {
        RawJson(self.0.into())
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// As `serde_json` writes its own [`RawValue`]. To make one of these it would look through all of the text again.
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

/// JSON kept as its text, so that nothing in it is lost or rounded.
///
/// Two of them are equal when they say the same, whatever their white space.
///
/// ```
/// use tsugite_core::jsonrpc::RawJson;
///
/// let sum = RawJson::from_value(&serde_json::json!({"sum": 3})).unwrap();
/// assert_eq!(sum.text(), r#"{"sum":3}"#);
/// ```
#[derive(Clone)]
pub struct RawJson(Box<str>);

impl RawJson {
    /// Writes `value` as JSON. Fails when the value itself refuses, as a map with keys that are not strings does.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        let mut out = Vec::new();
        json_serializer::write_value(&mut out, value)?;
        let text = String::from_utf8(out).map_err(|_| JsonError::new("JSON is UTF-8"))?;
        Ok(RawJson(text.into()))
    }

    /// Takes JSON text as it is. Fails when it is not JSON.
    pub fn parse(text: impl Into<String>) -> Result<Self, JsonError> {
        RawValue::from_string(text.into()).map(Self::from).map_err(JsonError::from)
    }

    /// Text that was put together from JSON.
    #[allow(dead_code, reason = "only `translate_raw` does, which is there with its feature")]
    pub(crate) fn from_validated(text: String) -> Self {
        RawJson(text.into())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Raw::empty_object().to_owned()
    }

    /// The text itself.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }

    /// Reads it into a type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(self.text()).map_err(JsonError::from)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        // Reading it first bounds how deep the comparison can go.
        self.text() == other.text()
            || self.read::<serde_json::Value>().is_ok()
                && other.read::<serde_json::Value>().is_ok()
                && json_eq(self.text(), other.text())
    }
}

/// Whether two JSON texts mean the same: members in any order, strings by what they spell, numbers without rounding.
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
        // A whole number has one spelling; the others are what they round to.
        (Some(b'-' | b'0'..=b'9'), Some(b'-' | b'0'..=b'9')) => {
            let fraction = |text: &str| text.contains(['.', 'e', 'E']);
            ours == theirs
                || (fraction(ours) || fraction(theirs))
                    && ours.parse::<f64>().ok() == theirs.parse::<f64>().ok()
        }
        _ => ours == theirs,
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

/// Reads an optional member whose `null` says something: it is not the same as no member.
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
        // A `WriteValue` always has a text.
        Self::from_value(&value).unwrap_or_else(|_| Self::empty_object())
    }
}

/// JSON that is not of the shape asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError(Cow<'static, str>);

impl JsonError {
    /// Says what is wrong, in words the peer may read.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(message.into())
    }
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        // The position is one inside a part of the message and would mislead.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = text.strip_suffix(&place).unwrap_or(&text);
        // It may quote what the peer sent; a little of that helps, all of it would be an echo.
        const MAX_CHARS: usize = 300;
        Self(match text.char_indices().nth(MAX_CHARS) {
            Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()).into(),
            None => text.to_owned().into(),
        })
    }
}

impl From<JsonSyntaxError> for JsonError {
    fn from(_: JsonSyntaxError) -> Self {
        Self::new("expected an object whose keys are text")
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_json_writes_the_text_as_it_is_too() {
        let text = r#"{"a": 1.50, "b": [1e2]}"#;
        let raw = RawJson::parse(text).unwrap();
        assert_eq!(serde_json::to_string(&[&raw]).unwrap(), format!("[{text}]"));
        assert_eq!(RawJson::from_value(&[Raw::from(&raw)]).unwrap().text(), format!("[{text}]"));
        assert_eq!(serde_json::to_value(&raw).unwrap(), serde_json::json!({"a": 1.5, "b": [100.0]}));
    }
}
