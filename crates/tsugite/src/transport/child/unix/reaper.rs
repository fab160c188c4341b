//! Waits for a child, and decides when its number may be given to somebody else.
//!
//! A signal goes to a number, and numbers are used again. But the number of a process is free only when it was reaped,
//! and the number of a group is that of its first process. So a child is not reaped when it ends: it is left a zombie
//! until its family has been killed, and as long as it is one, its number and that of its group can mean nobody else.
//! Then [`ProcessTree`] leaves its lock, and after that the child is reaped. Whoever finds no family there sends no signal.
//! Those outside of the group are no children of ours; `proc.rs` says how they are told from strangers.
//!
//! All of that is the work of a thread: it must go on where there is no runtime any more, since children are dropped
//! there too. Beside the process it waits for, a thread costs nothing.

use std::io;
use std::process::Child as Process;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::sync::watch;

use super::{ChildExitStatus, ProcessTree};
use crate::lock::lock;

/// A child that is watched.
pub(super) struct ReaperHandle {
    pid: Pid,
    unreaped: Arc<Mutex<Option<UnreapedChild>>>,
    state: watch::Receiver<ChildState>,
}

/// What there is until the child is reaped.
struct UnreapedChild {
    process_tree: ProcessTree,
    /// Dropped when the family has been killed: then the child may be reaped.
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
        let is_ended = |life: &ChildState| matches!(life, ChildState::Exited(_) | ChildState::Reaped(_));
        match self.state.clone().wait_for(is_ended).await.as_deref() {
            Ok(ChildState::Exited(ended) | ChildState::Reaped(ended)) => *ended,
            Ok(ChildState::Running) | Err(_) => ChildExitStatus::Unknown,
        }
    }

    pub(super) async fn wait_reaped(&self) {
        // An error would say that the thread is gone; then nobody will reap it.
        let _ = self.state.clone().wait_for(|life| matches!(life, ChildState::Reaped(_))).await;
    }

    /// Waits until the child has ended and everything it started too, as far as that can be seen.
    pub(super) async fn wait_for_descendants(&self) {
        self.wait_exit().await;
        let mut pause = MIN_POLL_INTERVAL;
        // Nobody is told of the end of processes that are not his children.
        while !self.has_no_descendants().await {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_POLL_INTERVAL);
        }
    }

    /// Whether a child that has ended left nothing behind that can be seen.
    pub(super) async fn has_no_descendants(&self) -> bool {
        self.with_process_tree(ProcessTree::has_exited).await.unwrap_or(true)
    }

    /// Does something that may read the whole process table. None if the child was reaped, or the runtime is ending.
    pub(super) async fn with_process_tree<T: Send + 'static>(
        &self,
        work: fn(&mut ProcessTree) -> T,
    ) -> Option<T> {
        self.with_unreaped(move |held| work(&mut held.process_tree)).await
    }

    /// The same as [`ReaperHandle::kill`], where blocking is allowed.
    pub(super) async fn kill_in_background(&self) {
        self.with_unreaped(UnreapedChild::kill).await;
    }

    pub(super) fn kill(&self) {
        if let Some(held) = lock(&self.unreaped).as_mut() {
            held.kill();
        }
    }

    async fn with_unreaped<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut UnreapedChild) -> T + Send + 'static,
    ) -> Option<T> {
        let held = self.unreaped.clone();
        tokio::task::spawn_blocking(move || lock(&held).as_mut().map(work)).await.ok().flatten()
    }
}

/// A thread that waits for a child to watch.
pub(super) struct Reaper(mpsc::Sender<ReaperTask>);

/// What the thread needs to know.
struct ReaperTask {
    process: Process,
    unreaped: Arc<Mutex<Option<UnreapedChild>>>,
    state: watch::Sender<ChildState>,
    /// Ends when the child may be reaped.
    may_reap: mpsc::Receiver<()>,
}

impl Reaper {
    /// Fails if there can be no more threads.
    pub(super) fn new() -> io::Result<Self> {
        let (hand_over, handed_over) = mpsc::channel();
        thread::Builder::new().name("tsugite-child".into()).spawn(move || {
            // An error says that no child could be started.
            if let Ok(watched) = handed_over.recv() {
                ReaperTask::run(watched);
            }
        })?;
        Ok(Self(hand_over))
    }

    /// Watches a child that leads a group.
    pub(super) fn watch(self, process: Process) -> ReaperHandle {
        let pid = Pid::from_child(&process);
        let (hold, may_reap) = mpsc::channel();
        let held = Arc::new(Mutex::new(Some(UnreapedChild {
            process_tree: ProcessTree::new(pid),
            reap_hold: Some(hold),
        })));
        let (life, lives) = watch::channel(ChildState::Running);
        // The thread waits for nothing else, so it is there.
        let _ = self.0.send(ReaperTask { process, unreaped: held.clone(), state: life, may_reap });
        ReaperHandle { pid, unreaped: held, state: lives }
    }
}

impl ReaperTask {
    fn run(mut self) {
        let id = WaitId::Pid(Pid::from_child(&self.process));
        let status = retry_on_intr(|| waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        let ended = match status {
            Ok(Some(status)) => ChildExitStatus::new(&status),
            Ok(None) | Err(_) => {
                // Somebody else has reaped it, so the number may mean a stranger already.
                lock(&self.unreaped).take();
                ChildExitStatus::Unknown
            }
        };
        self.state.send_replace(ChildState::Exited(ended));
        // Nothing is ever sent: this returns when the other end is dropped.
        let _ = self.may_reap.recv();
        lock(&self.unreaped).take();
        // It has ended, so this does not wait. It fails where somebody else has reaped it.
        let _ = self.process.wait();
        self.state.send_replace(ChildState::Reaped(ended));
    }
}

/// How soon to look again whether something a child left behind has ended.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);
