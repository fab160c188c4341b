//! Whether the schema of a Rust type says more than reading into that type enforces.
//!
//! Judged from the schema alone: where a keyword may come from a type or from an attribute, such as the `minItems` of
//! `[T; 3]`, it counts as an attribute, and is checked twice. The other way round, an `enum` that an attribute put on
//! a `String` looks like one of Rust.

use serde_json::{Map, Value};
use tsugite_core::protocol::Schema;

use super::subschemas::{subschemas, truncate};

/// The first keyword in the schema of a type that reading into the type does not enforce, and where it stands.
pub(crate) fn unenforced_keyword(schema: &Schema) -> Option<String> {
    first_unenforced(schema.keywords(), "#")
}

/// The same for keywords that stand at `place`.
pub(super) fn first_unenforced(schema: &Map<String, Value>, place: &str) -> Option<String> {
    let beyond = |keywords: &Map<String, Value>, place: &str| {
        let (keyword, _) = keywords.iter().find(|(keyword, value)| !is_enforced(keywords, keyword, value))?;
        Some(format!("`{}` at `{}`", truncate(keyword), truncate(place)))
    };
    let inside = |keywords, place: &str| {
        let mut inside: Vec<_> = subschemas(keywords)
            .into_iter()
            .map(|inner| (inner.schema, format!("{place}{}", inner.pointer)))
            .collect();
        // The last is looked at first.
        inside.reverse();
        inside
    };
    if let Some(found) = beyond(schema, place) {
        return Some(found);
    }
    let mut open = inside(schema, place);
    while let Some((schema, place)) = open.pop() {
        let Value::Object(keywords) = schema else { continue };
        if let Some(found) = beyond(keywords, &place) {
            return Some(found);
        }
        open.extend(inside(keywords, &place));
    }
    None
}

pub(super) fn is_enforced(schema: &Map<String, Value>, keyword: &str, value: &Value) -> bool {
    match keyword {
        "type"
        | "properties"
        | "required"
        | "items"
        | "prefixItems"
        | "anyOf"
        | "oneOf"
        | "enum"
        | "const"
        | "$ref"
        | "$defs"
        | "additionalProperties" => true,
        "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly"
        | "$schema" | "$id" | "$comment" | "format" => true,
        "minimum" | "maximum" => {
            let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
            match (as_integer(value), integer_range(format)) {
                (Some(bound), Some((least, _))) if keyword == "minimum" => bound <= least,
                (Some(bound), Some((_, most))) => bound >= most,
                _ => false,
            }
        }
        // Keys that are whole numbers.
        "patternProperties" => value
            .as_object()
            .is_some_and(|keys| keys.keys().all(|key| matches!(key.as_str(), r"^\d+$" | r"^-?\d+$"))),
        // A tuple has as many items as it has.
        "minItems" | "maxItems" => {
            let tuple = schema.get("prefixItems").and_then(Value::as_array);
            tuple.is_some_and(|items| value.as_u64() == Some(items.len() as u64))
        }
        _ => keyword.starts_with("x-"),
    }
}

fn as_integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

/// What fits into the integer that schemars gives this format.
fn integer_range(format: &str) -> Option<(i128, i128)> {
    macro_rules! range_of {
        ($integer:ty) => {
            (<$integer>::MIN as i128, <$integer>::MAX as i128)
        };
    }
    Some(match format {
        "int8" => range_of!(i8),
        "int16" => range_of!(i16),
        "int32" => range_of!(i32),
        "int64" => range_of!(i64),
        "int" => range_of!(isize),
        "uint8" => range_of!(u8),
        "uint16" => range_of!(u16),
        "uint32" => range_of!(u32),
        "uint64" => range_of!(u64),
        "uint" => range_of!(usize),
        "uint128" => (0, i128::MAX),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(dead_code, reason = "the types are there for their schemas")]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::server::schema::schema_of;

    #[derive(Deserialize, JsonSchema)]
    enum Plain {
        A,
        B,
    }

    /// With words on it.
    #[derive(Deserialize, JsonSchema)]
    enum External {
        /// Nothing in it.
        Unit,
        New(u8),
        Tuple(u8, String),
        Struct {
            /// A number.
            a: i32,
        },
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "camelCase")]
    enum Internal {
        Unit,
        New(Inner),
        Struct { a: Option<i32> },
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind", content = "content")]
    enum Adjacent {
        Unit,
        New(u8),
        Tuple(u8, String),
        Struct { a: i32 },
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Bare {
        Number(i64),
        Text(String),
        Struct { a: i32 },
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        a: String,
        #[serde(default)]
        b: Option<u16>,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Newtype(Inner);

    #[derive(Deserialize, JsonSchema)]
    struct Unit;

    #[derive(Deserialize, JsonSchema)]
    struct Tree {
        left: Option<Box<Tree>>,
        children: Vec<Tree>,
        by_name: HashMap<String, Tree>,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Everything {
        integers: (u8, u16, u32, u64, usize, i8, i16, i32, i64, isize),
        maybe: (Option<u8>, Option<i8>, Option<u64>, u128, i128),
        others: (f32, f64, bool, String, ()),
        plain: Plain,
        maybe_plain: Option<Plain>,
        external: External,
        maybe_external: Option<External>,
        internal: Internal,
        adjacent: Adjacent,
        bare: Vec<Bare>,
        newtype: Newtype,
        unit: Unit,
        #[serde(flatten)]
        inner: Other,
        tree: Tree,
        maybe_tree: Option<Tree>,
        map: HashMap<String, Vec<Option<Inner>>>,
        by_enum: BTreeMap<Plain, u8>,
        anything: Value,
        address: std::net::IpAddr,
        /// Not what it says.
        #[schemars(extend("x-order" = 3), example = 5)]
        #[serde(default)]
        not: u8,
        #[schemars(title = "minimum")]
        #[deprecated]
        minimum: i64,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Other {
        other: (u8,),
    }

    impl PartialEq for Plain {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Eq for Plain {}
    impl PartialOrd for Plain {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Plain {
        fn cmp(&self, _: &Self) -> std::cmp::Ordering {
            std::cmp::Ordering::Equal
        }
    }

    #[test]
    fn types_enforce_their_keywords() {
        assert_eq!(unenforced_keyword(&schema_of::<Everything>()), None);
        assert_eq!(unenforced_keyword(&schema_of::<Tree>()), None);
        assert_eq!(unenforced_keyword(&schema_of::<External>()), None);
        assert_eq!(unenforced_keyword(&schema_of::<Internal>()), None);
        assert_eq!(unenforced_keyword(&schema_of::<Adjacent>()), None);
        assert_eq!(unenforced_keyword(&schema_of::<Bare>()), None);
        assert_eq!(unenforced_keyword(&Schema::object()), None);
        // With definitions instead of subschemas in place.
        let referring = schemars::schema_for!(Everything);
        assert_eq!(unenforced_keyword(&Schema::from(Value::from(referring))), None);
    }

    #[test]
    fn attributes_add_unenforced_keywords() {
        macro_rules! field {
            ($type:ty, $(#[$attribute:meta])* => $keyword:literal at $place:literal) => {{
                #[derive(Deserialize, JsonSchema)]
                struct Args {
                    before: String,
                    $(#[$attribute])*
                    it: $type,
                }
                let expected = concat!("`", $keyword, "` at `#/properties/it", $place, "`");
                assert_eq!(unenforced_keyword(&schema_of::<Args>()).as_deref(), Some(expected));
            }};
        }
        field!(u8, #[schemars(range(min = 1))] => "minimum" at "");
        field!(u8, #[schemars(range(max = 10))] => "maximum" at "");
        field!(i64, #[schemars(range(min = 0))] => "minimum" at "");
        field!(f64, #[schemars(range(min = 0.0))] => "minimum" at "");
        field!(Option<u16>, #[schemars(range(max = 5))] => "maximum" at "");
        field!(String, #[schemars(regex(pattern = r"^a+$"))] => "pattern" at "");
        field!(String, #[schemars(pattern(r"^a+$"))] => "pattern" at "");
        field!(String, #[schemars(length(min = 1))] => "minLength" at "");
        field!(String, #[schemars(length(max = 9))] => "maxLength" at "");
        field!(String, #[schemars(contains("a"))] => "pattern" at "");
        field!(Vec<u8>, #[schemars(length(min = 1))] => "minItems" at "");
        field!(Vec<String>, #[schemars(inner(length(max = 3)))] => "maxLength" at "/items");
        field!(Value, #[schemars(extend("allOf" = [{}]))] => "allOf" at "");
        field!(Value, #[schemars(extend("not" = {"type": "null"}))] => "not" at "");
    }

    #[test]
    fn ambiguous_type_schemas_count_as_attributes() {
        #[derive(Deserialize, JsonSchema)]
        struct Of<T> {
            it: T,
        }
        fn found<T: JsonSchema>() -> Option<String> {
            unenforced_keyword(&schema_of::<Of<T>>())
        }
        assert_eq!(found::<char>().as_deref(), Some("`minLength` at `#/properties/it`"));
        assert_eq!(found::<[u8; 3]>().as_deref(), Some("`minItems` at `#/properties/it`"));
        assert_eq!(found::<HashSet<u8>>().as_deref(), Some("`uniqueItems` at `#/properties/it`"));
        assert_eq!(found::<BTreeMap<u8, u8>>(), None);
        assert_eq!(found::<BTreeMap<i8, Option<bool>>>(), None);
        assert_eq!(found::<std::num::NonZeroU8>().as_deref(), Some("`minimum` at `#/properties/it`"));
    }

    #[test]
    fn keywords_count_only_in_schema_positions() {
        let data = json!({
            "properties": {"pattern": {"const": {"minLength": 1}}, "not": {"default": {"not": {}}}},
            "examples": [{"maximum": 1}],
            "enum": [{"pattern": "a"}],
        });
        assert_eq!(unenforced_keyword(&Schema::from(data)), None);
        for (schema, found) in [
            (json!({"uniqueItems": true}), "`uniqueItems` at `#`"),
            (json!({"$defs": {"a/b": {"if": {}}}}), "`if` at `#/$defs/a~1b`"),
            (
                json!({"anyOf": [{}, {"items": {"exclusiveMinimum": 1}}]}),
                "`exclusiveMinimum` at `#/anyOf/1/items`",
            ),
            (json!({"prefixItems": [{}], "minItems": 0}), "`minItems` at `#`"),
            (json!({"additionalProperties": {"multipleOf": 2}}), "`multipleOf` at `#/additionalProperties`"),
            (json!({"format": "uint8", "minimum": 0, "maximum": 254}), "`maximum` at `#`"),
            (json!({"format": "date", "minimum": 0}), "`minimum` at `#`"),
            (json!({"unevaluatedProperties": false}), "`unevaluatedProperties` at `#`"),
        ] {
            assert_eq!(unenforced_keyword(&Schema::from(schema)).as_deref(), Some(found));
        }
    }

    #[test]
    fn deep_schema_does_not_overflow_the_stack() {
        let deep = (0..1_000).fold(json!({"pattern": "a"}), |inner, _| json!({"items": inner}));
        assert!(unenforced_keyword(&Schema::from(deep)).is_some_and(|found| found.starts_with("`pattern`")));
    }
}
