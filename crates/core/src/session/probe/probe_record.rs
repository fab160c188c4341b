//! What is remembered of a server, so that the next connection needs no probe.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::revision::Revision;

/// What was found out about a server. It can be stored as JSON, for each command line or URL.
///
/// A verdict that turns out wrong is found out again. But one of the handshake era keeps working with a server that
/// has learnt a newer revision meanwhile, so whoever stores it forgets it after a while.
///
/// ```
/// use tsugite_core::revision::Revision;
/// use tsugite_core::session::probe::{TransportKind, ProbeRecord};
///
/// let verdict = ProbeRecord::new(Revision::V2024_11_05, TransportKind::HttpSse);
/// let stored = serde_json::to_string(&verdict)?;
/// assert_eq!(stored, r#"{"revision":"2024-11-05","transport":"http+sse"}"#);
/// assert_eq!(serde_json::from_str::<ProbeRecord>(&stored)?, verdict);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProbeRecord {
    /// The revision that was agreed.
    #[serde(serialize_with = "write_revision", deserialize_with = "read_revision")]
    pub revision: Revision,
    /// What carried it.
    pub transport: TransportKind,
}

/// What carries messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TransportKind {
    /// HTTP with one path for everything (from 2025-03-26).
    StreamableHttp,
    /// HTTP with a stream and a path to post to (2024-11-05).
    #[serde(rename = "http+sse")]
    HttpSse,
    /// Standard input and output of a process.
    Stdio,
}

impl ProbeRecord {
    /// A server that speaks `revision` over `transport`.
    pub fn new(revision: Revision, transport: TransportKind) -> Self {
        Self { revision, transport }
    }
}

fn write_revision<S: Serializer>(revision: &Revision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(revision.as_str())
}

fn read_revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Revision, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_is_read_back_as_it_was_stored() {
        for revision in Revision::ALL {
            for transport in [TransportKind::StreamableHttp, TransportKind::HttpSse, TransportKind::Stdio] {
                let verdict = ProbeRecord::new(revision, transport);
                let stored = serde_json::to_string(&verdict).unwrap();
                assert_eq!(serde_json::from_str::<ProbeRecord>(&stored).unwrap(), verdict, "{stored}");
            }
        }
    }

    #[test]
    fn a_stored_verdict_may_say_more_but_must_name_a_revision_and_a_transport() {
        let read = |stored: &str| serde_json::from_str::<ProbeRecord>(stored).ok();
        let verdict = ProbeRecord::new(Revision::V2025_11_25, TransportKind::StreamableHttp);
        let more = r#"{"age":7,"transport":"streamable-http","revision":"2025-11-25","what":{}}"#;
        assert_eq!(read(more), Some(verdict));
        for bad in [
            "{}",
            r#"{"revision":"2025-11-25"}"#,
            r#"{"transport":"stdio"}"#,
            r#"{"revision":"2025-11-26","transport":"stdio"}"#,
            r#"{"revision":"","transport":"stdio"}"#,
            r#"{"revision":3,"transport":"stdio"}"#,
            r#"{"revision":"2025-11-25","transport":"pigeon"}"#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
