//! Annotations of content and resources, and roles.

use super::wire::{string_enum, wire};

wire! {
    /// Hints about the use and display of an item. They are not binding.
    #[derive(Default)]
    pub struct Annotations {
    }
    optional {
        /// The intended audience.
        audience: Vec<Role>,
        /// The importance, from 0 (least) to 1 (in effect required).
        #[serde(with = "super::number::maybe_measure")]
        priority: f64,
        /// The time of the last change, ISO 8601.
        last_modified: String,
    }
}

string_enum! {
    /// The role of a speaker. The specification has only these two.
    pub enum Role {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}
