//! A process that is measured, and killed on drop.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::BoxError;

pub(crate) struct Process {
    child: Child,
    clock: ClockId,
}

impl Process {
    /// Starts a program with pipes. Its standard error is discarded.
    pub(crate) fn start(mut command: Command) -> Result<(Self, ChildStdin, ChildStdout), BoxError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(child.id())?));
        let process = Self { child, clock: clock? };
        match pipes {
            (Some(stdin), Some(stdout)) => Ok((process, stdin, stdout)),
            _ => Err("no pipes to a process".into()),
        }
    }

    /// Starts a program whose first line of output is its address.
    pub(crate) fn start_listening(command: Command) -> Result<(Self, String, ChildStdin), BoxError> {
        let shown = format!("{command:?}");
        let (process, stdin, stdout) = Self::start(command)?;
        let mut line = String::new();
        match BufReader::new(stdout).read_line(&mut line)? {
            0 => Err(format!("{shown} ended before it said where it is").into()),
            _ => Ok((process, line.trim_end().to_owned(), stdin)),
        }
    }

    /// The CPU time used so far, user and kernel.
    pub(crate) fn cpu_time(&self) -> Result<Duration, BoxError> {
        Ok(clock_gettime(self.clock)?.into())
    }

    /// The resident memory, in bytes.
    pub(crate) fn memory(&self) -> Result<u64, BoxError> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let held = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let held = held.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        Ok(held.ok_or("nothing says how much memory a process holds")? << 10)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
