//! Servers written as shell scripts, for what only Unix has: process groups, signals, and pipes closed by their number. Their
//! tests look into `/proc`, which only Linux has.

use tsugite::client::Command;

/// Functions for the scripts. `read_line` reads a line into `$line` and copies it to standard error; `send_line` writes
/// one. The first call after `handshake` has the id 2.
const WORDS: &str = r#"
send_line() { printf '%s\n' "$1"; }
read_line() { IFS= read -r line && printf '%s\n' "$line" >&2; }
answer() { send_line '{"jsonrpc":"2.0","id":'"$1"',"result":{"content":[{"type":"text","text":"'"$2"'"}]}}'; }
welcome() { send_line '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}'; }
handshake() { read_line; welcome; read_line; }
# Stays alive without reading and without starting a child process.
stay() { exec sleep 600; }
# Reads lines until the end of the input.
drain() { while read_line; do :; done; }
"#;

/// A command that runs a script.
pub(crate) fn sh(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", &format!("{WORDS}\n{script}")])
}
