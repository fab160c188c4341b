//! The stored result of a probe, so that the next connection needs none.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::revision::Revision;

/// The result of a probe. It can be stored as JSON, per command line or URL.
///
/// A record that turns out wrong leads to a new probe. But one of the handshake era keeps working with a server that
/// supports a newer revision by now, so discard records after a while.
///
/// ```
/// use tsugite_core::revision::Revision;
/// use tsugite_core::session::probe::{TransportKind, ProbeRecord};
///
/// let record = ProbeRecord::new(Revision::V2024_11_05, TransportKind::HttpSse);
/// let stored = serde_json::to_string(&record)?;
/// assert_eq!(stored, r#"{"revision":"2024-11-05","transport":"http+sse"}"#);
/// assert_eq!(serde_json::from_str::<ProbeRecord>(&stored)?, record);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProbeRecord {
    /// The negotiated revision.
    #[serde(serialize_with = "write_revision", deserialize_with = "read_revision")]
    pub revision: Revision,
    /// The transport it was negotiated over.
    pub transport: TransportKind,
}

/// A kind of transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TransportKind {
    /// Streamable HTTP, with one endpoint (from 2025-03-26).
    StreamableHttp,
    /// HTTP+SSE, with a stream and an endpoint to post to (2024-11-05).
    #[serde(rename = "http+sse")]
    HttpSse,
    /// The standard input and output of a process.
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
    fn record_round_trips_through_json() {
        for revision in Revision::ALL {
            for transport in [TransportKind::StreamableHttp, TransportKind::HttpSse, TransportKind::Stdio] {
                let record = ProbeRecord::new(revision, transport);
                let stored = serde_json::to_string(&record).unwrap();
                assert_eq!(serde_json::from_str::<ProbeRecord>(&stored).unwrap(), record, "{stored}");
            }
        }
    }

    #[test]
    fn stored_record_needs_revision_and_transport() {
        let read = |stored: &str| serde_json::from_str::<ProbeRecord>(stored).ok();
        let record = ProbeRecord::new(Revision::V2025_11_25, TransportKind::StreamableHttp);
        let more = r#"{"age":7,"transport":"streamable-http","revision":"2025-11-25","what":{}}"#;
        assert_eq!(read(more), Some(record));
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
