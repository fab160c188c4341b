//! Servers written as shell scripts.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use tsugite::client::{Client, ClientBuilder, Command};

use super::{HANDSHAKE, within};

/// Functions for the scripts. `read_line` reads a line into `$line`, `send_line` writes one. The first call after
/// `handshake` has the id 2.
const WORDS: &str = r#"
send_line() { printf '%s\n' "$1"; }
read_line() { IFS= read -r line; }
answer() { send_line '{"jsonrpc":"2.0","id":'"$1"',"result":{"content":[{"type":"text","text":"'"$2"'"}]}}'; }
ask() { send_line '{"jsonrpc":"2.0","id":'"$1"',"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}'; }
welcome() { send_line '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}'; }
handshake() { read_line; welcome; read_line; }
# Reads lines until the end of the input.
drain() { while read_line; do :; done; }
"#;

/// A server that is a script with a handshake.
pub(crate) fn spawn(script: &str) -> ClientBuilder {
    let command = Command::new("/bin/sh").args(["-c", &format!("{WORDS}\n{script}")]);
    Client::spawn(command).revision(HANDSHAKE)
}

/// A named pipe through which a script reports its progress.
pub(crate) struct Pipe(PathBuf);

impl Pipe {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tsugite-bridge-faults-{}-{count}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Self(path)
    }

    /// Waits for a script to write to it.
    pub(crate) async fn read(&self) -> String {
        let path = self.0.clone();
        let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path).unwrap());
        // Without a writer, a blocking read of the pipe could not be stopped.
        let unblocked = Unblock(&self.0);
        let heard = within(reading).await.unwrap();
        std::mem::forget(unblocked);
        heard
    }

    /// Writes a line for a script that reads from it.
    pub(crate) async fn write_line(&self, line: &str) {
        let (path, line) = (self.0.clone(), format!("{line}\n"));
        within(tokio::task::spawn_blocking(move || std::fs::write(path, line).unwrap())).await.unwrap();
    }
}

struct Unblock<'a>(&'a std::path::Path);

impl Drop for Unblock<'_> {
    fn drop(&mut self) {
        let _ = std::fs::OpenOptions::new().write(true).open(self.0);
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.display())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
