//! The processes of a child on systems without `/proc`: the child and its process group.

#[cfg(target_os = "linux")]
mod linux_group;
#[cfg(not(target_os = "linux"))]
mod signalled_group;

use rustix::process::{Pid, Signal, kill_process_group};

#[cfg(target_os = "linux")]
use linux_group::group_has_exited;
#[cfg(not(target_os = "linux"))]
use signalled_group::group_has_exited;

/// A child and its process group. The child is not reaped while this value exists.
pub(super) struct ProcessTree(Pid);

impl ProcessTree {
    pub(super) fn new(leader: Pid) -> Self {
        Self(leader)
    }

    /// Does nothing: a signal to the group needs no list of its processes.
    pub(super) fn refresh(&mut self) {}

    /// Whether all processes of the group have ended.
    pub(super) fn has_exited(&mut self) -> bool {
        group_has_exited(self.0)
    }

    /// Sends SIGTERM to all processes of the group.
    pub(super) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Kills all processes of the group.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // Fails if no process is left, or if we may not signal it, as with `sudo`.
        let _ = kill_process_group(self.0, signal);
    }
}
