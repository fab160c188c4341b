//! Cancellation: a request is no longer wanted.

use super::Meta;
use super::wire::{has_meta, notification, wire};
use crate::jsonrpc::Id;

notification! {
    /// A request is no longer wanted.
    Cancelled = "notifications/cancelled", CancelledParams
}

wire! {
    /// Which request, and why.
    #[derive(Default)]
    pub struct CancelledParams {
    }
    optional {
        /// The request. Every revision needs it but for tasks on 2025-11-25; without it the notice is ignored.
        request_id: Id<'static>,
        /// Why, for the log.
        reason: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(CancelledParams);
