//! W3C Trace Context and Baggage: the three values that `_meta` carries, and their formats.

/// A W3C trace context as `_meta` carries it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceContext {
    /// The parent span.
    pub traceparent: Option<String>,
    /// Vendor-specific data.
    pub tracestate: Option<String>,
    /// Application-specific data.
    pub baggage: Option<String>,
}

impl TraceContext {
    /// The trace context without its malformed parts. `tracestate` goes with `traceparent` (Trace Context, "Processing
    /// Model").
    pub(super) fn well_formed(self) -> Self {
        let traceparent = self.traceparent.filter(|value| is_traceparent(value));
        let tracestate = self.tracestate.filter(|value| traceparent.is_some() && is_tracestate(value));
        Self { traceparent, tracestate, baggage: self.baggage.filter(|value| is_baggage(value)) }
    }
}

/// Whether `value` is a `traceparent`: version, trace id, parent id and flags in lower-case hexadecimal digits.
pub(crate) fn is_traceparent(value: &str) -> bool {
    let mut parts = value.splitn(5, '-');
    let mut next = |digits: usize| parts.next().filter(|part| part.len() == digits && is_hex(part));
    let (Some(version), Some(trace_id), Some(parent_id), Some(_flags)) =
        (next(2), next(32), next(16), next(2))
    else {
        return false;
    };
    let is_zero = |id: &str| id.bytes().all(|byte| byte == b'0');
    // Version 00 ends here; a later version may add parts.
    let is_complete = parts.next().is_none() || version != "00";
    version != "ff"
        && !is_zero(trace_id)
        && !is_zero(parent_id)
        && is_complete
        && value.len() <= MAX_TRACEPARENT_BYTES
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `value` is a `tracestate`: at most 32 different keys with values.
pub(crate) fn is_tracestate(value: &str) -> bool {
    let mut keys = Vec::new();
    for member in value.split(',').map(trim).filter(|member| !member.is_empty()) {
        let Some((key, value)) = member.split_once('=') else { return false };
        if !is_state_key(key) || !is_state_value(value) || keys.contains(&key) || keys.len() == MAX_STATES {
            return false;
        }
        keys.push(key);
    }
    !keys.is_empty() && value.len() <= MAX_LIST_BYTES
}

fn is_state_key(key: &str) -> bool {
    let is_inside = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    key.len() <= 256
        && key.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && key.bytes().all(is_inside)
}

fn is_state_value(value: &str) -> bool {
    let is_inside = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    (1..=256).contains(&value.len()) && !value.ends_with(' ') && value.bytes().all(is_inside)
}

/// Whether `value` is `baggage`: keys with values, each with properties after semicolons.
pub(crate) fn is_baggage(value: &str) -> bool {
    let is_member = |member: &str| {
        let mut parts = member.split(';').map(trim);
        let is_entry = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            is_token(trim(key)) && trim(value).bytes().all(is_baggage_byte)
        };
        parts.next().is_some_and(|entry| entry.contains('=') && is_entry(entry)) && parts.all(is_entry)
    };
    value.len() <= MAX_LIST_BYTES && value.split(',').map(trim).all(is_member)
}

fn is_token(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_baggage_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// The limit of a `traceparent`, which has 55 bytes in version 00.
const MAX_TRACEPARENT_BYTES: usize = 256;
/// The entries that a `tracestate` may have (Trace Context, "list").
const MAX_STATES: usize = 32;
/// The bytes of baggage that every platform passes on (Baggage, "Limits"); also our limit for `tracestate`.
const MAX_LIST_BYTES: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn trace_values_follow_their_formats() {
        // TRAC-001
        for good in [PARENT, "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"] {
            assert!(is_traceparent(good), "{good}");
        }
        for bad in [
            "",
            "x",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert!(!is_traceparent(bad), "{bad}");
        }
        for good in ["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a@b=1 , c/d=x y", "a=1,,b=2"] {
            assert!(is_tracestate(good), "{good}");
        }
        for bad in ["", ",", "a", "A=1", "a=", "a=1,a=2", "a=b=c", "a=\u{e9}"] {
            assert!(!is_tracestate(bad), "{bad}");
        }
        for good in ["userId=alice", "a=1;p;q=2 , b = %20", "a="] {
            assert!(is_baggage(good), "{good}");
        }
        for bad in ["", "a", "a=1,", "a=\"1\"", "a b=1", "a=1;=2", "a=\u{e9}"] {
            assert!(!is_baggage(bad), "{bad}");
        }
    }

    #[test]
    fn long_trace_values_are_malformed() {
        // F-38
        let entries = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert!(is_tracestate(&entries(MAX_STATES)));
        assert!(!is_tracestate(&entries(MAX_STATES + 1)));
        assert!(is_baggage(&format!("a={}", "b".repeat(MAX_LIST_BYTES - 2))));
        assert!(!is_baggage(&format!("a={}", "b".repeat(MAX_LIST_BYTES - 1))));
        let longest = |bytes: usize| format!("01-{}-{}", &PARENT[3..], "x".repeat(bytes - PARENT.len() - 1));
        assert!(is_traceparent(&longest(MAX_TRACEPARENT_BYTES)));
        assert!(!is_traceparent(&longest(MAX_TRACEPARENT_BYTES + 1)));
    }

    #[test]
    fn state_without_a_parent_is_dropped() {
        let parts = |traceparent: &str| TraceContext {
            traceparent: Some(traceparent.to_owned()),
            tracestate: Some("a=1".to_owned()),
            baggage: Some("b=1".to_owned()),
        };
        assert_eq!(parts(PARENT).well_formed(), parts(PARENT));
        let baggage_only = TraceContext { baggage: Some("b=1".to_owned()), ..TraceContext::default() };
        assert_eq!(parts("x").well_formed(), baggage_only);
    }
}
