//! The five published revisions, and the only code that knows how they differ.
//!
//! Everything else in Tsugite uses the shape of the newest revision ([`crate::protocol`]). [`write_request`],
//! [`write_notification`] and [`write_result`] encode a value for the peer's revision, and [`read_params`],
//! [`read_notification`] and [`read_result`] decode it. Messages that are forwarded from one peer to another are
//! translated as text by [`translate_raw_params`] and its siblings. Other modules do not compare revisions: they call the
//! methods below.

// Differences in shape are in the files of `shape`, one per family; which methods exist is in `methods`; error codes are in
// `rpc_error`.

mod error_text;
mod meta_keys;
mod methods;
mod negotiate;
mod rpc_error;
mod shape;
mod translate;
#[cfg(feature = "translate-raw")]
mod translate_raw;

use std::fmt;
use std::str::FromStr;

pub use error_text::ErrorText;
pub use methods::{BARE_DISCOVER, MessageSender, MethodInfo, MethodKind, canonical_method, methods};
pub use negotiate::Revisions;
pub(crate) use rpc_error::supported_versions;
pub use rpc_error::{InsufficientScope, RpcError, code};
pub use translate::{
    InferResultType, ServerInfoMeta, Translate, UnsupportedByRevisionError, read_initialize_params,
    read_input_response, read_notification, read_params, read_result, trim_initialize_params,
    write_input_response, write_notification, write_request, write_request_with_meta, write_result,
    write_result_in_place,
};
#[cfg(feature = "translate-raw")]
pub use translate_raw::{
    translate_raw_error, translate_raw_input_response, translate_raw_notification, translate_raw_params,
    translate_raw_result,
};

use crate::protocol::meta;

/// A published revision of the protocol, ordered by age. Exhaustive: a new revision needs new code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(alias("protocol_version", "ProtocolVersion"))]
pub enum Revision {
    /// Handshake, tools, resources, prompts, sampling; HTTP+SSE.
    V2024_11_05,
    /// Streamable HTTP, batches, tool annotations, audio.
    V2025_03_26,
    /// Elicitation, structured content, titles; no batches.
    V2025_06_18,
    /// Icons, URL elicitation, tools in sampling, tasks.
    V2025_11_25,
    /// Stateless: no handshake, no sessions, no requests from the server.
    V2026_07_28,
}

/// How a revision opens a connection and where its state lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// A handshake opens a session; both sides send requests.
    Handshake,
    /// Every request is self-contained; only the client sends requests.
    Stateless,
}

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Revision; 5] = [
        Revision::V2024_11_05,
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
        Revision::V2026_07_28,
    ];

    /// The oldest. Errors are encoded for it until a revision is negotiated.
    pub const OLDEST: Revision = Revision::V2024_11_05;

    /// The newest.
    pub const NEWEST: Revision = Revision::V2026_07_28;

    /// The newest with a handshake.
    pub const NEWEST_HANDSHAKE: Revision = Revision::V2025_11_25;

    /// The revision a server assumes for an HTTP request that names no version.
    pub const HTTP_DEFAULT: Revision = Revision::V2025_03_26;

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era it belongs to.
    pub const fn era(self) -> Era {
        match self {
            Revision::V2026_07_28 => Era::Stateless,
            _ => Era::Handshake,
        }
    }

    /// Whether it has no handshake.
    pub const fn is_stateless(self) -> bool {
        matches!(self.era(), Era::Stateless)
    }

    /// Whether it has batches.
    pub const fn has_batches(self) -> bool {
        matches!(self, Revision::V2025_03_26)
    }

    /// Whether a stream begins with an event that has only an id, so that it can be resumed before it has any data.
    pub fn primes_streams(self) -> bool {
        self == Revision::V2025_11_25
    }

    /// Whether an error whose id could not be read has `"id": null`; otherwise it has no id.
    pub fn writes_null_id(self) -> bool {
        self < Revision::V2025_11_25
    }

    /// Whether it has elicitation with a form.
    pub fn has_elicitation(self) -> bool {
        self >= Revision::V2025_06_18
    }

    /// Whether it has elicitation with a URL.
    pub fn has_url_elicitation(self) -> bool {
        self >= Revision::V2025_11_25
    }

    /// Whether sampling requests may have tools.
    pub fn has_sampling_tools(self) -> bool {
        self >= Revision::V2025_11_25
    }

    /// Whether completion must be declared as a capability.
    pub fn declares_completion(self) -> bool {
        self >= Revision::V2025_03_26
    }

    /// Whether tasks are part of the core protocol.
    pub fn has_core_tasks(self) -> bool {
        self == Revision::V2025_11_25
    }

    /// Whether this is the name of the revision.
    pub fn is_named(self, name: &str) -> bool {
        self.as_str() == name
    }

    /// Whether tasks are the extension `io.modelcontextprotocol/tasks`.
    pub fn has_task_extension(self) -> bool {
        self >= Revision::V2026_07_28
    }

    /// Whether a task whose tool failed is `failed`; otherwise it is `completed` with `isError`.
    pub fn tool_error_fails_task(self) -> bool {
        self.has_core_tasks()
    }

    /// Whether the specification reserves this `_meta` key.
    ///
    /// 2025-06-18 reserves prefixes with `modelcontextprotocol` or `mcp` before the last label, later revisions those
    /// with one of them as the second label. Older revisions have no rule.
    pub fn reserves_meta_key(self, key: &str) -> bool {
        let ours = |label: &str| matches!(label, "modelcontextprotocol" | "mcp");
        let unprefixed = [meta::PROGRESS_TOKEN, meta::TRACEPARENT, meta::TRACESTATE, meta::BAGGAGE];
        match self {
            Revision::V2024_11_05 | Revision::V2025_03_26 => false,
            Revision::V2025_06_18 => {
                let labels: Vec<_> = meta::prefix_labels(key).collect();
                labels.len().checked_sub(2).and_then(|at| labels.get(at)).is_some_and(|label| ours(label))
            }
            Revision::V2025_11_25 => meta::prefix_labels(key).nth(1).is_some_and(ours),
            Revision::V2026_07_28 => {
                meta::prefix_labels(key).nth(1).is_some_and(ours) || unprefixed.contains(&key)
            }
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of a published revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownRevisionError;

impl fmt::Display for UnknownRevisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a published revision of the Model Context Protocol")
    }
}

impl std::error::Error for UnknownRevisionError {}

impl FromStr for Revision {
    type Err = UnknownRevisionError;

    fn from_str(text: &str) -> Result<Self, UnknownRevisionError> {
        // Newest first, because most messages name one of the newest.
        Revision::ALL.into_iter().rev().find(|revision| revision.as_str() == text).ok_or(UnknownRevisionError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_and_round_trip() {
        // VER-036
        assert!(Revision::ALL.is_sorted());
        for revision in Revision::ALL {
            assert_eq!(revision.to_string().parse(), Ok(revision));
        }
        for unknown in ["", "2025-11-26", "2026-07-28 ", "DRAFT-2026-v1", "latest"] {
            assert_eq!(unknown.parse::<Revision>(), Err(UnknownRevisionError));
        }
    }

    #[test]
    fn reserved_meta_prefixes_differ_between_revisions() {
        // SCHM-005 the table of 2025-06-18, SCHM-006 the later one, TRAC-002 the keys without a prefix.
        let reserved = |key| Revision::ALL.map(|revision| revision.reserves_meta_key(key));
        assert_eq!(reserved("modelcontextprotocol.io/x"), [false, false, true, false, false]);
        assert_eq!(reserved("tools.mcp.com/x"), [false, false, true, true, true]);
        assert_eq!(reserved("io.modelcontextprotocol/x"), [false, false, false, true, true]);
        assert_eq!(reserved("com.example.mcp/x"), [false; 5]);
        assert_eq!(reserved("api.modelcontextprotocol.org/x"), [false, false, true, true, true]);
        assert_eq!(reserved("traceparent"), [false, false, false, false, true]);
        assert_eq!(reserved("mcp/x"), [false; 5]);
    }
}
