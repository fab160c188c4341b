//! Deserializes structs and enums of the protocol strictly.
//!
//! A derived deserializer also accepts an array of values for a struct and `{"user": null}` for a unit variant. Neither
//! is valid MCP.

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// Deserializes a struct from an object only.
pub(crate) fn deserialize_map<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::deserialize(MapOnly(deserializer))
}

/// Requests a map where a struct is expected, so that a sequence is an error.
pub(crate) struct MapOnly<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MapOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Deserializes one of `words` from a string only.
pub(crate) fn deserialize_string_enum<'de, T: Copy, D: Deserializer<'de>>(
    deserializer: D,
    words: &'static [(&'static str, T)],
) -> Result<T, D::Error> {
    struct Words<T: 'static>(&'static [(&'static str, T)]);

    impl<T: Copy> Visitor<'_> for Words<T> {
        type Value = T;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("one of")?;
            self.0.iter().try_for_each(|(word, _)| write!(f, " {word:?}"))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            let found = self.0.iter().find(|(word, _)| *word == text);
            found
                .map(|(_, value)| *value)
                .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Other("this"), &self))
        }
    }

    deserializer.deserialize_str(Words(words))
}
