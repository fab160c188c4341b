//! The tests of child processes with the code for systems without `/proc`, such as macOS, on this machine.

use std::time::Duration;

use serde_json::Value;

use crate::count::Count;
use crate::process;

/// Builds the unit tests of the library with the flag that chooses that code, and runs those of child processes.
pub(super) fn run(count: &mut Count) -> Result<(), String> {
    // The flag is passed to the library alone: its dependencies need not be built again.
    let args = ["rustc", "--package", "tsugite", "--all-features", "--locked", "--lib", "--profile", "test"];
    let options = ["--quiet", "--message-format", "json", "--", "--cfg", "tsugite_no_proc"];
    let said = process::output(process::cargo(args.into_iter().chain(options)), "fix the errors above")?;
    let is_test = |message: &Value| {
        let name = message.pointer("/target/name").and_then(Value::as_str);
        message.pointer("/profile/test") == Some(&Value::Bool(true)) && name == Some("tsugite")
    };
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut tests = messages.filter(is_test);
    let program = tests.find_map(|message| message.get("executable")?.as_str().map(str::to_owned));
    let program = program.ok_or("cargo named no test program")?;
    let mut command = process::program(program, ["transport::child"]);
    // As cargo sets it: one of the tests needs a variable that a server must not inherit.
    command.env("CARGO_PKG_NAME", "tsugite");
    let (success, said) = process::run_and_capture_with_timeout(TIMEOUT, command)?;
    let found = Count::from_libtest(&said);
    // The other tests of the library are no part of this.
    *count += Count { skipped: 0, ..found };
    match success && found.passed > 0 {
        true => Ok(()),
        false => Err("tests of child processes failed without /proc".to_owned()),
    }
}

/// Much longer than the tests take: each of them waits for a minute at most.
const TIMEOUT: Duration = Duration::from_secs(600);
