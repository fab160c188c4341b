//! Questions on the terminal during `tsugite call`: repeated, defaulted, declined, cancelled.

use serde_json::json;

use super::{STARTED, Terminal};
use crate::support::{Place, TSUGITE};

#[test]
fn invalid_value_is_prompted_again_and_enter_accepts_defaults() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let terminal = Terminal::run(&format!("call demo order --rev {revision}"));
        terminal.ends_with("  name:");
        let screen = terminal.presses("Enter").shows("a value is required");
        assert!(screen.contains("The server asks: What shall it be?"), "{screen}");
        terminal.types("Kiku").presses("Enter").ends_with("  planks (whole number) [2]:");
        terminal.types("many").presses("Enter").shows("expected a whole number, got \"many\"");
        terminal.types("13").presses("Enter").shows("expected at most 12, got 13");
        terminal.presses("Enter").ends_with("  wood [cedar]:");
        terminal.types("oak").presses("Enter").ends_with("  wrapped (yes or no):");
        terminal.types("yes").presses("Enter").shows("2 planks of oak for Kiku, wrapped");
        terminal.ends_with("(ended with 0)");
    }
}

#[test]
fn user_can_decline() {
    let terminal = Terminal::run("call demo order");
    terminal.ends_with("  name:");
    terminal.types("!").presses("Enter").shows("order declined");
    terminal.ends_with("(ended with 0)");
}

#[test]
fn ctrl_c_at_a_question_leaves_no_child() {
    let terminal = Terminal::run(&format!("call order {STARTED}"));
    terminal.ends_with("  name:");
    let server = terminal.place.holds("server.pid", "\n");
    terminal.presses("C-c").ends_with("(ended with 130)");
    terminal.gone(&server);
}

#[test]
fn progress_bar_is_erased_before_the_result() {
    let terminal = Terminal::run("call demo count to=1000 pause_ms=50");
    terminal.shows("% step ");
    terminal.presses("C-c").ends_with("(ended with 130)");
    let terminal = Terminal::run("call demo count to=2 pause_ms=1");
    let screen = terminal.ends_with("(ended with 0)");
    assert!(screen.starts_with("counted to 2\n"), "{screen}");
}

/// A project file with one server that leaves a mark.
fn untrusted() -> Place {
    let place = Place::new();
    let script = format!("touch mark; exec {TSUGITE} serve --stdio");
    let entry = json!({"command": "sh", "args": ["-c", script], "env": {"T": "${HOME}"}});
    place.file(".mcp.json", &json!({"mcpServers": {"mine": entry}}).to_string());
    place
}

#[test]
fn consent_is_asked_once() {
    let terminal = Terminal::within(untrusted(), "\"$TSUGITE\" ping mine && \"$TSUGITE\" ping mine");
    let screen = terminal.ends_with("Start it, and trust this entry from now on? (yes or no):");
    assert!(screen.contains("T=${HOME}") && screen.contains("runs a script in a shell"), "{screen}");
    assert!(!terminal.place.path.join("mark").exists());
    terminal.types("yes").presses("Enter");
    let screen = terminal.ends_with("(ended with 0)");
    assert_eq!(screen.matches("answered in").count(), 2, "{screen}");
}

#[test]
fn nothing_starts_without_a_yes() {
    for answer in ["", "no", "maybe"] {
        let terminal = Terminal::within(untrusted(), "\"$TSUGITE\" ping mine");
        terminal.shows("Start it, and trust this entry");
        terminal.types(answer).presses("Enter").ends_with("(ended with 1)");
        assert!(!terminal.place.path.join("mark").exists(), "{answer}");
    }
    let terminal = Terminal::within(untrusted(), "\"$TSUGITE\" shell mine");
    terminal.shows("Start it, and trust this entry");
    terminal.presses("C-c").shows("(ended with ");
    let terminal = Terminal::within(untrusted(), "\"$TSUGITE\" ping mine");
    terminal.shows("Start it, and trust this entry");
    terminal.presses("C-c").ends_with("(ended with 130)");
    assert!(!terminal.place.path.join("mark").exists());
}
