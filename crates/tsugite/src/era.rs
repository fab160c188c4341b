//! The two eras of the protocol, which differ in behaviour as well as in the shape of messages.
//!
//! [`Era`] is asked wherever behaviour depends on the revision. What it does is in one place per side: `client/era` and
//! `server/era`. The bridge has one file for each pair of eras in `bridge/pairing`.

use tsugite_core::revision::{self, Revision};

/// The rules a connection follows. The core's [`Era`](revision::Era) only names them; this type has their behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25: `initialize`, sessions and requests of the server.
    Handshake,
    /// From 2026-07-28: no handshake; each request stands alone.
    Stateless,
}

impl From<Revision> for Era {
    fn from(revision: Revision) -> Self {
        match revision.era() {
            revision::Era::Handshake => Era::Handshake,
            revision::Era::Stateless => Era::Stateless,
        }
    }
}
