//! Runs other programs.
//!
//! Everything runs from the root of the workspace and without standard input: CI has none, and a program that
//! waits for an answer would wait forever.

use std::env;
use std::env::consts::OS;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process_group;

/// The cargo that runs xtask, so that a `+toolchain` on the command line applies to every step.
///
/// It does not inherit the variables that describe xtask itself: the build script of ring watches some of them, and ring
/// with everything that uses it would be built again by every step.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args);
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
        command.env_remove(name);
    }
    command
}

/// npm, which is a script on Windows.
pub(crate) fn npm<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    program(if OS == "windows" { "npm.cmd" } else { "npm" }, args)
}

pub(crate) fn program<'a>(name: impl Into<PathBuf>, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(name.into());
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// The current root of the workspace. Its path at compile time may be wrong: two checkouts that share a target
/// folder share this binary too.
pub(crate) fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let xtask = PathBuf::from(xtask);
    xtask.parent().map(Path::to_owned).unwrap_or(xtask)
}

/// Whether a program runs successfully; its output is discarded.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs a program with visible output; `advice` says what to try when it fails.
pub(crate) fn run_or_fail(mut command: Command, advice: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| spawn_error(&command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}` exited with {status}\n  try: {advice}", display_command(&command)))
}

/// Runs a program and returns its standard output.
pub(crate) fn output(mut command: Command, advice: &str) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| spawn_error(&command, &error))?;
    if !output.status.success() {
        return Err(format!(
            "`{}` exited with {}\n  try: {advice}",
            display_command(&command),
            output.status
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program with visible output and returns it: standard output first, then standard error.
pub(crate) fn run_and_capture(command: Command) -> Result<(bool, String), String> {
    capture(command, ChildProcess::start, ChildProcess::wait)
}

/// Like [`run_and_capture`], and stops the program and those it has started when it takes longer than `limit`.
pub(crate) fn run_and_capture_with_timeout(
    limit: Duration,
    command: Command,
) -> Result<(bool, String), String> {
    capture(command, ChildProcess::start_group, |running| running.wait_with_timeout(limit))
}

fn capture(
    mut command: Command,
    start: fn(Command) -> Result<ChildProcess, String>,
    wait: impl FnOnce(ChildProcess) -> Result<ExitStatus, String>,
) -> Result<(bool, String), String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = start(command)?;
    let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
    thread::scope(|scope| {
        let said = scope.spawn(|| tee(stdout, io::stdout()));
        let errors = scope.spawn(|| tee(stderr, io::stderr()));
        let status = wait(running)?;
        let mut said = said.join().unwrap_or_default();
        said.push('\n');
        Ok((status.success(), said + &errors.join().unwrap_or_default()))
    })
}

/// Runs a program, and stops it when it takes longer than `limit`.
pub(crate) fn run_with_timeout(limit: Duration, command: Command) -> Result<ExitStatus, String> {
    ChildProcess::start(command)?.wait_with_timeout(limit)
}

/// Like [`run_with_timeout`], and returns the standard output, which is kept in a file.
pub(crate) fn output_with_timeout(
    limit: Duration,
    mut command: Command,
    file: &Path,
) -> Result<(ExitStatus, String), String> {
    let wrong = |error: io::Error| format!("{}: {error}", file.display());
    command.stdout(File::create(file).map_err(wrong)?);
    let status = run_with_timeout(limit, command)?;
    let said = fs::read(file).map_err(wrong)?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

/// A running program, killed on drop.
pub(crate) struct ChildProcess {
    child: Child,
    name: String,
    /// Whether the processes it has started are killed, too.
    kill_group: bool,
}

impl ChildProcess {
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        let child = command.spawn().map_err(|error| spawn_error(&command, &error))?;
        Ok(Self { child, name: display_command(&command), kill_group: false })
    }

    /// Like [`start`](Self::start), and the processes it starts end with it. They are in their own group, so that a
    /// terminal does not stop them together with xtask: give it a standard input or a limit.
    pub(crate) fn start_group(mut command: Command) -> Result<Self, String> {
        process_group::start_in_group(&mut command);
        let mut running = Self::start(command)?;
        running.kill_group = true;
        Ok(running)
    }

    /// Takes its standard input and output, if they are pipes.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// Closes its standard input, if that is a pipe.
    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if it has exited.
    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>, String> {
        let ended =
            self.child.try_wait().map_err(|error| format!("cannot wait for `{}`: {error}", self.name))?;
        if ended.is_some() {
            self.kill_group();
        }
        Ok(ended)
    }

    /// Kills the group once and immediately: the id of an empty group may be reused.
    fn kill_group(&mut self) {
        if mem::take(&mut self.kill_group) {
            process_group::kill_group(self.child.id());
        }
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn stop(self, limit: Duration) -> Result<(), String> {
        process_group::terminate(self.child.id());
        let name = self.name.clone();
        match self.wait_with_timeout(limit)? {
            status if status.success() => Ok(()),
            status => Err(format!("`{name}` exited with {status}")),
        }
    }

    /// Waits for the exit.
    fn wait(mut self) -> Result<ExitStatus, String> {
        self.child.wait().map_err(|error| format!("cannot wait for `{}`: {error}", self.name))
    }

    /// Waits for the exit. A program that runs longer than `limit` is killed.
    pub(crate) fn wait_with_timeout(self, limit: Duration) -> Result<ExitStatus, String> {
        let slow = format!("`{}` took more than {} s and was stopped", self.name, limit.as_secs());
        self.wait_up_to(limit)?.ok_or(slow)
    }

    /// Waits for the exit. A program that runs longer than `limit` is killed, and has no status.
    pub(crate) fn wait_up_to(mut self, limit: Duration) -> Result<Option<ExitStatus>, String> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            if start.elapsed() >= limit {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill_group();
        // An error means that it has exited or cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The polling interval.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Creates a folder and its parents.
pub(crate) fn create_dir(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))
}

/// Creates a file for the output of a program.
pub(crate) fn create_log(file: &Path) -> Result<File, String> {
    File::create(file).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The target folder, for builds and other generated files.
pub(crate) fn target_dir() -> Result<PathBuf, String> {
    let metadata = metadata(&["--no-deps"])?;
    let folder = metadata.get("target_directory").and_then(Value::as_str);
    Ok(folder.ok_or("cargo metadata names no target folder")?.into())
}

/// The output of `cargo metadata` for this workspace.
pub(crate) fn metadata(options: &[&str]) -> Result<Value, String> {
    let command = cargo(["metadata", "--format-version", "1", "--locked"].iter().chain(options).copied());
    let text = output(command, "commit the Cargo.lock that `cargo update --workspace` writes")?;
    serde_json::from_str(&text).map_err(|error| format!("the output of cargo metadata is not JSON: {error}"))
}

/// A command as typed in a shell.
fn display_command(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn spawn_error(command: &Command, error: &io::Error) -> String {
    format!("cannot run `{}`: {error}", display_command(command))
}

/// Copies bytes as they arrive, not line by line: an incomplete line shows which test hangs.
fn tee(from: Option<impl Read>, mut to: impl Write) -> String {
    let mut said = Vec::new();
    let mut buffer = [0; 8192];
    let Some(mut from) = from else { return String::new() };
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let heard = buffer.get(..length).unwrap_or_default();
                // Continue if the terminal is closed: the count is still needed.
                let _ = to.write_all(heard).and_then(|()| to.flush());
                said.extend_from_slice(heard);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_program_is_stopped() {
        let told = run_with_timeout(Duration::ZERO, program("sleep", ["60"])).unwrap_err();
        assert_eq!(told, "`sleep 60` took more than 0 s and was stopped");
    }

    #[test]
    fn child_processes_end_with_their_parent() {
        let mut command = program("sh", ["-c", "sleep 60 & echo begun; wait"]);
        command.stdout(Stdio::piped());
        let start = Instant::now();
        let mut running = ChildProcess::start_group(command).unwrap();
        // The pipe stays open as long as a process can write to it.
        let mut said = running.child.stdout.take().unwrap();
        let mut begun = [0; 6];
        said.read_exact(&mut begun).unwrap();
        drop(running);
        assert_eq!(said.read(&mut begun).unwrap(), 0);
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn exit_status_of_a_finished_program_is_returned() {
        let limit = Duration::from_secs(60);
        assert!(run_with_timeout(limit, program("true", [])).unwrap().success());
        assert!(!run_with_timeout(limit, program("false", [])).unwrap().success());
        assert!(run_with_timeout(limit, program("no-such-program", [])).is_err());
    }
}
