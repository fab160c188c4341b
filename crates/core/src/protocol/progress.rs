//! Progress: how far a request has come.

use super::Meta;
use super::wire::{has_meta, notification, wire};
use crate::jsonrpc::Id;

notification! {
    /// How far a request has come.
    Progress = "notifications/progress", ProgressParams
}

wire! {
    /// How far a request has come.
    pub struct ProgressParams {
        /// The token the request asked for progress under.
        progress_token: Id<'static>,
        /// How far; it rises with every notification.
        #[serde(with = "super::number::measure")]
        progress: f64,
    }
    optional {
        /// How far there is to go, if known.
        #[serde(with = "super::number::maybe_measure")]
        total: f64,
        /// What is going on, for people (from 2025-03-26).
        message: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(ProgressParams);
