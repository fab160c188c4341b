//! Rules that decide which items a caller may see.

use std::sync::Arc;

use super::principal::Principal;
use crate::shared::list_kind::ListKind;

/// The facts about an item on which a visibility rule decides.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ItemInfo<'a> {
    /// The kind of the item.
    pub kind: ListKind,
    /// The name, URI or URI template.
    pub name: &'a str,
    /// The tags.
    pub tags: &'a [String],
}

impl ItemInfo<'_> {
    /// Whether the item has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known == tag)
    }
}

/// Decides whether a caller may see an item.
pub(crate) type VisibilityRule = Arc<dyn Fn(Option<&Principal>, &ItemInfo<'_>) -> bool + Send + Sync>;
