//! Snapshots of the complete output of the binary: console sessions in `tests/snapshots`.
//!
//! A file contains commands and their output. The test runs the commands again in a temporary project and compares the
//! output with the file. A line begins with
//!
//! - `$ ` for a command line, in the part of `sh` that `command_line.rs` knows, and `> ` for its input after `<<'END'`;
//! - `^ once "words": ` for a command line to run elsewhere as soon as the words are printed; `$PID` is the first command.
//!   A step that sends a signal runs only on Unix. On Windows it is shown as in the file, and not compared;
//! - `% [NAME] ` for a server to start first: `is tsugite serve`, `never answers`, `answers STATUS | HEADER | …`;
//! - `# ` for a comment.
//!
//! Everything else is output: standard output, then standard error after `[stderr]`, then `[exit …]` unless it is 0.
//! Values that differ between runs have a name in brackets, and `~` is the home folder. Paths, and errors of the operating
//! system, are written as on Linux.
//!
//! Servers of a session are scripts of the program `helper`, in the language of `crates/testkit/src/script/mod.rs`.

mod command_line;
mod shell;
mod stage;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::help;
use stage::{Stage, is_script};

macro_rules! sessions {
    ($($name:ident)*) => {
        $(#[test] fn $name() { compare(stringify!($name)); })*
        const SESSIONS: &[&str] = &[$(stringify!($name)),*];
    };
}

sessions! {
    config connecting doctor help installing login questions serving shell talking tasks trust verbs words
}

/// Runs a session again and compares its output with the file.
#[track_caller]
fn compare(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let file = fs::read_to_string(&path).unwrap();
    let now = Stage::new().play(&file);
    if file == now {
        return;
    }
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        return fs::write(&path, now).unwrap();
    }
    panic!(
        "tests/snapshots/{name}.txt (-) differs from the output of the binary (+):\n\n{}\n\
         If the binary is right, `SNAPSHOTS=overwrite cargo test -p tsugite-cli snapshots` rewrites \
         the file; read the diff before you commit it.",
        difference(&file, &now)
    );
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

/// Formats the steps that differ, from the first line that differs to the last.
fn difference(old: &str, new: &str) -> String {
    let mut text = String::new();
    for (old, new) in steps(old).zip(steps(new)).filter(|(old, new)| old != new) {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let ends = old[same..].iter().rev().zip(new[same..].iter().rev());
        let end = ends.take_while(|(old, new)| old == new).count();
        let script = old.iter().copied().filter(|line| is_script(line));
        let before = old[..old.len() - end].iter().map(|line| format!("- {line}")).skip(same);
        let after = new[..new.len() - end].iter().map(|line| format!("+ {line}")).skip(same);
        for line in script.map(|line| format!("  {line}")).chain(before).chain(after) {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
    }
    text
}

/// Splits a session into its steps.
fn steps(file: &str) -> impl Iterator<Item = &str> {
    let starts = file.match_indices("\n$ ").map(|(at, _)| at + 1).collect::<Vec<_>>();
    let ends = starts.iter().copied().skip(1).chain([file.len()]).collect::<Vec<_>>();
    starts.into_iter().zip(ends).map(|(start, end)| &file[start..end])
}

#[test]
fn sessions_cover_every_verb_and_exit_code() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files, SESSIONS);
    let all: String =
        files.iter().map(|name| fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap()).collect();
    for (verb, help) in help::verbs() {
        let named = format!("tsugite {verb} ");
        let steps =
            || all.lines().filter(|line| line.starts_with("$ ") && format!("{line} ").contains(&named));
        assert!(steps().any(|step| step.contains("--help")), "{verb} --help");
        assert!(help.contains("\nCommands:\n") || steps().any(|step| !step.contains("--help")), "{verb}");
        let json = help.contains("--json") && !help.contains("\nCommands:\n");
        assert!(!json || steps().any(|step| step.contains("--json")), "{verb} --json");
    }
    for exit in [1, 2, 3, 4, 5, 6, 130] {
        assert!(all.contains(&format!("\n[exit {exit}]\n")), "{exit}");
    }
}

#[test]
fn output_on_the_cli_page_is_in_a_session() {
    let page = include_str!("../../../../../docs/cli.md");
    // On a console both streams are mixed, and a comment may follow the command.
    let sorted = |step: &str| {
        let (command, output) = step.split_once('\n').unwrap_or((step, ""));
        let command = command.split("  #").next().unwrap_or_default().trim_end();
        let output =
            output.lines().filter(|line| !line.is_empty() && !line.starts_with('[') && !is_script(line));
        let mut output: Vec<String> = output.map(str::to_owned).collect();
        output.sort();
        (command.to_owned(), output)
    };
    let known: Vec<_> = SESSIONS
        .iter()
        .map(|name| fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap())
        .flat_map(|file| steps(&file).map(sorted).collect::<Vec<_>>())
        .collect();
    let blocks = page.split("```console").skip(1).filter_map(|rest| rest.split("```").next());
    for step in blocks.flat_map(steps).map(sorted) {
        // The shell needs a terminal, and port 8808 may be in use.
        let shown =
            !step.1.is_empty() && step.0 != "$ tsugite shell demo" && step.1 != ["http://127.0.0.1:8808/mcp"];
        assert!(!shown || known.contains(&step), "{step:?}");
    }
}
