//! Child processes on Unix.
//!
//! No process that a child started should outlive it. A child leads a process group of its own, which one signal
//! reaches; on Linux, processes that left the group are looked for in the process table too. `reaper.rs` explains why no
//! signal can reach an unrelated process. The flag `tsugite_no_proc` chooses the code for systems without a process table in tests.

#[cfg(any(not(target_os = "linux"), tsugite_no_proc))]
mod no_proc;
#[cfg(all(target_os = "linux", not(tsugite_no_proc)))]
mod proc;
#[cfg(target_os = "linux")]
#[cfg_attr(
    tsugite_no_proc,
    allow(dead_code, reason = "single processes get signals with a process table only")
)]
mod process_table;
mod reaper;
mod stderr;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::command::{Command, Stderr};
use super::exit_status::ChildExitStatus;
use super::resolve_program::{self, SpawnError};
#[cfg(any(not(target_os = "linux"), tsugite_no_proc))]
use no_proc::ProcessTree;
#[cfg(all(target_os = "linux", not(tsugite_no_proc)))]
use proc::ProcessTree;
use reaper::{Reaper, ReaperHandle};
use stderr::StderrCapture;

/// A child that was started, and the pipes to it.
pub(crate) struct SpawnedChild {
    pub(crate) child: Child,
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
}

impl Command {
    /// Starts the program. Must be called inside a tokio runtime with I/O and time.
    ///
    /// The error says what failed and where the program was looked for, but no argument and no value of a variable.
    pub(crate) fn spawn(&self) -> Result<SpawnedChild, SpawnError> {
        let spawn_error = |error: std::io::Error| SpawnError::new(self, error.to_string());
        let environment = self.environment(std::env::vars_os());
        let program = resolve_program::resolve(self, &environment)?;
        // Started before the child, because an error after that must end the child.
        let reaper = Reaper::new().map_err(spawn_error)?;
        let mut command = std::process::Command::new(&program);
        command.arg0(&self.program).args(&self.args).env_clear().envs(&environment).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(match self.stderr {
            Stderr::Capture => Stdio::piped(),
            Stderr::Inherit => Stdio::inherit(),
            Stderr::Discard => Stdio::null(),
        });
        if let Some(folder) = &self.current_dir {
            command.current_dir(folder);
        }
        let mut process =
            command.spawn().map_err(|error| resolve_program::spawn_error(self, &program, &error))?;
        if let Some(observer) = &self.on_spawn {
            observer(process.id());
        }
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let mut inner =
            ChildInner { reaper: reaper.watch(process), stderr: None, shutdown_grace: self.shutdown_grace };
        let (Some(stdin), Some(stdout), stderr) = pipes else {
            return Err(SpawnError::new(self, "it has no pipes".into()));
        };
        if let Some(stderr) = stderr {
            let capture =
                Arc::new(StderrCapture::new(stderr.into(), inner.reaper.id()).map_err(spawn_error)?);
            let reader = tokio::spawn(capture.clone().read()).abort_handle();
            inner.stderr = Some((capture, reader));
        }
        let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(spawn_error)?;
        let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)).map_err(spawn_error)?;
        Ok(SpawnedChild { child: Child(Arc::new(inner)), stdin, stdout })
    }
}

/// A child process. Clones are the same child; it is killed when the last of them is dropped.
#[derive(Clone)]
pub(crate) struct Child(Arc<ChildInner>);

struct ChildInner {
    reaper: ReaperHandle,
    /// Its output on stderr, and the task that reads it.
    stderr: Option<(Arc<StderrCapture>, AbortHandle)>,
    shutdown_grace: Duration,
}

impl Child {
    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.reaper.id()
    }

    /// Returns the last 64 KiB of its output on stderr, if that is captured, and a note if there was more.
    pub(crate) fn stderr(&self) -> String {
        self.0.stderr.as_ref().map(|(capture, _)| capture.text()).unwrap_or_default()
    }

    /// Waits until the child itself has ended. Processes it started may still run, and may hold its pipes open.
    pub(crate) async fn wait(&self) -> ChildExitStatus {
        self.0.reaper.wait_exit().await
    }

    /// Ends the child and everything it started. Dropping `stdin` closes its stdin.
    ///
    /// It has [`Command::shutdown_grace`] to end. Then it, or the processes it left behind, get SIGTERM and that time
    /// again. The remaining ones are killed. Dropping the future stops this sequence where it is.
    pub(crate) async fn close(&self, stdin: impl Sized) {
        let ChildInner { reaper, shutdown_grace, .. } = &*self.0;
        // While it runs: once it has ended, processes that left its group can no longer be traced to it.
        reaper.with_process_tree(ProcessTree::refresh).await;
        drop(stdin);
        let ended = timeout(*shutdown_grace, reaper.wait_exit()).await.is_ok();
        if !ended || !reaper.has_no_descendants().await {
            reaper.with_process_tree(ProcessTree::terminate).await;
            // Processes that still run after a timeout are killed below.
            let _ = timeout(*shutdown_grace, reaper.wait_for_descendants()).await;
        }
        reaper.kill_in_background().await;
        // A killed process may be stuck in the kernel, on a broken disk or network share. It is reaped when it ends.
        let _ = timeout(REAP_TIMEOUT, reaper.wait_reaped()).await;
    }

    /// Kills the child and everything it started, at once. Needs no runtime.
    ///
    /// It is reaped as soon as it has ended, after this returns.
    pub(crate) fn kill(&self) {
        self.0.reaper.kill();
    }
}

impl Drop for ChildInner {
    fn drop(&mut self) {
        self.reaper.kill();
        if let Some((_, reader)) = &self.stderr {
            reader.abort();
        }
    }
}

/// How long `close` waits for a child that was killed.
const REAP_TIMEOUT: Duration = Duration::from_secs(2);
