//! What each side can do. Capability objects are open: keys we do not know are kept and never an error.

use serde::{Deserialize, Serialize};

use super::Object;

/// Defines a capability object: known members, and the rest kept.
macro_rules! capability {
    (
        $(#[$attr:meta])*
        pub struct $name:ident {
            $($(#[$field_attr:meta])* $field:ident: $ty:ty,)*
        }
    ) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$field_attr])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$ty>,
            )*
            /// Members we do not know.
            #[serde(flatten)]
            pub other: Object,
        }

        impl $name {
            /// With nothing declared.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                #[doc = concat!("Declares `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: impl Into<$ty>) -> Self {
                    self.$field = Some($field.into());
                    self
                }
            )*
        }
    };
}

capability! {
    /// What a client can do.
    pub struct ClientCapabilities {
        /// Offers directories to work in.
        roots: RootsCapability,
        /// Lets the server ask its model.
        sampling: SamplingCapability,
        /// Lets the server ask its user.
        elicitation: ElicitationCapability,
        /// Runs requests of the server as tasks (2025-11-25 only).
        tasks: TasksCapability,
        /// Non-standard features.
        experimental: Object,
        /// Extensions by identifier, each with its settings.
        extensions: Object,
    }
}

capability! {
    /// What a server can do.
    pub struct ServerCapabilities {
        /// Offers tools.
        tools: ListCapability,
        /// Offers resources.
        resources: ResourcesCapability,
        /// Offers prompts.
        prompts: ListCapability,
        /// Completes arguments (declared from 2025-03-26 on).
        completions: Object,
        /// Sends log messages.
        logging: Object,
        /// Runs requests of the client as tasks (2025-11-25 only).
        tasks: TasksCapability,
        /// Non-standard features.
        experimental: Object,
        /// Extensions by identifier, each with its settings.
        extensions: Object,
    }
}

capability! {
    /// `roots`.
    pub struct RootsCapability {
        /// Tells when the list changes (up to 2025-11-25).
        list_changed: bool,
    }
}

capability! {
    /// `sampling`.
    pub struct SamplingCapability {
        /// The model may be given tools.
        tools: Object,
        /// `includeContext` other than `none` is understood.
        context: Object,
    }
}

capability! {
    /// `elicitation`. Empty means forms only.
    pub struct ElicitationCapability {
        /// Shows forms.
        form: Object,
        /// Opens web pages.
        url: Object,
    }
}

impl ElicitationCapability {
    /// Whether forms can be shown. An empty capability says yes: it is older than the other mode.
    pub fn shows_forms(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }

    /// Whether web pages can be opened.
    pub fn opens_urls(&self) -> bool {
        self.url.is_some()
    }
}

capability! {
    /// `tools` or `prompts`.
    pub struct ListCapability {
        /// Tells when the list changes.
        list_changed: bool,
    }
}

capability! {
    /// `resources`.
    pub struct ResourcesCapability {
        /// Tells when a single resource changes.
        subscribe: bool,
        /// Tells when the list changes.
        list_changed: bool,
    }
}

capability! {
    /// `tasks`, as 2025-11-25 has it on both sides.
    pub struct TasksCapability {
        /// Knows `tasks/list`.
        list: Object,
        /// Knows `tasks/cancel`.
        cancel: Object,
        /// Which requests may become tasks, as a tree of method names.
        requests: Object,
    }
}
