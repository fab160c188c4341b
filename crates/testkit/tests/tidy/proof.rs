//! The columns `test` and `reason` that docs/requirements.csv and docs/attacks.csv have in common.

use std::collections::BTreeMap;

use crate::source::Source;
use crate::tree;

/// The claim of one row: the tests that prove it, or the reason why there is none.
pub(crate) struct Claim {
    pub(crate) id: String,
    pub(crate) tests: Vec<String>,
    reason: String,
}

/// The four kinds of claims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Tested,
    Host,
    May,
    Todo,
}

impl Claim {
    pub(crate) fn new(id: &str, tests: &str, reason: &str) -> Self {
        let tests = tests.split(';').filter(|test| !test.is_empty()).map(str::to_owned).collect();
        Self { id: id.to_owned(), tests, reason: reason.to_owned() }
    }

    /// An error says what is wrong with the row.
    pub(crate) fn status(&self) -> Result<Status, String> {
        let waits_for = self.reason.strip_prefix("todo: ").map(str::trim);
        match (self.tests.is_empty(), self.reason.as_str()) {
            (false, "") => Ok(Status::Tested),
            (false, _) => Err("has a test and needs no reason".to_owned()),
            (true, "host") => Ok(Status::Host),
            (true, "may") => Ok(Status::May),
            (true, _) if waits_for.is_some_and(|text| !text.is_empty()) => Ok(Status::Todo),
            (true, reason) => Err(format!("has no test, and {reason:?} is no reason")),
        }
    }
}

/// The number of claims of each kind.
#[derive(Default)]
pub(crate) struct Counts(BTreeMap<Status, usize>);

impl Counts {
    pub(crate) fn of(claims: &[Claim]) -> Self {
        let mut counts = Self::default();
        for status in claims.iter().filter_map(|claim| claim.status().ok()) {
            *counts.0.entry(status).or_default() += 1;
        }
        counts
    }

    pub(crate) fn get(&self, status: Status) -> usize {
        self.0.get(&status).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [tested, host, may, todo] =
            [Status::Tested, Status::Host, Status::May, Status::Todo].map(|status| self.get(status));
        let all = tested + host + may + todo;
        write!(f, "{all}: {tested} with a test, {host} host, {may} may, {todo} todo")
    }
}

/// Everything that is wrong with the tests that the claims name.
pub(crate) fn faults_of_tests(claims: &[Claim]) -> Vec<String> {
    let mut sources = BTreeMap::new();
    let mut found = Vec::new();
    for claim in claims {
        for test in &claim.tests {
            let wrong = match test.split_once("::") {
                None if test.ends_with(".txt") => transcript_fault(test, &claim.id),
                None => Some("is neither a path and a name nor a transcript"),
                Some((path, name)) => {
                    let source = sources
                        .entry(path.to_owned())
                        .or_insert_with(|| tree::text(path).map(|text| Source::read(&text, path.to_owned())));
                    match source.as_ref().map(|source| test_text(source, name)) {
                        None => Some("there is no such file"),
                        Some(None) => Some("there is no such test"),
                        Some(Some(text)) => (!text.contains(&claim.id)).then_some("does not quote the id"),
                    }
                }
            };
            found.extend(wrong.map(|wrong| format!("{}: {test}: {wrong}", claim.id)));
        }
    }
    found
}

/// The reason why a transcript does not prove a row; it must cite the id in a comment line.
fn transcript_fault(path: &str, id: &str) -> Option<&'static str> {
    let Some(text) = tree::text(path) else { return Some("there is no such file") };
    let quotes = text.lines().any(|line| line.starts_with('#') && line.contains(id));
    (!quotes).then_some("does not quote the id")
}

/// A test function with the comments and attributes above it; `None` unless there is exactly one.
fn test_text<'a>(source: &'a Source, name: &str) -> Option<&'a str> {
    let [at] = source.words(&format!("fn {name}"))[..] else { return None };
    let end = source.closing(at + source.code[at..].find('{')?);
    let mut start = source.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let mut is_test = false;
    while start > 0 {
        let before = source.text[..start - 1].rfind('\n').map_or(0, |newline| newline + 1);
        let line = source.text[before..start].trim();
        if !line.starts_with("//") && !line.starts_with("#[") {
            break;
        }
        is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
        start = before;
    }
    is_test.then(|| &source.text[start..end])
}

#[test]
fn claim_has_either_a_test_or_a_reason() {
    let is_valid = |tests, reason| Claim::new("T-01", tests, reason).status().is_ok();
    for (tests, reason) in [("a.rs::b", ""), ("", "host"), ("", "may"), ("", "todo: tasks")] {
        assert!(is_valid(tests, reason), "{tests} {reason}");
    }
    for (tests, reason) in [("", ""), ("", "todo"), ("", "todo: "), ("", "later"), ("a.rs::b", "host")] {
        assert!(!is_valid(tests, reason), "{tests} {reason}");
    }
}
