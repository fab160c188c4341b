//! The original sender of a forwarded request.

use tsugite_core::protocol::logging::Level;
use tsugite_core::session::ClientMetaPresence;

/// The original sender of a forwarded request, as far as its `_meta` depends on it.
#[derive(Clone)]
pub(super) struct ForwardedSender {
    /// How completely `_meta` describes the sender.
    pub(super) meta_presence: ClientMetaPresence,
    /// The log level the sender wants, in an era where each request says so.
    pub(super) log_level: Option<Level>,
    /// Whether the connection also carries requests of other senders.
    pub(super) shared_connection: bool,
}

impl ForwardedSender {
    pub(super) fn new(meta_presence: ClientMetaPresence) -> Self {
        Self { meta_presence, log_level: None, shared_connection: false }
    }
}
