//! Looks for the processes of a group in the process table, when the tests choose the code without one.
//!
//! Linux sends signals to zombies too, so that a group with a child that was not reaped always accepts them.

use rustix::process::Pid;

use super::super::process_table::list_processes;

/// Whether all processes of a group have ended.
pub(super) fn group_has_exited(group: Pid) -> bool {
    list_processes().iter().all(|process| process.group != group)
}
