//! Checks docs/requirements.csv, which names the tests that prove each requirement.
//!
//! A requirement without a test needs one of two reasons: it binds only the host (the application built with the
//! library), or it is optional and not implemented.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;
use crate::{assert_none, csv, tree};

const HEADER: [&str; 7] = ["id", "level", "role", "revisions", "requirement", "test", "reason"];

/// The limit of requirements per test: a test with more proves none in particular.
const MOST_IDS_OF_A_TEST: usize = 5;

struct Row {
    id: String,
    level: String,
    tests: Vec<String>,
    reason: String,
}

fn rows() -> Vec<Row> {
    let records = csv::records(&tree::text("docs/requirements.csv").unwrap()).unwrap();
    let named = |record: &Vec<String>| {
        let [id, level, _, _, _, tests, reason] = record.as_slice() else {
            panic!("{} fields instead of {}: {record:?}", record.len(), HEADER.len());
        };
        let tests = tests.split(';').filter(|test| !test.is_empty()).map(str::to_owned).collect();
        Row { id: id.clone(), level: level.clone(), tests, reason: reason.clone() }
    };
    assert_eq!(records[0], HEADER);
    assert!(records.len() > 1);
    records[1..].iter().map(named).collect()
}

#[test]
fn every_requirement_is_well_formed_and_unique() {
    let records = csv::records(&tree::text("docs/requirements.csv").unwrap()).unwrap();
    let one_of = |value: &str, known: &[&str]| known.contains(&value);
    let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for record in &records[1..] {
        let [id, level, role, in_revisions, requirement, test, _] = record.as_slice() else {
            found.push(format!("{} fields instead of {}: {record:?}", record.len(), HEADER.len()));
            continue;
        };
        let mut check = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("{id}: {what}"));
            }
        };
        let (area, number) = id.split_once('-').unwrap_or_default();
        check(!area.is_empty() && area.bytes().all(|byte| byte.is_ascii_uppercase()), "the area of the id");
        check(number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit()), "the number of the id");
        check(one_of(level, &["MUST", "SHOULD", "MAY"]), "the level");
        check(one_of(role, &["server", "client", "both", "host"]), "the role");
        check(in_revisions.split('|').all(|revision| one_of(revision, &revisions)), "the revisions");
        check(!requirement.trim().is_empty(), "the requirement is missing");
        check(
            test.is_empty() || test.split(';').all(|test| test.contains(".rs::") || test.ends_with(".txt")),
            "a test is neither a path and a name nor a transcript",
        );
        check(seen.insert(id.clone()), "stands there more than once");
    }
    assert_none(found);
}

#[test]
fn every_requirement_has_a_test_or_a_reason() {
    let wrong = |row: &Row| match (row.tests.is_empty(), row.reason.as_str()) {
        (false, "") | (true, "host") => None,
        (true, "may") if row.level == "MAY" => None,
        (true, "may") => Some("is more than a MAY".to_owned()),
        (false, _) => Some("has a test and needs no reason".to_owned()),
        (true, reason) => Some(format!("has no test, and {reason:?} is no reason")),
    };
    let found = rows().iter().filter_map(|row| Some(format!("{} {}", row.id, wrong(row)?))).collect();
    assert_none(found);
}

#[test]
fn every_named_test_exists_and_cites_its_requirement() {
    let mut sources = BTreeMap::new();
    let mut found = Vec::new();
    for row in rows() {
        for test in &row.tests {
            if test.ends_with(".txt") {
                found.extend(
                    transcript_fault(test, &row.id).map(|wrong| format!("{}: {test}: {wrong}", row.id)),
                );
                continue;
            }
            let (path, name) = test.split_once("::").unwrap_or((test, ""));
            let source = sources
                .entry(path.to_owned())
                .or_insert_with(|| tree::text(path).map(|text| Source::read(&text, path.to_owned())));
            let wrong = match source.as_ref().map(|source| test_text(source, name)) {
                None => "there is no such file",
                Some(None) => "there is no such test",
                Some(Some(text)) if !text.contains(&row.id) => "does not quote the requirement",
                Some(Some(_)) => continue,
            };
            found.push(format!("{}: {test}: {wrong}", row.id));
        }
    }
    assert_none(found);
}

#[test]
fn requirements_per_test_are_limited() {
    let mut claims = BTreeMap::<String, Vec<String>>::new();
    for row in rows() {
        for test in row.tests {
            claims.entry(test).or_default().push(row.id.clone());
        }
    }
    claims.retain(|_, ids| ids.len() > MOST_IDS_OF_A_TEST);
    assert_none(claims.into_iter().map(|(test, ids)| format!("{test}: {}", ids.join(", "))).collect());
}

/// The reason why a transcript does not prove a requirement; it must cite the id in a comment line.
fn transcript_fault(path: &str, id: &str) -> Option<&'static str> {
    let Some(text) = tree::text(path) else { return Some("there is no such file") };
    let quotes = text.lines().any(|line| line.starts_with('#') && line.contains(id));
    (!quotes).then_some("does not quote the requirement")
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
