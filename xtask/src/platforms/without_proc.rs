//! The tests of child processes with the code for systems without `/proc`, such as macOS, on this machine.

use serde_json::Value;

use crate::count::Count;
use crate::process;

/// Builds the unit tests of the library with the flag that chooses that code, and runs those of child processes.
pub(super) fn run(count: &mut Count) -> Result<(), String> {
    let args = [
        "rustc",
        "--package",
        "tsugite",
        "--lib",
        "--profile",
        "test",
        "--locked",
        "--message-format",
        "json",
    ];
    let command = process::cargo(args.into_iter().chain(["--", "--cfg", "tsugite_no_proc"]));
    let said = process::output(command, "fix the errors above")?;
    let is_test = |message: &Value| {
        let name = message.pointer("/target/name").and_then(Value::as_str);
        message.pointer("/profile/test") == Some(&Value::Bool(true)) && name == Some("tsugite")
    };
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut tests = messages.filter(is_test);
    let program = tests.find_map(|message| message.get("executable")?.as_str().map(str::to_owned));
    let program = program.ok_or("cargo named no test program")?;
    let (success, said) = process::run_and_capture(process::program(program, ["transport::child"]))?;
    let found = Count::from_libtest(&said);
    *count += found;
    match success && found.passed > 0 {
        true => Ok(()),
        false => Err("tests of child processes failed without /proc".to_owned()),
    }
}
