//! A child and everything it started, as the process table of Linux shows them.
//!
//! Whatever is in the child's group belongs to it, and so does whatever has a parent that does. One that left the
//! group, with `setsid` for instance, is found as long as its parents lead to the child: an orphan gets init for a
//! parent. So who was seen once is remembered, and before anybody is killed everybody is stopped, that no one starts
//! another or becomes an orphan unseen. Who left the group and lost its parents before anybody looked is not found.
//!
//! Those outside of the group are reaped by others, and their numbers are used again. So a process is its number and
//! the time it began, and a signal goes through a descriptor that was opened before that time was read.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

/// A child and everything it started. The child has not been reaped while there is one.
pub(super) struct ProcessTree {
    /// The child. Its group has the same number.
    leader: Pid,
    /// Who ran at the last look, the child among them.
    processes: Vec<Process>,
}

impl ProcessTree {
    pub(super) fn new(leader: Pid) -> Self {
        Self { leader, processes: Vec::new() }
    }

    /// Looks who is there.
    pub(super) fn refresh(&mut self) {
        self.refresh_new();
    }

    /// Whether nobody is there any more. Where there is no process table, nobody is seen.
    pub(super) fn has_exited(&mut self) -> bool {
        self.refresh();
        self.processes.is_empty()
    }

    /// Asks everybody to end.
    pub(super) fn terminate(&mut self) {
        self.refresh();
        self.signal(Signal::TERM);
    }

    /// Kills everybody.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::STOP);
        // Whoever started another before it was stopped needs one more look. Past the last, somebody is faster than we.
        for _ in 0..MAX_KILL_ROUNDS {
            let newcomers = self.refresh_new();
            if newcomers.is_empty() {
                break;
            }
            for process in newcomers {
                process.signal(Signal::STOP);
            }
        }
        self.signal(Signal::KILL);
    }

    /// Sends a signal to everybody who is known, once.
    fn signal(&self, signal: Signal) {
        // An error says that nobody is left, or that it is not our business any more, as with `sudo`.
        let _ = kill_process_group(self.leader, signal);
        for process in self.processes.iter().filter(|process| process.group != self.leader) {
            process.signal(signal);
        }
    }

    /// Looks who is there, and returns who was not known.
    fn refresh_new(&mut self) -> Vec<Process> {
        let known: HashSet<_> = self.processes.drain(..).map(|process| process.identity()).collect();
        let mut others = list_processes();
        let mut pids = HashSet::new();
        // A parent may stand anywhere in the table, so each round finds one more generation.
        loop {
            let (family, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|process| {
                process.group == self.leader
                    || known.contains(&process.identity())
                    || process.parent.is_some_and(|parent| pids.contains(&parent))
            });
            if family.is_empty() {
                break;
            }
            pids.extend(family.iter().map(|process| process.pid));
            self.processes.extend(family);
            others = rest;
        }
        self.processes.iter().filter(|process| !known.contains(&process.identity())).copied().collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: Pid,
    /// None for those that have none we can see.
    parent: Option<Pid>,
    group: Pid,
    /// When it began, in ticks since the machine was started.
    start_time: u64,
}

impl Process {
    /// What tells it from a later one with the same number.
    fn identity(&self) -> (Pid, u64) {
        (self.pid, self.start_time)
    }

    /// Sends a signal to this process, and to no other that has its number by now.
    fn signal(&self, signal: Signal) {
        let descriptor = pidfd_open(self.pid, PidfdFlags::empty());
        if !read_process(self.pid).is_some_and(|now| now.identity() == self.identity()) {
            return;
        }
        // An error says that it has ended, or that it is not our business any more.
        let _ = match descriptor {
            Ok(descriptor) => pidfd_send_signal(descriptor, signal),
            // Old kernels and some sandboxes have none. Then what is left is a moment in which it might be replaced.
            Err(_) => kill_process(self.pid, signal),
        };
    }
}

/// Everybody who runs. Nobody if there is no process table, or if it is that of another world than ours.
fn list_processes() -> Vec<Process> {
    let own = getpid().as_raw_pid().to_string();
    if fs::read_link("/proc/self").ok().as_deref() != Some(Path::new(&own)) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(pid_from_raw).filter_map(read_process).collect()
}

/// A process that runs.
fn read_process(pid: Pid) -> Option<Process> {
    parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a line of `/proc/<pid>/stat`; none if the process has ended and waits to be reaped.
fn parse_stat(pid: Pid, line: &[u8]) -> Option<Process> {
    // The name stands in parentheses and may hold any byte; what follows the last one are numbers.
    let (_, rest) = line.split_at_checked(line.iter().rposition(|byte| *byte == b')')? + 1)?;
    let mut fields = str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = pid_from_raw(fields.next()?.parse().ok()?);
    let group = pid_from_raw(fields.next()?.parse().ok()?)?;
    let threads: i64 = fields.nth(14)?.parse().ok()?;
    let began = fields.nth(1)?.parse().ok()?;
    // A process whose first thread has ended looks like a zombie while others run.
    let has_ended = matches!(state, "Z" | "X") && threads <= 1;
    (!has_ended).then_some(Process { pid, parent, group, start_time: began })
}

fn pid_from_raw(number: i32) -> Option<Pid> {
    Pid::from_raw(number.max(0))
}

/// How often everybody is looked for before they are killed.
const MAX_KILL_ROUNDS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_may_contain_anything() {
        let pid = pid_from_raw(7).unwrap();
        let line = b"7 (a) Z 1 (\xff) S 3 5 5 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 2 0 12345 0 0\n";
        let expected =
            Process { pid, parent: pid_from_raw(3), group: pid_from_raw(5).unwrap(), start_time: 12345 };
        assert_eq!(parse_stat(pid, line), Some(expected));
        assert_eq!(parse_stat(pid, b"7 (a) S 3"), None);
        assert_eq!(parse_stat(pid, b""), None);
    }

    #[test]
    fn zombie_has_exited_unless_its_threads_run() {
        let line = |threads| format!("7 (a) Z 3 5 5 0 -1 0 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 0 0\n");
        let pid = pid_from_raw(7).unwrap();
        assert_eq!(parse_stat(pid, line(1).as_bytes()), None);
        assert!(parse_stat(pid, line(2).as_bytes()).is_some());
    }

    #[test]
    fn signal_does_not_reach_a_reused_pid() {
        let own = read_process(getpid()).unwrap();
        let earlier = Process { start_time: own.start_time - 1, ..own };
        // It would end this test.
        earlier.signal(Signal::KILL);
    }
}
