//! A server that is a child process: how it is started, watched and ended.
//!
//! Nothing it started should outlive it. A child leads a process group of its own, which one signal reaches; on Linux
//! those that left the group are looked for in the process table too. `watch.rs` says why no signal can meet a
//! stranger.

mod command;
mod exit_status;
#[cfg(not(target_os = "linux"))]
mod no_proc;
#[cfg(target_os = "linux")]
mod proc;
mod reaper;
mod resolve_program;
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

pub use command::{Command, Stderr};
pub(crate) use exit_status::ChildExitStatus;
#[cfg(not(target_os = "linux"))]
use no_proc::ProcessTree;
#[cfg(target_os = "linux")]
use proc::ProcessTree;
use reaper::{Reaper, ReaperHandle};
pub(crate) use resolve_program::SpawnError;
use stderr::StderrCapture;

/// A child that has just begun, and the pipes to talk with it.
pub(crate) struct SpawnedChild {
    pub(crate) child: Child,
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
}

impl Command {
    /// Starts it. Call it on a runtime that has I/O and time.
    ///
    /// Fails with what is wrong, and where it was looked for. No argument and no value of a variable is told.
    pub(crate) fn spawn(&self) -> Result<SpawnedChild, SpawnError> {
        let cannot = |error: std::io::Error| SpawnError::new(self, error.to_string());
        let environment = self.environment(std::env::vars_os());
        let program = resolve_program::resolve(self, &environment)?;
        // Before the child: whatever fails once it runs must end it.
        let watcher = Reaper::new().map_err(cannot)?;
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
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let mut inner =
            ChildInner { reaper: watcher.watch(process), stderr: None, shutdown_grace: self.shutdown_grace };
        let (Some(stdin), Some(stdout), stderr) = pipes else {
            return Err(SpawnError::new(self, "it has no pipes".into()));
        };
        if let Some(stderr) = stderr {
            let kept = Arc::new(StderrCapture::new(stderr.into(), inner.reaper.id()).map_err(cannot)?);
            let reader = tokio::spawn(kept.clone().read()).abort_handle();
            inner.stderr = Some((kept, reader));
        }
        let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(cannot)?;
        let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)).map_err(cannot)?;
        Ok(SpawnedChild { child: Child(Arc::new(inner)), stdin, stdout })
    }
}

/// A child process. Clones are the same child; it is killed when the last of them is dropped.
#[derive(Clone)]
pub(crate) struct Child(Arc<ChildInner>);

struct ChildInner {
    reaper: ReaperHandle,
    /// What it wrote to stderr, and the task that reads it.
    stderr: Option<(Arc<StderrCapture>, AbortHandle)>,
    shutdown_grace: Duration,
}

impl Child {
    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.reaper.id()
    }

    /// The last 64 KiB of what it wrote to stderr until now, if that is kept. It says so if there was more.
    pub(crate) fn stderr(&self) -> String {
        self.0.stderr.as_ref().map(|(kept, _)| kept.text()).unwrap_or_default()
    }

    /// Waits until the child itself has ended. What it started may still run, and may hold its pipes open.
    pub(crate) async fn wait(&self) -> ChildExitStatus {
        self.0.reaper.wait_exit().await
    }

    /// Ends it and everything it started, politely at first. Dropping `stdin` closes its stdin.
    ///
    /// It has the time of [`Command::shutdown_grace`] to end. Then it, or what it left behind, is asked with SIGTERM and has
    /// that time again. What is still there is killed. Dropping the future leaves everything as it is by then.
    pub(crate) async fn close(&self, stdin: impl Sized) {
        let ChildInner { reaper: watch, shutdown_grace: grace, .. } = &*self.0;
        // While it runs: once it has ended, nothing leads from those that left its group to it.
        watch.with_process_tree(ProcessTree::refresh).await;
        drop(stdin);
        let ended = timeout(*grace, watch.wait_exit()).await.is_ok();
        if !ended || !watch.has_no_descendants().await {
            watch.with_process_tree(ProcessTree::terminate).await;
            // Those that do not answer are killed.
            let _ = timeout(*grace, watch.wait_for_descendants()).await;
        }
        watch.kill_in_background().await;
        // It is dead, but a broken disk or network share can hold it back. It will be reaped, if later.
        let _ = timeout(REAP_TIMEOUT, watch.wait_reaped()).await;
    }

    /// Kills it and everything it started, at once. Needs no runtime.
    ///
    /// It is reaped as soon as it is dead, which is a little later.
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

/// How long somebody who closes a child waits for one that was killed.
const REAP_TIMEOUT: Duration = Duration::from_secs(2);
