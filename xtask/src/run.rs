//! Starting other programs.
//!
//! Everything runs from the root of the workspace and without standard input: CI has none, and a program that
//! waits for an answer would wait forever.

use std::env;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

/// The cargo that runs us, so that a `+toolchain` on the command line holds for every step.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

pub(crate) fn program<'a>(name: impl Into<PathBuf>, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(name.into());
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// Where the workspace lies now. Where it lay at compile time will not do: two checkouts that share a target
/// folder share this binary too.
pub(crate) fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let xtask = PathBuf::from(xtask);
    xtask.parent().map(Path::to_owned).unwrap_or(xtask)
}

/// Whether a program is there and content; what it prints is nobody's business.
pub(crate) fn works(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs a program in the open; `advice` is what to try when it fails.
pub(crate) fn must(mut command: Command, advice: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| not_started(&command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}` ended with {status}\n  try: {advice}", shown(&command)))
}

/// Runs a program for what it writes to standard output.
pub(crate) fn output(mut command: Command, advice: &str) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| not_started(&command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}\n  try: {advice}", shown(&command), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program in the open and keeps what it said: standard output first, then standard error.
pub(crate) fn overheard(mut command: Command) -> Result<(bool, String), String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| not_started(&command, &error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let said = thread::scope(|scope| {
        let errors = scope.spawn(|| pass_on(stderr, io::stderr()));
        let mut said = pass_on(stdout, io::stdout());
        said.push('\n');
        said + &errors.join().unwrap_or_default()
    });
    let status = child.wait().map_err(|error| not_started(&command, &error))?;
    Ok((status.success(), said))
}

/// What `cargo metadata` knows about this workspace.
pub(crate) fn metadata(options: &[&str]) -> Result<Value, String> {
    let command = cargo(["metadata", "--format-version", "1", "--locked"].iter().chain(options).copied());
    let text = output(command, "commit the Cargo.lock that `cargo update --workspace` writes")?;
    serde_json::from_str(&text)
        .map_err(|error| format!("cargo metadata wrote something else than JSON: {error}"))
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn not_started(command: &Command, error: &io::Error) -> String {
    format!("`{}` could not run: {error}", shown(command))
}

/// Copies as it comes, not line by line: a half-written line is how one sees which test hangs.
fn pass_on(from: Option<impl Read>, mut to: impl Write) -> String {
    let mut said = Vec::new();
    let mut buffer = [0; 8192];
    let Some(mut from) = from else { return String::new() };
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let heard = buffer.get(..length).unwrap_or_default();
                // A closed terminal is no reason to stop listening: the count is still wanted.
                let _ = to.write_all(heard).and_then(|()| to.flush());
                said.extend_from_slice(heard);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}
