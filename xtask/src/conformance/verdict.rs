//! Evaluates the results of the suite: a warning is a failure, and so is a scenario without a decided check.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Role;
use crate::count::Count;

/// The checks of each scenario that left a result.
pub(crate) type Results = BTreeMap<String, Vec<Value>>;

/// Reads the results of the suite from its folder: `server-<scenario>-<time>/checks.json`, and for clients
/// `<scenario>-<time>/checks.json`.
pub(crate) fn read_results(role: Role, folder: &Path) -> Result<Results, String> {
    let wrong = |path: &Path, error: &dyn fmt::Display| format!("cannot read {}: {error}", path.display());
    let mut results = Results::new();
    // A scenario with a slash in its name is one folder deeper.
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).map_err(|error| wrong(&next, &error))? {
            let path = entry.map_err(|error| wrong(&next, &error))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("checks.json") {
                let name = next.strip_prefix(folder).ok().and_then(Path::to_str).unwrap_or_default();
                let Some(scenario) = scenario_of(role, name) else { continue };
                let text = fs::read_to_string(&path).map_err(|error| wrong(&path, &error))?;
                let checks = serde_json::from_str(&text).map_err(|error| wrong(&path, &error))?;
                results.insert(scenario.to_owned(), checks);
            }
        }
    }
    Ok(results)
}

/// `server-ping-2026-07-28T12-00-00-000Z` is a run of `ping`.
fn scenario_of(role: Role, folder: &str) -> Option<&str> {
    let name = match role {
        Role::Server => folder.strip_prefix("server-")?,
        Role::Client => folder,
        Role::Authorization => folder.strip_prefix("authorization-server-")?,
    };
    name.get(..name.len().checked_sub("-2026-07-28T12-00-00-000Z".len())?)
}

/// The scenarios of a set, as `list` prints them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScenarioList<'a> {
    /// The scenarios that the set requires.
    pub(crate) required: Vec<&'a str>,
    /// Scenarios that run in addition: pending, an extension, or newer than the set.
    pub(crate) optional: Vec<&'a str>,
}

impl<'a> ScenarioList<'a> {
    pub(crate) fn parse(role: Role, listing: &'a str) -> Self {
        let (heading, mark) = match role {
            Role::Server => ("Server scenarios", "[server]"),
            Role::Client => ("Client scenarios", "[client]"),
            Role::Authorization => ("Authorization server scenarios", "[authorization]"),
        };
        let ours = listing.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
        let required = ours.map_while(|line| line.strip_prefix("  - ")?.split(' ').next()).collect();
        let marked = listing.lines().filter_map(|line| line.strip_suffix(mark)?.trim().strip_prefix("- "));
        Self { required, optional: marked.collect() }
    }
}

/// The result of a set, in numbers of scenarios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The scenarios that the set requires.
    required: PassCount,
    /// The scenarios that run in addition. They must pass, too.
    optional: PassCount,
    skipped: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PassCount {
    passed: u64,
    total: u64,
}

impl Tally {
    /// The expected result of a set.
    pub(crate) const fn expected(demanded: u64, beside: u64, skipped: u64) -> Self {
        let (required, optional) = (PassCount::all_passed(demanded), PassCount::all_passed(beside));
        Self { required, optional, skipped }
    }

    /// Evaluates the results and the listed scenarios without one. `tell` gets a line for each one that did not pass.
    pub(crate) fn evaluate(listed: &ScenarioList<'_>, found: &Results, mut tell: impl FnMut(String)) -> Self {
        let mut tally = Self::default();
        let ScenarioList { required: demanded, optional: beside } = listed;
        let unlisted = found.keys().map(String::as_str);
        let unlisted = unlisted.filter(|name| !demanded.contains(name) && !beside.contains(name));
        let names: Vec<&str> = demanded.iter().chain(beside).copied().chain(unlisted).collect();
        for name in names {
            let share = if demanded.contains(&name) { &mut tally.required } else { &mut tally.optional };
            match Verdict::from_checks(name, found.get(name)) {
                Verdict::Skipped => {
                    tell(format!("skipped {name}: the suite decides nothing"));
                    tally.skipped += 1;
                }
                Verdict::Passed => *share = PassCount { passed: share.passed + 1, total: share.total + 1 },
                Verdict::Failed(why) => {
                    why.into_iter().for_each(|why| tell(format!("FAILED {name}: {why}")));
                    share.total += 1;
                }
            }
        }
        tally
    }

    pub(crate) fn count(&self) -> Count {
        let passed = self.required.passed + self.optional.passed;
        Count { passed, failed: self.required.total + self.optional.total - passed, skipped: self.skipped }
    }
}

impl PassCount {
    const fn all_passed(total: u64) -> Self {
        Self { passed: total, total }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { required: demanded, optional: beside, skipped } = self;
        write!(f, "{}/{} passed", demanded.passed, demanded.total)?;
        write!(f, ", optional {}/{}, {skipped} skipped", beside.passed, beside.total)
    }
}

enum Verdict {
    Passed,
    Skipped,
    Failed(Vec<String>),
}

impl Verdict {
    fn from_checks(scenario: &str, checks: Option<&Vec<Value>>) -> Self {
        let Some(checks) = checks else { return Verdict::Failed(vec!["no result".to_owned()]) };
        let bad = |check: &&Value| matches!(check_member(check, "status"), "FAILURE" | "WARNING");
        let mut why: Vec<String> = checks.iter().filter(bad).map(describe_check).collect();
        for (_, id) in REQUIRED_CHECKS.iter().filter(|(name, _)| *name == scenario) {
            if !checks
                .iter()
                .any(|check| check_member(check, "id") == *id && check_member(check, "status") == "SUCCESS")
            {
                why.push(format!("{id}: not required by the suite, but by us"));
            }
        }
        match (why.is_empty(), is_decided(checks)) {
            (false, _) => Verdict::Failed(why),
            (true, true) => Verdict::Passed,
            (true, false) if may_be_undecided(scenario) => Verdict::Skipped,
            (true, false) => Verdict::Failed(vec!["no check was decided".to_owned()]),
        }
    }
}

/// Whether any check was decided. A schema check alone shows only that a message was sent.
fn is_decided(checks: &[Value]) -> bool {
    let about_the_scenario = |check: &&Value| !check_member(check, "id").starts_with("wire-schema-");
    let mut decided = checks.iter().filter(about_the_scenario).map(|check| check_member(check, "status"));
    decided.any(|status| matches!(status, "SUCCESS" | "FAILURE" | "WARNING"))
}

/// `WARNING tools-name-format: Tool names are well formed: "a b" is not`
fn describe_check(check: &Value) -> String {
    let said = ["description", "errorMessage"].map(|member| check_member(check, member));
    let said: Vec<&str> = said.into_iter().filter(|said| !said.is_empty()).collect();
    format!("{} {}: {}", check_member(check, "status"), check_member(check, "id"), said.join(": "))
}

fn check_member<'a>(check: &'a Value, member: &str) -> &'a str {
    check.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a scenario decides nothing: it is about the skills extension, which is not used here, or the suite skips it always.
fn may_be_undecided(scenario: &str) -> bool {
    ["sep-2640-skills-", "sep-2640-client-", "tasks-status-notifications"]
        .iter()
        .any(|beginning| scenario.starts_with(beginning))
}

/// Checks that the suite only reports as information if they do not hold: a call that was answered on its own stream
/// shows nothing about streams that end early.
const REQUIRED_CHECKS: [(&str, &str); 1] = [("server-sse-polling", "server-sse-disconnect-resume")];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(id: &str, status: &str) -> Value {
        json!({"id": id, "status": status, "description": "description", "errorMessage": "message"})
    }

    fn evaluate(demanded: &[&str], found: &[(&str, &[Value])]) -> (Tally, Vec<String>) {
        evaluate_with(demanded, &[], found)
    }

    fn evaluate_with(demanded: &[&str], beside: &[&str], found: &[(&str, &[Value])]) -> (Tally, Vec<String>) {
        let listed = ScenarioList { required: demanded.to_vec(), optional: beside.to_vec() };
        let found = found.iter().map(|(name, checks)| ((*name).to_owned(), checks.to_vec())).collect();
        let mut told = Vec::new();
        (Tally::evaluate(&listed, &found, |note| told.push(note)), told)
    }

    #[test]
    fn passing_run_matches_its_expectations() {
        let good = [check("a", "SUCCESS"), check("b", "INFO"), check("c", "SKIPPED")];
        let silent = [check("a", "SKIPPED"), check("wire-schema-valid", "SUCCESS")];
        let found: [(&str, &[Value]); 4] = [
            ("ping", &good),
            ("newer", &good),
            ("sep-2640-skills-list", &silent),
            ("tasks-status-notifications", &silent),
        ];
        let (tally, told) = evaluate(&["ping"], &found);
        assert_eq!(tally, Tally::expected(1, 1, 2));
        assert_eq!(tally.to_string(), "1/1 passed, optional 1/1, 2 skipped");
        assert_eq!(tally.count(), Count { passed: 2, failed: 0, skipped: 2 });
        let expected = [
            "skipped sep-2640-skills-list: the suite decides nothing",
            "skipped tasks-status-notifications: the suite decides nothing",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn extra_scenarios_must_run_and_pass() {
        let found: [(&str, &[Value]); 2] = [("initialize", &[check("a", "SUCCESS")]), ("unlisted", &[])];
        let (tally, told) = evaluate_with(&["initialize"], &["absent"], &found);
        assert_eq!(tally.to_string(), "1/1 passed, optional 0/2, 0 skipped");
        assert_eq!(told, ["FAILED absent: no result", "FAILED unlisted: no check was decided"]);
    }

    #[test]
    fn failures_warnings_and_missing_results_are_failures() {
        let found: [(&str, &[Value]); 3] = [
            ("fails", &[check("a", "SUCCESS"), check("b", "FAILURE")]),
            ("warns", &[check("a", "SUCCESS"), check("c", "WARNING")]),
            ("silent", &[check("a", "INFO"), check("wire-schema-valid", "SUCCESS")]),
        ];
        let (tally, told) = evaluate(&["fails", "silent", "absent"], &found);
        assert_eq!(tally.to_string(), "0/3 passed, optional 0/1, 0 skipped");
        assert_eq!(tally.count(), Count { passed: 0, failed: 4, skipped: 0 });
        let expected = [
            "FAILED fails: FAILURE b: description: message",
            "FAILED silent: no check was decided",
            "FAILED absent: no result",
            "FAILED warns: WARNING c: description: message",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn failing_extension_is_not_skipped() {
        for kind in ["sep-2640-skills", "sep-2640-client"] {
            let [a, b, c] = ["a", "b", "c"].map(|name| format!("{kind}-{name}"));
            let found: [(&str, &[Value]); 2] = [(&a, &[check("a", "FAILURE")]), (&b, &[])];
            let (tally, _) = evaluate(&[&a, &b, &c], &found);
            assert_eq!(tally.to_string(), "0/2 passed, optional 0/0, 1 skipped");
        }
    }

    #[test]
    fn stream_must_have_ended_early() {
        let priming = check("server-sse-priming-event", "SUCCESS");
        for (status, passed) in [("INFO", 0), ("SUCCESS", 1)] {
            let checks = [priming.clone(), check("server-sse-disconnect-resume", status)];
            let (tally, told) = evaluate(&["server-sse-polling"], &[("server-sse-polling", &checks)]);
            assert_eq!(tally.count().passed, passed, "{told:?}");
        }
    }

    #[test]
    fn both_list_formats_are_parsed() {
        let set = "Required for 2026-07-28:\n\nServer scenarios (test against a server):\n  - ping\n  - tools-list\n\n\
                   Client scenarios (test against a client):\n  - tools_call\n  - auth/pre-registration\n\n\
                   Run and reported, but never scored:\n  extension (2):\n    - auth/dpop [client]\n    \
                   - tasks-lifecycle [server]\n  pending (1):\n    - http-header-validation [server]\n";
        let servers = ScenarioList::parse(Role::Server, set);
        assert_eq!(servers.required, ["ping", "tools-list"]);
        assert_eq!(servers.optional, ["tasks-lifecycle", "http-header-validation"]);
        let clients = ScenarioList::parse(Role::Client, set);
        assert_eq!(clients.required, ["tools_call", "auth/pre-registration"]);
        assert_eq!(clients.optional, ["auth/dpop"]);

        let full = "Server scenarios (test against a server):\n  - ping [2025-06-18,2025-11-25]\n  - tasks-list [extension]\n";
        let servers = ScenarioList { required: vec!["ping", "tasks-list"], optional: vec![] };
        assert_eq!(ScenarioList::parse(Role::Server, full), servers);
        let nothing = ScenarioList { required: vec![], optional: vec![] };
        assert_eq!(ScenarioList::parse(Role::Client, full), nothing);
        assert_eq!(ScenarioList::parse(Role::Client, "error: no such set"), nothing);
    }

    #[test]
    fn folder_names_its_scenario() {
        for (role, folder, scenario) in [
            (Role::Server, "server-server-stateless-2026-11-15T14-40-07-421Z", Some("server-stateless")),
            (Role::Server, "server-x", None),
            (Role::Client, "tools_call-2026-11-15T14-40-07-421Z", Some("tools_call")),
            (Role::Client, "auth/dpop-2026-11-15T14-40-07-421Z", Some("auth/dpop")),
            (Role::Client, "", None),
        ] {
            assert_eq!(scenario_of(role, folder), scenario, "{folder}");
        }
    }
}
