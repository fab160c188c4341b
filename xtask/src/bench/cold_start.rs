//! `cargo xtask cold-start`: the time from the start of `tsugite serve` to the last byte of its first response.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::process::{self, ChildProcess};
use crate::{binary, server};

/// What to measure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ColdStart {
    /// The binary; a release build if it is not named.
    binary: Option<PathBuf>,
    /// The argument of `--state`.
    state: Option<String>,
}

impl ColdStart {
    pub(crate) fn from_args(args: &[&str]) -> Result<Self, String> {
        let mut plan = Self::default();
        let mut rest = args;
        while let [option, value, more @ ..] = rest {
            match *option {
                "--binary" => plan.binary = Some(value.into()),
                "--state" => plan.state = Some((*value).to_owned()),
                _ => return Err(format!("unknown option {option} of cold-start")),
            }
            rest = more;
        }
        match rest {
            [] => Ok(plan),
            [option, ..] => Err(format!("{option} of cold-start needs a value")),
        }
    }

    /// Starts the server [`ROUNDS`] times for each kind of request, and prints the medians.
    pub(crate) fn run(&self) -> Result<(), String> {
        let folder = process::target_dir()?.join("cold-start");
        process::create_dir(&folder)?;
        let binary = self.binary.clone().map_or_else(|| binary::tsugite_release(&folder), Ok)?;
        let state = self.state.as_deref();
        println!(
            "| first request, with the state {} | median | longest | memory |",
            state.unwrap_or("in memory")
        );
        println!("|---|---|---|---|");
        for (name, request) in [("a call of 2026-07-28", CALL), ("`initialize` of 2025-11-25", INITIALIZE)] {
            let mut found = Vec::new();
            for _ in 0..ROUNDS {
                found.push(start_once(&binary, state, request, &folder)?);
            }
            found.sort_unstable();
            let (middle, longest) = (found.get(ROUNDS / 2), found.last());
            let (Some((median, memory)), Some((longest, _))) = (middle, longest) else { continue };
            let ms = |time: &Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
            println!("| {name} | {} | {} | {} MiB |", ms(median), ms(longest), memory / 1024);
        }
        Ok(())
    }
}

/// Returns the time, and the memory of the process in KiB.
fn start_once(
    binary: &Path,
    state: Option<&str>,
    request: &str,
    folder: &Path,
) -> Result<(Duration, u64), String> {
    let address = server::free_address()?;
    let mut command = process::program(binary, ["serve", "--listen", &address.to_string()]);
    if let Some(state) = state {
        command.args(["--state", state]);
    }
    command.stdout(Stdio::null()).stderr(process::create_log(&folder.join("server.txt"))?);
    let start = Instant::now();
    let mut running = ChildProcess::start(command)?;
    let response = exchange(address, request, start)
        .map_err(|reason| format!("{reason}\n  try: see {}", folder.join("server.txt").display()))?;
    let time = start.elapsed();
    if !response.starts_with("HTTP/1.1 200 ") || !response.contains("\"result\"") {
        return Err(format!("the response is {response:?}"));
    }
    if running.try_wait()?.is_some() {
        return Err("the server exited".to_owned());
    }
    let memory = resident_memory(running.id());
    running.stop(LIMIT)?;
    Ok((time, memory))
}

/// Connects as soon as the server listens, sends the request and reads the whole response.
fn exchange(address: SocketAddr, request: &str, start: Instant) -> Result<String, String> {
    let mut socket = loop {
        match TcpStream::connect(address) {
            Ok(socket) => break socket,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && start.elapsed() < LIMIT => {
                thread::yield_now();
            }
            Err(error) => return Err(format!("cannot connect: {error}")),
        }
    };
    let wrong = |error: std::io::Error| format!("no response: {error}");
    socket.set_read_timeout(Some(LIMIT)).map_err(wrong)?;
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let head = head.replace('\n', "\r\n");
    let body = body.trim();
    write!(socket, "{head}\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .map_err(wrong)?;
    let mut response = String::new();
    socket.read_to_string(&mut response).map_err(wrong)?;
    Ok(response)
}

/// From `/proc`; 0 where there is none.
fn resident_memory(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

const CALL: &str = r#"POST /mcp HTTP/1.1
Connection: close
Content-Type: application/json
Accept: application/json, text/event-stream
MCP-Protocol-Version: 2026-07-28
Mcp-Method: tools/call
Mcp-Name: add

{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

const INITIALIZE: &str = r#"POST /mcp HTTP/1.1
Connection: close
Content-Type: application/json
Accept: application/json, text/event-stream

{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"xtask","version":"0"}}}"#;

/// How often the server starts.
const ROUNDS: usize = 30;

/// How long a start, a response and a stop may take.
const LIMIT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_cold_start_are_read() {
        let plan = ColdStart::from_args(&["--state", "a.redb", "--binary", "b"]).unwrap();
        assert_eq!(plan, ColdStart { binary: Some("b".into()), state: Some("a.redb".to_owned()) });
        assert_eq!(ColdStart::from_args(&["--state"]).unwrap_err(), "--state of cold-start needs a value");
        assert!(ColdStart::from_args(&["--nonsense", "1"]).is_err());
    }
}
