//! Servers written as shell scripts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use tsugite::client::{Client, ClientBuilder, Command};

use super::{HANDSHAKE, until};

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

/// A client of a script with a handshake.
pub(crate) fn spawn(script: &str) -> ClientBuilder {
    Client::spawn(sh(script)).revision(HANDSHAKE)
}

/// A client of a script without a handshake.
pub(crate) fn spawn_modern(script: &str) -> ClientBuilder {
    Client::spawn(sh(script)).revision(tsugite::prelude::Revision::NEWEST)
}

/// Waits until the standard error of the script contains `text`.
pub(crate) async fn noted(client: &Client, text: &str) {
    until(|| client.stderr().contains(text)).await;
}

/// A temporary file path, removed on drop.
pub(crate) struct Path(pub(crate) PathBuf);

impl Path {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tsugite-client-faults-{}-{count}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
