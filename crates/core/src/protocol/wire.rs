//! Macros that define a type of the protocol from its list of members.
//!
//! `wire!` defines a `#[non_exhaustive]` struct with public fields, `new` with the required members, and one setter for
//! each optional one, deserialized from a JSON object only. So callers never list every field, and a new optional
//! member is not a breaking change.

/// Defines a struct of the protocol; required members first, then `optional { … }`.
macro_rules! wire {
    (
        $(#[$attr:meta])*
        pub struct $name:ident {
            $($(#[$req_attr:meta])* $req:ident: $req_ty:ty,)*
        }
        optional {
            $($(#[$opt_attr:meta])* $opt:ident: $opt_ty:ty,)*
        }
    ) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", remote = "Self")]
        $(#[$attr])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$req_attr])* pub $req: $req_ty,)*
            $(
                $(#[$opt_attr])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $opt: Option<$opt_ty>,
            )*
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $name::deserialize($crate::protocol::map_only::MapOnly(deserializer))
            }
        }

        impl $name {
            /// Creates it with the required members; the optional ones have setters.
            #[allow(clippy::new_without_default, reason = "a `Default` is derived by hand where it makes sense")]
            pub fn new($($req: impl Into<$req_ty>),*) -> Self {
                Self { $($req: $req.into(),)* $($opt: None,)* }
            }

            $(
                #[doc = concat!("Sets `", stringify!($opt), "`.")]
                #[must_use]
                pub fn $opt(mut self, $opt: impl Into<$opt_ty>) -> Self {
                    self.$opt = Some($opt.into());
                    self
                }
            )*
        }
    };
}

/// Implements access to `_meta` for code that does not know the type.
macro_rules! has_meta {
    ($($name:ty),* $(,)?) => {$(
        impl $crate::protocol::HasMeta for $name {
            fn meta(&self) -> Option<&$crate::protocol::Meta> {
                self.meta.as_ref()
            }

            fn meta_mut(&mut self) -> &mut Option<$crate::protocol::Meta> {
                &mut self.meta
            }
        }
    )*};
}

/// Defines a request: its type, its name on the wire, its params and its result, and in braces the items of
/// [`Method`](crate::protocol::Method) that differ from the defaults.
macro_rules! method {
    ($(#[$attr:meta])* $name:ident = $wire:literal, $params:ty => $output:ty $({ $($items:tt)* })?) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {}

        impl $crate::protocol::Method for $name {
            const NAME: &'static str = $wire;
            type Params = $params;
            type Output = $output;
            $($($items)*)?
        }
    };
}

/// Defines a notification: its type, its name on the wire and its params.
macro_rules! notification {
    ($(#[$attr:meta])* $name:ident = $wire:literal, $params:ty) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {}

        impl $crate::protocol::NotificationMethod for $name {
            const NAME: &'static str = $wire;
            type Params = $params;
        }
    };
}

/// Defines an enum of strings.
macro_rules! string_enum {
    ($(#[$attr:meta])* pub enum $name:ident { $($(#[$var_attr:meta])* $var:ident = $word:literal,)* }) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$var_attr])* $var,)*
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::protocol::map_only::deserialize_string_enum(deserializer, &[$(($word, $name::$var),)*])
            }
        }

        impl $name {
            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$var => $word,)*
                }
            }
        }
    };
}

pub(super) use {has_meta, method, notification, string_enum, wire};
