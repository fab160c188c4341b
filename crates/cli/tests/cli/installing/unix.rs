//! Programs of Unix that read what the binary writes: bash and groff.

use std::process::{Command, Stdio};

use crate::help::verbs;
use crate::support::{Place, Running, TSUGITE};

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
fn groff_formats_every_page() {
    if !exists("groff") || !exists("preconv") {
        return;
    }
    let place = Place::new();
    let written = place.run(["man", "--dir", "man/man1"]).fine();
    for path in written.lines() {
        let mut groff = Command::new("groff");
        groff.args(["-k", "-man", "-Tutf8", "-ww", "-z", path]).current_dir(&place.path);
        groff.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = Running::start(groff).end();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{path}");
    }
}

/// Whether a program is installed.
fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}
