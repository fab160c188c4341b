//! `_meta`: what stands beside the protocol, and the keys the protocol itself put there.
//!
//! From 2026-07-28 on each request says in its `_meta` which version it speaks and what its sender can do. Which
//! prefixes are reserved differs between revisions and is asked with [`crate::revision::Revision::reserves`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::logging::Level;
use super::{ClientCapabilities, Implementation, Object};
use crate::jsonrpc::{BadShape, Id};

/// The members of a `_meta` object. Keys we do not know are kept.
///
/// ```
/// use tsugite_core::protocol::Meta;
///
/// let mut meta = Meta::new();
/// meta.insert("com.example/shelf", "top");
/// assert_eq!(meta.get("com.example/shelf").unwrap(), "top");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Meta(Object);

impl Meta {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Puts `value` under `key`.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        self.0.insert(key.into(), value.into())
    }

    /// Takes the value under `key` out, keeping the order of the rest.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key)
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether nothing stands in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token under which its sender wants to hear of progress.
    ///
    /// `None` too when it is neither a string nor an integer.
    pub fn progress_token(&self) -> Option<Id<'static>> {
        id(self.get(PROGRESS_TOKEN)?)
    }

    /// Asks for progress under `token`.
    pub fn set_progress_token(&mut self, token: &Id<'_>) {
        self.put(PROGRESS_TOKEN, token);
    }

    /// The subscription a notification or a result belongs to.
    pub fn subscription_id(&self) -> Option<Id<'static>> {
        id(self.get(SUBSCRIPTION_ID)?)
    }

    /// Says which subscription this belongs to.
    pub fn set_subscription_id(&mut self, subscription: &Id<'_>) {
        self.put(SUBSCRIPTION_ID, subscription);
    }

    /// The server that made a result, if it says so and says it well.
    pub fn server_info(&self) -> Option<Implementation> {
        Implementation::deserialize(self.get(SERVER_INFO)?).ok()
    }

    /// Says which server made a result.
    pub fn set_server_info(&mut self, server: &Implementation) {
        self.put(SERVER_INFO, server);
    }

    /// What the sender of a request says of itself, as 2026-07-28 asks.
    ///
    /// `Ok(None)` when it does not name a version at all, which is how older revisions speak. Fails when it names
    /// one but the rest is missing or malformed; the text says which key.
    pub fn claims(&self) -> Result<Option<Claims>, BadShape> {
        if self.get(PROTOCOL_VERSION).is_none() {
            return Ok(None);
        }
        Ok(Some(Claims {
            protocol_version: self.read(PROTOCOL_VERSION)?.ok_or_else(|| missing(PROTOCOL_VERSION))?,
            client_capabilities: self
                .read(CLIENT_CAPABILITIES)?
                .ok_or_else(|| missing(CLIENT_CAPABILITIES))?,
            client_info: self.read(CLIENT_INFO)?,
            log_level: self.read(LOG_LEVEL)?,
        }))
    }

    /// Writes down what the sender of a request says of itself.
    pub fn set_claims(&mut self, claims: &Claims) {
        self.put(PROTOCOL_VERSION, &claims.protocol_version);
        self.put(CLIENT_CAPABILITIES, &claims.client_capabilities);
        if let Some(client) = &claims.client_info {
            self.put(CLIENT_INFO, client);
        }
        if let Some(level) = &claims.log_level {
            self.put(LOG_LEVEL, level);
        }
    }

    /// The W3C trace context, as far as it is there.
    pub fn trace(&self) -> Trace<'_> {
        let text = |key| self.get(key).and_then(Value::as_str);
        Trace { traceparent: text(TRACEPARENT), tracestate: text(TRACESTATE), baggage: text(BAGGAGE) }
    }

    /// Passes a W3C trace context on.
    pub fn set_trace(&mut self, trace: &Trace<'_>) {
        let members =
            [(TRACEPARENT, trace.traceparent), (TRACESTATE, trace.tracestate), (BAGGAGE, trace.baggage)];
        for (key, value) in members {
            if let Some(value) = value {
                self.insert(key, value);
            }
        }
    }

    fn read<T: for<'a> Deserialize<'a>>(&self, key: &'static str) -> Result<Option<T>, BadShape> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match T::deserialize(value) {
                Ok(value) => Ok(Some(value)),
                Err(error) => Err(BadShape::new(format!("`_meta` key `{key}`: {error}"))),
            },
        }
    }

    fn put<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        // Everything put here is made of strings, numbers and objects, which always have a value.
        if let Ok(value) = serde_json::to_value(value) {
            self.0.insert(key.to_owned(), value);
        }
    }
}

impl FromIterator<(String, Value)> for Meta {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

fn id(value: &Value) -> Option<Id<'static>> {
    serde_json::from_str(&value.to_string()).ok()
}

fn missing(key: &'static str) -> BadShape {
    BadShape::new(format!("`_meta` lacks `{key}`"))
}

/// What each request of 2026-07-28 says of its sender.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Claims {
    /// The version the request is written in.
    pub protocol_version: String,
    /// What the client can do, for this request alone.
    pub client_capabilities: ClientCapabilities,
    /// Who the client is.
    pub client_info: Option<Implementation>,
    /// From which level on it wants to hear logs; absent means none.
    pub log_level: Option<Level>,
}

impl Claims {
    /// With what every request must say.
    pub fn new(protocol_version: impl Into<String>, client_capabilities: ClientCapabilities) -> Self {
        Self {
            protocol_version: protocol_version.into(),
            client_capabilities,
            client_info: None,
            log_level: None,
        }
    }

    /// Says who the client is.
    #[must_use]
    pub fn client_info(mut self, client: Implementation) -> Self {
        self.client_info = Some(client);
        self
    }

    /// Asks for logs from `level` on.
    #[must_use]
    pub fn log_level(mut self, level: Level) -> Self {
        self.log_level = Some(level);
        self
    }
}

/// A W3C trace context as `_meta` carries it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace<'a> {
    /// Which span this is part of.
    pub traceparent: Option<&'a str>,
    /// What tracing systems add.
    pub tracestate: Option<&'a str>,
    /// What applications add.
    pub baggage: Option<&'a str>,
}

/// Whether `key` follows the grammar of `_meta` keys: an optional prefix of dot-separated labels and a slash, then
/// a name.
///
/// Labels begin with a letter and end with a letter or digit, hyphens inside; a name begins and ends
/// alphanumeric, with hyphens, underscores and dots inside, or is empty.
pub fn is_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(|prefix| prefix.split('.').all(is_label)) && is_name(name)
}

/// The labels before the slash of a key; none if it has no prefix.
pub fn prefix_labels(key: &str) -> impl Iterator<Item = &str> {
    key.split_once('/').into_iter().flat_map(|(prefix, _)| prefix.split('.'))
}

fn is_label(label: &str) -> bool {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    match label.as_bytes() {
        [only] => only.is_ascii_alphabetic(),
        [first, middle @ .., last] => {
            first.is_ascii_alphabetic() && middle.iter().all(inside) && last.is_ascii_alphanumeric()
        }
        [] => false,
    }
}

fn is_name(name: &str) -> bool {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match name.as_bytes() {
        [] => true,
        [only] => only.is_ascii_alphanumeric(),
        [first, middle @ .., last] => {
            first.is_ascii_alphanumeric() && middle.iter().all(inside) && last.is_ascii_alphanumeric()
        }
    }
}

/// Under which token progress is wanted.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The version a request is written in.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// From which level on logs are wanted.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The subscription something belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task something belongs to (2025-11-25).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// W3C trace context.
pub const TRACEPARENT: &str = "traceparent";
/// W3C trace context.
pub const TRACESTATE: &str = "tracestate";
/// W3C baggage.
pub const BAGGAGE: &str = "baggage";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_grammar() {
        // SCHM-002 the prefix, SCHM-003 the name.
        for good in
            ["a", "a/", "com.example/a", "com.example/a-b_c.d", "io.x-1/9", "progressToken", "", "a/b1"]
        {
            assert!(is_key(good), "{good}");
        }
        for bad in ["/a", "1a/b", "a-/b", "a..b/c", "a/-b", "a/b.", "a b", "a/b/c", "é", "a_b/c"] {
            assert!(!is_key(bad), "{bad}");
        }
    }

    #[test]
    fn claims_are_read_back_as_they_were_set_and_name_the_key_that_is_wrong() {
        let claims = Claims::new("2026-07-28", ClientCapabilities::new())
            .client_info(Implementation::new("c", "1"))
            .log_level(Level::Warning);
        let mut meta = Meta::new();
        assert_eq!(meta.claims(), Ok(None));
        meta.set_claims(&claims);
        assert_eq!(meta.claims(), Ok(Some(claims)));
        meta.insert(LOG_LEVEL, "loud");
        assert!(meta.claims().unwrap_err().to_string().contains("logLevel"));
        meta.remove(LOG_LEVEL);
        meta.remove(CLIENT_CAPABILITIES);
        assert!(meta.claims().unwrap_err().to_string().contains("clientCapabilities"));
    }

    #[test]
    fn the_trace_context_passes_through() {
        // TRAC-001
        let mut meta = Meta::new();
        meta.insert(TRACEPARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let mut next = Meta::new();
        next.set_trace(&meta.trace());
        assert_eq!(next.trace().traceparent, meta.trace().traceparent);
        assert_eq!(next.trace().baggage, None);
    }
}
