//! Roots: the places the client lets the server work in.

use super::result::complete;
use super::wire::{has_meta, method, notification, wire};
use super::{EmptyParams, Meta};

method! {
    /// Which roots there are. On 2026-07-28 it travels inside a result.
    List = "roots/list", EmptyParams => ListResult
}

notification! {
    /// The list of roots has changed (up to 2025-11-25).
    ListChanged = "notifications/roots/list_changed", EmptyParams
}

wire! {
    /// The roots.
    pub struct ListResult {
        /// The roots.
        roots: Vec<Root>,
    }
    optional {
        /// Data beside the protocol (up to 2025-11-25).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A place to work in.
    pub struct Root {
        /// Where it is; a `file://` URI.
        uri: String,
    }
    optional {
        /// For people.
        name: String,
        /// Data beside the protocol (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

complete!(ListResult);
has_meta!(ListResult);
