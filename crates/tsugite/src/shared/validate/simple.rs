//! The keywords that count and compare: bounds of numbers, lengths, numbers of items and members. Attributes on Rust
//! types say these more often than any other, and they need no validator.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Value};
use tsugite_core::protocol::Schema;

use super::subschemas::{format_path, summarize, truncate};
use super::unenforced::{first_unenforced, is_enforced};

/// A schema of a Rust type that says nothing more than the type does, but for keywords that count and compare.
#[derive(Clone)]
pub(crate) struct SimpleValidator(Value);

impl SimpleValidator {
    /// Fails with what else it says, and where.
    pub(crate) fn from_schema(schema: &Schema) -> Result<Self, String> {
        let root = Value::Object(schema.keywords().clone());
        match first_unsupported(&root, "#") {
            Some(found) => Err(found),
            None => Ok(Self(root)),
        }
    }

    /// Whether what counts and compares fits. The error is at most three sentences.
    pub(crate) fn check(&self, instance: &Value) -> Result<(), String> {
        let mut told = Vec::new();
        check_value(&self.0, instance, &mut Vec::new(), &mut told);
        if told.is_empty() { Ok(()) } else { Err(told.join("; ")) }
    }
}

/// The first keyword that is neither enforced by the type nor checked here. Below alternatives and in definitions
/// nothing is checked here: whether it applies there depends on more.
fn first_unsupported(schema: &Value, place: &str) -> Option<String> {
    let Value::Object(keywords) = schema else { return None };
    for (keyword, value) in keywords {
        let inner = format!("{place}/{keyword}");
        let found = match keyword.as_str() {
            "properties" => {
                let members = value.as_object()?;
                members
                    .iter()
                    .find_map(|(name, schema)| first_unsupported(schema, &format!("{inner}/{name}")))
            }
            "prefixItems" => {
                let items = value.as_array()?;
                items
                    .iter()
                    .enumerate()
                    .find_map(|(at, schema)| first_unsupported(schema, &format!("{inner}/{at}")))
            }
            "items" | "additionalProperties" => first_unsupported(value, &inner),
            _ if SUPPORTED_KEYWORDS.contains(&keyword.as_str()) => None,
            _ if is_enforced(keywords, keyword, value) => {
                let alone = Map::from_iter([(keyword.clone(), value.clone())]);
                first_unenforced(&alone, place)
            }
            _ => Some(format!("`{}` at `{}`", truncate(keyword), truncate(place))),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn check_value<'a>(
    schema: &'a Value,
    value: &'a Value,
    path: &mut Vec<PathSegment<'a>>,
    told: &mut Vec<String>,
) {
    let Value::Object(keywords) = schema else { return };
    for (keyword, bound) in keywords {
        if told.len() == MAX_ERRORS {
            return;
        }
        if let Some(what) = violation(keyword, bound, value) {
            let (came, place) = (summarize(value), format_path(path.iter().map(PathSegment::segment)));
            told.push(match place.as_str() {
                "" => format!("invalid arguments: {came} {what}"),
                place => format!("invalid argument `{}`: {came} {what}", truncate(place)),
            });
        }
    }
    match value {
        Value::Array(items) => {
            let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let schemas = first.iter().map(Some).chain(std::iter::repeat(keywords.get("items")));
            for ((at, item), schema) in items.iter().enumerate().zip(schemas) {
                let Some(schema) = schema else { break };
                path.push(PathSegment::Item(at));
                check_value(schema, item, path, told);
                path.pop();
            }
        }
        Value::Object(members) => {
            let known = keywords.get("properties").and_then(Value::as_object);
            for (name, member) in members {
                let schema = known.and_then(|known| known.get(name)).or(keywords.get("additionalProperties"));
                let Some(schema) = schema else { continue };
                path.push(PathSegment::Member(name));
                check_value(schema, member, path, told);
                path.pop();
            }
        }
        _ => {}
    }
}

/// What is wrong, as the end of a sentence that begins with the value.
fn violation(keyword: &str, bound: &Value, value: &Value) -> Option<String> {
    let limit = || bound.as_u64().map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    match value {
        Value::Number(_) => {
            let order = compare(value, bound)?;
            let (breaks, words) = match keyword {
                "minimum" => (order.is_lt(), "less than the minimum of"),
                "maximum" => (order.is_gt(), "greater than the maximum of"),
                "exclusiveMinimum" => (order.is_le(), "not greater than"),
                "exclusiveMaximum" => (order.is_ge(), "not less than"),
                _ => return None,
            };
            breaks.then(|| format!("is {words} {bound}"))
        }
        Value::String(text) => {
            let length = || text.chars().count();
            match keyword {
                "minLength" if length() < limit()? => {
                    Some(format!("is shorter than {bound} {}", plural("character", bound)))
                }
                "maxLength" if length() > limit()? => {
                    Some(format!("is longer than {bound} {}", plural("character", bound)))
                }
                _ => None,
            }
        }
        Value::Array(items) => match keyword {
            "minItems" if items.len() < limit()? => {
                Some(format!("has less than {bound} {}", plural("item", bound)))
            }
            "maxItems" if items.len() > limit()? => {
                Some(format!("has more than {bound} {}", plural("item", bound)))
            }
            "uniqueItems" if bound == &Value::Bool(true) => {
                let mut seen = HashSet::new();
                let again = items.iter().find(|item| !seen.insert(canonical_text(item)))?;
                Some(format!("holds {} twice", summarize(again)))
            }
            _ => None,
        },
        Value::Object(members) => match keyword {
            "minProperties" if members.len() < limit()? => {
                Some(format!("has less than {bound} {}", plural("property", bound)))
            }
            "maxProperties" if members.len() > limit()? => {
                Some(format!("has more than {bound} {}", plural("property", bound)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whole numbers exactly, others as far as a double tells them apart.
fn compare(value: &Value, bound: &Value) -> Option<Ordering> {
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match (whole(value), whole(bound)) {
        (Some(value), Some(bound)) => Some(value.cmp(&bound)),
        _ => value.as_f64()?.partial_cmp(&bound.as_f64()?),
    }
}

/// A text that is the same for values that JSON Schema calls equal: `1` and `1.0`, and members in any order.
fn canonical_text(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < MAX_EXACT_INTEGER => format!("{float:.0}"),
            _ => number.to_string(),
        },
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical_text).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => {
            let mut texts: Vec<_> = members
                .iter()
                .map(|(name, member)| format!("{}:{}", Value::from(name.as_str()), canonical_text(member)))
                .collect();
            texts.sort();
            format!("{{{}}}", texts.join(","))
        }
        other => other.to_string(),
    }
}

fn plural(what: &str, bound: &Value) -> String {
    match (bound.as_u64(), what) {
        (Some(1), _) => what.to_owned(),
        (_, "property") => "properties".to_owned(),
        _ => format!("{what}s"),
    }
}

enum PathSegment<'a> {
    Item(usize),
    Member(&'a str),
}

impl PathSegment<'_> {
    fn segment(&self) -> Result<usize, &str> {
        match self {
            PathSegment::Item(at) => Ok(*at),
            PathSegment::Member(name) => Err(name),
        }
    }
}

const SUPPORTED_KEYWORDS: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// How many mistakes are told.
const MAX_ERRORS: usize = 3;

/// Below this, a double that is whole is that number.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
#[allow(dead_code, reason = "the types are there for their schemas")]
mod tests {
    use proptest::prelude::*;
    use schemars::JsonSchema;
    use serde_json::json;

    use super::*;
    use crate::server::schema::schema_of;
    use crate::shared::validate::{AVAILABLE, Validator};

    fn simple(schema: Value) -> Result<SimpleValidator, String> {
        SimpleValidator::from_schema(&Schema::from(schema))
    }

    #[derive(JsonSchema)]
    struct Order {
        #[schemars(range(min = 1, max = 10))]
        count: u8,
        #[schemars(range(min = 0.5))]
        weight: Option<f64>,
        #[schemars(length(min = 1, max = 3))]
        code: String,
        #[schemars(length(max = 2), inner(length(max = 4)))]
        lines: Vec<String>,
        tags: HashSet<String>,
        nested: Vec<Inner>,
        by_name: std::collections::HashMap<String, Inner>,
    }

    #[derive(JsonSchema)]
    struct Inner {
        #[schemars(range(max = 3))]
        depth: u32,
    }

    #[test]
    fn numeric_errors_have_a_path() {
        let plain = SimpleValidator::from_schema(&schema_of::<Order>()).unwrap();
        let fits = json!({
            "count": 10, "weight": 0.5, "code": "äöü", "lines": ["abcd", ""], "tags": ["a", "b"],
            "nested": [{"depth": 3}], "by_name": {"a b": {"depth": 0}},
        });
        plain.check(&fits).unwrap();
        plain.check(&json!({"weight": null, "count": "not a number", "nested": {"depth": 9}})).unwrap();
        for (change, expected) in [
            (json!({"count": 0}), "invalid argument `count`: 0 is less than the minimum of 1"),
            (json!({"count": 11}), "invalid argument `count`: 11 is greater than the maximum of 10"),
            (json!({"weight": 0.25}), "invalid argument `weight`: 0.25 is less than the minimum of 0.5"),
            (json!({"code": ""}), "invalid argument `code`: \"\" is shorter than 1 character"),
            (json!({"code": "äöüß"}), "invalid argument `code`: \"äöüß\" is longer than 3 characters"),
            (
                json!({"lines": ["a", "b", "c"]}),
                "invalid argument `lines`: an array of 3 items has more than 2 items",
            ),
            (
                json!({"lines": ["abcde"]}),
                "invalid argument `lines[0]`: \"abcde\" is longer than 4 characters",
            ),
            (json!({"tags": ["a", "a"]}), "invalid argument `tags`: an array of 2 items holds \"a\" twice"),
            (
                json!({"nested": [{"depth": 3}, {"depth": 4}]}),
                "invalid argument `nested[1].depth`: 4 is greater than the maximum of 3",
            ),
            (
                json!({"by_name": {"a b": {"depth": 4}}}),
                "invalid argument `by_name[\"a b\"].depth`: 4 is greater than the maximum of 3",
            ),
        ] {
            assert_eq!(plain.check(&change).unwrap_err(), expected);
        }
        let many = json!({"lines": ["abcde", "abcde", "abcde", "abcde"], "count": 0});
        assert_eq!(plain.check(&many).unwrap_err().matches("invalid").count(), 3);
    }

    #[test]
    fn keywords_are_checked_at_their_limits() {
        for (schema, fits, breaks) in [
            (json!({"exclusiveMinimum": 1}), json!(1.5), json!(1)),
            (json!({"exclusiveMaximum": 1}), json!(0), json!(1.0)),
            (json!({"minimum": u64::MAX}), json!(u64::MAX), json!(u64::MAX - 1)),
            (json!({"maximum": i64::MIN}), json!(i64::MIN), json!(i64::MIN + 1)),
            (json!({"minItems": 1}), json!([1]), json!([])),
            (json!({"minProperties": 1}), json!({"a": 1}), json!({})),
            (json!({"maxProperties": 1}), json!({"a": 1}), json!({"a": 1, "b": 2})),
            (
                json!({"uniqueItems": true}),
                json!([1, "1", [1], {"a": 1}]),
                json!([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]),
            ),
            (json!({"uniqueItems": false}), json!([1, 1]), Value::Null),
            (
                json!({"prefixItems": [{}, {"minimum": 1}], "items": {"maximum": 3}}),
                json!([9, 1, 3]),
                json!([9, 1, 4]),
            ),
            (json!({"prefixItems": [{}, {"minimum": 1}]}), json!([9, 1, 99]), json!([9, 0])),
            (
                json!({"properties": {"a": {"minimum": 1}}, "additionalProperties": {"minimum": 5}}),
                json!({"a": 1, "b": 5}),
                json!({"a": 5, "b": 1}),
            ),
        ] {
            let plain = simple(schema.clone()).unwrap();
            assert_eq!(plain.check(&fits), Ok(()), "{schema}");
            assert!(breaks.is_null() || plain.check(&breaks).is_err(), "{schema}");
        }
    }

    #[test]
    fn unsupported_keyword_is_named_with_its_path() {
        for (schema, found) in [
            (json!({"properties": {"a": {"pattern": "a"}}}), "`pattern` at `#/properties/a`"),
            (json!({"items": {"multipleOf": 2}}), "`multipleOf` at `#/items`"),
            (json!({"prefixItems": [{"not": {}}]}), "`not` at `#/prefixItems/0`"),
            (json!({"additionalProperties": {"if": {}}}), "`if` at `#/additionalProperties`"),
            // Whether these apply depends on which alternative does.
            (json!({"anyOf": [{"minimum": 1}]}), "`minimum` at `#/anyOf/0`"),
            (json!({"$defs": {"a": {"minimum": 1}}}), "`minimum` at `#/$defs/a`"),
            (
                json!({"properties": {"a": {"oneOf": [{"maxLength": 1}]}}}),
                "`maxLength` at `#/properties/a/oneOf/0`",
            ),
        ] {
            assert_eq!(simple(schema).err().as_deref(), Some(found));
        }
    }

    #[test]
    fn simple_checks_agree_with_the_validator() {
        let schema = schema_of::<Order>();
        let plain = SimpleValidator::from_schema(&schema).unwrap();
        if !AVAILABLE {
            return;
        }
        let full = Validator::compile(&schema).unwrap();
        let instances = (
            0_u8..13,
            proptest::option::of(-1.0_f64..1.0),
            "[a-ö]{0,5}",
            proptest::collection::vec("[a-c]{0,6}", 0..4),
            proptest::collection::vec("[a-c]", 0..3),
            proptest::collection::vec(0_u32..5, 0..3),
        );
        proptest!(|((count, weight, code, lines, tags, depths) in instances)| {
            let nested: Vec<_> = depths.iter().map(|depth| json!({"depth": depth})).collect();
            let instance = json!({
                "count": count, "weight": weight, "code": code, "lines": lines, "tags": tags,
                "nested": nested, "by_name": {},
            });
            prop_assert_eq!(plain.check(&instance).is_ok(), full.check(&instance).is_ok(), "{}", instance);
        });
    }
}
