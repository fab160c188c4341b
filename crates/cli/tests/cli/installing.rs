//! Shell completion scripts and manual pages.

#[cfg(unix)]
mod unix;

use std::path::MAIN_SEPARATOR;

use crate::help::verbs;
use crate::support::{Place, tsugite};

#[test]
fn every_shell_has_a_script_that_knows_the_verbs() {
    for (shell, mark) in [
        ("bash", "-F _tsugite"),
        ("zsh", "#compdef tsugite"),
        ("fish", "complete -c tsugite"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer[tsugite]"),
    ] {
        let script = tsugite(&format!("completions {shell}")).fine();
        assert!(script.contains(mark), "{shell}: {script}");
        assert!(script.contains("listen") && script.contains("json"), "{shell}: {script}");
    }
}

#[test]
fn man_writes_a_page_for_each_verb() {
    let place = Place::new();
    let page = place.run(["man"]).fine();
    assert!(page.contains(".TH tsugite 1"), "{page}");
    let written = place.run(["man", "--dir", "man/man1"]).fine().replace(MAIN_SEPARATOR, "/");
    let mut names: Vec<String> = verbs()
        .into_iter()
        .map(|(verb, _)| format!("man/man1/tsugite-{}.1", verb.replace(' ', "-")))
        .collect();
    names.push("man/man1/tsugite.1".to_owned());
    names.sort();
    let mut paths: Vec<&str> = written.lines().collect();
    paths.sort_unstable();
    assert_eq!(paths, names);
    for path in paths {
        let text = std::fs::read_to_string(place.path.join(path)).unwrap();
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(text.contains(section), "{section} in {path}");
        }
        // Examples keep their lines.
        if let Some((_, examples)) = text.split_once(".SH EXAMPLES\n") {
            assert!(examples.starts_with(".nf\ntsugite "), "{path}: {examples}");
        }
    }
    assert_eq!(std::fs::read_to_string(place.path.join("man/man1/tsugite.1")).unwrap(), page);
}
