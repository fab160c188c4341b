//! Roots: the directories a client exposes to the server.

use super::result::complete;
use super::wire::{has_meta, method, notification, wire};
use super::{EmptyParams, Meta};

method! {
    /// Lists the roots. On 2026-07-28 it is part of a result.
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
        /// Metadata, `_meta` (up to 2025-11-25).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A directory to work in.
    pub struct Root {
        /// The URI; it begins with `file://`.
        uri: String,
    }
    optional {
        /// The display name.
        name: String,
        /// Metadata, `_meta` (from 2025-06-18).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl Root {
    /// Whether the URI is that of a file or a directory. The specification allows no other.
    pub fn is_file(&self) -> bool {
        self.uri.get(..FILE_SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(FILE_SCHEME))
    }
}

const FILE_SCHEME: &str = "file://";

complete!(ListResult);
has_meta!(ListResult);
