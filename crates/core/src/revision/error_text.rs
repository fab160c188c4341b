//! The message of an error, with details for the caller.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::protocol::Object;

/// The message of an error, and the members of its `data`.
///
/// Converts from text, so that `RpcError::InvalidParams("…".into())` has a message and no data.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorText {
    text: Cow<'static, str>,
    data: Option<Box<Object>>,
}

impl ErrorText {
    /// Adds a member to the data. Long text is cut to 200 characters.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::String(text) => Value::String(truncated(&text).into_owned()),
            value => value,
        };
        self.data.get_or_insert_default().insert(name.to_owned(), value);
        self
    }

    /// The message.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The members of the data, if there are any.
    pub fn data(&self) -> Option<&Object> {
        self.data.as_deref()
    }

    pub(super) fn text(&self) -> Cow<'static, str> {
        self.text.clone()
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for ErrorText {
    fn from(text: T) -> Self {
        Self { text: text.into(), data: None }
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Truncates text of the peer that is echoed.
pub(super) fn truncated(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        None => Cow::Borrowed(text),
        Some((at, _)) => Cow::Owned(format!("{}…", text.get(..at).unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_bounded() {
        let long = "x".repeat(10_000);
        let error = ErrorText::from("m").with("received", long.as_str()).with("limit", 7);
        let data = error.data().unwrap();
        assert_eq!(data["received"].as_str().unwrap().chars().count(), 201);
        assert_eq!(data["limit"], 7);
        assert_eq!(ErrorText::from("m").data(), None);
    }
}
