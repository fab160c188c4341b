//! A server of ours under test: built, started on a free port, and stopped whatever happens.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{self, Running};

/// A server that answers. It ends with this value.
pub(crate) struct Server {
    running: Running,
    address: SocketAddr,
}

impl Server {
    /// Builds and starts a binary of the testkit. What it says goes to a file in `folder`.
    pub(crate) fn start(binary: &str, folder: &Path) -> Result<Self, String> {
        let program = build(binary, folder)?;
        let address = free_address()?;
        let said = folder.join("server.txt");
        let mut command = run::program(program, ["--listen", &address.to_string()]);
        // It may end with its standard input, so that it is gone even if nobody lives to stop it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(run::log(&said)?);
        let mut running = Running::start(command)?;
        let start = Instant::now();
        while TcpStream::connect_timeout(&address, BEGINNING).is_err() {
            let ended = running.ended()?;
            if ended.is_some() || start.elapsed() >= BEGINNING {
                let how = ended.map_or("does not answer".to_owned(), |status| format!("ended with {status}"));
                let said = fs::read_to_string(&said).unwrap_or_default();
                return Err(format!("{binary} {how}\n  it said: {}", said.trim()));
            }
            thread::sleep(run::LOOK);
        }
        Ok(Self { running, address })
    }

    /// Where clients find it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Whether it is still there.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.running.ended(), Ok(None))
    }
}

/// Builds a binary of the testkit, and says where it is.
pub(crate) fn build(binary: &str, folder: &Path) -> Result<PathBuf, String> {
    let options = ["--locked", "--package", "tsugite-testkit", "--bin", binary];
    let command =
        run::cargo(["build", "--message-format", "json-render-diagnostics"].into_iter().chain(options));
    let (status, said) = run::output_within(A_BUILD, command, &folder.join("build.txt"))?;
    if !status.success() {
        return Err(format!("{binary} does not build\n  try: mend what is said above"));
    }
    executable(&said, binary).ok_or_else(|| format!("cargo does not say where {binary} is"))
}

/// Cargo knows best where it has put what it built.
fn executable(said: &str, binary: &str) -> Option<PathBuf> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ours =
        messages.filter(|message| message.pointer("/target/name").is_some_and(|name| name == binary));
    ours.find_map(|message| Some(message.get("executable")?.as_str()?.into()))
}

/// A port that was free a moment ago.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| format!("there is no free port: {error}"))
}

/// From nothing, on a slow machine.
const A_BUILD: Duration = Duration::from_secs(1800);

const BEGINNING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_where_cargo_says() {
        let said = r#"{"reason":"compiler-artifact","target":{"name":"tsugite_testkit"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"some-server"},"executable":"/t/debug/some-server"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(said, "some-server"), Some("/t/debug/some-server".into()));
        assert_eq!(executable(said, "another"), None);
    }
}
