//! Waits for a child, and decides when its number may be given to somebody else.
//!
//! A signal goes to a number, and numbers are used again. But the number of a process is free only when it was reaped,
//! and the number of a group is that of its first process. So a child is not reaped when it ends: it is left a zombie
//! until its family has been killed, and as long as it is one, its number and that of its group can mean nobody else.
//! Then [`Family`] leaves its lock, and after that the child is reaped. Whoever finds no family there sends no signal.
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

use super::{Ended, Family};
use crate::lock::lock;

/// A child that is watched.
pub(super) struct Watch {
    pid: Pid,
    held: Arc<Mutex<Option<Held>>>,
    life: watch::Receiver<Life>,
}

/// What there is until the child is reaped.
struct Held {
    family: Family,
    /// Dropped when the family has been killed: then the child may be reaped.
    hold: Option<mpsc::Sender<()>>,
}

impl Held {
    fn kill(&mut self) {
        if self.hold.is_some() {
            self.family.kill();
            self.hold = None;
        }
    }
}

#[derive(Clone, Copy)]
enum Life {
    Runs,
    /// A zombie.
    Ended(Ended),
    Reaped(Ended),
}

impl Watch {
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    pub(super) async fn ended(&self) -> Ended {
        let is_ended = |life: &Life| matches!(life, Life::Ended(_) | Life::Reaped(_));
        match self.life.clone().wait_for(is_ended).await.as_deref() {
            Ok(Life::Ended(ended) | Life::Reaped(ended)) => *ended,
            Ok(Life::Runs) | Err(_) => Ended::Unknown,
        }
    }

    pub(super) async fn reaped(&self) {
        // An error would say that the thread is gone; then nobody will reap it.
        let _ = self.life.clone().wait_for(|life| matches!(life, Life::Reaped(_))).await;
    }

    /// Waits until the child has ended and everything it started too, as far as that can be seen.
    pub(super) async fn left_alone(&self) {
        self.ended().await;
        let mut pause = FIRST_PAUSE;
        // Nobody is told of the end of processes that are not his children.
        while !self.is_alone().await {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether a child that has ended left nothing behind that can be seen.
    pub(super) async fn is_alone(&self) -> bool {
        self.with_family(Family::is_gone).await.unwrap_or(true)
    }

    /// Does something that may read the whole process table. None if the child was reaped, or the runtime is ending.
    pub(super) async fn with_family<T: Send + 'static>(&self, work: fn(&mut Family) -> T) -> Option<T> {
        self.blocking(move |held| work(&mut held.family)).await
    }

    /// The same as [`Watch::kill`], where blocking is allowed.
    pub(super) async fn kill_elsewhere(&self) {
        self.blocking(Held::kill).await;
    }

    pub(super) fn kill(&self) {
        if let Some(held) = lock(&self.held).as_mut() {
            held.kill();
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Held) -> T + Send + 'static,
    ) -> Option<T> {
        let held = self.held.clone();
        tokio::task::spawn_blocking(move || lock(&held).as_mut().map(work)).await.ok().flatten()
    }
}

/// A thread that waits for a child to watch.
pub(super) struct Watcher(mpsc::Sender<Watched>);

/// What the thread needs to know.
struct Watched {
    process: Process,
    held: Arc<Mutex<Option<Held>>>,
    life: watch::Sender<Life>,
    /// Ends when the child may be reaped.
    may_reap: mpsc::Receiver<()>,
}

impl Watcher {
    /// Fails if there can be no more threads.
    pub(super) fn new() -> io::Result<Self> {
        let (hand_over, handed_over) = mpsc::channel();
        thread::Builder::new().name("tsugite-child".into()).spawn(move || {
            // An error says that no child could be started.
            if let Ok(watched) = handed_over.recv() {
                Watched::run(watched);
            }
        })?;
        Ok(Self(hand_over))
    }

    /// Watches a child that leads a group.
    pub(super) fn watch(self, process: Process) -> Watch {
        let pid = Pid::from_child(&process);
        let (hold, may_reap) = mpsc::channel();
        let held = Arc::new(Mutex::new(Some(Held { family: Family::new(pid), hold: Some(hold) })));
        let (life, lives) = watch::channel(Life::Runs);
        // The thread waits for nothing else, so it is there.
        let _ = self.0.send(Watched { process, held: held.clone(), life, may_reap });
        Watch { pid, held, life: lives }
    }
}

impl Watched {
    fn run(mut self) {
        let id = WaitId::Pid(Pid::from_child(&self.process));
        let status = retry_on_intr(|| waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        let ended = match status {
            Ok(Some(status)) => Ended::new(&status),
            Ok(None) | Err(_) => {
                // Somebody else has reaped it, so the number may mean a stranger already.
                lock(&self.held).take();
                Ended::Unknown
            }
        };
        self.life.send_replace(Life::Ended(ended));
        // Nothing is ever sent: this returns when the other end is dropped.
        let _ = self.may_reap.recv();
        lock(&self.held).take();
        // It has ended, so this does not wait. It fails where somebody else has reaped it.
        let _ = self.process.wait();
        self.life.send_replace(Life::Reaped(ended));
    }
}

/// How soon to look again whether something a child left behind has ended.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
