//! Stands in for the process table where there is no `/proc`: a child and its group.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// A child and its group. The child has not been reaped while there is one.
pub(super) struct ProcessTree(Pid);

impl ProcessTree {
    pub(super) fn new(leader: Pid) -> Self {
        Self(leader)
    }

    /// Nobody but the group can be found, and a signal finds it anyway.
    pub(super) fn refresh(&mut self) {}

    /// Whether nobody is there any more. A group in which everybody has ended takes no signals.
    pub(super) fn has_exited(&mut self) -> bool {
        test_kill_process_group(self.0).is_err()
    }

    /// Asks everybody to end.
    pub(super) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Kills everybody.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // An error says that nobody is left, or that it is not our business any more, as with `sudo`.
        let _ = kill_process_group(self.0, signal);
    }
}
