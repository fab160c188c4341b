//! Who is on the other side: name, version, and pictures.

use super::wire::{string_enum, wire};

wire! {
    /// A client or a server, as it presents itself. Never a basis for decisions.
    pub struct Implementation {
        /// For programs.
        name: String,
        /// Its own version, not that of the protocol.
        version: String,
    }
    optional {
        /// For people; `name` stands in for it.
        title: String,
        /// What it is, in a sentence.
        description: String,
        /// Where to read more.
        website_url: String,
        /// Pictures of it.
        icons: Vec<Icon>,
    }
}

wire! {
    /// A picture. Consumers take `https:` and `data:` sources only.
    pub struct Icon {
        /// Where it is.
        src: String,
    }
    optional {
        /// Its type, if the source does not tell.
        mime_type: String,
        /// Sizes it is good for, such as `48x48` or `any`.
        sizes: Vec<String>,
        /// The background it was drawn for.
        theme: Theme,
    }
}

string_enum! {
    /// A background.
    pub enum Theme {
        /// Bright.
        Light = "light",
        /// Dark.
        Dark = "dark",
    }
}
