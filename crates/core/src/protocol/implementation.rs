//! The name and version of a client or server, and icons.

use super::wire::{string_enum, wire};

wire! {
    /// A client or a server, as it describes itself. Not verified, so nothing may be decided by it.
    pub struct Implementation {
        /// The programmatic name.
        name: String,
        /// The version of the implementation, not of the protocol.
        version: String,
    }
    optional {
        /// The display name; the default is `name`.
        title: String,
        /// A description in one sentence.
        description: String,
        /// The website.
        website_url: String,
        /// Icons.
        icons: Vec<Icon>,
    }
}

/// A name and a version.
impl<N: Into<String>, V: Into<String>> From<(N, V)> for Implementation {
    fn from((name, version): (N, V)) -> Self {
        Self::new(name, version)
    }
}

wire! {
    /// An icon. Only `https:` and `data:` sources are allowed.
    pub struct Icon {
        /// The source.
        src: String,
    }
    optional {
        /// The MIME type, if the source does not have one.
        mime_type: String,
        /// The sizes it is suitable for, such as `48x48` or `any`.
        sizes: Vec<String>,
        /// The background it was designed for.
        theme: Theme,
    }
}

string_enum! {
    /// A background.
    pub enum Theme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}
