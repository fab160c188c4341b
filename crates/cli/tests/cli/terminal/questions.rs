//! Questions on the terminal while `tsugite call` runs: asked again, preset, declined, left.

use super::{STARTED, Terminal};

#[test]
fn a_wrong_value_is_asked_for_again_and_enter_takes_what_is_preset() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let terminal = Terminal::run(&format!("call demo order --rev {revision}"));
        terminal.ends_with("  name:");
        let screen = terminal.presses("Enter").shows("this must be filled in");
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
fn one_can_say_no() {
    let terminal = Terminal::run("call demo order");
    terminal.ends_with("  name:");
    terminal.types("!").presses("Enter").shows("no planks then");
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
fn progress_is_drawn_and_gone_when_the_result_comes() {
    let terminal = Terminal::run("call demo count to=1000 pause_ms=50");
    terminal.shows("% step ");
    terminal.presses("C-c").ends_with("(ended with 130)");
    let terminal = Terminal::run("call demo count to=2 pause_ms=1");
    let screen = terminal.ends_with("(ended with 0)");
    assert!(screen.starts_with("counted to 2\n"), "{screen}");
}
