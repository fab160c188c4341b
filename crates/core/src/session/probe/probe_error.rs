//! The reasons why a probe fails.

use std::fmt;

use crate::jsonrpc::{ErrorObject, JsonError};
use crate::revision::Revisions;

/// The reason why a probe failed.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeError {
    /// The policy has no revisions.
    NoRevisions,
    /// No revision is supported by both sides.
    NoCommonRevision {
        /// The server's revisions, as it wrote them.
        theirs: Vec<String>,
        /// The revisions that were probed for.
        ours: Revisions,
    },
    /// The server requires a handshake, and only stateless revisions were probed for.
    HandshakeRequired {
        /// The revisions that were probed for.
        ours: Revisions,
    },
    /// The server has no handshake and no `server/discover`, which every stateless server must have.
    NoDiscover(ErrorObject),
    /// The server rejected the request, and there is no other to try.
    Rejected(ErrorObject),
    /// The response is malformed.
    InvalidResponse(JsonError),
    /// An HTTP status that does not reveal the server's era.
    HttpStatus(u16),
    /// There was no response.
    NoResponse,
    /// The server's process exited.
    Exited,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::NoRevisions => {
                f.write_str("no revisions to probe for: the policy excludes all supported ones")
            }
            ProbeError::NoCommonRevision { theirs, ours } => {
                f.write_str("no common revision: the server supports ")?;
                write_names(f, theirs.iter().map(String::as_str))?;
                f.write_str(", the client wants ")?;
                write_names(f, ours.names().into_iter())
            }
            ProbeError::HandshakeRequired { ours } => {
                f.write_str("the server requires a handshake, the client wants ")?;
                write_names(f, ours.names().into_iter())
            }
            ProbeError::NoDiscover(error) => {
                write!(f, "the server has neither `server/discover` nor a handshake: {error}")
            }
            ProbeError::Rejected(error) => write!(f, "the server rejected the request: {error}"),
            ProbeError::InvalidResponse(error) => write!(f, "the server's response is malformed: {error}"),
            ProbeError::HttpStatus(status) => write!(f, "the server responded with HTTP status {status}"),
            ProbeError::NoResponse => f.write_str("the server did not respond"),
            ProbeError::Exited => f.write_str("the server's process exited"),
        }
    }
}

impl std::error::Error for ProbeError {}

/// Writes version names, truncated: they come from the peer.
fn write_names<'a>(f: &mut fmt::Formatter<'_>, mut names: impl Iterator<Item = &'a str>) -> fmt::Result {
    const MAX_NAMES: usize = 8;
    const MAX_NAME_CHARS: usize = 20;
    let mut separator = "";
    for name in names.by_ref().take(MAX_NAMES) {
        f.write_str(separator)?;
        match name.char_indices().nth(MAX_NAME_CHARS) {
            Some((at, _)) => write!(f, "{}…", name.get(..at).unwrap_or_default())?,
            None => f.write_str(name)?,
        }
        separator = ", ";
    }
    match (separator, names.next()) {
        ("", _) => f.write_str("none"),
        (_, Some(_)) => f.write_str(", …"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::Revision;

    #[test]
    fn error_names_both_sides_and_truncates() {
        let said = |theirs: Vec<String>| {
            let ours = Revisions::NONE.with(Revision::V2025_11_25).with(Revision::V2026_07_28);
            ProbeError::NoCommonRevision { theirs, ours }.to_string()
        };
        assert_eq!(
            said(vec!["2027-01-01".into(), "draft".into()]),
            "no common revision: the server supports 2027-01-01, draft, the client wants 2026-07-28, 2025-11-25"
        );
        assert!(said(vec![]).contains("the server supports none, the client"));
        let long = said(vec!["é".repeat(10_000); 10_000]);
        assert!(
            long.contains(&format!("{}…, é", "é".repeat(20))) && long.contains("…, …, the client"),
            "{long}"
        );
        assert!(long.len() < 600);
    }
}
