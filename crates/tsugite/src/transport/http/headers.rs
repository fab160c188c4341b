//! Header values: headers that must not be repeated, `Accept` and `Content-Type`, and headers as handlers see them.

use http::{HeaderMap, HeaderValue};
use tsugite_core::session::http::OptionalHeader;

use crate::server::HeaderSource;

/// A header that must not be repeated.
#[derive(Default)]
pub(super) enum SingleHeader {
    #[default]
    Absent,
    Once(HeaderValue),
    Repeated,
}

impl SingleHeader {
    /// Adds a value of this header.
    pub(super) fn add(&mut self, value: &HeaderValue) {
        *self = match self {
            SingleHeader::Absent => SingleHeader::Once(value.clone()),
            SingleHeader::Once(_) | SingleHeader::Repeated => SingleHeader::Repeated,
        };
    }

    /// The bytes of the only value.
    pub(super) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            SingleHeader::Once(value) => Some(value.as_bytes()),
            SingleHeader::Absent | SingleHeader::Repeated => None,
        }
    }

    /// The text of the only value. Ambiguous if it is repeated or not ASCII.
    pub(super) fn to_text(&self) -> OptionalHeader<'_> {
        match self {
            SingleHeader::Absent => OptionalHeader::Absent,
            SingleHeader::Once(value) => {
                ascii(value).map_or(OptionalHeader::Ambiguous, OptionalHeader::Present)
            }
            SingleHeader::Repeated => OptionalHeader::Ambiguous,
        }
    }
}

/// The text of a value. A `HeaderValue` has no control characters, so this accepts what its `to_str` accepts.
fn ascii(value: &HeaderValue) -> Option<&str> {
    value.as_bytes().is_ascii().then(|| std::str::from_utf8(value.as_bytes()).ok()).flatten()
}

/// The media types that `Accept` allows for the response.
#[derive(Clone, Copy, Default)]
pub(super) struct AcceptHeader {
    json: bool,
    events: bool,
    is_present: bool,
}

impl AcceptHeader {
    /// Adds a value of this header.
    pub(super) fn add(&mut self, value: &[u8]) {
        self.is_present = true;
        // The value that nearly all clients send.
        if value == b"application/json, text/event-stream" {
            (self.json, self.events) = (true, true);
            return;
        }
        for range in value.split(|byte| *byte == b',') {
            let mut parts = range.split(|byte| *byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            let is_excluded =
                parts.any(|part| matches!(part.trim_ascii(), b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"));
            if is_excluded {
                continue;
            }
            self.json |= is(b"application/json") || is(b"application/*") || is(b"*/*");
            self.events |= is(b"text/event-stream") || is(b"text/*") || is(b"*/*");
        }
    }

    /// Whether the response may be an event stream. A request without `Accept` allows everything.
    pub(super) fn allows_events(self) -> bool {
        self.events || !self.is_present
    }

    /// Whether the response may be JSON.
    pub(super) fn allows_json(self) -> bool {
        self.json || !self.is_present
    }
}

/// Whether a `Content-Type` is `application/json`, with or without parameters.
pub(super) fn is_json(content_type: &[u8]) -> bool {
    content_type == b"application/json" || {
        let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(b"application/json")
    }
}

impl HeaderSource for HeaderMap {
    fn single(&self, name: &str) -> OptionalHeader<'_> {
        let mut values = self.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => OptionalHeader::Absent,
            (Some(value), None) => ascii(value).map_or(OptionalHeader::Ambiguous, OptionalHeader::Present),
            (Some(_), Some(_)) => OptionalHeader::Ambiguous,
        }
    }

    fn values(&self, name: &str) -> Vec<&str> {
        self.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.iter()
            .filter_map(|(name, value)| value.to_str().ok().map(|value| (name.as_str(), value)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_read_leniently() {
        for (value, json, events) in [
            ("application/json, text/event-stream", true, true),
            ("text/event-stream,application/json", true, true),
            ("*/*", true, true),
            ("application/*;q=0.5, text/*", true, true),
            ("Application/JSON", true, false),
            ("text/event-stream", false, true),
            ("application/json;q=0, text/event-stream", false, true),
            ("application/jsonx", false, false),
            ("", false, false),
        ] {
            let mut accept = AcceptHeader::default();
            accept.add(value.as_bytes());
            assert_eq!((accept.json, accept.events), (json, events), "{value}");
        }
    }
}
