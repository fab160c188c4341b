//! The suite against our client, one scenario at a time.
//!
//! Told to run a set, the suite starts all its scenarios at once, those we leave out too, and does not care how a client
//! ends. Told to run one scenario, it also fails for a client that does not end in time, or not well where the scenario
//! allows no error.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::verdict::{self, Results, ScenarioList};
use super::{Role, ScenarioSet, Suite};
use crate::process;

/// The program under test, and where to keep what is found.
pub(super) struct ScenarioRunner<'a> {
    pub(super) suite: &'a Suite,
    pub(super) set: &'a ScenarioSet,
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
}

impl ScenarioRunner<'_> {
    /// Plays what is listed, without what is left out.
    pub(super) fn run(&self, listed: &ScenarioList<'_>) -> Result<Results, String> {
        let mut ends = Vec::new();
        let scenarios = listed.required.iter().chain(&listed.optional).copied();
        for scenario in scenarios.filter(|name| !verdict::is_excluded(name)) {
            ends.extend(self.run_one(scenario)?.map(|end| (scenario, end)));
        }
        let mut results = verdict::read_results(Role::Client, self.folder)?;
        for (scenario, end) in ends {
            results.entry(scenario.to_owned()).or_default().push(end);
        }
        Ok(results)
    }

    fn run_one(&self, scenario: &str) -> Result<Option<Value>, String> {
        let log = self.folder.join(format!("{}.txt", scenario.replace('/', "-")));
        let wrong = |error| format!("{}: {error}", log.display());
        let errors = process::create_log(&log)?;
        let mut command = self.suite.command("client");
        command.args(["--command", COMMAND]).env(PROGRAM_VARIABLE, self.program);
        command.args(["--scenario", scenario]).args(self.set.scenario_args());
        command.args(["--timeout", CLIENT_TIMEOUT_MS]).arg("-o").arg(self.folder);
        command.stdout(errors.try_clone().map_err(wrong)?).stderr(errors);
        let content = process::run_with_timeout(SCENARIO_TIMEOUT, command).map(|status| status.success());
        let said = fs::read(&log).map_err(wrong)?;
        Ok(run_failure(content, &String::from_utf8_lossy(&said)))
    }
}

/// What the suite says by its exit code alone, as a check like its others. Why is in its log, if it is about the client:
/// between the end of the client and where the results are.
fn run_failure(content: Result<bool, String>, log: &str) -> Option<Value> {
    let why = match content {
        Ok(true) => return None,
        Ok(false) => {
            let about = log.lines().skip_while(|line| !line.starts_with("Client "));
            let about = about.take_while(|line| !line.starts_with("Results saved"));
            about.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
        }
        Err(why) => why,
    };
    let description = "the suite is not content with this run";
    Some(json!({"id": "run", "status": "FAILURE", "description": description, "errorMessage": why}))
}

/// The suite adds an address and hands it all to a shell. If that is bash, it becomes the client, and the suite takes an
/// end by a signal, which has no exit code, for a good one. So there is a shell between them that has more to do.
const COMMAND: &str = r#"sh -c '"$JUDGED" "$0" || exit $?'"#;

/// Names the program to that shell, whatever its path is made of.
const PROGRAM_VARIABLE: &str = "JUDGED";

/// In milliseconds. Less than our client gives itself: the suite waits for a client even when its time is up, and where
/// an error is allowed, only this tells that it hung.
const CLIENT_TIMEOUT_MS: &str = "20000";

/// Longer than a client that hangs.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_reason(content: Result<bool, String>, log: &str) -> Option<String> {
        run_failure(content, log).map(|check| {
            assert_eq!(check["status"], "FAILURE");
            check["errorMessage"].as_str().unwrap().to_owned()
        })
    }

    #[test]
    fn failed_exit_is_reported_with_its_reason() {
        let crashed = "Starting scenario: initialize\n\nClient exited with code 1\n\nStderr:\nno answer\n\n\
                       Results saved to /tmp/initialize\nChecks:\n";
        let hung =
            "Starting scenario: initialize\n\nClient timed out after 20000ms\nResults saved to /tmp/x\n";
        let failed = "Starting scenario: initialize\nResults saved to /tmp/x\nChecks:\n";
        assert_eq!(failure_reason(Ok(true), failed), None);
        // Where a scenario allows an error, the suite is content with one.
        assert_eq!(failure_reason(Ok(true), crashed), None);
        assert_eq!(
            failure_reason(Ok(false), crashed).unwrap(),
            "Client exited with code 1 Stderr: no answer"
        );
        assert_eq!(failure_reason(Ok(false), hung).unwrap(), "Client timed out after 20000ms");
        assert_eq!(failure_reason(Ok(false), failed).unwrap(), "");
        assert_eq!(failure_reason(Err("it hangs".to_owned()), "").unwrap(), "it hangs");
    }

    #[test]
    fn wrapper_shell_passes_on_the_exit_status() {
        for (program, code) in [("true", 0), ("false", 1), ("true by another name", 127)] {
            let mut command = process::program("sh", ["-c", &format!("{COMMAND} http://localhost:1")]);
            command.env(PROGRAM_VARIABLE, program).stderr(std::process::Stdio::null());
            assert_eq!(
                process::run_with_timeout(SCENARIO_TIMEOUT, command).unwrap().code(),
                Some(code),
                "{program}"
            );
        }
    }
}
