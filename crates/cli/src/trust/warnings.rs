//! Patterns of commands that need a second look before they run.
//!
//! A list like this catches the careless, not the careful: consent shows the whole command in any case.

use std::path::Path;

use crate::environment::same_name;
use crate::executable;
use crate::targets::secrets::is_secret_name;

/// Returns warnings about an entry. `texts` are its command, its URL and the values that it sets.
pub(super) fn warnings(texts: &[&str], env: &[&str], variables: &[String], is_command: bool) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |warning: String| {
        if !found.contains(&warning) {
            found.push(warning);
        }
    };
    // Windows compares names without case. A default may take the place of a variable: `${NAME:-default}`.
    let plain: Vec<String> = texts.iter().map(|text| text.to_lowercase().replace(":-", " ")).collect();
    let words: Vec<&str> =
        plain.iter().flat_map(|text| text.split(SEPARATORS)).filter(|word| !word.is_empty()).collect();
    let programs: Vec<&str> = words.iter().map(|word| program_name(word)).collect();
    for program in programs.iter().filter(|program| PRIVILEGED.contains(program)) {
        add(format!("it runs a program with other rights ({program})"));
    }
    let mut shells = programs.iter().filter(|program| SHELLS.contains(program));
    if shells.any(|shell| words.iter().any(|word| runs_script(shell, word))) {
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
    for text in &plain {
        if let Some(shell) = piped_shell(text) {
            add(format!("it pipes its input into a shell (| {shell})"));
        }
    }
    for program in programs.iter().filter(|program| NETWORK.contains(program)) {
        add(format!("it uses the network ({program})"));
    }
    let paths: Vec<String> = plain.iter().map(|text| text.replace('\\', "/")).collect();
    for path in SENSITIVE_PATHS.iter().filter(|path| paths.iter().any(|text| text.contains(**path))) {
        add(format!("it names a file that may hold secrets ({path})"));
    }
    for name in env.iter().filter(|name| changes_programs(name)) {
        add(format!("it sets {name}, which changes what programs run"));
    }
    for name in variables.iter().filter(|name| is_secret_name(name)) {
        add(format!("it gets the value of {name}, which may be a secret"));
    }
    // The contents of a program are not part of the consent.
    let in_folder = |program: &&str| executable::is_path(program) && !Path::new(program).has_root();
    if is_command && texts.first().is_some_and(in_folder) {
        add("its program is in the folder, and can change without a new question".to_owned());
    }
    found
}

/// The name of a program without its folder and its ending on Windows.
fn program_name(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    PROGRAM_ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Whether an option of a shell is followed by a script: `-c` or `-lc`, `/c` or `/k` of cmd, `-Command` or `-EncodedCommand`
/// of PowerShell, which may be shortened.
fn runs_script(shell: &str, word: &str) -> bool {
    match shell {
        "cmd" => word.split('/').skip(1).any(|option| option.starts_with(['c', 'k', 'r'])),
        "powershell" | "pwsh" => word.strip_prefix(['-', '/']).is_some_and(|option| {
            !option.is_empty()
                && (["command", "encodedcommand"].iter().any(|long| long.starts_with(option))
                    || option == "ec")
        }),
        _ => {
            word.strip_prefix('-').is_some_and(|letters| !letters.starts_with('-') && letters.ends_with('c'))
        }
    }
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
        let program =
            words.map(program_name).find(|program| !["sudo", "env", "-e", "exec"].contains(program))?;
        (SHELLS.contains(&program) || INTERPRETERS.contains(&program)).then_some(program)
    })
}

fn changes_programs(name: &str) -> bool {
    let is_listed = PROGRAM_VARIABLES.iter().any(|listed| same_name(listed, name));
    name.starts_with("LD_") || name.starts_with("DYLD_") || is_listed
}

/// Characters between the words of a command, also inside of a script or a default.
const SEPARATORS: [char; 17] =
    [' ', '\t', '\n', '\r', ';', '|', '&', '(', ')', '{', '}', '<', '>', '`', '"', '\'', '='];
const PRIVILEGED: [&str; 6] = ["sudo", "doas", "su", "pkexec", "runas", "chroot"];
const SHELLS: [&str; 10] = ["sh", "bash", "zsh", "dash", "ash", "ksh", "fish", "cmd", "powershell", "pwsh"];
const INTERPRETERS: [&str; 7] = ["python", "python3", "perl", "ruby", "node", "php", "osascript"];
/// Endings of programs on Windows.
const PROGRAM_ENDINGS: [&str; 4] = [".exe", ".com", ".bat", ".cmd"];
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
    "invoke-webrequest",
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
            (&[r"C:\Windows\System32\cmd.exe", "/C", "x.bat"], "a script in a shell"),
            (&["cmd", "/d/s/c", "x"], "a script in a shell"),
            (&["CMD.EXE", "/k", "x"], "a script in a shell"),
            (&["powershell.exe", "-EncodedCommand", "eA=="], "a script in a shell"),
            (&["pwsh", "-NoProfile", "-enc", "eA=="], "a script in a shell"),
            (&["PowerShell", "/Command", "x"], "a script in a shell"),
            (&["Curl.exe", "x"], "(curl)"),
            (&[r"C:\Windows\System32\runas.exe", "x"], "(runas)"),
            (&["cmd", r"type x | .\Python.exe"], "(| python)"),
            (&["x", r"C:\Users\ann\.Docker\config.json"], "(.docker/config)"),
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
            &["bash", "-e", "/srv/start.sh"],
            &["powershell", "-NoProfile", "-File", r"C:\server\start.ps1"],
        ] {
            assert_eq!(about(texts), "", "{texts:?}");
        }
        assert!(warnings(&["https://example.com/mcp"], &[], &[], false).is_empty());
    }
}
