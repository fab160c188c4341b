//! Child processes on Windows.
//!
//! A child and everything it starts is in a Job Object. The child starts suspended and runs once it is in the job, so that no
//! process escapes. The system ends the job when its last handle is closed, also if this process is killed.
//!
//! Windows has no request to end a process. Closing stdin is the only one, and after the grace the job is terminated.

mod stderr;

use std::future::poll_fn;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, CommandWrapper, JobObject, KillOnDrop};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::time::timeout;

use super::command::{Command, Stderr};
use super::exit_status::ChildExitStatus;
use super::resolve_program::{self, SpawnError};
use crate::lock::lock;
use stderr::StderrCapture;

/// A child that was started, and the pipes to it.
pub(crate) struct SpawnedChild {
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl Command {
    /// Starts the program. Must be called inside a tokio runtime with I/O and time.
    ///
    /// The error says what failed and where the program was looked for, but no argument and no value of a variable.
    pub(crate) fn spawn(&self) -> Result<SpawnedChild, SpawnError> {
        let environment = self.environment(std::env::vars_os());
        let found = resolve_program::resolve(self, &environment)?;
        let spawn_error = |error: io::Error| resolve_program::spawn_error(self, &found, &error);
        // Absolute: the system would look for a relative path in our folder, and not in that of the child.
        let program = match &self.current_dir {
            Some(folder) => std::path::absolute(folder.join(&found)),
            None => std::path::absolute(&found),
        }
        .map_err(spawn_error)?;
        let mut command = tokio::process::Command::new(program);
        command.args(&self.args).env_clear().envs(&environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(match self.stderr {
            Stderr::Capture => Stdio::piped(),
            Stderr::Inherit => Stdio::inherit(),
            Stderr::Discard => Stdio::null(),
        });
        if let Some(folder) = &self.current_dir {
            command.current_dir(folder);
        }
        let mut wrapped = CommandWrap::from(command);
        let mut job = wrapped.wrap(KillOnDrop).wrap(JobObject).wrap(NoWindow).spawn().map_err(spawn_error)?;
        let (Some(stdin), Some(stdout)) = (job.stdin().take(), job.stdout().take()) else {
            return Err(SpawnError::new(self, "it has no pipes".into()));
        };
        let id = job.id().unwrap_or_default();
        if let Some(observer) = &self.on_spawn {
            observer(id);
        }
        let stderr = job.stderr().take().map(|pipe| StderrCapture::start(pipe, id));
        let job = Arc::new(Mutex::new(job));
        let (sender, state) = watch::channel(None);
        tokio::spawn(report_exit(KillOnShutdown(job.clone()), stderr.clone(), sender));
        let inner = ChildInner { id, job, state, stderr, shutdown_grace: self.shutdown_grace };
        Ok(SpawnedChild { child: Child(Arc::new(inner)), stdin, stdout })
    }
}

/// A child process. Clones are the same child; it is killed when the last of them is dropped.
#[derive(Clone)]
pub(crate) struct Child(Arc<ChildInner>);

type SharedJob = Arc<Mutex<Box<dyn ChildWrapper>>>;

struct ChildInner {
    id: u32,
    job: SharedJob,
    /// The status of the child once it has ended.
    state: watch::Receiver<Option<ChildExitStatus>>,
    stderr: Option<StderrCapture>,
    shutdown_grace: Duration,
}

impl Child {
    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id
    }

    /// Returns the last 64 KiB of its output on stderr, if that is captured, and a note if there was more.
    pub(crate) fn stderr(&self) -> String {
        self.0.stderr.as_ref().map(StderrCapture::text).unwrap_or_default()
    }

    /// Waits until the child itself has ended. Processes it started may still run, and may hold its pipes open.
    pub(crate) async fn wait(&self) -> ChildExitStatus {
        match self.0.state.clone().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(status)) => *status,
            Ok(None) | Err(_) => ChildExitStatus::Unknown,
        }
    }

    /// Ends the child and everything it started. Dropping `stdin` closes its stdin.
    ///
    /// It has [`Command::shutdown_grace`] to end. Then it, and the processes it left behind, are killed: not even the console
    /// host of the child is waited for. Dropping the future stops this sequence where it is.
    pub(crate) async fn close(&self, stdin: impl Sized) {
        drop(stdin);
        // A child that still runs after a timeout is killed.
        let _ = timeout(self.0.shutdown_grace, self.wait()).await;
        self.kill();
        let _ = timeout(KILL_TIMEOUT, self.wait()).await;
    }

    /// Kills the child and everything it started, at once. Needs no runtime.
    pub(crate) fn kill(&self) {
        self.0.kill();
    }
}

impl ChildInner {
    fn kill(&self) {
        // Fails if no process is left.
        let _ = lock(&self.job).start_kill();
    }
}

impl Drop for ChildInner {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the child itself and reports its status. The last words on stderr are read first.
async fn report_exit(
    job: KillOnShutdown,
    stderr: Option<StderrCapture>,
    state: watch::Sender<Option<ChildExitStatus>>,
) {
    // The lock is held for one poll only, so that the job can be killed meanwhile. The child keeps what it has registered.
    let exited: io::Result<ExitStatus> =
        poll_fn(|cx| lock(&job.0).inner_mut().wait().as_mut().poll(cx)).await;
    if let Some(stderr) = stderr {
        // A process that the child left behind may hold the pipe open.
        let _ = timeout(STDERR_TIMEOUT, stderr.ended()).await;
    }
    let code = exited.ok().and_then(|status| status.code());
    state.send_replace(Some(ChildExitStatus::new(code, None)));
    state.closed().await;
}

/// A job in a task that ends after all handles of the child, or with its runtime. Then the job is killed: tokio reads pipes in
/// threads, and a runtime that shuts down waits for them, which would not end before the child does.
struct KillOnShutdown(SharedJob);

impl Drop for KillOnShutdown {
    fn drop(&mut self) {
        // Fails if no process is left.
        let _ = lock(&self.0).start_kill();
    }
}

/// Starts the child without a console window. The flags replace those of [`JobObject`], so they repeat its suspended start.
#[derive(Debug)]
struct NoWindow;

impl CommandWrapper for NoWindow {
    fn pre_spawn(&mut self, command: &mut tokio::process::Command, _: &CommandWrap) -> io::Result<()> {
        command.creation_flags(CREATE_SUSPENDED | CREATE_NO_WINDOW);
        Ok(())
    }
}

const CREATE_SUSPENDED: u32 = 0x0000_0004;
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

/// How long `close` waits for a child that was killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the end of stderr is waited for after the child has ended.
const STDERR_TIMEOUT: Duration = Duration::from_millis(100);
