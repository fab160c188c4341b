//! The capabilities of client and server. Capability objects are open: unknown members are kept and never an error.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::Object;
use crate::jsonrpc::{JsonError, RawJson};

/// Defines a capability object: known members, and the rest kept.
///
/// The object is deserialized as a list of members, from which the known ones are taken: serde's flattened members
/// generate many times the code.
macro_rules! capability {
    (
        $(#[$attr:meta])*
        pub struct $name:ident {
            $($(#[$field_attr:meta])* $field:ident = $wire:literal: $ty:ty,)*
        }
    ) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$field_attr])*
                #[serde(rename = $wire, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$ty>,
            )*
            /// Unknown members.
            #[serde(flatten)]
            pub other: Object,
        }

        impl $name {
            /// An empty capability object.
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

        impl $name {
            fn of(mut members: CapabilityMembers) -> Result<Self, JsonError> {
                $(let $field = members.take($wire)?;)*
                Ok(Self { $($field,)* other: members.rest()? })
            }
        }

        impl CapabilityMember for $name {
            fn read(value: &RawJson) -> Result<Self, JsonError> {
                Self::of(CapabilityMembers::read(value)?)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::of(CapabilityMembers::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

/// The type of a member of a capability object.
trait CapabilityMember: Sized {
    fn read(value: &RawJson) -> Result<Self, JsonError>;
}

impl CapabilityMember for bool {
    fn read(value: &RawJson) -> Result<Self, JsonError> {
        value.read()
    }
}

impl CapabilityMember for Object {
    #[inline(never)]
    fn read(value: &RawJson) -> Result<Self, JsonError> {
        value.read()
    }
}

/// The members of an object, as they were written.
struct CapabilityMembers(Vec<(String, RawJson)>);

impl CapabilityMember for CapabilityMembers {
    #[inline(never)]
    fn read(value: &RawJson) -> Result<Self, JsonError> {
        value.read()
    }
}

impl CapabilityMembers {
    /// Takes a member that may be absent or `null`.
    fn take<T: CapabilityMember>(&mut self, name: &str) -> Result<Option<T>, JsonError> {
        match self.take_raw(name)? {
            Some(value) => T::read(&value).map(Some).map_err(|error| in_member(name, &error)),
            None => Ok(None),
        }
    }

    #[inline(never)]
    fn take_raw(&mut self, name: &str) -> Result<Option<RawJson>, JsonError> {
        let mut named = self.0.extract_if(.., |(known, _)| known == name);
        let value = named.next().map(|(_, value)| value);
        match named.next() {
            Some(_) => Err(JsonError::new(format!("duplicate field `{name}`"))),
            None => Ok(value.filter(|value| value.text() != "null")),
        }
    }

    #[inline(never)]
    fn rest(self) -> Result<Object, JsonError> {
        self.0.into_iter().map(|(name, value)| Ok((name, value.read()?))).collect()
    }
}

#[cold]
fn in_member(name: &str, error: &JsonError) -> JsonError {
    JsonError::new(format!("`{name}`: {error}"))
}

impl<'de> Deserialize<'de> for CapabilityMembers {
    #[inline(never)]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = CapabilityMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<CapabilityMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = access.next_entry()? {
                    members.push(member);
                }
                Ok(CapabilityMembers(members))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

capability! {
    /// The capabilities of a client.
    pub struct ClientCapabilities {
        /// Has roots.
        roots = "roots": RootsCapability,
        /// Lets the server use its model.
        sampling = "sampling": SamplingCapability,
        /// Lets the server request input from the user.
        elicitation = "elicitation": ElicitationCapability,
        /// Runs requests of the server as tasks (2025-11-25 only).
        tasks = "tasks": TasksCapability,
        /// Non-standard features.
        experimental = "experimental": Object,
        /// Extensions by identifier, each with its settings.
        extensions = "extensions": Object,
    }
}

capability! {
    /// The capabilities of a server.
    pub struct ServerCapabilities {
        /// Has tools.
        tools = "tools": ListCapability,
        /// Has resources.
        resources = "resources": ResourcesCapability,
        /// Has prompts.
        prompts = "prompts": ListCapability,
        /// Completes arguments (declared from 2025-03-26 on).
        completions = "completions": Object,
        /// Sends log notifications.
        logging = "logging": Object,
        /// Runs requests of the client as tasks (2025-11-25 only).
        tasks = "tasks": TasksCapability,
        /// Non-standard features.
        experimental = "experimental": Object,
        /// Extensions by identifier, each with its settings.
        extensions = "extensions": Object,
    }
}

capability! {
    /// `roots`.
    pub struct RootsCapability {
        /// Notifies about changes of the list (up to 2025-11-25).
        list_changed = "listChanged": bool,
    }
}

capability! {
    /// `sampling`.
    pub struct SamplingCapability {
        /// Sampling requests may have tools.
        tools = "tools": Object,
        /// Supports `includeContext` other than `none`.
        context = "context": Object,
    }
}

capability! {
    /// `elicitation`. Empty means forms only.
    pub struct ElicitationCapability {
        /// Supports forms.
        form = "form": Object,
        /// Supports URLs.
        url = "url": Object,
    }
}

impl ElicitationCapability {
    /// Whether forms are supported. An empty capability means yes: it is older than the URL mode.
    pub fn supports_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }

    /// Whether URLs are supported.
    pub fn supports_url(&self) -> bool {
        self.url.is_some()
    }
}

capability! {
    /// `tools` or `prompts`.
    pub struct ListCapability {
        /// Notifies about changes of the list.
        list_changed = "listChanged": bool,
    }
}

capability! {
    /// `resources`.
    pub struct ResourcesCapability {
        /// Notifies about changes of single resources.
        subscribe = "subscribe": bool,
        /// Notifies about changes of the list.
        list_changed = "listChanged": bool,
    }
}

capability! {
    /// `tasks`, as 2025-11-25 has it on both sides.
    pub struct TasksCapability {
        /// Supports `tasks/list`.
        list = "list": Object,
        /// Supports `tasks/cancel`.
        cancel = "cancel": Object,
        /// The requests that may become tasks, as a tree of method names.
        requests = "requests": Object,
    }
}

impl TasksCapability {
    /// Whether calls of tools can be tasks.
    pub fn allows_tool_calls(&self) -> bool {
        let tools = self.requests.as_ref().and_then(|requests| requests.get("tools"));
        tools.and_then(|tools| tools.get("call")).is_some_and(|call| call.is_object())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientCapabilities, String> {
        RawJson::parse(text).unwrap().read().map_err(|error: JsonError| error.to_string())
    }

    #[test]
    fn known_members_are_taken_and_the_rest_kept_in_order() {
        let text = r#"{"z":1,"roots":{"later":[],"listChanged":true},"a":{"x":null},"tasks":null,"b":2}"#;
        let read = read(text).unwrap();
        let roots = read.roots.as_ref().unwrap();
        assert_eq!((roots.list_changed, roots.other.len()), (Some(true), 1));
        assert_eq!(read.tasks, None);
        assert_eq!(read.other.keys().collect::<Vec<_>>(), ["z", "a", "b"]);
        let written = r#"{"roots":{"listChanged":true,"later":[]},"z":1,"a":{"x":null},"b":2}"#;
        assert_eq!(RawJson::from_value(&read).unwrap().text(), written);
    }

    #[test]
    fn error_names_the_member() {
        let wrong = |text| read(text).unwrap_err();
        assert_eq!(
            wrong(r#"{"roots":{"listChanged":"x"}}"#),
            r#"`roots`: `listChanged`: invalid type: string "x", expected a boolean"#
        );
        assert_eq!(wrong("[]"), "invalid type: sequence, expected an object");
        assert_eq!(wrong(r#"{"sampling":7}"#), "`sampling`: invalid type: integer `7`, expected an object");
    }

    #[test]
    fn only_unknown_members_may_be_duplicated() {
        assert_eq!(read(r#"{"roots":{},"roots":{}}"#).unwrap_err(), "duplicate field `roots`");
        assert_eq!(
            read(r#"{"elicitation":{"form":{},"form":{}}}"#).unwrap_err(),
            "`elicitation`: duplicate field `form`"
        );
        assert_eq!(read(r#"{"x":1,"x":2}"#).unwrap().other["x"], 2);
    }
}
