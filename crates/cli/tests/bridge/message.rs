//! Revisions, transports and messages, as they stand on the wire.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;
use tsugite_testkit::spec_schema;

/// A revision. The judge knows it by its name.
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

    /// Whether every request stands for itself.
    pub(crate) fn is_stateless(self) -> bool {
        self == Self::Jul26
    }

    fn official(self) -> Result<tsugite::revision::Revision, String> {
        self.name().parse().map_err(|_| format!("nobody knows {self}"))
    }
}

impl fmt::Display for Rev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How messages travel. HTTP of 2024-11-05 is HTTP+SSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    Http,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        })
    }
}

/// A message: its text, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) value: Value,
}

impl Message {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let value = serde_json::from_str(text).map_err(|error| format!("no message: {error}: {text}"))?;
        Ok(Self { text: text.to_owned(), value })
    }

    /// The text of a member of a member of …, exactly as it stands there.
    pub(crate) fn raw(&self, path: &[&str]) -> Option<String> {
        let mut text = self.text.clone();
        for name in path {
            let mut members: HashMap<String, Box<RawValue>> = serde_json::from_str(&text).ok()?;
            text = members.remove(*name)?.get().to_owned();
        }
        Some(text)
    }
}

/// Which side a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Fails unless a message is one that this side may send on this revision. A response is judged by what was asked:
/// `asked` gives the method.
pub(crate) fn judge(
    rev: Rev,
    side: Side,
    message: &Value,
    asked: impl FnOnce(&Value) -> Option<String>,
) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{why}: {message}"));
    if message["jsonrpc"] != "2.0" {
        return fail("`jsonrpc` is not \"2.0\"");
    }
    if !rev.is_stateless()
        && let Some(key) = foreign(message)
    {
        return fail(&format!("{rev} knows no `{key}`"));
    }
    let id = message.get("id");
    if id.is_some_and(|id| !(id.is_string() || id.is_i64() || id.is_u64())) {
        return fail("the id is neither a string nor an integer");
    }
    let method = message.get("method").map(|method| method.as_str().unwrap_or_default());
    match method {
        // What nobody knows is judged by nobody.
        Some(method) if method.contains("x-unknown") => Ok(()),
        Some(_) => spec_schema::validate_message_from(&format!("{side:?}"), rev.official()?, message),
        None => {
            let Some(id) = id else { return fail("a response without an id") };
            let Some(method) = asked(id) else { return fail("an answer to nothing that was asked") };
            match (message.get("result"), message.get("error")) {
                (Some(_), None) if method.contains("x-unknown") => Ok(()),
                // A server that asks what its revision has not is answered all the same.
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

/// A member that only 2026-07-28 has, anywhere in a message but in what the two ends alone understand.
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
