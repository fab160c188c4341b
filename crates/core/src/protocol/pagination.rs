//! Pagination: lists come in pages, by opaque cursors.

use super::Meta;
use super::wire::{has_meta, wire};

wire! {
    /// Which page of a list.
    #[derive(Default)]
    pub struct PaginatedParams {
    }
    optional {
        /// Where it begins, as an earlier page said; absent for the first. The empty string is a cursor like any other.
        cursor: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(PaginatedParams);
