//! `cargo xtask native`: the tests that run on macOS and Windows as they come, without the programs of other projects that
//! `cargo xtask test` installs on Debian. It runs on Linux, too.

use std::env::consts::OS;

use serde_json::Value;

use crate::count::Count;
use crate::{package, process};

/// Builds everything, and runs the tests and what users install.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    for (name, reason) in LEFT_OUT_TARGETS.iter().chain(&LEFT_OUT_TESTS) {
        println!("   left out: {name}: {reason}");
    }
    println!("== build");
    let everything = ["build", "--workspace", "--all-targets", "--all-features", "--locked"];
    process::run_or_fail(process::cargo(everything), "fix the errors above")?;
    println!("== tests");
    let metadata = process::metadata(&["--no-deps"])?;
    let targets = test_targets(&metadata);
    let kinds = [
        "test",
        "--workspace",
        "--all-features",
        "--locked",
        "--no-fail-fast",
        "--lib",
        "--bins",
        "--examples",
    ];
    let selected = targets.iter().flat_map(|name| ["--test", name]);
    let skipped = LEFT_OUT_TESTS.iter().flat_map(|(name, _)| ["--skip", name]);
    let command = process::cargo(kinds.into_iter().chain(selected).chain(["--"]).chain(skipped));
    let (success, said) = process::run_and_capture(command)?;
    let found = Count::from_libtest(&said);
    *count += found;
    if !success || found.failed > 0 || found.passed == 0 {
        return Err(format!("{} tests failed on {OS}, or did not build\n  try: see above", found.failed));
    }
    println!("== packages");
    package::run(count)?;
    println!("{count}");
    Ok(())
}

/// The test programs of the workspace, without those that are left out.
fn test_targets(metadata: &Value) -> Vec<&str> {
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let targets = packages.filter_map(|package| package.get("targets")?.as_array()).flatten();
    let tests = targets.filter(|target| target.pointer("/kind/0").is_some_and(|kind| kind == "test"));
    let mut names: Vec<&str> = tests.filter_map(|target| target.get("name")?.as_str()).collect();
    names.retain(|name| LEFT_OUT_TARGETS.iter().all(|(left_out, _)| left_out != name));
    names.sort_unstable();
    names.dedup();
    names
}

/// Test programs that need other programs, and which.
const LEFT_OUT_TARGETS: [(&str, &str); 2] =
    [("redis", "needs a Redis server"), ("replicas", "needs nginx and a Redis server")];

/// Tests by a part of their path, and what they need.
const LEFT_OUT_TESTS: [(&str, &str); 4] = [
    ("keychain_keeps_credentials", "needs the keychain of GNOME"),
    ("terminal::", "needs tmux"),
    ("_in_redis", "needs a Redis server"),
    ("example_of_replicas_starts_and_stops", "needs nginx and a Redis server"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_the_metadata() {
        let metadata = serde_json::json!({ "packages": [
            { "targets": [{ "kind": ["lib"], "name": "a" }, { "kind": ["test"], "name": "wire" }] },
            { "targets": [{ "kind": ["test"], "name": "replicas" }, { "kind": ["test"], "name": "http" }] },
        ] });
        assert_eq!(test_targets(&metadata), ["http", "wire"]);
    }
}
