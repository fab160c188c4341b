//! Checks the output of `--help`.

use std::process::Stdio;

use crate::support::{Place, Running, tsugite};

/// Returns every verb with its help, including nested ones: `call`, `config list`.
pub(crate) fn verbs() -> Vec<(String, String)> {
    fn inside(verb: &str, help: &str, found: &mut Vec<(String, String)>) {
        let listed = help.split_once("\nCommands:\n").map(|(_, rest)| rest).unwrap_or_default();
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            // Continuation lines of a description are indented further.
            let Some(name) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) else { continue };
            let name = name.split_whitespace().next().unwrap();
            let nested = format!("{verb} {name}").trim_start().to_owned();
            let help = tsugite(&format!("{nested} --help")).fine();
            inside(&nested, &help, found);
            found.push((nested, help));
        }
    }
    let mut found = Vec::new();
    inside("", &tsugite("--help").fine(), &mut found);
    found
}

#[test]
fn every_verb_has_an_example() {
    let (help, verbs) = (tsugite("--help").fine(), verbs());
    for verb in ["serve", "list", "call", "raw", "completions", "man"] {
        assert!(verbs.iter().any(|(name, _)| name == verb), "{verb} in {help}");
    }
    for (verb, about) in verbs {
        assert!(about.contains(&format!("Usage: tsugite {verb}")), "{about}");
        let examples = about.split_once("\nExamples:\n").map(|(_, examples)| examples);
        let begins = |line: &str| line.starts_with(&format!("  tsugite {verb}"));
        // A verb with subcommands has its examples there.
        assert!(
            about.contains("\nCommands:\n") || examples.is_some_and(|all| all.lines().any(begins)),
            "{verb} has no example: {about}"
        );
    }
}

#[test]
fn cli_page_documents_every_verb_and_option() {
    let page = include_str!("../../../../docs/cli.md");
    for (verb, about) in verbs() {
        assert!(page.contains(&format!("tsugite {verb}")), "{verb}");
        let options = about.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        for option in options.filter(|option| option.starts_with(char::is_alphabetic)) {
            let option = option.trim_end_matches(|letter: char| !letter.is_alphanumeric());
            let known =
                ["help", "fast", "version"].contains(&option) || page.contains(&format!("--{option}"));
            assert!(known, "--{option} of {verb}");
        }
    }
}

#[test]
fn closed_standard_output_is_not_an_error() {
    let place = Place::new();
    for words in [
        &["--help"][..],
        &["--version"],
        &["list", "demo"],
        &["list", "demo", "--json"],
        &["read", "demo", "demo://logo"],
        &["call", "demo", "add", "a=1", "b=2"],
        &["raw", "demo", "{\"method\":\"tools/list\"}"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = place.command(words);
        command.stdout(Stdio::from(writer));
        let running = Running::start(command);
        let ran = running.end();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words:?}");
    }
}
