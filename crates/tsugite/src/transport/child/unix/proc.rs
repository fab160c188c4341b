//! A child and its descendants, from the process table of Linux.
//!
//! A process belongs to the child if it is in the child's process group, or if its parent belongs to the child. A process
//! that left the group, for instance with `setsid`, is found as long as its parents lead to the child; an orphan gets init
//! as its parent. Therefore processes that were found once are remembered, and all of them are stopped before the first is
//! killed, so that none can start another or become an orphan unnoticed. A process that left the group and lost its
//! parents before the first scan is not found.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process_group};

use super::process_table::{Process, list_processes};

/// A child and its descendants. The child is not reaped while this value exists.
pub(super) struct ProcessTree {
    /// The child. Its process group has the same id.
    leader: Pid,
    /// The processes that ran at the last scan, including the child.
    processes: Vec<Process>,
}

impl ProcessTree {
    pub(super) fn new(leader: Pid) -> Self {
        Self { leader, processes: Vec::new() }
    }

    /// Scans the process table.
    pub(super) fn refresh(&mut self) {
        self.refresh_new();
    }

    /// Whether all processes have ended. Also true if the process table cannot be read.
    pub(super) fn has_exited(&mut self) -> bool {
        self.refresh();
        self.processes.is_empty()
    }

    /// Sends SIGTERM to all processes.
    pub(super) fn terminate(&mut self) {
        self.refresh();
        self.signal(Signal::TERM);
    }

    /// Kills all processes.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::STOP);
        // A process may have started another before it was stopped, so the table is scanned until no new one is found.
        for _ in 0..MAX_KILL_ROUNDS {
            let new_processes = self.refresh_new();
            if new_processes.is_empty() {
                break;
            }
            for process in new_processes {
                process.signal(Signal::STOP);
            }
        }
        self.signal(Signal::KILL);
    }

    /// Sends a signal to each known process once.
    fn signal(&self, signal: Signal) {
        // Fails if no process is left, or if we may not signal it, as with `sudo`.
        let _ = kill_process_group(self.leader, signal);
        for process in self.processes.iter().filter(|process| process.group != self.leader) {
            process.signal(signal);
        }
    }

    /// Scans the process table and returns the processes that were not known before.
    fn refresh_new(&mut self) -> Vec<Process> {
        let known: HashSet<_> = self.processes.drain(..).map(|process| process.identity()).collect();
        let mut others = list_processes();
        let mut pids = HashSet::new();
        // A parent may be anywhere in the table, so each round finds one more generation.
        loop {
            let (members, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|process| {
                process.group == self.leader
                    || known.contains(&process.identity())
                    || process.parent.is_some_and(|parent| pids.contains(&parent))
            });
            if members.is_empty() {
                break;
            }
            pids.extend(members.iter().map(|process| process.pid));
            self.processes.extend(members);
            others = rest;
        }
        self.processes.iter().filter(|process| !known.contains(&process.identity())).copied().collect()
    }
}

/// How many times the process table is scanned for new processes before all are killed.
const MAX_KILL_ROUNDS: usize = 32;
