//! Hints on content and resources, and who speaks.

use super::wire::{string_enum, wire};

wire! {
    /// Hints for whoever shows or uses the thing they stand on. They bind nobody.
    #[derive(Default)]
    pub struct Annotations {
    }
    optional {
        /// Whom it is for.
        audience: Vec<Role>,
        /// From 0, least important, to 1, in effect required.
        #[serde(with = "super::number::maybe_measure")]
        priority: f64,
        /// When it last changed, as an ISO 8601 string.
        last_modified: String,
    }
}

string_enum! {
    /// Who speaks. The specification knows these two alone.
    pub enum Role {
        /// The person, or whoever speaks for them.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}
