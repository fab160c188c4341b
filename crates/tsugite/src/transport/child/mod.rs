//! A server that is a child process: how it is started, watched and ended.
//!
//! Nothing it started should outlive it. A child leads a process group of its own, which one signal reaches; on Linux
//! those that left the group are looked for in the process table too. `watch.rs` says why no signal can meet a
//! stranger.

mod command;
mod ended;
mod find;
#[cfg(not(target_os = "linux"))]
mod no_proc;
#[cfg(target_os = "linux")]
mod proc;
mod stderr;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod watch;

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::task::AbortHandle;
use tokio::time::timeout;

pub use command::{Command, Stderr};
pub(crate) use ended::Ended;
pub(crate) use find::CannotStart;
#[cfg(not(target_os = "linux"))]
use no_proc::Family;
#[cfg(target_os = "linux")]
use proc::Family;
use stderr::Kept;
use watch::{Watch, Watcher};

/// A child that has just begun, and the pipes to talk with it.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
}

impl Command {
    /// Starts it. Call it on a runtime that has I/O and time.
    ///
    /// Fails with what is wrong, and where it was looked for. No argument and no value of a variable is told.
    pub(crate) fn start(&self) -> Result<Started, CannotStart> {
        let cannot = |error: std::io::Error| CannotStart::new(self, error.to_string());
        let environment = self.environment(std::env::vars_os());
        let program = find::check(self, &environment)?;
        // Before the child: whatever fails once it runs must end it.
        let watcher = Watcher::new().map_err(cannot)?;
        let mut command = std::process::Command::new(&program);
        command.arg0(&self.program).args(&self.args).env_clear().envs(&environment).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(match self.stderr {
            Stderr::Keep => Stdio::piped(),
            Stderr::Inherit => Stdio::inherit(),
            Stderr::Discard => Stdio::null(),
        });
        if let Some(folder) = &self.current_dir {
            command.current_dir(folder);
        }
        let mut process = command.spawn().map_err(|error| find::explain(self, &program, &error))?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let mut inner = Inner { watch: watcher.watch(process), kept: None, grace: self.grace };
        let (Some(stdin), Some(stdout), stderr) = pipes else {
            return Err(CannotStart::new(self, "it has no pipes".into()));
        };
        if let Some(stderr) = stderr {
            let kept = Arc::new(Kept::new(stderr.into(), inner.watch.id()).map_err(cannot)?);
            let reader = tokio::spawn(kept.clone().read()).abort_handle();
            inner.kept = Some((kept, reader));
        }
        let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(cannot)?;
        let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)).map_err(cannot)?;
        Ok(Started { child: Child(Arc::new(inner)), stdin, stdout })
    }
}

/// A child process. Clones are the same child; it is killed when the last of them is dropped.
#[derive(Clone)]
pub(crate) struct Child(Arc<Inner>);

struct Inner {
    watch: Watch,
    /// What it wrote to stderr, and the task that reads it.
    kept: Option<(Arc<Kept>, AbortHandle)>,
    grace: Duration,
}

impl Child {
    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.watch.id()
    }

    /// The last 64 KiB of what it wrote to stderr until now, if that is kept. It says so if there was more.
    pub(crate) fn stderr(&self) -> String {
        self.0.kept.as_ref().map(|(kept, _)| kept.text()).unwrap_or_default()
    }

    /// Waits until the child itself has ended. What it started may still run, and may hold its pipes open.
    pub(crate) async fn ended(&self) -> Ended {
        self.0.watch.ended().await
    }

    /// Ends it and everything it started, politely at first. Dropping `stdin` closes its stdin.
    ///
    /// It has the time of [`Command::grace`] to end. Then it, or what it left behind, is asked with SIGTERM and has
    /// that time again. What is still there is killed. Dropping the future leaves everything as it is by then.
    pub(crate) async fn close(&self, stdin: impl Sized) {
        let Inner { watch, grace, .. } = &*self.0;
        // While it runs: once it has ended, nothing leads from those that left its group to it.
        watch.with_family(Family::look).await;
        drop(stdin);
        let ended = timeout(*grace, watch.ended()).await.is_ok();
        if !ended || !watch.is_alone().await {
            watch.with_family(Family::ask_to_end).await;
            // Those that do not answer are killed.
            let _ = timeout(*grace, watch.left_alone()).await;
        }
        watch.kill_elsewhere().await;
        // It is dead, but a broken disk or network share can hold it back. It will be reaped, if later.
        let _ = timeout(REAPED_WITHIN, watch.reaped()).await;
    }

    /// Kills it and everything it started, at once. Needs no runtime.
    ///
    /// It is reaped as soon as it is dead, which is a little later.
    pub(crate) fn kill(&self) {
        self.0.watch.kill();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.watch.kill();
        if let Some((_, reader)) = &self.kept {
            reader.abort();
        }
    }
}

/// How long somebody who closes a child waits for one that was killed.
const REAPED_WITHIN: Duration = Duration::from_secs(2);
