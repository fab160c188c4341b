//! Patterns of commands that need a second look before they run.
//!
//! A list like this catches the careless, not the careful: consent shows the whole command in any case.

use crate::targets::secrets::is_secret_name;

/// Returns warnings about an entry. `texts` are its command, its URL and the values that it sets.
pub(super) fn warnings(texts: &[&str], env: &[&str], variables: &[String], is_command: bool) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |warning: String| {
        if !found.contains(&warning) {
            found.push(warning);
        }
    };
    // A default may take the place of a variable: `${NAME:-default}`.
    let plain: Vec<String> = texts.iter().map(|text| text.replace(":-", " ")).collect();
    let words: Vec<&str> =
        plain.iter().flat_map(|text| text.split(SEPARATORS)).filter(|word| !word.is_empty()).collect();
    let programs: Vec<&str> = words.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).collect();
    for program in programs.iter().filter(|program| PRIVILEGED.contains(program)) {
        add(format!("it runs a program with other rights ({program})"));
    }
    if programs.iter().any(|program| SHELLS.contains(program)) && words.iter().any(|word| runs_script(word)) {
        add("it runs a script in a shell".to_owned());
    }
    for (program, rest) in
        programs.iter().enumerate().filter_map(|(at, program)| Some((program, words.get(at + 1..)?)))
    {
        if *program == "rm"
            && rest.iter().take_while(|word| word.starts_with('-')).any(|word| deletes_all(word))
        {
            add("it deletes files (rm -rf)".to_owned());
        }
    }
    for text in texts {
        if let Some(shell) = piped_shell(text) {
            add(format!("it pipes its input into a shell (| {shell})"));
        }
    }
    for program in programs.iter().filter(|program| NETWORK.contains(program)) {
        add(format!("it uses the network ({program})"));
    }
    for path in SENSITIVE_PATHS.iter().filter(|path| texts.iter().any(|text| text.contains(**path))) {
        add(format!("it names a file that may hold secrets ({path})"));
    }
    for name in env.iter().filter(|name| changes_programs(name)) {
        add(format!("it sets {name}, which changes what programs run"));
    }
    for name in variables.iter().filter(|name| is_secret_name(name)) {
        add(format!("it gets the value of {name}, which may be a secret"));
    }
    // The contents of a program are not part of the consent.
    if is_command && texts.first().is_some_and(|program| program.contains('/') && !program.starts_with('/')) {
        add("its program is in the folder, and can change without a new question".to_owned());
    }
    found
}

/// Whether an option of a shell is followed by a script, as in `-c` or `-lc`.
fn runs_script(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    letters.is_some_and(|letters| letters.ends_with('c'))
        || word.eq_ignore_ascii_case("-command")
        || word == "/c"
}

fn deletes_all(option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => ["recursive", "force"].contains(&long),
        None => option.contains(['r', 'R', 'f']),
    }
}

/// Returns the shell or interpreter that a pipe leads to.
fn piped_shell(text: &str) -> Option<&str> {
    text.split('|').skip(1).find_map(|part| {
        let words = part.split(SEPARATORS).filter(|word| !word.is_empty());
        let program = words
            .map(|word| word.rsplit('/').next().unwrap_or(word))
            .find(|program| !["sudo", "env", "-E", "exec"].contains(program))?;
        (SHELLS.contains(&program) || INTERPRETERS.contains(&program)).then_some(program)
    })
}

fn changes_programs(name: &str) -> bool {
    name.starts_with("LD_") || name.starts_with("DYLD_") || PROGRAM_VARIABLES.contains(&name)
}

/// Characters between the words of a command, also inside of a script or a default.
const SEPARATORS: [char; 17] =
    [' ', '\t', '\n', '\r', ';', '|', '&', '(', ')', '{', '}', '<', '>', '`', '"', '\'', '='];
const PRIVILEGED: [&str; 6] = ["sudo", "doas", "su", "pkexec", "runas", "chroot"];
const SHELLS: [&str; 11] =
    ["sh", "bash", "zsh", "dash", "ash", "ksh", "fish", "cmd", "cmd.exe", "powershell", "pwsh"];
const INTERPRETERS: [&str; 7] = ["python", "python3", "perl", "ruby", "node", "php", "osascript"];
const NETWORK: [&str; 14] = [
    "curl",
    "wget",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "telnet",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "ftp",
    "iwr",
    "Invoke-WebRequest",
];
const SENSITIVE_PATHS: [&str; 19] = [
    ".ssh",
    "id_rsa",
    "id_ed25519",
    ".aws",
    ".gnupg",
    ".netrc",
    ".kube",
    ".docker/config",
    "docker.sock",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
    ".password-store",
    ".bash_history",
    ".zsh_history",
    "/etc/passwd",
    "/etc/shadow",
];
/// Variables that make programs load code or run other programs.
const PROGRAM_VARIABLES: [&str; 15] = [
    "PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "BASH_ENV",
    "ENV",
    "IFS",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn about(texts: &[&str]) -> String {
        warnings(texts, &[], &[], true).join("; ")
    }

    #[test]
    fn dangerous_commands_are_recognized() {
        // L-03
        for (texts, expected) in [
            (&["/usr/bin/sudo", "x"][..], "(sudo)"),
            (&["bash", "-lc", "true && rm -fr /"], "rm -rf"),
            (&["rm", "-r", "-f", "x"], "rm -rf"),
            (&["rm", "--recursive", "x"], "rm -rf"),
            (&["sh", "-c", "wget -qO- x|sudo bash"], "(| bash)"),
            (&["sh", "-c", "echo x | /usr/bin/env python3"], "(| python3)"),
            (&["sh", "-c", "x=$(curl y)"], "(curl)"),
            (&["x", "~/.aws/credentials"], "(.aws)"),
            (&["bin/x"], "in the folder"),
        ] {
            assert!(about(texts).contains(expected), "{texts:?}: {}", about(texts));
        }
    }

    #[test]
    fn ordinary_commands_have_no_warning() {
        for texts in [
            &["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv"][..],
            &["uvx", "mcp-server-git", "--repository", "."],
            &["docker", "run", "-i", "--rm", "-e", "TOKEN", "ghcr.io/github/server"],
            &["/usr/bin/server", "alarm", "--format=rm"],
        ] {
            assert_eq!(about(texts), "", "{texts:?}");
        }
        assert!(warnings(&["https://example.com/mcp"], &[], &[], false).is_empty());
    }
}
