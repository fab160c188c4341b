//! Finds names that occur twice in one object of a JSON text.
//!
//! Two parsers may disagree on which of the two values counts, so such a text must not pass a check here and be read again
//! elsewhere.

use std::collections::HashSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Returns a name that one object of the text holds twice, at any depth. Texts that are not JSON hold none.
pub(super) fn find_duplicate_name(json: &str) -> Option<String> {
    let mut duplicate = None;
    let mut text = serde_json::Deserializer::from_str(json);
    drop(Search { duplicate: &mut duplicate }.deserialize(&mut text));
    duplicate
}

/// Says that a name occurs twice.
pub(super) fn duplicate_name_text(name: &str) -> String {
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    format!("the name `{name}` occurs twice in one object")
}

/// Visits a value, and stops with an error at the first duplicate.
struct Search<'a> {
    duplicate: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if names.contains(&name) {
                members.next_value::<IgnoredAny>()?;
                *self.duplicate = Some(name);
                return Err(A::Error::custom("duplicate name"));
            }
            names.insert(name);
            members.next_value_seed(Search { duplicate: self.duplicate })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Search { duplicate: self.duplicate })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

const MAX_NAME_CHARS: usize = 60;

#[cfg(test)]
mod tests {
    use super::find_duplicate_name;

    #[test]
    fn duplicates_are_found_at_any_depth() {
        for (json, expected) in [
            (r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}"#, None),
            (r#"{"a":1,"a":1}"#, Some("a")),
            (r#"{"a":1,"\u0061":1}"#, Some("a")),
            (r#"[null,true,-1,2,0.5,"x",[{"y":{"z":0,"z":0}}]]"#, Some("z")),
            (r#"{"":0,"":0}"#, Some("")),
            ("{", None),
        ] {
            assert_eq!(find_duplicate_name(json).as_deref(), expected, "{json}");
        }
    }
}
