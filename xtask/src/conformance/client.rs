//! Runs the suite against our client, one scenario at a time.
//!
//! With a set, the suite starts all scenarios at once, including those we exclude, and ignores how a client exits.
//! With one scenario, it also fails if the client does not exit in time, or exits with an error where the scenario
//! allows no error.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::verdict::{self, Results, ScenarioList};
use super::{Role, ScenarioSet, Suite};
use crate::process;

/// The program under test, and the folder for results.
pub(super) struct ScenarioRunner<'a> {
    pub(super) suite: &'a Suite,
    pub(super) set: &'a ScenarioSet,
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
}

impl ScenarioRunner<'_> {
    /// Runs the listed scenarios.
    pub(super) fn run(&self, listed: &ScenarioList<'_>) -> Result<Results, String> {
        let mut ends = Vec::new();
        let scenarios = listed.required.iter().chain(&listed.optional).copied();
        for scenario in scenarios {
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

/// A failure that the suite reports only by its exit code, as a check like its others. The reason is in its log,
/// between the exit of the client and the path of the results.
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
    let description = "the suite rejects this run";
    Some(json!({"id": "run", "status": "FAILURE", "description": description, "errorMessage": why}))
}

/// The suite appends a URL and passes the command to a shell. Bash replaces itself with the client, and the suite takes
/// an exit by a signal, which has no exit code, for success. Another shell in between prevents that.
const COMMAND: &str = r#"sh -c '"$JUDGED" "$0" || exit $?'"#;

/// The variable that holds the path of the program, so that it needs no quoting.
const PROGRAM_VARIABLE: &str = "JUDGED";

/// In milliseconds. Less than the limit of our client itself: the suite waits for a client after the timeout, and where
/// an error is allowed, only this shows that it hung.
const CLIENT_TIMEOUT_MS: &str = "20000";

/// Longer than the timeout of a hanging client.
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
        // Where a scenario allows an error, the suite accepts one.
        assert_eq!(failure_reason(Ok(true), crashed), None);
        assert_eq!(
            failure_reason(Ok(false), crashed).unwrap(),
            "Client exited with code 1 Stderr: no answer"
        );
        assert_eq!(failure_reason(Ok(false), hung).unwrap(), "Client timed out after 20000ms");
        assert_eq!(failure_reason(Ok(false), failed).unwrap(), "");
        assert_eq!(failure_reason(Err("timed out".to_owned()), "").unwrap(), "timed out");
    }

    #[test]
    fn wrapper_shell_passes_on_the_exit_status() {
        for (program, code) in [("true", 0), ("false", 1), ("no such program", 127)] {
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
