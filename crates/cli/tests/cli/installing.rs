//! Shell completion scripts and manual pages.

use std::process::{Command, Stdio};

use crate::help::verbs;
use crate::support::{Place, Running, TSUGITE, tsugite};

/// Whether a program is installed.
fn exists(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|found| found.success())
}

/// Returns the completions of bash for the last word.
fn offered_by_bash(words: &[&str]) -> Vec<String> {
    // Quoted, because words may be empty.
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (&quoted[quoted.len() - 1], &quoted[quoted.len() - 2]);
    let script = format!(
        "source <('{TSUGITE}' completions bash) || exit 1\n\
         complete -p tsugite >&2 || exit 1\n\
         COMP_WORDS=({}); COMP_CWORD={}\n\
         _tsugite tsugite {last} {before}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
    );
    let place = Place::new();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", &script]).current_dir(&place.path);
    bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = Running::start(bash).end();
    assert!(ran.err.contains("-F _tsugite tsugite"), "{ran:?}");
    ran.fine().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_options_and_their_values() {
    assert_eq!(offered_by_bash(&["tsugite", "lis"]), ["list", "listen"]);
    assert_eq!(offered_by_bash(&["tsugite", "call", "--js"]), ["--json"]);
    assert_eq!(offered_by_bash(&["tsugite", "call", "--transport", ""]), ["auto", "http", "sse"]);
    assert_eq!(offered_by_bash(&["tsugite", "completions", "po"]), ["powershell"]);
    let all = offered_by_bash(&["tsugite", ""]);
    for (verb, _) in verbs().iter().filter(|(verb, _)| !verb.contains(' ')) {
        assert!(all.contains(verb), "{verb} in {all:?}");
    }
}

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
    let written = place.run(["man", "--dir", "man/man1"]).fine();
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
        if exists("groff") && exists("preconv") {
            let mut groff = Command::new("groff");
            groff.args(["-k", "-man", "-Tutf8", "-ww", "-z", path]).current_dir(&place.path);
            groff.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let ran = Running::start(groff).end();
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{path}");
        }
    }
    assert_eq!(std::fs::read_to_string(place.path.join("man/man1/tsugite.1")).unwrap(), page);
}
