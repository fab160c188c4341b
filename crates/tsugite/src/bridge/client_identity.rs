//! The client that a server sees on a connection of the bridge.

use tsugite_core::protocol::{ClientCapabilities, Implementation};

/// The name and capabilities with which a connection is opened.
#[derive(Clone)]
pub(super) struct ClientIdentity {
    pub(super) info: Implementation,
    pub(super) capabilities: ClientCapabilities,
}
