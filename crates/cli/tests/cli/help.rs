//! What `--help` promises.

use std::process::Stdio;

use crate::support::{Place, Running, tsugite};

const VERBS: [&str; 10] =
    ["serve", "list", "call", "read", "prompt", "complete", "listen", "ping", "info", "raw"];

#[test]
fn every_verb_has_an_example_and_the_exit_codes_are_told() {
    let help = tsugite("--help").fine();
    for verb in VERBS {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} in {help}");
        let about = tsugite(&format!("{verb} --help")).fine();
        assert!(about.contains(&format!("Examples:\n  tsugite {verb}")), "{about}");
        assert!(about.contains(&format!("Usage: tsugite {verb}")), "{about}");
    }
    for promised in [
        "0 fine",
        "1 usage",
        "2 cannot connect",
        "3 protocol error",
        "4 tool error",
        "6 timeout",
        "130 interrupted",
    ] {
        assert!(help.contains(promised), "{promised} in {help}");
    }
    assert_eq!(tsugite("--version").fine(), format!("tsugite {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_page_about_the_binary_knows_every_verb_and_option() {
    let page = include_str!("../../../../docs/cli.md");
    for verb in VERBS {
        assert!(page.contains(&format!("tsugite {verb}")), "{verb}");
        let about = tsugite(&format!("{verb} --help")).fine();
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
fn what_was_misspelt_is_suggested() {
    for (words, meant) in [
        ("lisst demo", "'list'"),
        ("list demo --jsn", "'--json'"),
        ("call demo add --anser a=1", "'--answer'"),
    ] {
        let err = tsugite(words).failed(1);
        assert!(err.contains(meant), "{words}: {err}");
    }
    let err = tsugite("").failed(1);
    assert!(err.contains("Usage: tsugite"), "{err}");
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
