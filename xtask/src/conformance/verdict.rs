//! What the suite wrote down, judged: a warning is a failure, and silence is no success.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::count::Count;

/// The checks of each scenario that left a result.
pub(crate) type Results = BTreeMap<String, Vec<Value>>;

/// Reads what the suite left in its folder: `server-<scenario>-<time>/checks.json`.
pub(crate) fn results(folder: &Path) -> Result<Results, String> {
    let wrong = |path: &Path, error: &dyn fmt::Display| format!("cannot read {}: {error}", path.display());
    let mut results = Results::new();
    for entry in fs::read_dir(folder).map_err(|error| wrong(folder, &error))? {
        let path = entry.map_err(|error| wrong(folder, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(scenario) = scenario_of(name) else { continue };
        let file = path.join("checks.json");
        let text = fs::read_to_string(&file).map_err(|error| wrong(&file, &error))?;
        let checks = serde_json::from_str(&text).map_err(|error| wrong(&file, &error))?;
        results.insert(scenario.to_owned(), checks);
    }
    Ok(results)
}

/// `server-ping-2026-07-28T12-00-00-000Z` is a run of `ping`.
fn scenario_of(folder: &str) -> Option<&str> {
    let name = folder.strip_prefix("server-")?;
    name.get(..name.len().checked_sub("-2026-07-28T12-00-00-000Z".len())?)
}

/// The scenarios for servers in what `list` said.
pub(crate) fn listed(listing: &str) -> Vec<&str> {
    let ours = listing.lines().skip_while(|line| !line.starts_with("Server scenarios")).skip(1);
    ours.map_while(|line| line.strip_prefix("  - ")?.split(' ').next()).collect()
}

/// How a set ended, in scenarios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// What the set demands.
    demanded: Share,
    /// What was run beside it: pending or newer than the set. We want it too.
    beside: Share,
    skipped: u64,
    left_out: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    passed: u64,
    of: u64,
}

impl Tally {
    /// How a set ends when all is well.
    pub(crate) const fn due(demanded: u64, beside: u64, skipped: u64, left_out: u64) -> Self {
        let (demanded, beside) = (Share::whole(demanded), Share::whole(beside));
        Self { demanded, beside, skipped, left_out }
    }

    /// Judges what was found, and what was demanded and not found. `tell` hears of whatever did not pass.
    pub(crate) fn take(demanded: &[&str], found: &Results, mut tell: impl FnMut(String)) -> Self {
        let mut tally = Self::default();
        let beside = found.keys().map(String::as_str).filter(|name| !demanded.contains(name));
        for name in demanded.iter().copied().chain(beside) {
            if is_left_out(name) {
                tally.left_out += 1;
                continue;
            }
            let share = if demanded.contains(&name) { &mut tally.demanded } else { &mut tally.beside };
            match Verdict::of(name, found.get(name)) {
                Verdict::Skipped => {
                    tell(format!("skipped {name}: we do not offer what it is about"));
                    tally.skipped += 1;
                }
                Verdict::Passed => *share = Share { passed: share.passed + 1, of: share.of + 1 },
                Verdict::Failed(why) => {
                    why.into_iter().for_each(|why| tell(format!("FAILED {name}: {why}")));
                    share.of += 1;
                }
            }
        }
        tally
    }

    pub(crate) fn count(&self) -> Count {
        let passed = self.demanded.passed + self.beside.passed;
        Count { passed, failed: self.demanded.of + self.beside.of - passed, skipped: self.skipped }
    }
}

impl Share {
    const fn whole(of: u64) -> Self {
        Self { passed: of, of }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { demanded, beside, skipped, left_out } = self;
        write!(f, "{}/{} passed", demanded.passed, demanded.of)?;
        write!(f, ", beside them {}/{}, {skipped} skipped, {left_out} left out", beside.passed, beside.of)
    }
}

enum Verdict {
    Passed,
    Skipped,
    Failed(Vec<String>),
}

impl Verdict {
    fn of(scenario: &str, checks: Option<&Vec<Value>>) -> Self {
        let Some(checks) = checks else { return Verdict::Failed(vec!["it left no result".to_owned()]) };
        let bad = |check: &&Value| matches!(text(check, "status"), "FAILURE" | "WARNING");
        let mut why: Vec<String> = checks.iter().filter(bad).map(shown).collect();
        for (_, id) in INSISTED.iter().filter(|(name, _)| *name == scenario) {
            if !checks.iter().any(|check| text(check, "id") == *id && text(check, "status") == "SUCCESS") {
                why.push(format!("{id}: the suite does not insist on it, we do"));
            }
        }
        match (why.is_empty(), is_decided(checks)) {
            (false, _) => Verdict::Failed(why),
            (true, true) => Verdict::Passed,
            (true, false) if may_be_silent(scenario) => Verdict::Skipped,
            (true, false) => Verdict::Failed(vec!["no check was decided".to_owned()]),
        }
    }
}

/// Whether anything was found out. That what was said fits the schema shows only that something was said.
fn is_decided(checks: &[Value]) -> bool {
    let about_the_scenario = |check: &&Value| !text(check, "id").starts_with("wire-schema-");
    let mut decided = checks.iter().filter(about_the_scenario).map(|check| text(check, "status"));
    decided.any(|status| matches!(status, "SUCCESS" | "FAILURE" | "WARNING"))
}

/// `WARNING tools-name-format: Tool names are well formed: "a b" is not`
fn shown(check: &Value) -> String {
    let said = ["description", "errorMessage"].map(|member| text(check, member));
    let said: Vec<&str> = said.into_iter().filter(|said| !said.is_empty()).collect();
    format!("{} {}: {}", text(check, "status"), text(check, "id"), said.join(": "))
}

fn text<'a>(check: &'a Value, member: &str) -> &'a str {
    check.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The tasks extension, which our server does not have yet.
fn is_left_out(scenario: &str) -> bool {
    scenario.starts_with("tasks-")
}

/// The skills extension: scenarios that look for it and say nothing where it is not declared.
fn may_be_silent(scenario: &str) -> bool {
    scenario.starts_with("sep-2640-skills-")
}

/// Checks that are only informed about where they do not hold: a call that was answered on its own stream shows nothing
/// of streams that end early.
const INSISTED: [(&str, &str); 1] = [("server-sse-polling", "server-sse-disconnect-resume")];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(id: &str, status: &str) -> Value {
        json!({"id": id, "status": status, "description": "what it is", "errorMessage": "what is wrong"})
    }

    fn taken(demanded: &[&str], found: &[(&str, &[Value])]) -> (Tally, Vec<String>) {
        let found = found.iter().map(|(name, checks)| ((*name).to_owned(), checks.to_vec())).collect();
        let mut told = Vec::new();
        (Tally::take(demanded, &found, |note| told.push(note)), told)
    }

    #[test]
    fn a_good_run_is_as_it_is_due() {
        let good = [check("a", "SUCCESS"), check("b", "INFO"), check("c", "SKIPPED")];
        let silent = [check("a", "SKIPPED"), check("wire-schema-valid", "SUCCESS")];
        let bad = [check("a", "FAILURE")];
        let found: [(&str, &[Value]); 4] =
            [("ping", &good), ("newer", &good), ("sep-2640-skills-list", &silent), ("tasks-list", &bad)];
        let (tally, told) = taken(&["ping"], &found);
        assert_eq!(tally, Tally::due(1, 1, 1, 1));
        assert_eq!(tally.to_string(), "1/1 passed, beside them 1/1, 1 skipped, 1 left out");
        assert_eq!(tally.count(), Count { passed: 2, failed: 0, skipped: 1 });
        assert_eq!(told, ["skipped sep-2640-skills-list: we do not offer what it is about"]);
    }

    #[test]
    fn failures_warnings_silence_and_absence_are_failures() {
        let found: [(&str, &[Value]); 3] = [
            ("fails", &[check("a", "SUCCESS"), check("b", "FAILURE")]),
            ("warns", &[check("a", "SUCCESS"), check("c", "WARNING")]),
            ("silent", &[check("a", "INFO"), check("wire-schema-valid", "SUCCESS")]),
        ];
        let (tally, told) = taken(&["fails", "silent", "absent"], &found);
        assert_eq!(tally.to_string(), "0/3 passed, beside them 0/1, 0 skipped, 0 left out");
        assert_eq!(tally.count(), Count { passed: 0, failed: 4, skipped: 0 });
        let expected = [
            "FAILED fails: FAILURE b: what it is: what is wrong",
            "FAILED silent: no check was decided",
            "FAILED absent: it left no result",
            "FAILED warns: WARNING c: what it is: what is wrong",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn an_extension_that_fails_is_not_skipped() {
        let found: [(&str, &[Value]); 2] =
            [("sep-2640-skills-a", &[check("a", "FAILURE")]), ("sep-2640-skills-b", &[])];
        let (tally, _) = taken(&["sep-2640-skills-a", "sep-2640-skills-b", "sep-2640-skills-c"], &found);
        assert_eq!(tally.to_string(), "0/2 passed, beside them 0/0, 1 skipped, 0 left out");
    }

    #[test]
    fn a_stream_must_have_ended_early() {
        let priming = check("server-sse-priming-event", "SUCCESS");
        for (status, passed) in [("INFO", 0), ("SUCCESS", 1)] {
            let checks = [priming.clone(), check("server-sse-disconnect-resume", status)];
            let (tally, told) = taken(&["server-sse-polling"], &[("server-sse-polling", &checks)]);
            assert_eq!(tally.count().passed, passed, "{told:?}");
        }
    }

    #[test]
    fn both_kinds_of_lists_are_read() {
        let set = "Required for 2026-07-28:\n\nServer scenarios (test against a server):\n  - ping\n  - tools-list\n\n\
                   Client scenarios (test against a client):\n  - tools_call\n";
        let full = "Server scenarios (test against a server):\n  - ping [2025-06-18,2025-11-25]\n  - tools-list [2026-07-28]\n";
        assert_eq!(listed(set), ["ping", "tools-list"]);
        assert_eq!(listed(full), ["ping", "tools-list"]);
        assert!(listed("error: no such set").is_empty());
    }

    #[test]
    fn a_folder_names_its_scenario() {
        assert_eq!(scenario_of("server-server-stateless-2026-11-15T14-40-07-421Z"), Some("server-stateless"));
        assert_eq!(scenario_of("log.txt"), None);
        assert_eq!(scenario_of("server-x"), None);
    }
}
