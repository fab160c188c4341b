//! Limits on the work a schema may cause. Both the schema and the value may come from a peer.
//!
//! The `jsonschema` crate is linear in neither: references can double the work with each step, a reference that leads back
//! to the same value never ends, and both nest calls. Therefore the cost is computed before the crate gets the schema.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tsugite_core::protocol::Schema;

use super::subschemas::{InstanceLocation, subschemas, truncate};

/// A schema within the limits, with the costs of its references.
pub(super) struct BoundedSchema {
    root: Value,
    /// JSON Pointers by anchor.
    anchors: HashMap<String, String>,
    /// The maximum number of schemas that are applied to one value because one schema is.
    max_width: u64,
    /// The maximum number of them that are nested.
    max_depth: u64,
    /// Whether definitions refer to each other in cycles.
    has_cycles: bool,
}

impl BoundedSchema {
    pub(super) fn new(schema: &Schema) -> Result<Self, String> {
        if count_and_depth(schema.keywords().values()).1 > MAX_JSON_DEPTH {
            return Err(format!("the schema is nested deeper than {MAX_SCHEMA_DEPTH} schemas"));
        }
        let mut keywords = schema.keywords().clone();
        // Only local references are allowed, so `$id` has no use, and it could be the id of a schema that the crate knows.
        keywords.shift_remove("$id");
        let root = Value::Object(keywords);
        if root.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema is larger than {} KiB", MAX_SCHEMA_BYTES >> 10));
        }
        let mut scan = SchemaScan::default();
        scan.scan(&root, String::new(), 0)?;
        let SchemaScan { schemas, anchors, references, .. } = scan;
        let mut bounded = Self { root: Value::Null, anchors, max_width: 0, max_depth: 0, has_cycles: false };
        for (reference, location) in references {
            let target = bounded.resolve_pointer(reference).and_then(|pointer| root.pointer(&pointer));
            if !target.is_some_and(|target| schemas.contains(&std::ptr::from_ref(target))) {
                let reference = truncate(reference);
                return Err(format!(
                    "`$ref` at `#{}` does not resolve to a schema: `{reference}`",
                    truncate(&location)
                ));
            }
        }
        bounded.root = root;
        let costs = CostAnalysis::analyze(&bounded)?;
        let (max_width, max_depth, has_cycles) = (costs.max_width(), costs.max_depth(), costs.has_cycles);
        Ok(Self { max_width, max_depth, has_cycles, ..bounded })
    }

    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// Fails if validating `instance` could take too long or nest too deeply.
    pub(super) fn check_cost(&self, instance: &Value) -> Result<(), String> {
        let (values, depth) = count_and_depth([instance]);
        if values.saturating_mul(self.max_width) > MAX_CHECKS {
            return Err("the value is too large to be checked against the schema".to_owned());
        }
        if depth.saturating_mul(self.max_depth) > MAX_STACK_DEPTH {
            return Err("the value is nested too deeply to be checked against the schema".to_owned());
        }
        if self.has_cycles && !self.visits_at_most(MAX_CYCLIC_CHECKS, instance) {
            return Err("the value is too large to be checked against the schema".to_owned());
        }
        Ok(())
    }

    /// Whether the errors of `instance` can be collected at a low cost. To collect errors, the crate neither stops early nor
    /// caches results, so each schema may be applied to each value it can reach.
    pub(super) fn is_cheap(&self, instance: &Value) -> bool {
        self.visits_at_most(MAX_CHECKS_WITH_ERRORS, instance)
    }

    fn visits_at_most(&self, mut limit: u64, instance: &Value) -> bool {
        self.visit(&self.root, instance, &mut limit).is_some()
    }

    fn visit(&self, schema: &Value, instance: &Value, remaining: &mut u64) -> Option<()> {
        *remaining = remaining.checked_sub(1)?;
        let Value::Object(keywords) = schema else { return Some(()) };
        for inner in subschemas(keywords) {
            *remaining = remaining.checked_sub(1)?;
            match inner.location {
                InstanceLocation::Same => self.visit(inner.schema, instance, remaining)?,
                InstanceLocation::Property(name) => {
                    if let Some(value) = instance.get(name) {
                        self.visit(inner.schema, value, remaining)?;
                    }
                }
                InstanceLocation::Children => {
                    for value in children(instance) {
                        self.visit(inner.schema, value, remaining)?;
                    }
                }
                InstanceLocation::Definition => {}
            }
        }
        self.reference_targets(keywords).try_for_each(|target| self.visit(target, instance, remaining))
    }

    /// Returns the targets of the references directly in a schema.
    fn reference_targets<'a>(&'a self, keywords: &'a Map<String, Value>) -> impl Iterator<Item = &'a Value> {
        references(keywords).filter_map(|(_, reference)| self.root.pointer(&self.resolve_pointer(reference)?))
    }

    fn resolve_pointer(&self, reference: &str) -> Option<String> {
        let fragment = percent_decode(reference.strip_prefix('#')?)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(fragment);
        }
        self.anchors.get(&fragment).cloned()
    }
}

/// The schemas, anchors, references and patterns of a schema, without following references.
#[derive(Default)]
struct SchemaScan<'a> {
    schemas: HashSet<*const Value>,
    anchors: HashMap<String, String>,
    references: Vec<(&'a str, String)>,
    patterns: HashSet<&'a str>,
    escapes: usize,
}

impl<'a> SchemaScan<'a> {
    fn scan(&mut self, schema: &'a Value, location: String, depth: u64) -> Result<(), String> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(format!("the schema is nested deeper than {MAX_SCHEMA_DEPTH} schemas"));
        }
        self.schemas.insert(schema);
        if self.schemas.len() > MAX_SCHEMAS {
            return Err(format!("the schema has more than {MAX_SCHEMAS} subschemas"));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        for name in ["$id", "$schema"] {
            if depth > 0 && keywords.contains_key(name) {
                return Err(format!(
                    "`{name}` is allowed only at the root of the schema, not at `#{}`",
                    truncate(&location)
                ));
            }
        }
        for name in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = keywords.get(name).and_then(Value::as_str)
                && self
                    .anchors
                    .insert(name.to_owned(), location.clone())
                    .is_some_and(|other| other != location)
            {
                return Err(format!("two schemas have the anchor `{}`", truncate(name)));
            }
        }
        for (keyword, reference) in references(keywords) {
            if !reference.starts_with('#') {
                let (reference, location) = (truncate(reference), truncate(&location));
                return Err(format!(
                    "`{keyword}` at `#{location}` must refer to the same schema, not to `{reference}`"
                ));
            }
            self.references.push((reference, location.clone()));
        }
        let pattern = keywords.get("pattern").and_then(Value::as_str);
        let names = keywords.get("patternProperties").and_then(Value::as_object);
        for pattern in
            pattern.into_iter().chain(names.into_iter().flat_map(|map| map.keys().map(String::as_str)))
        {
            self.scan_pattern(pattern, &location)?;
        }
        for inner in subschemas(keywords) {
            self.scan(inner.schema, format!("{location}{}", inner.pointer), depth + 1)?;
        }
        Ok(())
    }

    /// Limits a pattern. Matching is linear, but translating a pattern is quadratic in the number of its escapes.
    fn scan_pattern(&mut self, pattern: &'a str, location: &str) -> Result<(), String> {
        if !self.patterns.insert(pattern) {
            return Ok(());
        }
        let escapes = pattern.bytes().filter(|byte| *byte == b'\\').count();
        self.escapes += escapes;
        if pattern.len() > MAX_PATTERN_BYTES || escapes > MAX_ESCAPES {
            return Err(format!(
                "the pattern at `#{}` is too long or has too many escapes: `{}`",
                truncate(location),
                truncate(pattern)
            ));
        }
        if self.patterns.len() > MAX_PATTERNS || self.escapes > MAX_ESCAPES * MAX_ESCAPING_PATTERNS {
            return Err("the schema has too many patterns, or too many escapes in them".to_owned());
        }
        Ok(())
    }
}

/// The cost of a schema with its references followed.
struct CostAnalysis<'a> {
    schema: &'a BoundedSchema,
    /// For each schema, how many schemas are applied to the same value, and how deeply they nest. None while being
    /// computed.
    same_value_costs: HashMap<*const Value, Option<(u64, u64)>>,
    /// The expansion of each schema that was reached.
    expansions: HashMap<*const Value, Expansion>,
    /// Schemas that may still be part of a cycle, in the order they were reached.
    cycle_stack: Vec<*const Value>,
    targets: HashSet<*const Value>,
    has_cycles: bool,
}

/// The size of a schema if each reference were replaced by its target, up to recursion.
#[derive(Clone, Copy)]
struct Expansion {
    /// The earliest schema it leads back to, initially itself (Tarjan's algorithm).
    lowlink: usize,
    /// None while being computed.
    count: Option<u64>,
    closed: bool,
}

impl<'a> CostAnalysis<'a> {
    fn analyze(schema: &'a BoundedSchema) -> Result<Self, String> {
        let mut costs = Self {
            schema,
            same_value_costs: HashMap::new(),
            expansions: HashMap::new(),
            cycle_stack: Vec::new(),
            targets: HashSet::new(),
            has_cycles: false,
        };
        let mut reachable = costs.reachable();
        for schema in &reachable {
            let targets =
                schema.as_object().into_iter().flat_map(|keywords| costs.schema.reference_targets(keywords));
            costs.targets.extend(targets.map(std::ptr::from_ref));
        }
        let mut max_cost = costs.expand(&schema.root, 0)?.count.unwrap_or(0);
        while let Some(schema) = reachable.pop() {
            max_cost = max_cost.max(costs.same_value_cost(schema, 0)?.0);
        }
        if max_cost > MAX_EXPANDED_SCHEMAS {
            return Err(format!(
                "the schema expands to more than {MAX_EXPANDED_SCHEMAS} subschemas through its references"
            ));
        }
        Ok(costs)
    }

    fn max_width(&self) -> u64 {
        self.same_value_costs.values().flatten().map(|(width, _)| *width).max().unwrap_or(1)
    }

    fn max_depth(&self) -> u64 {
        self.same_value_costs.values().flatten().map(|(_, depth)| *depth).max().unwrap_or(1)
    }

    /// Returns all schemas that can be applied.
    fn reachable(&self) -> Vec<&'a Value> {
        let root = &self.schema.root;
        let (mut seen, mut reachable) = (HashSet::from([std::ptr::from_ref(root)]), vec![root]);
        let mut at = 0;
        while let Some(schema) = reachable.get(at).copied() {
            reachable
                .extend(self.successors(schema, false).filter(|next| seen.insert(std::ptr::from_ref(*next))));
            at += 1;
        }
        reachable
    }

    /// Returns the schemas that are applied when `schema` is; with `same`, only those applied to the same value.
    fn successors(&self, schema: &'a Value, same: bool) -> impl Iterator<Item = &'a Value> + use<'a> {
        let bounded = self.schema;
        schema.as_object().into_iter().flat_map(move |keywords| {
            let inner = subschemas(keywords).into_iter().filter(move |inner| match inner.location {
                InstanceLocation::Same => true,
                InstanceLocation::Property(_) | InstanceLocation::Children => !same,
                InstanceLocation::Definition => false,
            });
            inner.map(|inner| inner.schema).chain(bounded.reference_targets(keywords))
        })
    }

    fn same_value_cost(&mut self, schema: &'a Value, depth: u64) -> Result<(u64, u64), String> {
        match self.same_value_costs.get(&std::ptr::from_ref(schema)) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err("a reference cycle applies a schema to the same value again".to_owned()),
            None if depth >= MAX_SCHEMA_DEPTH => return Err(chain_too_long()),
            None => self.same_value_costs.insert(schema, None),
        };
        let (mut width, mut depth) = (1_u64, 1);
        for next in self.successors(schema, true) {
            let (next_width, next_depth) = self.same_value_cost(next, depth + 1)?;
            (width, depth) = (width.saturating_add(next_width), depth.max(next_depth + 1));
        }
        if depth > MAX_SCHEMA_DEPTH {
            return Err(chain_too_long());
        }
        self.same_value_costs.insert(schema, Some((width, depth)));
        Ok((width, depth))
    }

    fn expand(&mut self, schema: &'a Value, depth: u64) -> Result<Expansion, String> {
        if let Some(known) = self.expansions.get(&std::ptr::from_ref(schema)) {
            return Ok(*known);
        }
        if depth > MAX_EXPANDED_DEPTH {
            return Err(format!(
                "the schema is nested deeper than {MAX_EXPANDED_DEPTH} schemas, references included"
            ));
        }
        let index = self.expansions.len();
        let mut this = Expansion { lowlink: index, count: None, closed: false };
        self.expansions.insert(schema, this);
        self.cycle_stack.push(schema);
        let mut count = 1_u64;
        for next in self.successors(schema, false) {
            let next = self.expand(next, depth + 1)?;
            // The crate caches results at the point where recursion starts again.
            count = count.saturating_add(next.count.unwrap_or(1));
            if !next.closed {
                this.lowlink = this.lowlink.min(next.lowlink);
            }
        }
        this.count = Some(count);
        if this.lowlink == index {
            self.close_cycle(schema);
            this.closed = true;
        }
        self.expansions.insert(schema, this);
        Ok(this)
    }

    /// Closes the cycle that starts with `schema`. If it has more than one reference target, the crate decides at which of
    /// them recursion starts again.
    fn close_cycle(&mut self, schema: *const Value) {
        let begin = self.cycle_stack.iter().rposition(|member| *member == schema).unwrap_or(0);
        let members = self.cycle_stack.split_off(begin);
        self.has_cycles |= members.iter().filter(|member| self.targets.contains(*member)).count() > 1;
        for member in members {
            if let Some(member) = self.expansions.get_mut(&member) {
                member.closed = true;
            }
        }
    }
}

fn chain_too_long() -> String {
    format!("a chain of more than {MAX_SCHEMA_DEPTH} schemas applies to the same value")
}

fn references(keywords: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    ["$ref", "$dynamicRef", "$recursiveRef"]
        .into_iter()
        .filter_map(|keyword| Some((keyword, keywords.get(keyword)?.as_str()?)))
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the number of values and the depth of their nesting. Not recursive, because the depth is not limited yet.
fn count_and_depth<'a>(values: impl IntoIterator<Item = &'a Value>) -> (u64, u64) {
    let (mut count, mut deepest) = (0, 0);
    let mut open: Vec<_> = values.into_iter().map(|value| (value, 1)).collect();
    while let Some((value, depth)) = open.pop() {
        (count, deepest) = (count + 1, depth.max(deepest));
        open.extend(children(value).map(|child| (child, depth + 1)));
    }
    (count, deepest)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// The nesting of schemas as written, and the length of a chain of schemas applied to the same value.
const MAX_SCHEMA_DEPTH: u64 = 64;

/// Two levels of JSON for each schema, and some for data in it.
const MAX_JSON_DEPTH: u64 = 3 * MAX_SCHEMA_DEPTH;

/// The depth that the crate compiles within half of a 2 MiB stack, without optimisation.
const MAX_EXPANDED_DEPTH: u64 = 128;

const MAX_SCHEMAS: usize = 10_000;

const MAX_EXPANDED_SCHEMAS: u64 = 100_000;

const MAX_PATTERNS: usize = 100;

const MAX_PATTERN_BYTES: usize = 2_000;

const MAX_ESCAPES: usize = 100;

/// How many patterns may have [`MAX_ESCAPES`] escapes.
const MAX_ESCAPING_PATTERNS: usize = 20;

/// Applications of a schema to a value. Validation runs on the thread of the runtime, so more than a fraction of a second
/// would delay other requests.
const MAX_CHECKS: u64 = 10_000_000;

/// The same for schemas with cycles, where the caching of the crate is unknown, so each application is counted.
const MAX_CYCLIC_CHECKS: u64 = 1_000_000;

/// Nested applications: without optimisation a 2 MiB stack overflows between 2,500 and 5,000.
const MAX_STACK_DEPTH: u64 = 1_000;

/// Applications of a schema to a value that may each produce an error; this many take megabytes.
const MAX_CHECKS_WITH_ERRORS: u64 = 200_000;
