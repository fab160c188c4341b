//! The suite against our client, one scenario at a time.
//!
//! Told to run a set, the suite starts all its scenarios at once, those we leave out too, and does not care how a client
//! ends. Told to run one scenario, it also fails for a client that does not end in time, or not well where the scenario
//! allows no error.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::verdict::{self, Listed, Results};
use super::{Role, Set, Suite};
use crate::run;

/// The program under test, and where to keep what is found.
pub(super) struct Stage<'a> {
    pub(super) suite: &'a Suite,
    pub(super) set: &'a Set,
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
}

impl Stage<'_> {
    /// Plays what is listed, without what is left out.
    pub(super) fn play(&self, listed: &Listed<'_>) -> Result<Results, String> {
        let mut ends = Vec::new();
        let scenarios = listed.demanded.iter().chain(&listed.beside).copied();
        for scenario in scenarios.filter(|name| !verdict::is_left_out(name)) {
            ends.extend(self.play_one(scenario)?.map(|end| (scenario, end)));
        }
        let mut results = verdict::results(Role::Client, self.folder)?;
        for (scenario, end) in ends {
            results.entry(scenario.to_owned()).or_default().push(end);
        }
        Ok(results)
    }

    fn play_one(&self, scenario: &str) -> Result<Option<Value>, String> {
        let log = self.folder.join(format!("{}.txt", scenario.replace('/', "-")));
        let wrong = |error| format!("{}: {error}", log.display());
        let errors = run::log(&log)?;
        let mut command = self.suite.command("client");
        command.args(["--command", COMMAND]).env(JUDGED, self.program);
        command.args(["--scenario", scenario]).args(self.set.wire());
        command.args(["--timeout", TIMEOUT]).arg("-o").arg(self.folder);
        command.stdout(errors.try_clone().map_err(wrong)?).stderr(errors);
        let content = run::within(A_SCENARIO, command).map(|status| status.success());
        let said = fs::read(&log).map_err(wrong)?;
        Ok(end(content, &String::from_utf8_lossy(&said)))
    }
}

/// What the suite says by its exit code alone, as a check like its others. Why is in its log, if it is about the client:
/// between the end of the client and where the results are.
fn end(content: Result<bool, String>, log: &str) -> Option<Value> {
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
const JUDGED: &str = "JUDGED";

/// In milliseconds. Less than our client gives itself: the suite waits for a client even when its time is up, and where
/// an error is allowed, only this tells that it hung.
const TIMEOUT: &str = "20000";

/// Longer than a client that hangs.
const A_SCENARIO: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn why(content: Result<bool, String>, log: &str) -> Option<String> {
        end(content, log).map(|check| {
            assert_eq!(check["status"], "FAILURE");
            check["errorMessage"].as_str().unwrap().to_owned()
        })
    }

    #[test]
    fn an_end_that_is_not_good_is_a_failure_and_says_why() {
        let crashed = "Starting scenario: initialize\n\nClient exited with code 1\n\nStderr:\nno answer\n\n\
                       Results saved to /tmp/initialize\nChecks:\n";
        let hung =
            "Starting scenario: initialize\n\nClient timed out after 20000ms\nResults saved to /tmp/x\n";
        let failed = "Starting scenario: initialize\nResults saved to /tmp/x\nChecks:\n";
        assert_eq!(why(Ok(true), failed), None);
        // Where a scenario allows an error, the suite is content with one.
        assert_eq!(why(Ok(true), crashed), None);
        assert_eq!(why(Ok(false), crashed).unwrap(), "Client exited with code 1 Stderr: no answer");
        assert_eq!(why(Ok(false), hung).unwrap(), "Client timed out after 20000ms");
        assert_eq!(why(Ok(false), failed).unwrap(), "");
        assert_eq!(why(Err("it hangs".to_owned()), "").unwrap(), "it hangs");
    }

    #[test]
    fn the_shell_between_passes_on_how_the_client_ended() {
        for (program, code) in [("true", 0), ("false", 1), ("true by another name", 127)] {
            let mut command = run::program("sh", ["-c", &format!("{COMMAND} http://localhost:1")]);
            command.env(JUDGED, program).stderr(std::process::Stdio::null());
            assert_eq!(run::within(A_SCENARIO, command).unwrap().code(), Some(code), "{program}");
        }
    }
}
