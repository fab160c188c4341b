//! What `--help` promises.

use std::process::Stdio;

use crate::support::{Place, Running, tsugite};

/// Every verb there is with its help, those inside of others too: `call`, `config list`.
pub(crate) fn verbs() -> Vec<(String, String)> {
    fn inside(verb: &str, help: &str, found: &mut Vec<(String, String)>) {
        let listed = help.split_once("\nCommands:\n").map(|(_, rest)| rest).unwrap_or_default();
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            // What a long description needs more lines for stands further in.
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
        // What has verbs of its own is shown by theirs.
        assert!(
            about.contains("\nCommands:\n") || examples.is_some_and(|all| all.lines().any(begins)),
            "{verb} has no example: {about}"
        );
    }
}

#[test]
fn the_page_about_the_binary_knows_every_verb_and_option() {
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
fn nobody_reading_is_no_failure() {
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
