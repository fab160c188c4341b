//! How much work a schema may cause. A schema may come from a peer, and so may the value.
//!
//! The library that validates is linear in neither: references double work with each step, a reference that leads back
//! to the same value has no end, and both nest calls. Hence everything is counted before the library sees it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tsugite_core::protocol::Schema;

use super::subschemas::{InstanceLocation, subschemas, truncate};

/// A schema that is small enough, and what its references lead to.
pub(super) struct BoundedSchema {
    root: Value,
    /// JSON Pointers by name.
    anchors: HashMap<String, String>,
    /// The most schemas that look at one value because one schema does.
    max_width: u64,
    /// The most of them that wait for each other.
    max_depth: u64,
    /// Whether definitions refer to each other in circles.
    has_cycles: bool,
}

impl BoundedSchema {
    pub(super) fn new(schema: &Schema) -> Result<Self, String> {
        if count_and_depth(schema.keywords().values()).1 > MAX_JSON_DEPTH {
            return Err(format!("the schema is nested deeper than {MAX_SCHEMA_DEPTH} schemas"));
        }
        let mut keywords = schema.keywords().clone();
        // References are local, so the name of the whole says nothing; and it might be the name of a known one.
        keywords.shift_remove("$id");
        let root = Value::Object(keywords);
        if root.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema is larger than {} KiB", MAX_SCHEMA_BYTES >> 10));
        }
        let mut survey = SchemaScan::default();
        survey.scan(&root, String::new(), 0)?;
        let SchemaScan { schemas, anchors, references, .. } = survey;
        let mut bounded = Self { root: Value::Null, anchors, max_width: 0, max_depth: 0, has_cycles: false };
        for (reference, place) in references {
            let target = bounded.resolve_pointer(reference).and_then(|pointer| root.pointer(&pointer));
            if !target.is_some_and(|target| schemas.contains(&std::ptr::from_ref(target))) {
                let reference = truncate(reference);
                return Err(format!("`$ref` at `#{}` leads to no schema: `{reference}`", truncate(&place)));
            }
        }
        bounded.root = root;
        let weighing = CostAnalysis::analyze(&bounded)?;
        let (wide, deep, tangled) = (weighing.max_width(), weighing.max_depth(), weighing.has_cycles);
        Ok(Self { max_width: wide, max_depth: deep, has_cycles: tangled, ..bounded })
    }

    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// Fails if checking `instance` could take too long or nest too deep.
    pub(super) fn check_cost(&self, instance: &Value) -> Result<(), String> {
        let (values, depth) = count_and_depth([instance]);
        if values.saturating_mul(self.max_width) > MAX_CHECKS {
            return Err("there is too much in it to be checked against the schema".to_owned());
        }
        if depth.saturating_mul(self.max_depth) > MAX_STACK_DEPTH {
            return Err("it is nested too deep to be checked against the schema".to_owned());
        }
        if self.has_cycles && !self.visits_at_most(MAX_CYCLIC_CHECKS, instance) {
            return Err("there is too much in it to be checked against the schema".to_owned());
        }
        Ok(())
    }

    /// Whether every schema could look at everything it might in `instance` without much ado: to say what is wrong,
    /// the library neither stops early nor remembers what it has seen.
    pub(super) fn is_cheap(&self, instance: &Value) -> bool {
        self.visits_at_most(MAX_CHECKS_WITH_ERRORS, instance)
    }

    fn visits_at_most(&self, mut most: u64, instance: &Value) -> bool {
        self.visit(&self.root, instance, &mut most).is_some()
    }

    fn visit(&self, schema: &Value, instance: &Value, left: &mut u64) -> Option<()> {
        *left = left.checked_sub(1)?;
        let Value::Object(keywords) = schema else { return Some(()) };
        for inner in subschemas(keywords) {
            *left = left.checked_sub(1)?;
            match inner.location {
                InstanceLocation::Same => self.visit(inner.schema, instance, left)?,
                InstanceLocation::Property(name) => {
                    if let Some(value) = instance.get(name) {
                        self.visit(inner.schema, value, left)?;
                    }
                }
                InstanceLocation::Children => {
                    for value in children(instance) {
                        self.visit(inner.schema, value, left)?;
                    }
                }
                InstanceLocation::Definition => {}
            }
        }
        self.reference_targets(keywords).try_for_each(|target| self.visit(target, instance, left))
    }

    /// What the references right in a schema lead to.
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

/// The schema as it is written.
#[derive(Default)]
struct SchemaScan<'a> {
    schemas: HashSet<*const Value>,
    anchors: HashMap<String, String>,
    references: Vec<(&'a str, String)>,
    patterns: HashSet<&'a str>,
    escapes: usize,
}

impl<'a> SchemaScan<'a> {
    fn scan(&mut self, schema: &'a Value, place: String, depth: u64) -> Result<(), String> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(format!("the schema is nested deeper than {MAX_SCHEMA_DEPTH} schemas"));
        }
        self.schemas.insert(schema);
        if self.schemas.len() > MAX_SCHEMAS {
            return Err(format!("the schema is made of more than {MAX_SCHEMAS} schemas"));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        for name in ["$id", "$schema"] {
            if depth > 0 && keywords.contains_key(name) {
                return Err(format!(
                    "`{name}` stands at the root of a schema only, not at `#{}`",
                    truncate(&place)
                ));
            }
        }
        for name in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = keywords.get(name).and_then(Value::as_str)
                && self.anchors.insert(name.to_owned(), place.clone()).is_some_and(|other| other != place)
            {
                return Err(format!("two schemas are called `{}`", truncate(name)));
            }
        }
        for (keyword, reference) in references(keywords) {
            if !reference.starts_with('#') {
                let (reference, place) = (truncate(reference), truncate(&place));
                return Err(format!(
                    "`{keyword}` at `#{place}` must lead to a place in the same schema, not to `{reference}`"
                ));
            }
            self.references.push((reference, place.clone()));
        }
        let pattern = keywords.get("pattern").and_then(Value::as_str);
        let names = keywords.get("patternProperties").and_then(Value::as_object);
        for pattern in
            pattern.into_iter().chain(names.into_iter().flat_map(|map| map.keys().map(String::as_str)))
        {
            self.scan_pattern(pattern, &place)?;
        }
        for inner in subschemas(keywords) {
            self.scan(inner.schema, format!("{place}{}", inner.pointer), depth + 1)?;
        }
        Ok(())
    }

    /// Regular expressions are matched in linear time, but translating one takes the square of its escapes.
    fn scan_pattern(&mut self, pattern: &'a str, place: &str) -> Result<(), String> {
        if !self.patterns.insert(pattern) {
            return Ok(());
        }
        let escapes = pattern.bytes().filter(|byte| *byte == b'\\').count();
        self.escapes += escapes;
        if pattern.len() > MAX_PATTERN_BYTES || escapes > MAX_ESCAPES {
            return Err(format!(
                "the pattern at `#{}` is too long: `{}`",
                truncate(place),
                truncate(pattern)
            ));
        }
        if self.patterns.len() > MAX_PATTERNS || self.escapes > MAX_ESCAPES * MAX_ESCAPING_PATTERNS {
            return Err("there are too many patterns in the schema".to_owned());
        }
        Ok(())
    }
}

/// The schema with its references followed.
struct CostAnalysis<'a> {
    schema: &'a BoundedSchema,
    /// Of each schema, how many look at the same value and how many of them wait for each other; none while it is
    /// being found out.
    same_value_costs: HashMap<*const Value, Option<(u64, u64)>>,
    /// What is known of the others, in the order they were met, and those of them that may still be part of a circle.
    expansions: HashMap<*const Value, Expansion>,
    cycle_stack: Vec<*const Value>,
    targets: HashSet<*const Value>,
    has_cycles: bool,
}

/// How many schemas it would be if each reference were replaced by what it leads to, up to recursion.
#[derive(Clone, Copy)]
struct Expansion {
    /// The earliest met that it leads back to, itself at first (Tarjan's algorithm).
    lowlink: usize,
    /// None while it is being found out.
    count: Option<u64>,
    closed: bool,
}

impl<'a> CostAnalysis<'a> {
    fn analyze(schema: &'a BoundedSchema) -> Result<Self, String> {
        let mut weighing = Self {
            schema,
            same_value_costs: HashMap::new(),
            expansions: HashMap::new(),
            cycle_stack: Vec::new(),
            targets: HashSet::new(),
            has_cycles: false,
        };
        let mut reached = weighing.reachable();
        for schema in &reached {
            let targets = schema
                .as_object()
                .into_iter()
                .flat_map(|keywords| weighing.schema.reference_targets(keywords));
            weighing.targets.extend(targets.map(std::ptr::from_ref));
        }
        let mut most = weighing.expand(&schema.root, 0)?.count.unwrap_or(0);
        while let Some(schema) = reached.pop() {
            most = most.max(weighing.same_value_cost(schema, 0)?.0);
        }
        if most > MAX_EXPANDED_SCHEMAS {
            return Err(format!("the schema unfolds to more than {MAX_EXPANDED_SCHEMAS} schemas"));
        }
        Ok(weighing)
    }

    fn max_width(&self) -> u64 {
        self.same_value_costs.values().flatten().map(|(wide, _)| *wide).max().unwrap_or(1)
    }

    fn max_depth(&self) -> u64 {
        self.same_value_costs.values().flatten().map(|(_, deep)| *deep).max().unwrap_or(1)
    }

    /// Every schema that plays a part.
    fn reachable(&self) -> Vec<&'a Value> {
        let root = &self.schema.root;
        let (mut seen, mut reached) = (HashSet::from([std::ptr::from_ref(root)]), vec![root]);
        let mut at = 0;
        while let Some(schema) = reached.get(at).copied() {
            reached
                .extend(self.successors(schema, false).filter(|next| seen.insert(std::ptr::from_ref(*next))));
            at += 1;
        }
        reached
    }

    /// The schemas that have their say when `schema` has; only those about the same value if asked so.
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
            Some(None) => return Err("a schema leads back to itself without going into the value".to_owned()),
            None if depth >= MAX_SCHEMA_DEPTH => return Err(chain_too_long()),
            None => self.same_value_costs.insert(schema, None),
        };
        let (mut wide, mut deep) = (1_u64, 1);
        for next in self.successors(schema, true) {
            let (wider, deeper) = self.same_value_cost(next, depth + 1)?;
            (wide, deep) = (wide.saturating_add(wider), deep.max(deeper + 1));
        }
        if deep > MAX_SCHEMA_DEPTH {
            return Err(chain_too_long());
        }
        self.same_value_costs.insert(schema, Some((wide, deep)));
        Ok((wide, deep))
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
        let met = self.expansions.len();
        let mut this = Expansion { lowlink: met, count: None, closed: false };
        self.expansions.insert(schema, this);
        self.cycle_stack.push(schema);
        let mut count = 1_u64;
        for next in self.successors(schema, false) {
            let next = self.expand(next, depth + 1)?;
            // The library remembers what it has seen where recursion begins anew.
            count = count.saturating_add(next.count.unwrap_or(1));
            if !next.closed {
                this.lowlink = this.lowlink.min(next.lowlink);
            }
        }
        this.count = Some(count);
        if this.lowlink == met {
            self.close_cycle(schema);
            this.closed = true;
        }
        self.expansions.insert(schema, this);
        Ok(this)
    }

    /// Closes the circle that begins with `schema`. Where it has more than one target of references, it depends on the
    /// library which of them recursion begins anew at.
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
    format!("more than {MAX_SCHEMA_DEPTH} schemas in a row look at the same value")
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

/// How many values there are, and how deep they are nested. Calls itself not, since nobody may have looked before.
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

/// Schemas in schemas as written, and schemas in a row that look at the same value.
const MAX_SCHEMA_DEPTH: u64 = 64;

/// Two brackets for each schema, and some for data in it.
const MAX_JSON_DEPTH: u64 = 3 * MAX_SCHEMA_DEPTH;

/// As deep as the library compiles in half of a stack of 2 MiB without optimisation.
const MAX_EXPANDED_DEPTH: u64 = 128;

const MAX_SCHEMAS: usize = 10_000;

const MAX_EXPANDED_SCHEMAS: u64 = 100_000;

const MAX_PATTERNS: usize = 100;

const MAX_PATTERN_BYTES: usize = 2_000;

const MAX_ESCAPES: usize = 100;

/// Patterns with as many escapes as there may be.
const MAX_ESCAPING_PATTERNS: usize = 20;

/// Looks of a schema at a value: seconds.
const MAX_CHECKS: u64 = 500_000_000;

/// The same, where it is not known what the library remembers: counted one by one.
const MAX_CYCLIC_CHECKS: u64 = 1_000_000;

/// Schemas that wait for each other: a stack of 2 MiB overflows without optimisation between 2,500 and 5,000.
const MAX_STACK_DEPTH: u64 = 1_000;

/// Looks of a schema at a value that may each leave an error behind: megabytes.
const MAX_CHECKS_WITH_ERRORS: u64 = 200_000;
