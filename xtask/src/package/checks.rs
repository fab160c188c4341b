//! Checks of one part, each with a name: all of them run, and those that fail are listed.

use std::time::Instant;

use crate::count::Count;

/// The checks of a part.
pub(super) struct Checks {
    part: &'static str,
    passed: u64,
    failures: Vec<String>,
    start: Instant,
}

impl Checks {
    pub(super) fn new(part: &'static str) -> Self {
        Self { part, passed: 0, failures: Vec::new(), start: Instant::now() }
    }

    /// Runs a check. Its name states the rule.
    pub(super) fn run(&mut self, name: &str, check: impl FnOnce() -> Result<(), String>) {
        match check() {
            Ok(()) => self.passed += 1,
            Err(reason) => self.failures.push(format!("{name}: {reason}")),
        }
    }

    /// Adds the results to `count`, and fails if a check has failed.
    pub(super) fn finish(self, count: &mut Count) -> Result<(), String> {
        let failed = self.failures.len() as u64;
        let seconds = self.start.elapsed().as_secs_f64();
        println!(
            "   {}: {} of {} checks passed in {seconds:.1} s",
            self.part,
            self.passed,
            self.passed + failed
        );
        *count += Count { passed: self.passed, failed, ..Count::default() };
        match self.failures.as_slice() {
            [] => Ok(()),
            failures => Err(format!("{} does not work\n- {}", self.part, failures.join("\n- "))),
        }
    }
}

/// Fails unless `said` contains `part`.
pub(super) fn contains(said: &str, part: &str) -> Result<(), String> {
    match said.contains(part) {
        true => Ok(()),
        false => Err(format!("no {part:?} in {said:?}")),
    }
}
