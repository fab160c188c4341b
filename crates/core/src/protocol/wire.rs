//! How a type of the protocol is written down: once, as its list of members.
//!
//! `wire!` makes a `#[non_exhaustive]` struct with public fields, `new` taking the required members, and one setter
//! for each optional one, read from a JSON object alone. So callers never list every field, and a new optional member breaks nobody.

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
            /// With the required members; the optional ones have setters of their own.
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

/// Lets code that does not know the type reach its `_meta`.
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

/// Names a request: the type that stands for it, its wire name, its params and its output, and in braces the items of
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

/// Names a notification: the type that stands for it, its wire name, what it says.
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

/// Defines an enum of words, as the protocol has many.
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
            /// As it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$var => $word,)*
                }
            }
        }
    };
}

pub(super) use {has_meta, method, notification, string_enum, wire};
