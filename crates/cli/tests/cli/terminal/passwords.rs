//! The prompt of `tsugite users add`: a password is typed twice and never shown.

use super::Terminal;
use crate::support::Place;

const ADD: &str = "\"$TSUGITE\" users add auth.json ann";

#[test]
fn typed_password_is_not_shown() {
    let terminal = Terminal::run("users add auth.json ann");
    terminal.ends_with("password of ann:");
    terminal.types("correct horse").presses("Enter").ends_with("once more:");
    let screen = terminal.types("correct horse").presses("Enter").ends_with("(ended with 0)");
    assert!(screen.contains("added the user ann") && !screen.contains("horse"), "{screen}");
    let file = std::fs::read_to_string(terminal.place.path.join("auth.json")).unwrap();
    assert!(file.contains("$argon2id$") && !file.contains("horse"), "{file}");
}

#[test]
fn passwords_that_differ_change_nothing() {
    let terminal = Terminal::run("users add auth.json ann");
    terminal.ends_with("password of ann:");
    terminal.types("correct horse").presses("Enter").ends_with("once more:");
    let screen = terminal.types("battery staple").presses("Enter").ends_with("(ended with 1)");
    assert!(!screen.contains("horse") && !screen.contains("staple"), "{screen}");
    assert!(!terminal.place.path.join("auth.json").exists());
}

#[test]
fn interrupted_prompt_shows_what_is_typed_again() {
    let terminal = Terminal::within(
        Place::new(),
        &format!("{ADD}\nsh -c 'echo ready; read -r word; echo \"got $word\"'"),
    );
    terminal.ends_with("password of ann:");
    terminal.types("secret").presses("C-c").ends_with("ready");
    terminal.types("visible").presses("Enter").shows("visible\ngot visible");
}
