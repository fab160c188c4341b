//! `cargo xtask protected`: tokens of other projects at our protected server.
//!
//! The scripts are in `crates/testkit/peers`: `tokens.mjs` gets tokens from `oidc-provider` and rotates its keys, `tokens.py`
//! signs tokens with `authlib`, good and forged ones. Each starts `protected-server` of the testkit, calls it, and prints one
//! line per check.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::count::Count;
use crate::peers::PeerPackages;
use crate::{binary, process};

/// Runs all checks and adds them to `count`.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let packages = PeerPackages::new()?;
    let folder = packages.output_dir.join("protected");
    process::create_dir(&folder)?;
    let server = binary::build("protected-server", &folder)?;
    let mut failures = Vec::new();
    for (peer, mut command) in
        [("oidc-provider", packages.typescript("tokens.mjs")), ("authlib", packages.python("tokens.py"))]
    {
        println!("-- {peer}");
        command.arg(&server);
        let said = run_script(command, &folder.join(format!("{peer}.txt")))?;
        let checks: Vec<Verdict<'_>> = said.lines().filter_map(Verdict::parse).collect();
        if checks.len() < MIN_CHECKS {
            return Err(format!("{peer} made {} checks\n  try: see {}", checks.len(), folder.display()));
        }
        let failed: Vec<_> = checks.iter().filter(|check| !check.passed).collect();
        *count += Count {
            passed: (checks.len() - failed.len()) as u64,
            failed: failed.len() as u64,
            ..Count::default()
        };
        println!("   {} of {} checks passed", checks.len() - failed.len(), checks.len());
        failures.extend(failed.iter().map(|check| format!("{peer}: {}", check.name)));
    }
    match failures.as_slice() {
        [] => Ok(()),
        failures => Err(format!("tokens are not judged right\n- {}", failures.join("\n- "))),
    }
}

/// Runs a script to its end and returns what it printed, which also goes to a file.
fn run_script(mut command: Command, file: &Path) -> Result<String, String> {
    command.stderr(process::create_log(&file.with_extension("err"))?);
    let (status, said) = process::output_with_timeout(TIMEOUT, command, file)?;
    match status.success() {
        true => Ok(said),
        false => Err(format!("the script ended with {status}\n  try: see {}", file.display())),
    }
}

/// One line of a script.
struct Verdict<'a> {
    passed: bool,
    /// The name, and the reason of a failure.
    name: &'a str,
}

impl<'a> Verdict<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(name), _) => Some(Self { passed: true, name }),
            (None, Some(name)) => Some(Self { passed: false, name }),
            (None, None) => None,
        }
    }
}

/// Fewer checks mean that a script has ended early.
const MIN_CHECKS: usize = 12;

/// The time limit of a script on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verdicts_are_counted() {
        let lines = ["ok a token", "not ok expired: 200", "ready 80", ""];
        let found: Vec<_> = lines.into_iter().filter_map(Verdict::parse).collect();
        let found: Vec<_> = found.iter().map(|verdict| (verdict.passed, verdict.name)).collect();
        assert_eq!(found, [(true, "a token"), (false, "expired: 200")]);
    }
}
