//! Revisions, transports and messages on the wire.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;
use tsugite_testkit::spec_schema;

/// A revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rev {
    Nov24,
    Mar25,
    Jun25,
    Nov25,
    Jul26,
}

impl Rev {
    pub(crate) const ALL: [Self; 5] = [Self::Nov24, Self::Mar25, Self::Jun25, Self::Nov25, Self::Jul26];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nov24 => "2024-11-05",
            Self::Mar25 => "2025-03-26",
            Self::Jun25 => "2025-06-18",
            Self::Nov25 => "2025-11-25",
            Self::Jul26 => "2026-07-28",
        }
    }

    /// Whether the revision has no sessions.
    pub(crate) fn is_stateless(self) -> bool {
        self == Self::Jul26
    }

    fn official(self) -> Result<tsugite::revision::Revision, String> {
        self.name().parse().map_err(|_| format!("unknown revision {self}"))
    }
}

impl fmt::Display for Rev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A transport. HTTP of 2024-11-05 is HTTP+SSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        })
    }
}

/// A message: its text and its value.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) value: Value,
}

impl Message {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let value = serde_json::from_str(text).map_err(|error| format!("not a message: {error}: {text}"))?;
        Ok(Self { text: text.to_owned(), value })
    }

    /// Returns the exact text of the member at a path.
    pub(crate) fn raw(&self, path: &[&str]) -> Option<String> {
        let mut text = self.text.clone();
        for name in path {
            let mut members: HashMap<String, Box<RawValue>> = serde_json::from_str(&text).ok()?;
            text = members.remove(*name)?.get().to_owned();
        }
        Some(text)
    }
}

/// The side that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Fails unless this side may send the message in this revision. `asked` returns the method that a response belongs to.
pub(crate) fn validate(
    rev: Rev,
    side: Side,
    message: &Value,
    asked: impl FnOnce(&Value) -> Option<String>,
) -> Result<(), String> {
    let fail = |reason: &str| Err(format!("{reason}: {message}"));
    if message["jsonrpc"] != "2.0" {
        return fail("`jsonrpc` is not \"2.0\"");
    }
    if !rev.is_stateless()
        && let Some(key) = foreign(message)
    {
        return fail(&format!("{rev} has no `{key}`"));
    }
    let id = message.get("id");
    if id.is_some_and(|id| !(id.is_string() || id.is_i64() || id.is_u64())) {
        return fail("the id is neither a string nor an integer");
    }
    let method = message.get("method").map(|method| method.as_str().unwrap_or_default());
    match method {
        // There is no schema for unknown methods.
        Some(method) if method.contains("x-unknown") => Ok(()),
        Some(_) => spec_schema::validate_message_from(&format!("{side:?}"), rev.official()?, message),
        None => {
            let Some(id) = id else { return fail("a response without an id") };
            let Some(method) = asked(id) else { return fail("a response without a request") };
            match (message.get("result"), message.get("error")) {
                (Some(_), None) if method.contains("x-unknown") => Ok(()),
                // A server may send a request that its revision does not have, and gets a response.
                (Some(_), None) if method == "elicitation/create" && rev < Rev::Jun25 => Ok(()),
                (Some(result), None) if side == Side::Client => {
                    spec_schema::validate_client_result(rev.official()?, &method, result)
                }
                (Some(result), None) => spec_schema::validate_server_result(rev.official()?, &method, result),
                (None, Some(error)) if error["code"].is_i64() && error["message"].is_string() => Ok(()),
                _ => fail("neither a result nor an error"),
            }
        }
    }
}

/// Returns a member that only 2026-07-28 has, except in data that the bridge does not interpret.
fn foreign(value: &Value) -> Option<&str> {
    match value {
        Value::Object(members) => members.iter().find_map(|(name, value)| match name.as_str() {
            "resultType" | "ttlMs" | "cacheScope" => Some(name.as_str()),
            "inputRequests" | "inputResponses" | "requestState" => Some(name.as_str()),
            _ if name.starts_with("io.modelcontextprotocol/") => Some(name.as_str()),
            "arguments" => None,
            _ if name.starts_with("x-") => None,
            _ => foreign(value),
        }),
        Value::Array(items) => items.iter().find_map(foreign),
        _ => None,
    }
}
