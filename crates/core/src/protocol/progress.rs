//! Progress notifications of a request.

use super::Meta;
use super::wire::{has_meta, notification, wire};
use crate::jsonrpc::Id;

notification! {
    /// Reports the progress of a request.
    Progress = "notifications/progress", ProgressParams
}

wire! {
    /// The progress of a request.
    #[doc(alias = "ProgressNotification")]
    pub struct ProgressParams {
        /// The progress token of the request.
        progress_token: Id<'static>,
        /// The progress so far; it increases with every notification.
        #[serde(with = "super::number::measure")]
        progress: f64,
    }
    optional {
        /// The total, if known.
        #[serde(with = "super::number::maybe_measure")]
        total: f64,
        /// A message for the user (from 2025-03-26).
        message: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(ProgressParams);
