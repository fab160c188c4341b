//! `_meta`: metadata outside of the protocol, and the keys that the protocol defines there.
//!
//! From 2026-07-28 on the `_meta` of each request contains the version and the client's capabilities. Which prefixes
//! are reserved depends on the revision: [`crate::revision::Revision::reserves_meta_key`].

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::logging::Level;
use super::meta_key_error::{MetaKeyError, MetaKeyFault};
use super::tasks::TaskParams;
use super::trace_context::{self, TraceContext};
use super::{ClientCapabilities, Implementation, OrderedMap};
use crate::jsonrpc::{Id, JsonError, RawJson};

/// The members of a `_meta` object. Unknown keys are kept, and every value as it was written.
///
/// ```
/// use tsugite_core::protocol::Meta;
///
/// let mut meta = Meta::new();
/// meta.insert("com.example/shelf", "top");
/// assert_eq!(meta.get("com.example/shelf").unwrap().text(), "\"top\"");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Meta(OrderedMap<RawJson>);

impl Meta {
    /// An empty `_meta`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&RawJson> {
        self.0.get(key)
    }

    /// Sets the value of `key`. A value that cannot be serialized, such as a map whose keys are not strings, is left
    /// out.
    pub fn insert<T: Serialize + ?Sized>(&mut self, key: impl Into<String>, value: &T) {
        if let Ok(value) = RawJson::from_value(value) {
            self.0.insert(key, value);
        }
    }

    /// Removes the value of `key`, keeping the order of the rest.
    pub fn remove(&mut self, key: &str) -> Option<RawJson> {
        self.0.remove(key)
    }

    /// The keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The progress token.
    ///
    /// `None` also if it is neither a string nor an integer.
    pub fn progress_token(&self) -> Option<Id<'static>> {
        self.get(PROGRESS_TOKEN)?.read().ok()
    }

    /// Sets the progress token.
    pub fn set_progress_token(&mut self, token: &Id<'_>) {
        self.insert(PROGRESS_TOKEN, token);
    }

    /// The id of the subscription a notification or result belongs to.
    pub fn subscription_id(&self) -> Option<Id<'static>> {
        self.get(SUBSCRIPTION_ID)?.read().ok()
    }

    /// Sets the id of the subscription.
    pub fn set_subscription_id(&mut self, subscription: &Id<'_>) {
        self.insert(SUBSCRIPTION_ID, subscription);
    }

    /// Sets the id of the task that a message belongs to (2025-11-25).
    pub fn set_related_task(&mut self, task_id: &str) {
        self.insert(RELATED_TASK, &TaskParams::new(task_id));
    }

    /// The id of the task that a message belongs to (2025-11-25).
    pub fn related_task(&self) -> Option<String> {
        Some(self.get(RELATED_TASK)?.read::<TaskParams>().ok()?.task_id)
    }

    /// The server's name and version in a result, if given and well-formed.
    pub fn server_info(&self) -> Option<Implementation> {
        self.get(SERVER_INFO)?.read().ok()
    }

    /// Sets the server's name and version.
    pub fn set_server_info(&mut self, server: &Implementation) {
        self.insert(SERVER_INFO, server);
    }

    /// The client's description of itself, as 2026-07-28 requires it.
    ///
    /// `Ok(None)` if there is no version, as on older revisions. Fails if there is one but the rest is missing or
    /// malformed; the error names the key.
    pub fn client_meta(&self) -> Result<Option<ClientMeta>, JsonError> {
        if self.get(PROTOCOL_VERSION).is_none() {
            return Ok(None);
        }
        Ok(Some(ClientMeta {
            protocol_version: self.read(PROTOCOL_VERSION)?.ok_or_else(|| missing(PROTOCOL_VERSION))?,
            client_capabilities: self
                .read(CLIENT_CAPABILITIES)?
                .ok_or_else(|| missing(CLIENT_CAPABILITIES))?,
            client_info: self.read(CLIENT_INFO)?,
            log_level: self.read(LOG_LEVEL)?,
        }))
    }

    /// Sets the client's description of itself.
    pub fn set_client_meta(&mut self, client_meta: &ClientMeta) {
        self.insert(PROTOCOL_VERSION, &client_meta.protocol_version);
        self.insert(CLIENT_CAPABILITIES, &client_meta.client_capabilities);
        if let Some(client) = &client_meta.client_info {
            self.insert(CLIENT_INFO, client);
        }
        if let Some(level) = &client_meta.log_level {
            self.insert(LOG_LEVEL, level);
        }
    }

    /// The W3C trace context, as far as it is present and well-formed.
    pub fn trace_context(&self) -> TraceContext {
        let text = |key| self.get(key).and_then(|value| value.read::<String>().ok());
        TraceContext { traceparent: text(TRACEPARENT), tracestate: text(TRACESTATE), baggage: text(BAGGAGE) }
            .well_formed()
    }

    /// Sets the W3C trace context. Fails and sets nothing if a part of it is malformed.
    pub fn set_trace_context(&mut self, trace: &TraceContext) -> Result<(), MetaKeyError> {
        let members =
            [(TRACEPARENT, &trace.traceparent), (TRACESTATE, &trace.tracestate), (BAGGAGE, &trace.baggage)];
        let present = members.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        if let Some((key, _)) = present.clone().find(|(key, value)| !is_trace_value(key, value)) {
            return Err(MetaKeyError::new(key, MetaKeyFault::TraceValue));
        }
        for (key, value) in present {
            self.insert(key, value);
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, key: &'static str) -> Result<Option<T>, JsonError> {
        let value = self.get(key).map(RawJson::read).transpose();
        value.map_err(|error| JsonError::new(format!("`_meta` key `{key}`: {error}")))
    }
}

fn missing(key: &'static str) -> JsonError {
    JsonError::new(format!("`_meta` lacks `{key}`"))
}

/// The client's description of itself in each request of 2026-07-28.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientMeta {
    /// The version of the request.
    pub protocol_version: String,
    /// The client's capabilities, for this request only.
    pub client_capabilities: ClientCapabilities,
    /// The client's name and version.
    pub client_info: Option<Implementation>,
    /// The minimum level of log notifications; absent means no logs.
    pub log_level: Option<Level>,
}

impl ClientMeta {
    /// The required members; [`ClientMeta::for_revision`] does the same for a known revision.
    pub fn new(protocol_version: impl Into<String>, client_capabilities: ClientCapabilities) -> Self {
        Self {
            protocol_version: protocol_version.into(),
            client_capabilities,
            client_info: None,
            log_level: None,
        }
    }

    /// Sets the client's name and version.
    #[must_use]
    pub fn client_info(mut self, client: impl Into<Implementation>) -> Self {
        self.client_info = Some(client.into());
        self
    }

    /// Sets the minimum level of log notifications.
    #[must_use]
    pub fn log_level(mut self, level: Level) -> Self {
        self.log_level = Some(level);
        self
    }
}

/// Whether `value` may stand under one of the three trace keys.
pub(crate) fn is_trace_value(key: &str, value: &str) -> bool {
    match key {
        TRACEPARENT => trace_context::is_traceparent(value),
        TRACESTATE => trace_context::is_tracestate(value),
        _ => trace_context::is_baggage(value),
    }
}

/// Whether `key` follows the grammar of `_meta` keys: an optional prefix of dot-separated labels and a slash, then a
/// name.
///
/// Labels begin with a letter and end with a letter or digit, with hyphens inside; a name begins and ends alphanumeric,
/// with hyphens, underscores and dots inside, or is empty.
pub fn is_valid_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(|prefix| prefix.split('.').all(is_label)) && is_name(name)
}

/// The labels before the slash of a key; empty without a prefix.
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

/// The progress token.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The version of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The client's capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The minimum level of log notifications.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The server's name and version.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The id of the subscription a message belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task a message belongs to (2025-11-25).
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
            assert!(is_valid_key(good), "{good}");
        }
        for bad in ["/a", "1a/b", "a-/b", "a..b/c", "a/-b", "a/b.", "a b", "a/b/c", "é", "a_b/c"] {
            assert!(!is_valid_key(bad), "{bad}");
        }
        let ours = [
            [PROGRESS_TOKEN, PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO],
            [SUBSCRIPTION_ID, RELATED_TASK, TRACEPARENT, TRACESTATE, BAGGAGE, super::super::tasks::EXTENSION],
        ];
        assert!(ours.iter().flatten().all(|key| is_valid_key(key)));
    }

    #[test]
    fn client_meta_round_trips_and_errors_name_the_key() {
        let claims = ClientMeta::new("2026-07-28", ClientCapabilities::new())
            .client_info(Implementation::new("c", "1"))
            .log_level(Level::Warning);
        let mut meta = Meta::new();
        assert_eq!(meta.client_meta(), Ok(None));
        meta.set_client_meta(&claims);
        assert_eq!(meta.client_meta(), Ok(Some(claims)));
        meta.insert(LOG_LEVEL, "loud");
        assert!(meta.client_meta().unwrap_err().to_string().contains("logLevel"));
        meta.remove(LOG_LEVEL);
        meta.remove(CLIENT_CAPABILITIES);
        assert!(meta.client_meta().unwrap_err().to_string().contains("clientCapabilities"));
    }

    #[test]
    fn trace_context_round_trips() {
        // TRAC-003
        let mut meta = Meta::new();
        meta.insert(TRACEPARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let mut next = Meta::new();
        next.set_trace_context(&meta.trace_context()).unwrap();
        assert_eq!(next, meta);
        assert_eq!(next.trace_context().baggage, None);
    }

    #[test]
    fn tokens_of_any_size_are_kept_and_keys_are_unique() {
        // PROG-001
        for token in ["18446744073709551616", "\"a\"", "0"] {
            let meta: Meta = serde_json::from_str(&format!(r#"{{"progressToken":{token}}}"#)).unwrap();
            assert_eq!(serde_json::to_string(&meta.progress_token().unwrap()).unwrap(), token);
        }
        let meta: Meta = serde_json::from_str(r#"{"progressToken":1.5}"#).unwrap();
        assert_eq!(meta.progress_token(), None);
        assert!(serde_json::from_str::<Meta>(r#"{"a":1,"a":1}"#).is_err());
    }
}
