//! Cancellation of a request.

use super::Meta;
use super::wire::{has_meta, notification, wire};
use crate::jsonrpc::Id;

notification! {
    /// Cancels a request.
    Cancelled = "notifications/cancelled", CancelledParams
}

wire! {
    /// The cancelled request, and the reason.
    #[derive(Default)]
    pub struct CancelledParams {
    }
    optional {
        /// The request. Required except for tasks on 2025-11-25; a notification without it is ignored.
        request_id: Id<'static>,
        /// The reason, for the log.
        reason: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(CancelledParams);
