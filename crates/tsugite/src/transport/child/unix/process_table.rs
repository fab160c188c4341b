//! Reads the process table of Linux, and sends signals to single processes.
//!
//! Processes outside our groups are reaped by others, and their ids are reused. Therefore a process is identified by its id
//! and its start time, and a signal goes through a pidfd that was opened before the start time was read.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

/// A running process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// None if the parent is not visible, for instance in another PID namespace.
    pub(super) parent: Option<Pid>,
    pub(super) group: Pid,
    /// In clock ticks since boot.
    pub(super) start_time: u64,
}

impl Process {
    /// Distinguishes the process from a later one with the same id.
    pub(super) fn identity(&self) -> (Pid, u64) {
        (self.pid, self.start_time)
    }

    /// Sends a signal to this process, and never to a later one with the same id.
    pub(super) fn signal(&self, signal: Signal) {
        let descriptor = pidfd_open(self.pid, PidfdFlags::empty());
        if !read_process(self.pid).is_some_and(|now| now.identity() == self.identity()) {
            return;
        }
        // Fails if the process has ended, or if we may not signal it.
        let _ = match descriptor {
            Ok(descriptor) => pidfd_send_signal(descriptor, signal),
            // Old kernels and some sandboxes have no pidfd. Then the id could be reused between the check and the signal.
            Err(_) => kill_process(self.pid, signal),
        };
    }
}

/// Lists all running processes. Empty if `/proc` is missing or belongs to another PID namespace.
pub(super) fn list_processes() -> Vec<Process> {
    let own = getpid().as_raw_pid().to_string();
    if fs::read_link("/proc/self").ok().as_deref() != Some(Path::new(&own)) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(pid_from_raw).filter_map(read_process).collect()
}

/// Reads a process from the process table; none if it does not run.
fn read_process(pid: Pid) -> Option<Process> {
    parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses a line of `/proc/<pid>/stat`; none if the process is a zombie.
fn parse_stat(pid: Pid, line: &[u8]) -> Option<Process> {
    // The name is in parentheses and may contain any byte; only ids follow the last parenthesis.
    let (_, rest) = line.split_at_checked(line.iter().rposition(|byte| *byte == b')')? + 1)?;
    let mut fields = str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = pid_from_raw(fields.next()?.parse().ok()?);
    let group = pid_from_raw(fields.next()?.parse().ok()?)?;
    let threads: i64 = fields.nth(14)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    // A process whose first thread has ended looks like a zombie while its other threads run.
    let has_ended = matches!(state, "Z" | "X") && threads <= 1;
    (!has_ended).then_some(Process { pid, parent, group, start_time })
}

fn pid_from_raw(id: i32) -> Option<Pid> {
    Pid::from_raw(id.max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_may_contain_any_byte() {
        let pid = pid_from_raw(7).unwrap();
        let line = b"7 (a) Z 1 (\xff) S 3 5 5 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 2 0 12345 0 0\n";
        let expected =
            Process { pid, parent: pid_from_raw(3), group: pid_from_raw(5).unwrap(), start_time: 12345 };
        assert_eq!(parse_stat(pid, line), Some(expected));
        assert_eq!(parse_stat(pid, b"7 (a) S 3"), None);
        assert_eq!(parse_stat(pid, b""), None);
    }

    #[test]
    fn zombie_has_ended_unless_other_threads_run() {
        let line = |threads| format!("7 (a) Z 3 5 5 0 -1 0 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 0 0\n");
        let pid = pid_from_raw(7).unwrap();
        assert_eq!(parse_stat(pid, line(1).as_bytes()), None);
        assert!(parse_stat(pid, line(2).as_bytes()).is_some());
    }

    #[test]
    fn signal_does_not_reach_later_process_with_same_id() {
        let own = read_process(getpid()).unwrap();
        let earlier = Process { start_time: own.start_time - 1, ..own };
        // Would kill this test.
        earlier.signal(Signal::KILL);
    }
}
