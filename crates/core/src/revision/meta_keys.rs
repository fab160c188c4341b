//! The `_meta` keys that an application may set: well-formed ones that no revision reserves.

use super::Revision;
use crate::jsonrpc::RawJson;
use crate::protocol::meta::{self, BAGGAGE, PROGRESS_TOKEN, TRACEPARENT, TRACESTATE};
use crate::protocol::meta_key_error::MetaKeyFault;
use crate::protocol::{Meta, MetaKeyError};

impl Meta {
    /// Checks the keys that an application sets.
    ///
    /// Fails if a key is malformed or reserved by any revision, since the peer may speak any of them. `progressToken` and
    /// the W3C trace keys may be set; a trace value must be well-formed. `allowed` lists the reserved keys that the
    /// application may set in this place.
    ///
    /// ```
    /// use tsugite_core::protocol::Meta;
    ///
    /// let mut meta = Meta::new();
    /// meta.insert("com.example/shelf", "top");
    /// assert!(meta.check_user_keys(&[]).is_ok());
    /// meta.insert("io.modelcontextprotocol/shelf", "top");
    /// assert!(meta.check_user_keys(&[]).is_err());
    /// ```
    pub fn check_user_keys(&self, allowed: &[&str]) -> Result<(), MetaKeyError> {
        self.iter().try_for_each(|(key, value)| check_user_key(key, value, allowed))
    }
}

fn check_user_key(key: &str, value: &RawJson, allowed: &[&str]) -> Result<(), MetaKeyError> {
    let fault = if key == PROGRESS_TOKEN || allowed.contains(&key) {
        None
    } else if [TRACEPARENT, TRACESTATE, BAGGAGE].contains(&key) {
        let is_valid = value.read::<String>().is_ok_and(|value| meta::is_trace_value(key, &value));
        (!is_valid).then_some(MetaKeyFault::TraceValue)
    } else if !meta::is_valid_key(key) {
        Some(MetaKeyFault::Malformed)
    } else {
        let is_reserved = Revision::ALL.into_iter().any(|revision| revision.reserves_meta_key(key));
        is_reserved.then_some(MetaKeyFault::Reserved)
    };
    fault.map_or(Ok(()), |fault| Err(MetaKeyError::new(key, fault)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TraceContext;
    use crate::protocol::meta::SERVER_INFO;

    fn check(key: &str, value: &str) -> Result<(), MetaKeyError> {
        let mut meta = Meta::new();
        meta.insert(key, value);
        meta.check_user_keys(&[SERVER_INFO])
    }

    #[test]
    fn only_free_and_well_formed_keys_may_be_set() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for (key, value) in [
            ("com.example/a", ""),
            ("com.example.mcp/a", ""),
            ("plain", ""),
            (PROGRESS_TOKEN, "p"),
            (SERVER_INFO, ""),
            (TRACEPARENT, parent),
            (TRACESTATE, "a=1"),
            (BAGGAGE, "a=1"),
        ] {
            assert_eq!(check(key, value), Ok(()), "{key}");
        }
        for (key, value, fault) in [
            ("a/b/c", "", MetaKeyFault::Malformed),
            ("1a/b", "", MetaKeyFault::Malformed),
            ("a/b.", "", MetaKeyFault::Malformed),
            ("io.modelcontextprotocol/a", "", MetaKeyFault::Reserved),
            ("modelcontextprotocol.io/a", "", MetaKeyFault::Reserved),
            ("tools.mcp.com/a", "", MetaKeyFault::Reserved),
            (TRACEPARENT, "x", MetaKeyFault::TraceValue),
            (BAGGAGE, "x", MetaKeyFault::TraceValue),
        ] {
            assert_eq!(check(key, value), Err(MetaKeyError::new(key, fault)));
        }
    }

    #[test]
    fn malformed_trace_context_is_not_set() {
        // TRAC-001
        let trace = TraceContext { baggage: Some("x".to_owned()), ..TraceContext::default() };
        let mut meta = Meta::new();
        assert_eq!(meta.set_trace_context(&trace), Err(MetaKeyError::new(BAGGAGE, MetaKeyFault::TraceValue)));
        assert!(meta.is_empty());
    }
}
