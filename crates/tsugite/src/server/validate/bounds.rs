//! How much work a schema may cause. A schema may come from a peer, and so may the value.
//!
//! The library that validates is linear in neither: references double work with each step, a reference that leads back
//! to the same value has no end, and both nest calls. Hence everything is counted before the library sees it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tsugite_core::protocol::Schema;

use super::places::{Place, clip, subschemas};

/// A schema that is small enough, and what its references lead to.
pub(super) struct Bounded {
    root: Value,
    /// JSON Pointers by name.
    anchors: HashMap<String, String>,
    /// The most schemas that look at one value because one schema does.
    wide: u64,
    /// The most of them that wait for each other.
    deep: u64,
    /// Whether definitions refer to each other in circles.
    tangled: bool,
}

impl Bounded {
    pub(super) fn new(schema: &Schema) -> Result<Self, String> {
        if size(schema.keywords().values()).1 > MOST_NESTED {
            return Err(format!("the schema is nested deeper than {MOST_DEEP} schemas"));
        }
        let mut keywords = schema.keywords().clone();
        // References are local, so the name of the whole says nothing; and it might be the name of a known one.
        keywords.shift_remove("$id");
        let root = Value::Object(keywords);
        if root.to_string().len() > MOST_BYTES {
            return Err(format!("the schema is larger than {} KiB", MOST_BYTES >> 10));
        }
        let mut survey = Survey::default();
        survey.look(&root, String::new(), 0)?;
        let Survey { schemas, anchors, references, .. } = survey;
        let mut bounded = Self { root: Value::Null, anchors, wide: 0, deep: 0, tangled: false };
        for (reference, place) in references {
            let target = bounded.pointer(reference).and_then(|pointer| root.pointer(&pointer));
            if !target.is_some_and(|target| schemas.contains(&std::ptr::from_ref(target))) {
                let reference = clip(reference);
                return Err(format!("`$ref` at `#{}` leads to no schema: `{reference}`", clip(&place)));
            }
        }
        bounded.root = root;
        let weighing = Weighing::of(&bounded)?;
        let (wide, deep, tangled) = (weighing.widest(), weighing.deepest(), weighing.tangled);
        Ok(Self { wide, deep, tangled, ..bounded })
    }

    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// Fails if checking `instance` could take too long or nest too deep.
    pub(super) fn admit(&self, instance: &Value) -> Result<(), String> {
        let (values, depth) = size([instance]);
        if values.saturating_mul(self.wide) > MOST_WORK {
            return Err("there is too much in it to be checked against the schema".to_owned());
        }
        if depth.saturating_mul(self.deep) > MOST_WAITING {
            return Err("it is nested too deep to be checked against the schema".to_owned());
        }
        if self.tangled && !self.looks_at_most(MOST_TANGLED, instance) {
            return Err("there is too much in it to be checked against the schema".to_owned());
        }
        Ok(())
    }

    /// Whether every schema could look at everything it might in `instance` without much ado: to say what is wrong,
    /// the library neither stops early nor remembers what it has seen.
    pub(super) fn is_little(&self, instance: &Value) -> bool {
        self.looks_at_most(LITTLE, instance)
    }

    fn looks_at_most(&self, mut most: u64, instance: &Value) -> bool {
        self.visit(&self.root, instance, &mut most).is_some()
    }

    fn visit(&self, schema: &Value, instance: &Value, left: &mut u64) -> Option<()> {
        *left = left.checked_sub(1)?;
        let Value::Object(keywords) = schema else { return Some(()) };
        for inner in subschemas(keywords) {
            *left = left.checked_sub(1)?;
            match inner.place {
                Place::Same => self.visit(inner.schema, instance, left)?,
                Place::Property(name) => {
                    if let Some(value) = instance.get(name) {
                        self.visit(inner.schema, value, left)?;
                    }
                }
                Place::Below => {
                    for value in children(instance) {
                        self.visit(inner.schema, value, left)?;
                    }
                }
                Place::Apart => {}
            }
        }
        self.targets(keywords).try_for_each(|target| self.visit(target, instance, left))
    }

    /// What the references right in a schema lead to.
    fn targets<'a>(&'a self, keywords: &'a Map<String, Value>) -> impl Iterator<Item = &'a Value> {
        references(keywords).filter_map(|(_, reference)| self.root.pointer(&self.pointer(reference)?))
    }

    fn pointer(&self, reference: &str) -> Option<String> {
        let fragment = percent_decoded(reference.strip_prefix('#')?)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(fragment);
        }
        self.anchors.get(&fragment).cloned()
    }
}

/// The schema as it is written.
#[derive(Default)]
struct Survey<'a> {
    schemas: HashSet<*const Value>,
    anchors: HashMap<String, String>,
    references: Vec<(&'a str, String)>,
    patterns: HashSet<&'a str>,
    escapes: usize,
}

impl<'a> Survey<'a> {
    fn look(&mut self, schema: &'a Value, place: String, depth: u64) -> Result<(), String> {
        if depth > MOST_DEEP {
            return Err(format!("the schema is nested deeper than {MOST_DEEP} schemas"));
        }
        self.schemas.insert(schema);
        if self.schemas.len() > MOST_SCHEMAS {
            return Err(format!("the schema is made of more than {MOST_SCHEMAS} schemas"));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        for name in ["$id", "$schema"] {
            if depth > 0 && keywords.contains_key(name) {
                return Err(format!(
                    "`{name}` stands at the root of a schema only, not at `#{}`",
                    clip(&place)
                ));
            }
        }
        for name in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = keywords.get(name).and_then(Value::as_str)
                && self.anchors.insert(name.to_owned(), place.clone()).is_some_and(|other| other != place)
            {
                return Err(format!("two schemas are called `{}`", clip(name)));
            }
        }
        for (keyword, reference) in references(keywords) {
            if !reference.starts_with('#') {
                let (reference, place) = (clip(reference), clip(&place));
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
            self.pattern(pattern, &place)?;
        }
        for inner in subschemas(keywords) {
            self.look(inner.schema, format!("{place}{}", inner.pointer), depth + 1)?;
        }
        Ok(())
    }

    /// Regular expressions are matched in linear time, but translating one takes the square of its escapes.
    fn pattern(&mut self, pattern: &'a str, place: &str) -> Result<(), String> {
        if !self.patterns.insert(pattern) {
            return Ok(());
        }
        let escapes = pattern.bytes().filter(|byte| *byte == b'\\').count();
        self.escapes += escapes;
        if pattern.len() > MOST_PATTERN_BYTES || escapes > MOST_ESCAPES {
            return Err(format!("the pattern at `#{}` is too long: `{}`", clip(place), clip(pattern)));
        }
        if self.patterns.len() > MOST_PATTERNS || self.escapes > MOST_ESCAPES * ESCAPING_PATTERNS {
            return Err("there are too many patterns in the schema".to_owned());
        }
        Ok(())
    }
}

/// The schema with its references followed.
struct Weighing<'a> {
    schema: &'a Bounded,
    /// Of each schema, how many look at the same value and how many of them wait for each other; none while it is
    /// being found out.
    same: HashMap<*const Value, Option<(u64, u64)>>,
    /// What is known of the others, in the order they were met, and those of them that may still be part of a circle.
    unfolded: HashMap<*const Value, Unfolded>,
    circle: Vec<*const Value>,
    targets: HashSet<*const Value>,
    tangled: bool,
}

/// How many schemas it would be if each reference were replaced by what it leads to, up to recursion.
#[derive(Clone, Copy)]
struct Unfolded {
    /// The earliest met that it leads back to, itself at first (Tarjan's algorithm).
    earliest: usize,
    /// None while it is being found out.
    count: Option<u64>,
    closed: bool,
}

impl<'a> Weighing<'a> {
    fn of(schema: &'a Bounded) -> Result<Self, String> {
        let mut weighing = Self {
            schema,
            same: HashMap::new(),
            unfolded: HashMap::new(),
            circle: Vec::new(),
            targets: HashSet::new(),
            tangled: false,
        };
        let mut reached = weighing.reached();
        for schema in &reached {
            let targets =
                schema.as_object().into_iter().flat_map(|keywords| weighing.schema.targets(keywords));
            weighing.targets.extend(targets.map(std::ptr::from_ref));
        }
        let mut most = weighing.unfold(&schema.root, 0)?.count.unwrap_or(0);
        while let Some(schema) = reached.pop() {
            most = most.max(weighing.same(schema, 0)?.0);
        }
        if most > MOST_UNFOLDED {
            return Err(format!("the schema unfolds to more than {MOST_UNFOLDED} schemas"));
        }
        Ok(weighing)
    }

    fn widest(&self) -> u64 {
        self.same.values().flatten().map(|(wide, _)| *wide).max().unwrap_or(1)
    }

    fn deepest(&self) -> u64 {
        self.same.values().flatten().map(|(_, deep)| *deep).max().unwrap_or(1)
    }

    /// Every schema that plays a part.
    fn reached(&self) -> Vec<&'a Value> {
        let root = &self.schema.root;
        let (mut seen, mut reached) = (HashSet::from([std::ptr::from_ref(root)]), vec![root]);
        let mut at = 0;
        while let Some(schema) = reached.get(at).copied() {
            reached.extend(self.next(schema, false).filter(|next| seen.insert(std::ptr::from_ref(*next))));
            at += 1;
        }
        reached
    }

    /// The schemas that have their say when `schema` has; only those about the same value if asked so.
    fn next(&self, schema: &'a Value, same: bool) -> impl Iterator<Item = &'a Value> + use<'a> {
        let bounded = self.schema;
        schema.as_object().into_iter().flat_map(move |keywords| {
            let inner = subschemas(keywords).into_iter().filter(move |inner| match inner.place {
                Place::Same => true,
                Place::Property(_) | Place::Below => !same,
                Place::Apart => false,
            });
            inner.map(|inner| inner.schema).chain(bounded.targets(keywords))
        })
    }

    fn same(&mut self, schema: &'a Value, depth: u64) -> Result<(u64, u64), String> {
        match self.same.get(&std::ptr::from_ref(schema)) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err("a schema leads back to itself without going into the value".to_owned()),
            None if depth >= MOST_DEEP => return Err(too_many_in_a_row()),
            None => self.same.insert(schema, None),
        };
        let (mut wide, mut deep) = (1_u64, 1);
        for next in self.next(schema, true) {
            let (wider, deeper) = self.same(next, depth + 1)?;
            (wide, deep) = (wide.saturating_add(wider), deep.max(deeper + 1));
        }
        if deep > MOST_DEEP {
            return Err(too_many_in_a_row());
        }
        self.same.insert(schema, Some((wide, deep)));
        Ok((wide, deep))
    }

    fn unfold(&mut self, schema: &'a Value, depth: u64) -> Result<Unfolded, String> {
        if let Some(known) = self.unfolded.get(&std::ptr::from_ref(schema)) {
            return Ok(*known);
        }
        if depth > MOST_DEEP_UNFOLDED {
            return Err(format!(
                "the schema is nested deeper than {MOST_DEEP_UNFOLDED} schemas, references included"
            ));
        }
        let met = self.unfolded.len();
        let mut this = Unfolded { earliest: met, count: None, closed: false };
        self.unfolded.insert(schema, this);
        self.circle.push(schema);
        let mut count = 1_u64;
        for next in self.next(schema, false) {
            let next = self.unfold(next, depth + 1)?;
            // The library remembers what it has seen where recursion begins anew.
            count = count.saturating_add(next.count.unwrap_or(1));
            if !next.closed {
                this.earliest = this.earliest.min(next.earliest);
            }
        }
        this.count = Some(count);
        if this.earliest == met {
            self.close(schema);
            this.closed = true;
        }
        self.unfolded.insert(schema, this);
        Ok(this)
    }

    /// Closes the circle that begins with `schema`. Where it has more than one target of references, it depends on the
    /// library which of them recursion begins anew at.
    fn close(&mut self, schema: *const Value) {
        let begin = self.circle.iter().rposition(|member| *member == schema).unwrap_or(0);
        let members = self.circle.split_off(begin);
        self.tangled |= members.iter().filter(|member| self.targets.contains(*member)).count() > 1;
        for member in members {
            if let Some(member) = self.unfolded.get_mut(&member) {
                member.closed = true;
            }
        }
    }
}

fn too_many_in_a_row() -> String {
    format!("more than {MOST_DEEP} schemas in a row look at the same value")
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
fn size<'a>(values: impl IntoIterator<Item = &'a Value>) -> (u64, u64) {
    let (mut count, mut deepest) = (0, 0);
    let mut open: Vec<_> = values.into_iter().map(|value| (value, 1)).collect();
    while let Some((value, depth)) = open.pop() {
        (count, deepest) = (count + 1, depth.max(deepest));
        open.extend(children(value).map(|child| (child, depth + 1)));
    }
    (count, deepest)
}

fn percent_decoded(text: &str) -> Option<String> {
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

const MOST_BYTES: usize = 256 << 10;

/// Schemas in schemas as written, and schemas in a row that look at the same value.
const MOST_DEEP: u64 = 64;

/// Two brackets for each schema, and some for data in it.
const MOST_NESTED: u64 = 3 * MOST_DEEP;

/// As deep as the library compiles in half of a stack of 2 MiB without optimisation.
const MOST_DEEP_UNFOLDED: u64 = 128;

const MOST_SCHEMAS: usize = 10_000;

const MOST_UNFOLDED: u64 = 100_000;

const MOST_PATTERNS: usize = 100;

const MOST_PATTERN_BYTES: usize = 2_000;

const MOST_ESCAPES: usize = 100;

/// Patterns with as many escapes as there may be.
const ESCAPING_PATTERNS: usize = 20;

/// Looks of a schema at a value: seconds.
const MOST_WORK: u64 = 500_000_000;

/// The same, where it is not known what the library remembers: counted one by one.
const MOST_TANGLED: u64 = 1_000_000;

/// Schemas that wait for each other: a stack of 2 MiB overflows without optimisation between 2,500 and 5,000.
const MOST_WAITING: u64 = 1_000;

/// Looks of a schema at a value that may each leave an error behind: megabytes.
const LITTLE: u64 = 200_000;
