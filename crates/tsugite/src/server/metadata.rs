//! Setters shared by tools, resources and prompts.

/// Defines setters for the title, description, icons, `_meta`, tags and scopes.
macro_rules! metadata_setters {
    ($name:ident, $description:literal) => {
        impl $name {
            /// Sets the title shown to people.
            #[must_use]
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.definition.title = Some(title.into());
                self
            }

            #[doc = $description]
            #[must_use]
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.definition.description = Some(description.into());
                self
            }

            /// Sets the icons.
            #[must_use]
            pub fn icons(mut self, icons: impl Into<Vec<tsugite_core::protocol::Icon>>) -> Self {
                self.definition.icons = Some(icons.into());
                self
            }

            /// Sets `_meta`.
            #[must_use]
            pub fn meta(mut self, meta: tsugite_core::protocol::Meta) -> Self {
                self.definition.meta = Some(meta);
                self
            }

            /// Adds a tag; see [`Server::visible`](super::Server::visible).
            #[must_use]
            pub fn tag(mut self, tag: impl Into<String>) -> Self {
                self.tags.push(tag.into());
                self
            }

            /// Adds a scope that callers need, such as `notes:write`.
            ///
            /// The item stays listed. A call without the scope gets 403 over HTTP, with a challenge that names all
            /// scopes of the item, so that the client can ask its user for them; other transports return -32602.
            #[must_use]
            #[doc(alias("scopes", "permission", "require_scopes"))]
            pub fn scope(mut self, scope: impl Into<String>) -> Self {
                self.scopes.push(scope.into());
                self
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("definition", &self.definition)
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(super) use metadata_setters;
