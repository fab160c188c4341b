//! The full JSON Schema validator, based on the `jsonschema` crate. It reads no network and no files, matches regular
//! expressions in linear time, and treats `format` as an annotation.

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{Draft, PatternOptions, ValidationError};
use serde_json::Value;
use tsugite_core::protocol::Schema;

use super::bounds::BoundedSchema;
use super::messages::error_message;
use super::subschemas::{summarize, truncate};

/// Whether schemas can be compiled.
pub(crate) const AVAILABLE: bool = true;

/// A compiled schema. Clones share it. A trait object, so that only programs that compile a schema link the validator.
#[derive(Clone)]
pub(crate) struct Validator(Arc<dyn DynValidator>);

trait DynValidator: Send + Sync {
    fn check(&self, instance: &Value) -> Result<(), String>;
}

struct CompiledValidator {
    bounds: BoundedSchema,
    validator: jsonschema::Validator,
}

impl Validator {
    /// Compiles a schema of draft 2020-12, or of the draft in its `$schema`. Fails if it is not a valid schema, has a reference
    /// outside itself, has a pattern that cannot be matched in linear time, or exceeds the limits of `bounds`.
    pub(crate) fn compile(schema: &Schema) -> Result<Self, String> {
        let bounds = BoundedSchema::new(schema)?;
        let patterns = PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 18);
        let validator = jsonschema::options()
            .with_draft(draft(bounds.root().get("$schema"))?)
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .offline()
            .build(bounds.root())
            .map_err(|error| compile_error(&error))?;
        Ok(Self(Arc::new(CompiledValidator { bounds, validator })))
    }

    /// Validates `instance`. The error lists at most three violations.
    pub(crate) fn check(&self, instance: &Value) -> Result<(), String> {
        self.0.check(instance)
    }
}

impl DynValidator for CompiledValidator {
    fn check(&self, instance: &Value) -> Result<(), String> {
        let CompiledValidator { bounds, validator } = self;
        bounds.check_cost(instance).map_err(|reason| format!("invalid arguments: {reason}"))?;
        // Decides alone, because only this call caches results; `iter_errors` may be exponential.
        if validator.is_valid(instance) {
            return Ok(());
        }
        let messages: Vec<_> = if bounds.is_cheap(instance) {
            validator.iter_errors(instance).take(3).map(|error| error_message(&error)).collect()
        } else {
            Vec::new()
        };
        Err(match messages.is_empty() {
            true => {
                "invalid arguments: they do not match the schema, and are too large to say where".to_owned()
            }
            false => messages.join("; "),
        })
    }
}

fn draft(dialect: Option<&Value>) -> Result<Draft, String> {
    let Some(dialect) = dialect else { return Ok(Draft::Draft202012) };
    let uri = dialect.as_str().unwrap_or_default().trim_end_matches('#');
    match uri.split_once("://").map(|(_, rest)| rest) {
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("json-schema.org/draft/2019-09/schema") => Ok(Draft::Draft201909),
        Some("json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        Some("json-schema.org/draft-06/schema") => Ok(Draft::Draft6),
        _ => Err(format!("the schema dialect {} is not supported", summarize(dialect))),
    }
}

fn compile_error(error: &ValidationError<'_>) -> String {
    let location = truncate(error.instance_path().as_str());
    match error.kind() {
        Kind::Format { format } if format == "regex" => format!(
            "the pattern {} at `#{location}` is not supported: it must be matched in linear time, so without look-around \
             and back-references, and must not be large",
            summarize(error.instance())
        ),
        Kind::Referencing(reason) => {
            format!("a reference cannot be resolved: {}", truncate(&reason.to_string()))
        }
        _ => {
            let reason = error.masked_with(summarize(error.instance())).to_string();
            format!("not a valid schema at `#{location}`: {}", truncate(&reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    fn compile(schema: Value) -> Result<Validator, String> {
        Validator::compile(&Schema::from(schema))
    }

    fn schema_error(schema: Value) -> String {
        compile(schema).err().unwrap()
    }

    fn check_error(schema: Value, instance: Value) -> String {
        compile(schema).unwrap().check(&instance).unwrap_err()
    }

    /// Fails if `work` takes long. Without the limits it would take hours.
    fn run_within_limit<T>(work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        done
    }

    fn object_schema(properties: Value) -> Value {
        json!({"type": "object", "properties": properties})
    }

    #[test]
    fn validator_is_shared_between_threads() {
        fn shared<T: Clone + Send + Sync + 'static>() {}
        shared::<Validator>();
    }

    #[test]
    fn violation_names_path_expectation_and_actual_value() {
        let item =
            json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let schema = json!({
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "minimum": 1, "maximum": 10},
                "items": {"type": "array", "items": item, "maxItems": 3},
                "colour": {"enum": ["red", "green"]},
                "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "fixed": {"const": 3},
                "even": {"multipleOf": 2},
                "a b": {"type": "string"},
                "none": false,
                "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "letter": {"anyOf": [{"items": {"const": "a"}}, {"items": {"const": "b"}}]},
                "shape": {"oneOf": [
                    {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind"]},
                    {"properties": {"kind": {"const": "point"}}, "required": ["kind", "place"]},
                ]},
            },
            "required": ["limit"],
            "additionalProperties": false,
        });
        let validator = compile(schema).unwrap();
        validator
            .check(&json!({"limit": 1, "items": [{"name": "x"}], "colour": "red", "either": null}))
            .unwrap();
        for (change, expected) in [
            (json!({"limit": 0}), "invalid argument `limit`: 0 is less than the minimum of 1"),
            (json!({"limit": 11}), "invalid argument `limit`: 11 is greater than the maximum of 10"),
            (json!({"limit": "5"}), "invalid argument `limit`: \"5\" is not of type \"integer\""),
            (
                json!({"items": [{"name": "a"}, {"name": "b"}, {"name": 3}]}),
                "invalid argument `items[2].name`: 3 is not of type \"string\"",
            ),
            (json!({"items": [{}]}), "invalid argument `items[0]`: `name` is missing"),
            (
                json!({"items": [{"name": ""}, {"name": ""}, {"name": ""}, {"name": ""}]}),
                "invalid argument `items`: an array of 4 items has more than 3 items",
            ),
            (
                json!({"colour": "blue"}),
                "invalid argument `colour`: \"blue\" is not one of \"red\", \"green\"",
            ),
            (json!({"code": "A"}), "invalid argument `code`: \"A\" does not match \"^[a-z]+$\""),
            (json!({"code": "abcdef"}), "invalid argument `code`: \"abcdef\" is longer than 5 characters"),
            (json!({"fixed": 4}), "invalid argument `fixed`: 4 is not 3"),
            (json!({"even": 3}), "invalid argument `even`: 3 is not a multiple of 2"),
            (json!({"a b": 1}), "invalid argument `[\"a b\"]`: 1 is not of type \"string\""),
            (json!({"none": 1}), "invalid argument `none`: no value is allowed here"),
            (json!({"extra": 1, "more": 2}), "invalid arguments: unexpected `extra`, `more`"),
            (
                json!({"either": 3}),
                "invalid argument `either`: 3 matches no alternative: 3 is not of type \"string\"; \
                 3 is not of type \"null\"",
            ),
            (
                json!({"letter": ["c"]}),
                "invalid argument `letter`: an array of 1 item matches no alternative; in the closest one, `letter[0]`: \
                 \"c\" is not \"a\"",
            ),
            (
                json!({"shape": {"kind": "circle", "radius": "big"}}),
                "invalid argument `shape`: an object matches no alternative; in the closest one, `shape.radius`: \
                 \"big\" is not of type \"number\"",
            ),
        ] {
            let mut instance = json!({"limit": 1});
            instance.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(validator.check(&instance).unwrap_err(), expected);
        }
        assert_eq!(validator.check(&json!({})).unwrap_err(), "invalid arguments: `limit` is missing");
        assert_eq!(
            validator.check(&json!([])).unwrap_err(),
            "invalid arguments: [] is not of type \"object\""
        );
    }

    #[test]
    fn at_most_three_violations_are_reported() {
        let schema = json!({"items": {"type": "integer"}});
        let error = check_error(schema, json!(["a", "b", "c", "d"]));
        assert_eq!(error.matches("invalid argument").count(), 3);
        assert!(error.contains("`[2]`: \"c\"") && !error.contains("`[3]`"), "{error}");
    }

    #[test]
    fn long_values_are_truncated_in_errors() {
        let long = "x".repeat(100_000);
        let mut keyed = json!({});
        keyed[&long] = json!(1);
        let names: Value = (0..20).map(|at| (format!("{at}{long}"), json!(1))).collect();
        let closed = json!({"additionalProperties": false});
        for (schema, instance) in [
            (json!({"type": "integer"}), json!(long)),
            (json!({"maxLength": 3}), json!(long)),
            (json!({"const": long}), json!(1)),
            (json!({"enum": [long, 1]}), json!(format!("y{long}"))),
            (json!({"not": {"type": "string", "description": long}}), json!(long)),
            (json!({"additionalProperties": {"type": "string"}}), keyed),
            (closed, names),
            (json!({"propertyNames": {"maxLength": 3}}), json!({(long.as_str()): 1})),
            (json!({"anyOf": [{"const": long}, {"type": "null"}]}), json!({"a": [long]})),
            (json!({"uniqueItems": true}), json!([long, long])),
            (json!({"contains": {"type": "null"}}), json!([long, long])),
        ] {
            let error = check_error(schema, instance);
            let sentences = error.matches("invalid argument").count();
            assert!(error.chars().count() < sentences * 430, "{error}");
        }
    }

    #[test]
    fn number_without_fraction_is_an_integer() {
        let validator = compile(json!({"type": "integer"})).unwrap();
        validator.check(&json!(42)).unwrap();
        validator.check(&json!(42.0)).unwrap();
        validator.check(&json!(42.5)).unwrap_err();
    }

    #[test]
    fn format_is_only_an_annotation() {
        for dialect in
            ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
        {
            let validator = compile(json!({"$schema": dialect, "format": "email"})).unwrap();
            validator.check(&json!("no address")).unwrap();
        }
    }

    #[test]
    fn schema_may_name_its_draft() {
        let tuple = |dialect: &str| json!({"$schema": dialect, "items": [{"type": "string"}]});
        let validator = compile(tuple("http://json-schema.org/draft-07/schema#")).unwrap();
        assert!(validator.check(&json!([1])).is_err());
        assert!(
            schema_error(json!({"items": [{"type": "string"}]}))
                .starts_with("not a valid schema at `#/items`")
        );
        let unknown = schema_error(tuple("https://example.com/dialect"));
        assert_eq!(unknown, "the schema dialect \"https://example.com/dialect\" is not supported");
        assert_eq!(schema_error(json!({"$schema": 7})), "the schema dialect 7 is not supported");
    }

    #[test]
    fn invalid_schema_is_refused() {
        for (schema, location) in [
            (json!({"type": "nonsense"}), "#/type"),
            (object_schema(json!({"a": {"minimum": "x"}})), "#/properties/a/minimum"),
            (object_schema(json!({"a": 5})), "#/properties/a"),
            (json!({"allOf": {}}), "#/allOf"),
            (json!({"required": "a"}), "#/required"),
        ] {
            let error = schema_error(schema);
            assert!(error.starts_with(&format!("not a valid schema at `{location}`: ")), "{error}");
        }
    }

    #[test]
    fn references_stay_inside_the_schema() {
        for reference in [
            "http://169.254.169.254/",
            "file:///etc/passwd",
            "other.json",
            "//example.com/a",
            "https://json-schema.org/draft/2020-12/schema",
            "",
        ] {
            for keyword in ["$ref", "$dynamicRef"] {
                let error = schema_error(object_schema(json!({"a": {(keyword): reference}})));
                let expected = format!("`{keyword}` at `#/properties/a` must refer to the same schema");
                assert!(error.starts_with(&expected), "{error}");
            }
        }
        for reference in ["#/$defs/nowhere", "#nowhere", "#/properties/a/default", "#%zz", "#/required"] {
            let a = json!({"$ref": reference, "default": {"$ref": "http://169.254.169.254/"}});
            let error = schema_error(json!({"properties": {"a": a}, "required": []}));
            assert!(error.starts_with("`$ref` at `#/properties/a` does not resolve to a schema"), "{error}");
        }
        let nested = schema_error(object_schema(json!({"a": {"$id": "http://example.com/"}})));
        assert_eq!(nested, "`$id` is allowed only at the root of the schema, not at `#/properties/a`");
        // Data and property names are not references.
        compile(object_schema(json!({"$ref": {"const": {"$ref": "http://example.com/"}}, "$id": {}})))
            .unwrap();
    }

    #[test]
    fn local_references_are_followed() {
        let schema = json!({
            "$id": "urn:my tool",
            "properties": {
                "a": {"$ref": "#/$defs/a%20b"},
                "b": {"$ref": "#named"},
                "c": {"$ref": "#/$defs/x~1y"},
                "d": {"$dynamicRef": "#tree"},
            },
            "$defs": {
                "a b": {"type": "integer"},
                "n": {"$anchor": "named", "type": "string"},
                "x/y": {"type": "null"},
                "t": {"$dynamicAnchor": "tree", "type": "object", "additionalProperties": {"$dynamicRef": "#tree"}},
            },
        });
        let validator = compile(schema).unwrap();
        validator.check(&json!({"a": 1, "b": "x", "c": null, "d": {"e": {"f": {}}}})).unwrap();
        for wrong in [json!({"a": "1"}), json!({"b": 1}), json!({"c": 1}), json!({"d": {"e": {"f": 1}}})] {
            validator.check(&wrong).unwrap_err();
        }
    }

    #[test]
    fn pattern_is_matched_in_linear_time_or_refused() {
        let validator = compile(json!({"pattern": "(a+)+$"})).unwrap();
        let hostile = Value::from("a".repeat(200_000) + "b");
        assert!(run_within_limit(|| validator.check(&hostile)).is_err());
        for pattern in ["(?=a)b", "(?<!a)b", r"(a)\1", "[", r"^\p{L}{1,5000}$"] {
            let error = schema_error(object_schema(json!({"a": {"pattern": pattern}})));
            assert!(error.starts_with("the pattern \""), "{error}");
            assert!(error.contains("at `#/properties/a/pattern` is not supported"), "{error}");
        }
        assert!(schema_error(json!({"patternProperties": {"(?=a)": {}}})).contains("pattern"));
    }

    #[test]
    fn patterns_that_take_long_to_compile_are_refused() {
        assert!(
            run_within_limit(|| schema_error(json!({"pattern": "\\S".repeat(1_000)}))).contains("too long")
        );
        assert!(schema_error(json!({"patternProperties": {("a".repeat(3_000)): {}}})).contains("too long"));
        let many: Vec<_> = (0..1_000).map(|at| json!({"pattern": format!("^x{at}[^a]{{1,200}}$")})).collect();
        assert_eq!(
            run_within_limit(|| schema_error(json!({"allOf": many}))),
            "the schema has too many patterns, or too many escapes in them"
        );
        let escapes: Vec<_> = (0..50).map(|at| json!({"pattern": "\\S".repeat(50 + at)})).collect();
        assert_eq!(
            run_within_limit(|| schema_error(json!({"allOf": escapes}))),
            "the schema has too many patterns, or too many escapes in them"
        );
        // Equal patterns count once.
        let same: Vec<_> = (0..500).map(|_| json!({"pattern": r"^\d+$"})).collect();
        compile(json!({"items": {"anyOf": same}})).unwrap();
    }

    #[test]
    fn schema_has_limits_of_size_depth_and_subschemas() {
        let deep = |levels| (0..levels).fold(json!({}), |inner, _| json!({"items": inner}));
        compile(deep(64)).unwrap();
        assert_eq!(schema_error(deep(65)), "the schema is nested deeper than 64 schemas");
        assert_eq!(schema_error(deep(1_000)), "the schema is nested deeper than 64 schemas");
        assert!(schema_error(json!({"description": "x".repeat(300 << 10)})).contains("larger than 256 KiB"));
        let wide = |count| json!({"anyOf": (0..count).map(|_| json!({})).collect::<Vec<_>>()});
        compile(wide(9_999)).unwrap();
        assert_eq!(schema_error(wide(10_000)), "the schema has more than 10000 subschemas");
        assert!(run_within_limit(|| schema_error(wide(100_000))).contains("larger"));
    }

    /// Each definition refers twice to the next one.
    fn doubling(keyword: &str, levels: usize, below: bool) -> Value {
        let level = |at: usize| {
            let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
            let twice = json!({(keyword): [next, next]});
            (format!("a{at}"), if below { json!({"properties": {"x": twice}}) } else { twice })
        };
        let mut definitions: serde_json::Map<_, _> = (0..levels).map(level).collect();
        definitions.insert(format!("a{levels}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/a0", "$defs": definitions})
    }

    #[test]
    fn exponential_references_are_refused() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for below in [false, true] {
                let error = run_within_limit(|| schema_error(doubling(keyword, 30, below)));
                assert_eq!(error, "the schema expands to more than 100000 subschemas through its references");
                let small = compile(doubling(keyword, 10, below)).unwrap();
                let _ = run_within_limit(|| small.check(&json!("x")));
                let _ = run_within_limit(|| small.check(&json!({"x": {"x": {"x": 1}}})));
            }
        }
        let error = run_within_limit(|| schema_error(doubling("allOf", 2_000, true)));
        assert_eq!(error, "the schema is nested deeper than 128 schemas, references included");
    }

    #[test]
    fn chains_of_references_are_limited() {
        let chain = |length: usize| {
            let step = |at: usize| (format!("a{at}"), json!({"$ref": format!("#/$defs/a{}", at + 1)}));
            let mut definitions: serde_json::Map<_, _> = (0..length).map(step).collect();
            definitions.insert(format!("a{length}"), json!({"type": "string"}));
            json!({"$ref": "#/$defs/a0", "$defs": definitions})
        };
        assert!(compile(chain(60)).unwrap().check(&json!(1)).is_err());
        assert_eq!(schema_error(chain(100)), "a chain of more than 64 schemas applies to the same value");
        assert!(schema_error(chain(4_000)).contains("deep"));
    }

    #[test]
    fn unused_definitions_have_no_cost() {
        let mut schema = doubling("allOf", 30, false);
        schema["$ref"] = json!("#/$defs/a30");
        assert!(compile(schema).unwrap().check(&json!(1)).is_err());
    }

    #[test]
    fn reference_cycle_on_the_same_value_is_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {
                "a": {"allOf": [{"$ref": "#/$defs/b"}]},
                "b": {"anyOf": [{"type": "null"}, {"not": {"$ref": "#/$defs/a"}}]},
            }}),
            // Reached through a property first.
            json!({"properties": {"x": {"$ref": "#/$defs/b"}}, "allOf": [{"$ref": "#/$defs/b"}],
                "$defs": {"b": {"anyOf": [{"$ref": "#"}]}}}),
        ] {
            assert_eq!(schema_error(schema), "a reference cycle applies a schema to the same value again");
        }
    }

    #[test]
    fn recursion_into_the_value_is_allowed() {
        let schema = json!({"$ref": "#/$defs/tree", "$defs": {"tree": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "children": {"items": {"$ref": "#/$defs/tree"}}},
            "required": ["value"],
        }}});
        let validator = compile(schema).unwrap();
        let tree = |leaf: Value| (0..20).fold(leaf, |leaf, _| json!({"value": 1, "children": [leaf]}));
        validator.check(&tree(json!({"value": 1}))).unwrap();
        let error = validator.check(&tree(json!({"value": "x"}))).unwrap_err();
        let path = vec!["children[0]"; 20].join(".") + ".value";
        let path: String = path.chars().take(200).collect();
        assert_eq!(error, format!("invalid argument `{path}…`: \"x\" is not of type \"integer\""));
    }

    #[test]
    fn doubling_recursion_is_decided_quickly() {
        let x = json!({"properties": {"x": {"$ref": "#/$defs/a"}}});
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "allOf": [x, x]}}});
        let validator = compile(schema).unwrap();
        let nested = |leaf: Value| (0..60).fold(leaf, |leaf, _| json!({"x": leaf}));
        run_within_limit(|| validator.check(&nested(json!({})))).unwrap();
        let error = run_within_limit(|| validator.check(&nested(json!(1)))).unwrap_err();
        assert_eq!(error, "invalid arguments: they do not match the schema, and are too large to say where");
    }

    #[test]
    fn value_beyond_the_cost_limit_is_refused_before_validation() {
        let step =
            (0..40).fold(json!({"properties": {"x": {"$ref": "#"}}}), |inner, _| json!({"allOf": [inner]}));
        let validator = compile(step).unwrap();
        let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({"x": inner}));
        validator.check(&nested(20)).unwrap();
        let error = validator.check(&nested(120)).unwrap_err();
        assert_eq!(
            error,
            "invalid arguments: the value is nested too deeply to be checked against the schema"
        );
        let kinds: Vec<_> = (0..9_000).map(|_| json!({"type": "integer"})).collect();
        let validator = compile(json!({"items": {"allOf": kinds}})).unwrap();
        let error = run_within_limit(|| validator.check(&Value::from(vec![1; 1_000_000]))).unwrap_err();
        assert_eq!(error, "invalid arguments: the value is too large to be checked against the schema");
    }

    #[test]
    fn compiling_any_schema_needs_little_stack() {
        for keyword in ["items", "additionalProperties", "unevaluatedProperties", "not", "contains", "if"] {
            let segment = |at: usize| {
                let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
                (format!("a{at}"), (0..14).fold(next, |inner, _| json!({(keyword): inner})))
            };
            let mut definitions: serde_json::Map<_, _> = (0..7).map(segment).collect();
            definitions.insert("a7".to_owned(), json!({}));
            let schema = json!({"items": {"$ref": "#/$defs/a0"}, "$defs": definitions});
            let small = std::thread::Builder::new().stack_size(2 << 20);
            // Either result is accepted.
            small.spawn(move || drop(compile(schema))).unwrap().join().unwrap();
        }
    }

    #[test]
    fn doubling_mutual_references_are_decided_quickly() {
        let to = |at: usize| json!({"$ref": format!("#/$defs/a{at}")});
        let level = |at: usize| {
            let twice = json!({"allOf": [to(at + 1), to(at + 1)]});
            (format!("a{at}"), json!({"properties": {"back": to(at.saturating_sub(1)), "x": twice}}))
        };
        let mut definitions: serde_json::Map<_, _> = (0..35).map(level).collect();
        definitions.insert("a35".to_owned(), json!({"properties": {"back": to(34)}}));
        // Reached from the other end, the work does not double.
        let ends = json!({"$ref": "#/$defs/a0", "properties": {"y": to(35)}, "$defs": definitions});
        let validator = compile(ends).unwrap();
        let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({"x": inner}));
        run_within_limit(|| validator.check(&nested(10))).unwrap();
        let error = run_within_limit(|| validator.check(&nested(34))).unwrap_err();
        assert_eq!(error, "invalid arguments: the value is too large to be checked against the schema");
    }
}
