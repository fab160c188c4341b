//! Deserializes the arguments of a call into the handler's types.
//!
//! Tools receive JSON; prompts and resource templates receive strings, which are parsed as the type of the parameter.
//! Errors are worded so that a model can correct the call.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::Value;
use tsugite_core::jsonrpc::json_path::{self, string_length};
use tsugite_core::jsonrpc::{JsonError, Raw};
use tsugite_core::uri_template::{TemplateValue as Text, Variables};

use super::handler_error::{HandlerError, InvocationError};

/// The arguments of one call.
#[derive(Clone, Copy)]
pub(crate) enum Arguments<'a> {
    /// A JSON object (tools).
    Json(Raw<'a>),
    /// Strings by name (prompts and resource templates).
    Strings(&'a Variables),
}

/// A value that can be deserialized from arguments, more than once if needed.
pub(crate) trait ArgumentReader {
    type Value;

    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<Self::Value, D::Error>;
}

/// Reads all arguments into one type.
pub(super) struct WholeArguments<T>(PhantomData<T>);

impl<T> Default for WholeArguments<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: DeserializeOwned> ArgumentReader for WholeArguments<T> {
    type Value = T;

    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<T, D::Error> {
        T::deserialize(from)
    }
}

impl Arguments<'_> {
    /// Deserializes the arguments. The error names the argument and what is wrong, so that a model can correct the call.
    pub(crate) fn read<R: ArgumentReader>(self, reading: &R) -> Result<R::Value, InvocationError> {
        match self {
            Arguments::Json(raw) => {
                read_json(raw, reading).map_err(|text| InvocationError::Handler(HandlerError::new(text)))
            }
            Arguments::Strings(texts) => reading
                .read(TextMap { rest: texts.iter().collect::<Vec<_>>().into_iter(), value: None })
                .map_err(|error| InvocationError::invalid_params(&JsonError::from(error).to_string())),
        }
    }
}

impl<'a> Arguments<'a> {
    /// Returns a string argument by name.
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        match self {
            Arguments::Json(_) => None,
            Arguments::Strings(texts) => texts.text(name),
        }
    }

    /// The error for a missing argument.
    pub(crate) fn missing_error(self, name: &str) -> InvocationError {
        match self {
            Arguments::Json(_) => {
                InvocationError::Handler(HandlerError::new(format!("missing argument `{name}`")))
            }
            Arguments::Strings(_) => {
                InvocationError::invalid_params(&format!("the argument `{name}` is missing"))
            }
        }
    }
}

fn read_json<R: ArgumentReader>(arguments: Raw<'_>, reading: &R) -> Result<R::Value, String> {
    let text = arguments.text();
    let error = match reading.read(&mut serde_json::Deserializer::from_str(text)) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    // JSON Schema accepts `42.0` as an integer; serde does not. Only failed input is parsed a second time, as text, so that
    // duplicate members stay duplicates.
    let Some(text) = rewrite_whole_floats(text) else { return Err(describe_error(text, error)) };
    reading.read(&mut serde_json::Deserializer::from_str(&text)).map_err(|error| describe_error(&text, error))
}

/// Formats the error with the path of the argument.
fn describe_error(text: &str, error: serde_json::Error) -> String {
    let path = json_path::path_at(text, error.line(), error.column());
    let wrong = JsonError::from(error);
    match path.is_empty() {
        true => format!("invalid arguments: {wrong}"),
        false => format!("invalid argument `{path}`: {wrong}"),
    }
}

/// Rewrites whole numbers such as `42.0` as integers; `None` if there are none.
fn rewrite_whole_floats(json: &str) -> Option<String> {
    let mut out = String::with_capacity(json.len());
    let (mut rest, mut changed) = (json, false);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '-' | '0'..='9' => rest
                .find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'))
                .unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at_checked(length)?;
        rest = after;
        let whole = token.parse::<f64>().ok().filter(|float| {
            token.contains(['.', 'e', 'E']) && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0
        });
        match whole {
            Some(float) => {
                changed = true;
                out.push_str(&(float as i64).to_string());
            }
            None => out.push_str(token),
        }
    }
    changed.then_some(out)
}

/// Deserializes strings by name.
struct TextMap<'a> {
    rest: std::vec::IntoIter<(&'a str, &'a Text)>,
    value: Option<(&'a str, &'a Text)>,
}

impl<'de> Deserializer<'de> for TextMap<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for TextMap<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        self.value = self.rest.next();
        match self.value {
            None => Ok(None),
            Some((name, _)) => {
                let name: StrDeserializer<'_, Self::Error> = name.into_deserializer();
                seed.deserialize(name).map(Some)
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        let (name, text) = self.value.take().ok_or_else(|| Self::Error::custom("no value"))?;
        seed.deserialize(TextValue(text))
            .map_err(|error| Self::Error::custom(format_args!("`{name}`: {}", JsonError::from(error))))
    }
}

/// Deserializes one string as the requested type: a number if it spells one, JSON where a structure is expected.
struct TextValue<'a>(&'a Text);

macro_rules! deserialize_parsed {
    ($($method:ident $visit:ident $kind:ty, $what:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            match self.0.as_text().and_then(|text| text.parse::<$kind>().ok()) {
                Some(value) => visitor.$visit(value),
                None => Err(Self::Error::custom(concat!("expected ", $what))),
            }
        }
    )*};
}

macro_rules! deserialize_json {
    ($($method:ident ($($name:ident: $kind:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self $(, $name: $kind)*, visitor: V) -> Result<V::Value, Self::Error> {
            match self.0 {
                Text::Text(text) => serde_json::from_str::<Value>(text)?.$method($($name,)* visitor),
                Text::List(_) => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for TextValue<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Text::Text(text) => visitor.visit_borrowed_str(text),
            Text::List(list) => {
                let items = list.iter().map(String::as_str);
                visitor.visit_seq(serde::de::value::SeqDeserializer::<_, Self::Error>::new(items))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let Some(text) = self.0.as_text() else { return Err(Self::Error::custom("expected one text")) };
        let choice: StrDeserializer<'_, Self::Error> = text.into_deserializer();
        choice.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let number = self.0.as_text().and_then(|text| text.parse::<f64>().ok());
        match number.filter(|number| number.is_finite()) {
            Some(number) => visitor.visit_f64(number),
            None => Err(Self::Error::custom("expected a number")),
        }
    }

    deserialize_parsed! {
        deserialize_bool visit_bool bool, "`true` or `false`";
        deserialize_i8 visit_i8 i8, "a whole number";
        deserialize_i16 visit_i16 i16, "a whole number";
        deserialize_i32 visit_i32 i32, "a whole number";
        deserialize_i64 visit_i64 i64, "a whole number";
        deserialize_i128 visit_i128 i128, "a whole number";
        deserialize_u8 visit_u8 u8, "a whole number, not negative";
        deserialize_u16 visit_u16 u16, "a whole number, not negative";
        deserialize_u32 visit_u32 u32, "a whole number, not negative";
        deserialize_u64 visit_u64 u64, "a whole number, not negative";
        deserialize_u128 visit_u128 u128, "a whole number, not negative";
    }

    deserialize_json! {
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
    }

    forward_to_deserialize_any! { char str string bytes byte_buf unit unit_struct identifier ignored_any }
}

/// Deserializes named values into the slots of a function's parameters.
pub(crate) struct NamedArguments<'n, S> {
    pub(crate) names: &'n [&'n str],
    pub(crate) slots: fn() -> S,
}

/// The slots of a function's parameters.
pub trait Slots {
    /// Deserializes the parameter at `index` into its slot.
    fn fill<'de, A: MapAccess<'de>>(&mut self, index: usize, map: &mut A) -> Result<(), A::Error>;
}

/// The slot of one parameter.
pub trait Slot {
    /// Deserializes the value.
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error>;
}

impl<S: Slots> ArgumentReader for NamedArguments<'_, S> {
    type Value = S;

    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<S, D::Error> {
        from.deserialize_map(NamedArgumentsVisitor(self))
    }
}

struct NamedArgumentsVisitor<'n, S>(&'n NamedArguments<'n, S>);

impl<'de, S: Slots> Visitor<'de> for NamedArgumentsVisitor<'_, S> {
    type Value = S;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<S, A::Error> {
        let NamedArguments { names, slots } = self.0;
        let mut slots = slots();
        while let Some(index) = map.next_key_seed(KeyIndex(names))? {
            match index {
                Some(index) => slots.fill(index, &mut map)?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(slots)
    }
}

/// The index of a key among the parameter names.
struct KeyIndex<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for KeyIndex<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<usize>, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeyIndex<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|known| *known == name))
    }
}

macro_rules! impl_slots {
    ($($slot:ident $index:tt),*) => {
        impl<$($slot: Slot),*> Slots for ($($slot,)*) {
            fn fill<'de, Map: MapAccess<'de>>(&mut self, index: usize, map: &mut Map) -> Result<(), Map::Error> {
                match index {
                    $($index => self.$index.fill(map),)*
                    _ => map.next_value::<IgnoredAny>().map(drop),
                }
            }
        }
    };
}

impl_slots!();
impl_slots!(A 0);
impl_slots!(A 0, B 1);
impl_slots!(A 0, B 1, C 2);
impl_slots!(A 0, B 1, C 2, D 3);
impl_slots!(A 0, B 1, C 2, D 3, E 4);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
impl_slots!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wanted {
        page: u32,
        loud: Option<bool>,
        path: Vec<String>,
        kind: Kind,
        tags: Option<Vec<i64>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Short,
        Long,
    }

    fn read(pairs: &[(&str, Text)]) -> Result<Wanted, String> {
        let texts: Variables = pairs.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
        Arguments::Strings(&texts)
            .read(&WholeArguments::<Wanted>::default())
            .map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn text_is_converted_to_the_parameter_type() {
        let read = read(&[
            ("page", "7".into()),
            ("path", vec!["a", "b"].into()),
            ("kind", "long".into()),
            ("tags", "[1,2]".into()),
        ]);
        let wanted = Wanted {
            page: 7,
            loud: None,
            path: vec!["a".into(), "b".into()],
            kind: Kind::Long,
            tags: Some(vec![1, 2]),
        };
        assert_eq!(read, Ok(wanted));
    }

    #[test]
    fn only_whole_numbers_are_rewritten_as_integers() {
        for (before, after) in [
            (r#"{"a":2.0,"b":"2.0","c":[1e2,-0.0,2.5]}"#, Some(r#"{"a":2,"b":"2.0","c":[100,0,2.5]}"#)),
            (r#"{"a":1,"a":2.0}"#, Some(r#"{"a":1,"a":2}"#)),
            (r#"{"a\\":"\"3.0"}"#, None),
            (r#"{"a":9007199254740993.0,"b":7}"#, None),
        ] {
            assert_eq!(rewrite_whole_floats(before).as_deref(), after, "{before}");
        }
    }

    #[test]
    fn unconvertible_text_is_named() {
        let error = read(&[("page", "many".into())]).unwrap_err();
        assert!(error.contains("`page`: expected a whole number, not negative"), "{error}");
        let error = read(&[("page", "1".into()), ("kind", "tall".into())]).unwrap_err();
        assert!(error.contains("`kind`: unknown variant `tall`"), "{error}");
    }
}
