//! Tasks on the terminal: their status, and Ctrl-C.

use super::Terminal;
use crate::tasks::{REVISIONS, TaskServer};

#[test]
fn ctrl_c_asks_before_it_cancels_a_task() {
    let server = TaskServer::start();
    for revision in REVISIONS {
        let terminal = Terminal::run(&format!("call {} dig --rev {revision}", server.url));
        let screen = terminal.shows("working: digging");
        assert!(screen.contains("note: the call is the task "), "{screen}");
        terminal.presses("C-c").shows("(yes or no) [no]:");
        terminal.types("yes").presses("Enter").shows("error: interrupted; cancelled the task ");
        terminal.ends_with("(ended with 130)");
        let terminal = Terminal::run(&format!("call {} dig --rev {revision}", server.url));
        terminal.shows("working: digging");
        terminal.presses("C-c").shows("(yes or no) [no]:");
        let screen = terminal.presses("Enter").shows("(ended with 130)");
        assert!(
            screen.contains("was not cancelled") && screen.contains("tsugite tasks wait http"),
            "{screen}"
        );
    }
}

#[test]
fn second_ctrl_c_cancels_no_task() {
    let server = TaskServer::start();
    let terminal = Terminal::run(&format!("call {} dig", server.url));
    terminal.shows("working: digging");
    terminal.presses("C-c").shows("(yes or no) [no]:");
    let screen = terminal.presses("C-c").shows("(ended with 130)");
    assert!(screen.contains("was not cancelled"), "{screen}");
}

#[test]
fn ctrl_c_at_a_question_asks_about_the_task() {
    let server = TaskServer::start();
    for revision in REVISIONS {
        let terminal = Terminal::run(&format!("call {} publish --rev {revision}", server.url));
        terminal.shows("The site is built.");
        terminal.shows("publish (yes or no):");
        terminal.presses("C-c").shows("(yes or no) [no]:");
        terminal.types("yes").presses("Enter").shows("error: interrupted; cancelled the task ");
        terminal.ends_with("(ended with 130)");
    }
}

#[test]
fn ctrl_c_and_no_leave_the_question_open() {
    let server = TaskServer::start();
    for revision in REVISIONS {
        let terminal = Terminal::run(&format!("call {} publish --rev {revision}", server.url));
        let screen = terminal.shows("publish (yes or no):");
        let id = screen.lines().find_map(|line| line.strip_prefix("note: the call is the task "));
        let id = id.unwrap_or_else(|| panic!("no task: {screen}")).trim();
        terminal.presses("C-c").shows("(yes or no) [no]:");
        terminal.types("no").presses("Enter").shows("was not cancelled");
        terminal.ends_with("(ended with 130)");
        let waited = server.run(&format!("tasks wait URL {id} --answer publish=yes"), revision);
        assert_eq!(waited.fine(), "published\n", "{revision}");
    }
}

#[test]
fn shell_names_the_task_that_ctrl_c_leaves() {
    let server = TaskServer::start();
    let terminal = Terminal::run(&format!("shell {}", server.url));
    terminal.shows("Ctrl-D leaves");
    terminal.types("dig").presses("Enter").shows("working: digging");
    terminal.presses("C-c").shows("was not cancelled: `tasks wait ID`");
    terminal.types("tasks list").presses("Enter").shows("has no list of tasks");
    terminal.presses("C-d").shows("(ended with 0)");
}
