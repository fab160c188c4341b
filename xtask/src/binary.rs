//! Builds our binaries and finds their executables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::process;

/// Builds a binary of the testkit. The output of cargo goes to a file in `folder`.
pub(crate) fn build(binary: &str, folder: &Path) -> Result<PathBuf, String> {
    build_binary(&["--package", "tsugite-testkit", "--bin", binary], binary, folder)
}

/// Builds `tsugite`.
pub(crate) fn tsugite(folder: &Path) -> Result<PathBuf, String> {
    build_binary(&["--package", "tsugite-cli", "--bin", "tsugite"], "tsugite", folder)
}

/// Builds `tsugite` as it is released.
pub(crate) fn tsugite_release(folder: &Path) -> Result<PathBuf, String> {
    build_binary(&["--release", "--package", "tsugite-cli", "--bin", "tsugite"], "tsugite", folder)
}

/// Builds the example that logs in.
pub(crate) fn login_example(folder: &Path) -> Result<PathBuf, String> {
    build_binary(&["--package", "tsugite-auth", "--example", "login"], "login", folder)
}

/// Builds the benchmark server in release mode.
pub(crate) fn bench_server(folder: &Path) -> Result<PathBuf, String> {
    let features = ["--no-default-features", "--features", "macros,http"];
    let options = ["--release", "--package", "tsugite", "--example", "bench_server"];
    build_binary(&[&options[..], &features].concat(), "bench_server", folder)
}

fn build_binary(options: &[&str], binary: &str, folder: &Path) -> Result<PathBuf, String> {
    let always = ["build", "--locked", "--message-format", "json-render-diagnostics"];
    let command = process::cargo(always.iter().chain(options).copied());
    let (status, said) = process::output_with_timeout(BUILD_TIMEOUT, command, &folder.join("build.txt"))?;
    if !status.success() {
        return Err(format!("{binary} does not build\n  try: fix the errors above"));
    }
    executable(&said, binary).ok_or_else(|| format!("cargo does not report the path of {binary}"))
}

/// The path of the executable, from the JSON messages of cargo.
fn executable(said: &str, binary: &str) -> Option<PathBuf> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ours =
        messages.filter(|message| message.pointer("/target/name").is_some_and(|name| name == binary));
    ours.find_map(|message| Some(message.get("executable")?.as_str()?.into()))
}

/// The time limit of a clean build on a slow machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(1800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_path_is_parsed_from_cargo_output() {
        let said = r#"{"reason":"compiler-artifact","target":{"name":"tsugite_testkit"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"some-server"},"executable":"/t/debug/some-server"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(said, "some-server"), Some("/t/debug/some-server".into()));
        assert_eq!(executable(said, "another"), None);
    }
}
