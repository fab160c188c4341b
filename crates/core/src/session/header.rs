//! Encodes, decodes and checks the values of `Mcp-Name` and `Mcp-Param-*` (2026-07-28).
//!
//! A value that is not valid in a header is written as `=?base64?…?=` around the base64 of its UTF-8.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::http::OptionalHeader;
use crate::base64;
use crate::protocol::Schema;
use crate::revision::RpcError;

/// Encodes `text` as a header value: as it is, or wrapped in base64.
///
/// ```
/// use tsugite_core::session::header::{decode, encode};
///
/// assert_eq!(encode("add"), "add");
/// assert_eq!(encode("継手"), "=?base64?57aZ5omL?=");
/// assert_eq!(decode("=?base64?57aZ5omL?=").as_deref(), Some("継手"));
/// ```
pub fn encode(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e));
    let padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    if plain && !padded && !looks_encoded(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{BASE64_PREFIX}{}{BASE64_SUFFIX}", base64::encode(text.as_bytes())))
}

/// Decodes a header value; `None` if it has characters that are not allowed in a header, or its base64 is invalid.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    if !value.bytes().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)) {
        return None;
    }
    let value = value.trim_ascii();
    match value.strip_prefix(BASE64_PREFIX).and_then(|rest| rest.strip_suffix(BASE64_SUFFIX)) {
        Some(wrapped) => String::from_utf8(base64::decode(wrapped)?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

fn looks_encoded(text: &str) -> bool {
    text.starts_with(BASE64_PREFIX) && text.ends_with(BASE64_SUFFIX)
}

const BASE64_PREFIX: &str = "=?base64?";
const BASE64_SUFFIX: &str = "?=";

/// The arguments of a tool that are mirrored into headers, collected once from its schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderParams(Vec<HeaderParam>);

/// One mirrored argument.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderParam {
    /// The header name after `Mcp-Param-`.
    pub name: String,
    /// The path of members from the arguments to this argument.
    pub path: Vec<String>,
    kind: ParamKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParamKind {
    Text,
    Integer,
    Boolean,
}

/// A schema with an invalid `x-mcp-header`. The tool must not be offered over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderParamError {
    /// The name is not a valid header name.
    InvalidName(String),
    /// Two arguments have the same header.
    Duplicate(String),
    /// The argument is neither a string, an integer nor a boolean.
    InvalidType(String),
    /// The argument cannot be reached through `properties` alone.
    Misplaced,
}

impl fmt::Display for HeaderParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderParamError::InvalidName(name) => write!(f, "`x-mcp-header` {name:?} is not a header name"),
            HeaderParamError::Duplicate(name) => {
                write!(f, "`x-mcp-header` {name:?} is used by two arguments")
            }
            HeaderParamError::InvalidType(name) => {
                write!(
                    f,
                    "`x-mcp-header` {name:?} is on an argument that is not a string, an integer or a boolean"
                )
            }
            HeaderParamError::Misplaced => {
                f.write_str("`x-mcp-header` is not reachable through `properties` alone")
            }
        }
    }
}

impl std::error::Error for HeaderParamError {}

impl HeaderParams {
    /// Collects the marked arguments of an input schema.
    pub fn from_schema(schema: &Schema) -> Result<Self, HeaderParamError> {
        let mut params = Vec::new();
        let root = schema.keywords();
        collect_params(root, &mut Vec::new(), &mut params)?;
        let marks = root
            .iter()
            .map(|(word, value)| if word == "x-mcp-header" { 1 } else { count_marks(word, value) });
        // A mark that was not reached through `properties` is misplaced.
        if marks.sum::<usize>() != params.len() {
            return Err(HeaderParamError::Misplaced);
        }
        Ok(Self(params))
    }

    /// The marked arguments.
    pub fn iter(&self) -> impl Iterator<Item = &HeaderParam> {
        self.0.iter()
    }

    /// Whether no argument is marked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares the headers of a call with its arguments. `lookup` returns the header `Mcp-Param-{name}`.
    pub fn check<'h>(
        &self,
        arguments: &Value,
        lookup: impl Fn(&str) -> OptionalHeader<'h>,
    ) -> Result<(), RpcError> {
        for param in &self.0 {
            let expected = param.value(arguments);
            let agrees = match (lookup(&param.name), &expected) {
                // A number that no header can represent exactly must not pass without a header.
                (OptionalHeader::Absent, None) => !param.is_out_of_range(arguments),
                (OptionalHeader::Present(header), Some(expected)) => {
                    decode(header).is_some_and(|header| param.matches(&header, expected))
                }
                _ => false,
            };
            if !agrees {
                let text =
                    format!("`Mcp-Param-{}` is missing or differs from the argument in the body", param.name);
                // Without the values: an argument may be a secret.
                let header = format!("Mcp-Param-{}", param.name);
                return Err(RpcError::HeaderMismatch(text.into()).with("header", header));
            }
        }
        Ok(())
    }
}

impl HeaderParam {
    /// The text for the header, not encoded yet; `None` if the argument is absent or null, or of a type that its schema
    /// rejects anyway.
    pub fn value(&self, arguments: &Value) -> Option<String> {
        let value = self.path.iter().try_fold(arguments, |value, step| value.get(step))?;
        match (self.kind, value) {
            (ParamKind::Text, Value::String(text)) => Some(text.clone()),
            (ParamKind::Boolean, Value::Bool(flag)) => Some(flag.to_string()),
            (ParamKind::Integer, Value::Number(number)) => {
                parse_integer(&number.to_string()).map(|whole| whole.to_string())
            }
            _ => None,
        }
    }

    fn is_out_of_range(&self, arguments: &Value) -> bool {
        let value = self.path.iter().try_fold(arguments, |value, step| value.get(step));
        self.kind == ParamKind::Integer
            && value.is_some_and(Value::is_number)
            && self.value(arguments).is_none()
    }

    fn matches(&self, header: &str, expected: &str) -> bool {
        match self.kind {
            ParamKind::Integer => parse_integer(header).is_some_and(|whole| whole.to_string() == expected),
            _ => header == expected,
        }
    }
}

/// An integer that JavaScript can represent exactly; `42.0` and `4.2e1` are 42 too.
fn parse_integer(text: &str) -> Option<i64> {
    const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;
    let value = match text.parse::<i64>() {
        Ok(value) => value,
        Err(_) => {
            let number: serde_json::Number = serde_json::from_str(text).ok()?;
            let value = number
                .as_f64()
                .filter(|value| value.fract() == 0.0 && value.abs() <= MAX_SAFE_INTEGER as f64)?;
            value as i64
        }
    };
    (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&value).then_some(value)
}

fn collect_params(
    schema: &serde_json::Map<String, Value>,
    path: &mut Vec<String>,
    params: &mut Vec<HeaderParam>,
) -> Result<(), HeaderParamError> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
    for (name, property) in properties {
        let Value::Object(property) = property else { continue };
        path.push(name.clone());
        if let Some(mark) = property.get("x-mcp-header") {
            params.push(header_param(mark, property, path, params)?);
        }
        collect_params(property, path, params)?;
        path.pop();
    }
    Ok(())
}

fn header_param(
    mark: &Value,
    property: &serde_json::Map<String, Value>,
    path: &[String],
    known: &[HeaderParam],
) -> Result<HeaderParam, HeaderParamError> {
    let name = mark.as_str().unwrap_or_default();
    if !is_token(name) {
        return Err(HeaderParamError::InvalidName(name.chars().take(40).collect()));
    }
    if known.iter().any(|param| param.name.eq_ignore_ascii_case(name)) {
        return Err(HeaderParamError::Duplicate(name.to_owned()));
    }
    let kind = match property.get("type").and_then(Value::as_str) {
        Some("string") => ParamKind::Text,
        Some("integer") => ParamKind::Integer,
        Some("boolean") => ParamKind::Boolean,
        _ => return Err(HeaderParamError::InvalidType(name.to_owned())),
    };
    Ok(HeaderParam { name: name.to_owned(), path: path.to_vec(), kind })
}

/// Counts the marks at or below a keyword of a schema. Names of properties and plain data are not keywords.
fn count_marks(word: &str, value: &Value) -> usize {
    let schema = |value: &Value| match value {
        Value::Object(members) => members
            .iter()
            .map(|(word, value)| if word == "x-mcp-header" { 1 } else { count_marks(word, value) })
            .sum(),
        _ => 0,
    };
    match (word, value) {
        ("const" | "default" | "enum" | "examples", _) => 0,
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            Value::Object(named),
        ) => named.values().map(schema).sum(),
        (_, Value::Array(items)) => items.iter().map(schema).sum(),
        (_, value) => schema(value),
    }
}

/// Whether it is a token of RFC 9110, as header names are.
fn is_token(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_round_trip_through_the_header() {
        // T-15
        // HTTP-053, HTTP-071 values that are wrapped; HTTP-072 a value that looks wrapped is wrapped too.
        for text in
            ["", "add", "a b", " a", "a\t", "\r\nX: y", "é", "=?base64?YQ==?=", "=?base64?", "\0", "継手"]
        {
            let header = encode(text).into_owned();
            assert!(header.bytes().all(|byte| (0x20..=0x7e).contains(&byte)), "{header:?}");
            assert_eq!(decode(&header).as_deref(), Some(text));
        }
        assert_eq!(encode("file:///a b?c=d"), "file:///a b?c=d");
    }

    #[test]
    fn invalid_base64_is_rejected() {
        // HTTP-056; HTTP-058: whitespace around a value is not part of it.
        let bad = ["YQ", "YQ=", "YQ===", "====", "Y*==", "YR==", "_w==", "/w==", "Y Q=", "YQ==YQ=="];
        for wrapped in bad {
            assert_eq!(decode(&format!("=?base64?{wrapped}?=")), None, "{wrapped}");
        }
        assert_eq!(decode("é"), None);
        assert_eq!(decode("a\u{7f}"), None);
        assert_eq!(decode("\t add ").as_deref(), Some("add"));
        assert_eq!(decode("=?BASE64?YQ==?=").as_deref(), Some("=?BASE64?YQ==?="));
    }

    fn schema(properties: Value) -> Schema {
        Schema::from(json!({"type": "object", "properties": properties}))
    }

    #[test]
    fn invalid_marks_are_rejected() {
        // T-14
        // HTTP-062 names, HTTP-063 duplicates, HTTP-064 types, HTTP-066 positions.
        let bad = [
            json!({"a": {"type": "string", "x-mcp-header": ""}}),
            json!({"a": {"type": "string", "x-mcp-header": "X\r\nAuthorization"}}),
            json!({"a": {"type": "string", "x-mcp-header": "a:b"}}),
            json!({"a": {"type": "string", "x-mcp-header": "é"}}),
            json!({"a": {"type": "string", "x-mcp-header": 7}}),
            json!({"a": {"type": "number", "x-mcp-header": "A"}}),
            json!({"a": {"x-mcp-header": "A"}}),
            json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
            json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
            json!({"a": {"oneOf": [{"type": "string", "x-mcp-header": "A"}]}}),
            json!({"a": {"if": {"properties": {"b": {"type": "string", "x-mcp-header": "A"}}}}}),
        ];
        for properties in bad {
            assert!(HeaderParams::from_schema(&schema(properties.clone())).is_err(), "{properties}");
        }
        let hidden = json!({"type": "object", "$defs": {"a": {"type": "string", "x-mcp-header": "A"}}});
        assert_eq!(HeaderParams::from_schema(&Schema::from(hidden)), Err(HeaderParamError::Misplaced));
        let good = schema(json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "where": {"type": "object", "properties": {"zone": {"type": "integer", "x-mcp-header": "Zone"}}},
            "x-mcp-header": {"type": "string", "default": {"x-mcp-header": "no mark"}},
        }));
        let params = HeaderParams::from_schema(&good).unwrap();
        assert_eq!(params.iter().map(|param| param.name.as_str()).collect::<Vec<_>>(), ["Region", "Zone"]);
    }

    #[test]
    fn headers_must_match_the_arguments() {
        // HTTP-075, HTTP-074 null and absent, HTTP-059 numbers, HTTP-065 their range, HTTP-076 characters.
        let params = HeaderParams::from_schema(&schema(json!({
            "n": {"type": "integer", "x-mcp-header": "N"},
            "s": {"type": "string", "x-mcp-header": "S"},
            "b": {"type": "boolean", "x-mcp-header": "B"},
        })))
        .unwrap();
        let check = |arguments: Value, headers: &[(&str, &str)]| {
            let headers: Vec<(String, String)> =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            params
                .check(&arguments, |name| match headers.iter().find(|(known, _)| known == name) {
                    Some((_, value)) => OptionalHeader::Present(value),
                    None => OptionalHeader::Absent,
                })
                .is_ok()
        };
        assert!(check(json!({}), &[]));
        assert!(check(json!({"s": null}), &[]));
        assert!(check(json!({"n": 42, "s": "eu", "b": true}), &[("N", "42"), ("S", "eu"), ("B", "true")]));
        assert!(check(json!({"n": 42.0}), &[("N", "42")]));
        assert!(check(json!({"n": 42}), &[("N", "42.0")]));
        assert!(check(json!({"s": "継手"}), &[("S", "=?base64?57aZ5omL?=")]));
        assert!(!check(json!({"s": "eu"}), &[]));
        assert!(!check(json!({"s": "eu"}), &[("S", "us")]));
        assert!(!check(json!({"s": "eu"}), &[("S", "EU")]));
        assert!(!check(json!({"s": null}), &[("S", "eu")]));
        assert!(!check(json!({}), &[("B", "true")]));
        assert!(!check(json!({"b": true}), &[("B", "True")]));
        assert!(!check(json!({"n": 9_007_199_254_740_993i64}), &[("N", "9007199254740992")]));
        assert!(!check(json!({"n": 9_007_199_254_740_993i64}), &[]));
        assert!(!check(json!({"s": "é"}), &[("S", "é")]));
    }
}
