//! Checks docs/requirements.csv, which names the tests that prove each requirement.
//!
//! A requirement without a test needs one of three reasons: it binds only the host (the application built with the
//! library), it is optional and not implemented, or it is still to be done and waits for something.

use std::collections::{BTreeMap, BTreeSet};

use crate::proof::{Claim, Counts, Status, faults_of_tests};
use crate::{assert_none, csv, tree};

const HEADER: [&str; 7] = ["id", "level", "role", "revisions", "requirement", "test", "reason"];

/// The requirements of all five revisions and their extensions.
const ALL: usize = 913;

/// The limit of requirements per test: a test with more proves none in particular.
const MOST_IDS_OF_A_TEST: usize = 5;

fn records() -> Vec<[String; 7]> {
    let mut records = csv::records(&tree::text("docs/requirements.csv").unwrap()).unwrap();
    assert_eq!(records.remove(0), HEADER);
    let sized = |record: Vec<String>| record.try_into().unwrap_or_else(|record| panic!("{record:?}"));
    records.into_iter().map(sized).collect()
}

fn claims() -> Vec<Claim> {
    records().iter().map(|[id, _, _, _, _, tests, reason]| Claim::new(id, tests, reason)).collect()
}

#[test]
fn every_requirement_is_well_formed_and_unique() {
    let one_of = |value: &str, known: &[&str]| known.contains(&value);
    let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for [id, level, role, in_revisions, requirement, _, _] in &records() {
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
        check(seen.insert(id.clone()), "stands there more than once");
    }
    assert_none(found);
    assert_eq!(seen.len(), ALL, "a requirement is missing or new");
}

#[test]
fn every_requirement_has_a_test_or_a_reason() {
    let mut found = Vec::new();
    for ([id, level, ..], claim) in records().iter().zip(claims()) {
        match claim.status() {
            Ok(Status::May) if level != "MAY" => found.push(format!("{id} is more than a MAY")),
            Ok(_) => {}
            Err(wrong) => found.push(format!("{id} {wrong}")),
        }
    }
    assert_none(found);
}

#[test]
fn every_named_test_exists_and_cites_its_requirement() {
    assert_none(faults_of_tests(&claims()));
}

#[test]
fn requirements_are_counted_in_the_documents() {
    let counts = Counts::of(&claims());
    println!("requirements of the specification: {counts}");
    let [tested, host, may, todo] =
        [Status::Tested, Status::Host, Status::May, Status::Todo].map(|status| counts.get(status));
    let rows = [
        ("README.md", format!("{tested} of {ALL}; {} need none, {todo} to do", host + may)),
        ("README.ja.md", format!("{ALL} 件中 {tested} 件。{} 件はテスト不要、{todo} 件は未対応", host + may)),
        ("docs/proof.md", format!("{ALL} rows, {tested} of them with the test")),
        ("docs/proof.md", format!("{host} are duties of the application")),
        ("docs/proof.md", format!("{may} are permissions")),
        ("docs/proof.md", format!("{todo} are still to be done")),
    ];
    let lacks = |(path, text): &(&str, String)| !tree::text(path).unwrap().contains(text);
    assert_none(
        rows.iter()
            .filter(|row| lacks(row))
            .map(|(path, text)| format!("{path} does not say {text:?}"))
            .collect(),
    );
}

#[test]
fn requirements_per_test_are_limited() {
    let mut ids_of_tests = BTreeMap::<String, Vec<String>>::new();
    for claim in claims() {
        for test in claim.tests {
            ids_of_tests.entry(test).or_default().push(claim.id.clone());
        }
    }
    ids_of_tests.retain(|_, ids| ids.len() > MOST_IDS_OF_A_TEST);
    assert_none(ids_of_tests.into_iter().map(|(test, ids)| format!("{test}: {}", ids.join(", "))).collect());
}
