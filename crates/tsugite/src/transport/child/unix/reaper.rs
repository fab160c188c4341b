//! Waits for a child and decides when it is reaped.
//!
//! Signals are sent to process ids, and ids are reused. But the id of a process is free only after the process was reaped,
//! and the id of a process group is that of its first process. Therefore a child is not reaped when it ends: it stays a
//! zombie until its descendants are killed, and until then no other process can have its id or the id of its group. The
//! [`ProcessTree`] is removed from its mutex before the child is reaped, and no signal is sent once it is gone. Descendants
//! outside the group are not our children; `process_table.rs` explains how they are identified.
//!
//! A thread does this work, because children may be dropped, and must then be reaped, after the runtime has ended.

use std::io;
use std::process::Child as Process;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::sync::watch;

use super::super::exit_status::ChildExitStatus;
use super::ProcessTree;
use crate::lock::lock;

/// A handle to a child that a reaper thread waits for.
pub(super) struct ReaperHandle {
    pid: Pid,
    unreaped: Arc<Mutex<Option<UnreapedChild>>>,
    state: watch::Receiver<ChildState>,
}

/// The state that exists until the child is reaped.
struct UnreapedChild {
    process_tree: ProcessTree,
    /// Dropped when all processes are killed; then the child may be reaped.
    reap_hold: Option<mpsc::Sender<()>>,
}

impl UnreapedChild {
    fn kill(&mut self) {
        if self.reap_hold.is_some() {
            self.process_tree.kill();
            self.reap_hold = None;
        }
    }
}

#[derive(Clone, Copy)]
enum ChildState {
    Running,
    /// A zombie.
    Exited(ChildExitStatus),
    Reaped(ChildExitStatus),
}

impl ReaperHandle {
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    pub(super) async fn wait_exit(&self) -> ChildExitStatus {
        let has_ended = |state: &ChildState| matches!(state, ChildState::Exited(_) | ChildState::Reaped(_));
        match self.state.clone().wait_for(has_ended).await.as_deref() {
            Ok(ChildState::Exited(status) | ChildState::Reaped(status)) => *status,
            Ok(ChildState::Running) | Err(_) => ChildExitStatus::Unknown,
        }
    }

    pub(super) async fn wait_reaped(&self) {
        // Fails if the thread is gone; then the child is never reaped.
        let _ = self.state.clone().wait_for(|state| matches!(state, ChildState::Reaped(_))).await;
    }

    /// Waits until the child and all its visible descendants have ended.
    pub(super) async fn wait_for_descendants(&self) {
        self.wait_exit().await;
        let mut interval = MIN_POLL_INTERVAL;
        // The system reports the end of our children only, so descendants are polled.
        while !self.has_no_descendants().await {
            tokio::time::sleep(interval).await;
            interval = (interval * 2).min(MAX_POLL_INTERVAL);
        }
    }

    /// Whether a child that has ended has no visible descendants left.
    pub(super) async fn has_no_descendants(&self) -> bool {
        self.with_process_tree(ProcessTree::has_exited).await.unwrap_or(true)
    }

    /// Runs `work` on a thread where blocking is allowed, since it may read the whole process table. None if the child was
    /// reaped or the runtime is shutting down.
    pub(super) async fn with_process_tree<T: Send + 'static>(
        &self,
        work: fn(&mut ProcessTree) -> T,
    ) -> Option<T> {
        self.with_unreaped(move |unreaped| work(&mut unreaped.process_tree)).await
    }

    /// Like [`ReaperHandle::kill`], but on a thread where blocking is allowed.
    pub(super) async fn kill_in_background(&self) {
        self.with_unreaped(UnreapedChild::kill).await;
    }

    pub(super) fn kill(&self) {
        if let Some(unreaped) = lock(&self.unreaped).as_mut() {
            unreaped.kill();
        }
    }

    async fn with_unreaped<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut UnreapedChild) -> T + Send + 'static,
    ) -> Option<T> {
        let unreaped = self.unreaped.clone();
        tokio::task::spawn_blocking(move || lock(&unreaped).as_mut().map(work)).await.ok().flatten()
    }
}

/// A thread that waits for a child to be handed to it.
pub(super) struct Reaper(mpsc::Sender<ReaperTask>);

/// The child that is handed to the thread, and the state they share.
struct ReaperTask {
    process: Process,
    unreaped: Arc<Mutex<Option<UnreapedChild>>>,
    state: watch::Sender<ChildState>,
    /// Disconnected when the child may be reaped.
    may_reap: mpsc::Receiver<()>,
}

impl Reaper {
    /// Starts the thread. Fails if the system allows no more threads.
    pub(super) fn new() -> io::Result<Self> {
        let (sender, tasks) = mpsc::channel();
        thread::Builder::new().name("tsugite-child".into()).spawn(move || {
            // Fails if the child could not be started.
            if let Ok(task) = tasks.recv() {
                ReaperTask::run(task);
            }
        })?;
        Ok(Self(sender))
    }

    /// Hands over a child that leads its own process group.
    pub(super) fn watch(self, process: Process) -> ReaperHandle {
        let pid = Pid::from_child(&process);
        let (reap_hold, may_reap) = mpsc::channel();
        let unreaped = Arc::new(Mutex::new(Some(UnreapedChild {
            process_tree: ProcessTree::new(pid),
            reap_hold: Some(reap_hold),
        })));
        let (state_sender, state) = watch::channel(ChildState::Running);
        // Cannot fail: the thread runs until it has received a task.
        let task = ReaperTask { process, unreaped: unreaped.clone(), state: state_sender, may_reap };
        let _ = self.0.send(task);
        ReaperHandle { pid, unreaped, state }
    }
}

impl ReaperTask {
    fn run(mut self) {
        let id = WaitId::Pid(Pid::from_child(&self.process));
        let waited = retry_on_intr(|| waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        let status = match waited {
            Ok(Some(status)) => ChildExitStatus::new(status.exit_status(), status.terminating_signal()),
            Ok(None) | Err(_) => {
                // The application has reaped the child, so its id may belong to another process already.
                lock(&self.unreaped).take();
                ChildExitStatus::Unknown
            }
        };
        self.state.send_replace(ChildState::Exited(status));
        // Nothing is ever sent: this returns when the other end is dropped.
        let _ = self.may_reap.recv();
        lock(&self.unreaped).take();
        // Does not block, because the child has ended. Fails if the application has reaped it.
        let _ = self.process.wait();
        self.state.send_replace(ChildState::Reaped(status));
    }
}

/// The interval at which descendants of an ended child are polled; it doubles up to the maximum.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);
