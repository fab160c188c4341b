//! Why no common ground was found.

use std::fmt;

use crate::jsonrpc::{ErrorObject, JsonError};
use crate::revision::Revisions;

/// Why no common ground was found.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeError {
    /// There is no revision we could look for.
    NoRevisions,
    /// No revision is spoken by both sides.
    NoCommonRevision {
        /// What the server names, as it wrote it.
        theirs: Vec<String>,
        /// What we were looking for.
        ours: Revisions,
    },
    /// The server wants a handshake, and we look only for revisions without.
    HandshakeRequired {
        /// What we were looking for.
        ours: Revisions,
    },
    /// The server has no handshake, and no `server/discover` either, which every server without a handshake must have.
    NoDiscover(ErrorObject),
    /// The server refused what was asked, and there is nothing else to try.
    Rejected(ErrorObject),
    /// The answer is not what it must be.
    InvalidResponse(JsonError),
    /// An HTTP status that says nothing of the server's era, or nothing better.
    HttpStatus(u16),
    /// No answer came.
    NoResponse,
    /// The server's process ended.
    Exited,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::NoRevisions => f.write_str("there is no revision to look for"),
            ProbeError::NoCommonRevision { theirs, ours } => {
                f.write_str("no common revision: the server speaks ")?;
                write_names(f, theirs.iter().map(String::as_str))?;
                f.write_str(", we look for ")?;
                write_names(f, ours.names().into_iter())
            }
            ProbeError::HandshakeRequired { ours } => {
                f.write_str("the server wants a handshake, we look for ")?;
                write_names(f, ours.names().into_iter())
            }
            ProbeError::NoDiscover(error) => {
                write!(f, "the server has neither `server/discover` nor a handshake: {error}")
            }
            ProbeError::Rejected(error) => write!(f, "the server refused: {error}"),
            ProbeError::InvalidResponse(error) => write!(f, "the server's answer cannot be read: {error}"),
            ProbeError::HttpStatus(status) => write!(f, "the server answered with the HTTP status {status}"),
            ProbeError::NoResponse => f.write_str("the server does not answer"),
            ProbeError::Exited => f.write_str("the server's process has ended"),
        }
    }
}

impl std::error::Error for ProbeError {}

/// Names of versions, but never more of what a peer sent than helps.
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
    fn a_failure_names_both_sides_and_echoes_little() {
        let said = |theirs: Vec<String>| {
            let ours = Revisions::NONE.with(Revision::V2025_11_25).with(Revision::V2026_07_28);
            ProbeError::NoCommonRevision { theirs, ours }.to_string()
        };
        assert_eq!(
            said(vec!["2027-01-01".into(), "draft".into()]),
            "no common revision: the server speaks 2027-01-01, draft, we look for 2026-07-28, 2025-11-25"
        );
        assert!(said(vec![]).contains("the server speaks none, we"));
        let long = said(vec!["é".repeat(10_000); 10_000]);
        assert!(long.contains(&format!("{}…, é", "é".repeat(20))) && long.contains("…, …, we"), "{long}");
        assert!(long.len() < 600);
    }
}
