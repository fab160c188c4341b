//! Checks docs/attacks.csv, which names the tests that carry out each known attack.

use std::collections::BTreeMap;

use crate::proof::{Claim, Counts, Status, faults_of_tests};
use crate::{assert_none, csv, tree};

const HEADER: [&str; 4] = ["id", "attack", "test", "reason"];

/// The attacks of each area, numbered from 01: transport, sessions, `requestState`, resource server, OAuth client,
/// proxy, local servers, features, user interfaces.
const AREAS: [(&str, usize); 9] =
    [("T", 22), ("S", 17), ("M", 13), ("A", 13), ("C", 25), ("P", 13), ("L", 11), ("F", 43), ("U", 9)];

fn records() -> Vec<[String; 4]> {
    let mut records = csv::records(&tree::text("docs/attacks.csv").unwrap()).unwrap();
    assert_eq!(records.remove(0), HEADER);
    let sized = |record: Vec<String>| record.try_into().unwrap_or_else(|record| panic!("{record:?}"));
    records.into_iter().map(sized).collect()
}

fn claims() -> Vec<Claim> {
    records().iter().map(|[id, _, tests, reason]| Claim::new(id, tests, reason)).collect()
}

#[test]
fn every_attack_is_listed_once_and_described() {
    let records = records();
    let expected = AREAS.iter().flat_map(|(area, last)| (1..=*last).map(move |at| format!("{area}-{at:02}")));
    let listed: Vec<_> = records.iter().map(|[id, ..]| id.clone()).collect();
    assert_eq!(listed, expected.collect::<Vec<_>>());
    let undescribed = records.into_iter().filter(|[_, attack, ..]| attack.trim().is_empty());
    assert_none(undescribed.map(|[id, ..]| id).collect());
}

#[test]
fn every_attack_has_a_test_or_a_reason() {
    let wrong = |claim: &Claim| match claim.status() {
        Ok(Status::May) => Some("is no permission".to_owned()),
        Ok(_) => None,
        Err(wrong) => Some(wrong),
    };
    let claims = claims();
    let found = claims.iter().filter_map(|claim| Some(format!("{} {}", claim.id, wrong(claim)?))).collect();
    assert_none(found);
}

#[test]
fn every_test_of_an_attack_exists_and_cites_it() {
    assert_none(faults_of_tests(&claims()));
}

#[test]
fn each_kind_of_attack_is_counted_in_the_documents() {
    let claims = claims();
    let counts = Counts::of(&claims);
    println!("attacks: {counts}");
    let mut areas = BTreeMap::<&str, Vec<&Claim>>::new();
    for claim in &claims {
        areas.entry(claim.id.split('-').next().unwrap_or_default()).or_default().push(claim);
    }
    for (area, claims) in areas {
        let tested = claims.iter().filter(|claim| !claim.tests.is_empty()).count();
        println!("  {area}: {tested} of {} with a test", claims.len());
    }
    let [tested, host, todo] = [Status::Tested, Status::Host, Status::Todo].map(|status| counts.get(status));
    let text = format!(
        "{tested} of {} have a test, {host} are up to the application, {todo} are still to be done",
        claims.len()
    );
    let files = ["SECURITY.md", "docs/proof.md"];
    let lacks = |path: &&str| !tree::text(path).unwrap().contains(&text);
    assert_none(
        files.iter().filter(|path| lacks(path)).map(|path| format!("{path} does not say {text:?}")).collect(),
    );
}
