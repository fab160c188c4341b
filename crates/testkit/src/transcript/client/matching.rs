//! The members of a message that a client's transcript need not spell out.

use serde_json::{Value, json};

/// Removes members that every request may have and the transcript does not mention: the progress token, and on
/// 2026-07-28 the client's own `_meta` keys. In `raw` transcripts only empty params are removed.
pub(super) fn strip_client_meta(message: &mut Value, expected: &Value, raw: bool) {
    let Some(Value::Object(params)) = message.get_mut("params") else { return };
    if let (false, Some(Value::Object(meta))) = (raw, params.get_mut("_meta")) {
        let spoken_of = expected.pointer("/params/_meta").and_then(Value::as_object);
        meta.retain(|key, _| {
            !OPTIONAL_META_KEYS.contains(&key.as_str()) || spoken_of.is_some_and(|it| it.contains_key(key))
        });
        if meta.is_empty() && spoken_of.is_none() {
            params.remove("_meta");
        }
    }
    if params.is_empty()
        && expected.get("params").is_none()
        && let Value::Object(members) = message
    {
        members.remove("params");
    }
}

/// Adds the required members of a result of 2026-07-28.
pub(super) fn add_required_result_fields(message: &mut Value, method: Option<&str>) {
    let Some(Value::Object(result)) = message.get_mut("result") else { return };
    result.entry("resultType").or_insert(json!("complete"));
    if method.is_some_and(|method| CACHEABLE.contains(&method)) && result["resultType"] == "complete" {
        result.entry("ttlMs").or_insert(json!(0));
        result.entry("cacheScope").or_insert(json!("private"));
    }
}

pub(super) const META_PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const META_CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const META_CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const OPTIONAL_META_KEYS: [&str; 4] =
    ["progressToken", META_PROTOCOL_VERSION, META_CLIENT_CAPABILITIES, META_CLIENT_INFO];
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];
