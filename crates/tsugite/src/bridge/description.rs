//! How a server describes itself in its handshake, kept so that later clients need no connection to be told.
//!
//! A description is kept for each server and each [`CapabilitySet`]. A server may answer a client that can be asked in
//! another way than one that cannot, so these are part of the key. The name of a client, its experimental capabilities and
//! its extensions are not: a client can make up any number of them, and each would start a child process. The revision of
//! a client is not either, because the server does not see it: the bridge negotiates its own.

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::discover::DiscoverResult;
use tsugite_core::protocol::{ClientCapabilities, Implementation, ServerCapabilities};
use tsugite_core::revision::Revision;

use crate::client::Client;

/// The result of a server's handshake.
#[derive(Debug)]
pub(super) struct ServerDescription {
    /// The revision in which the result is written.
    pub(super) revision: Revision,
    pub(super) result: RawJson,
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: Option<ServerCapabilities>,
    pub(super) instructions: Option<String>,
}

impl ServerDescription {
    /// The description on an open connection; `None` if the server was not asked for it.
    pub(super) fn from_client(client: &Client) -> Option<Self> {
        Some(Self {
            revision: client.revision(),
            result: client.handshake_result()?,
            info: client.server_info(),
            capabilities: client.server_capabilities(),
            instructions: client.instructions(),
        })
    }

    /// The description in a `server/discover` result; `None` if it cannot be read.
    pub(super) fn from_discover_result(result: RawJson, revision: Revision) -> Option<Self> {
        let found: DiscoverResult = result.read().ok()?;
        let info = found.meta.as_ref().and_then(|meta| meta.server_info());
        let (capabilities, instructions) = (Some(found.capabilities), found.instructions);
        Some(Self { revision, result, info, capabilities, instructions })
    }

    /// Whether clients are told the same. Other members, such as `_meta`, may differ each time.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.info == other.info
            && self.capabilities == other.capabilities
            && self.instructions == other.instructions
    }
}

/// The capabilities of the specification that a client declares, without their settings: 16 sets in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CapabilitySet {
    roots: bool,
    sampling: bool,
    elicitation: bool,
    tasks: bool,
}

impl From<&ClientCapabilities> for CapabilitySet {
    fn from(declared: &ClientCapabilities) -> Self {
        Self {
            roots: declared.roots.is_some(),
            sampling: declared.sampling.is_some(),
            elicitation: declared.elicitation.is_some(),
            tasks: declared.tasks.is_some(),
        }
    }
}
