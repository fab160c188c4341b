//! Pagination: lists come in pages, with opaque cursors.

use super::Meta;
use super::wire::{has_meta, wire};

wire! {
    /// The page of a list.
    #[derive(Default)]
    pub struct PaginatedParams {
    }
    optional {
        /// The cursor from the previous page; absent for the first. The empty string is a valid cursor.
        cursor: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(PaginatedParams);
