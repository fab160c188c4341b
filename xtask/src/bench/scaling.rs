//! Measures whether a call costs more with many tools and sessions, or with a token, in instructions counted by valgrind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::Measurement;
use crate::process;

pub(super) fn measure(server: &Path, folder: &Path) -> Result<Vec<Measurement>, String> {
    if !process::succeeds(process::program("valgrind", ["--version"])) {
        return Err("valgrind is missing; it counts instructions\n  try: apt-get install valgrind".into());
    }
    let mut figures = Vec::new();
    for era in [Era::Session, Era::Stateless] {
        let bare = Load { tools: 1, sessions: 0, token: Token::None };
        let per_call = |crowd| instructions_per_call(server, folder, era, crowd);
        let one = per_call(bare)?;
        for crowd in [Load { tools: 1_000, ..bare }, Load { sessions: 10_000, ..bare }] {
            let what = format!(
                "a call {} among {} tools and {} idle sessions, beside {one:.0} instructions",
                era.name(),
                crowd.tools,
                crowd.sessions
            );
            let more = (per_call(crowd)? / one - 1.0) * 100.0;
            figures.push(Measurement::at_most(what, more.max(0.0), 5.0, " % more"));
        }
        let what = format!("a call {} with a token that was verified before", era.name());
        let ignored = per_call(Load { token: Token::Ignored, ..bare })?;
        let more = per_call(Load { token: Token::Verified, ..bare })? - ignored;
        figures.push(Measurement::at_most(what, more.max(0.0).round(), 4_000.0, " instructions more"));
    }
    Ok(figures)
}

#[derive(Clone, Copy)]
struct Load {
    tools: usize,
    sessions: usize,
    token: Token,
}

/// The token of each request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    /// Sent to a server that needs none, which costs the reading of a longer head.
    Ignored,
    Verified,
}

#[derive(Clone, Copy)]
enum Era {
    Session,
    Stateless,
}

impl Era {
    fn name(self) -> &'static str {
        match self {
            Era::Session => "in a session",
            Era::Stateless => "without one",
        }
    }
}

/// The instructions of one call: the cost of three hundred more calls, divided by their number.
fn instructions_per_call(server: &Path, folder: &Path, era: Era, crowd: Load) -> Result<f64, String> {
    let few = total_instructions(server, folder, era, crowd, 100)?;
    let more = total_instructions(server, folder, era, crowd, 400)?;
    Ok((more - few) / 300.0)
}

/// The instructions of a whole run of the server.
fn total_instructions(
    server: &Path,
    folder: &Path,
    era: Era,
    crowd: Load,
    calls: usize,
) -> Result<f64, String> {
    let (counted, said) = (folder.join("callgrind.out"), folder.join("callgrind.txt"));
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .map_err(|error| error.to_string())?
        .port();
    let mode = if crowd.token == Token::Verified { "protected" } else { "session" };
    let mut valgrind = process::program("valgrind", ["--tool=callgrind"]);
    valgrind
        .arg(format!("--callgrind-out-file={}", counted.display()))
        .arg(server)
        .args(["http", &port.to_string(), mode, &crowd.tools.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(process::create_log(&said)?);
    let running = process::ChildProcess::start(valgrind)?;
    let talked = run_calls(port, era, crowd, calls);
    let ended = running.stop(Duration::from_secs(60));
    talked.and(ended)?;
    let text = std::fs::read_to_string(&counted)
        .map_err(|error| format!("cannot read the output of valgrind: {error}"))?;
    parse_total(&text).ok_or_else(|| format!("{} has no total", counted.display()))
}

fn parse_total(counted: &str) -> Option<f64> {
    let total = counted.lines().find_map(|line| line.strip_prefix("totals: "))?;
    total.split_whitespace().next()?.parse().ok()
}

/// Opens idle sessions, then calls on one connection.
fn run_calls(port: u16, era: Era, crowd: Load, calls: usize) -> Result<(), String> {
    let mut peer = HttpClient::connect(port)?;
    let token = match crowd.token {
        Token::Ignored | Token::Verified => format!("Authorization: Bearer {}\r\n", "t".repeat(800)),
        Token::None => String::new(),
    };
    for _ in 0..crowd.sessions {
        peer.post(INITIALIZE, &token)?;
    }
    let (call, headers) = match era {
        Era::Session => {
            let id = peer.post(INITIALIZE, &token)?.ok_or("the server opened no session")?;
            (
                CALL.replace("{meta}", ""),
                format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {id}\r\n"),
            )
        }
        Era::Stateless => (
            CALL.replace("{meta}", META),
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n".to_owned(),
        ),
    };
    let headers = headers + &token;
    for _ in 0..calls {
        peer.post(&call, &headers)?;
    }
    Ok(())
}

struct HttpClient(BufReader<TcpStream>);

impl HttpClient {
    /// Connects; retries because a server under valgrind starts slowly.
    fn connect(port: u16) -> Result<Self, String> {
        let began = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(socket) => {
                    let limit = Some(Duration::from_secs(60));
                    socket.set_read_timeout(limit).map_err(|error| error.to_string())?;
                    return Ok(Self(BufReader::new(socket)));
                }
                Err(error) if began.elapsed() > Duration::from_secs(60) => {
                    return Err(format!("the server under valgrind does not listen: {error}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Sends a POST and returns the session that the response opens, if any. Fails without a result.
    fn post(&mut self, body: &str, headers: &str) -> Result<Option<String>, String> {
        let lost =
            |error: std::io::Error| format!("the server under valgrind has closed the connection: {error}");
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).map_err(lost)?;
        let (mut status, mut session, mut length) = (String::new(), None, 0);
        self.0.read_line(&mut status).map_err(lost)?;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).map_err(lost)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "mcp-session-id" => session = Some(value.to_owned()),
                "content-length" => {
                    length = value.parse().map_err(|_| format!("invalid Content-Length: {value}"))?
                }
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).map_err(lost)?;
        let answer = String::from_utf8_lossy(&answer);
        match status.starts_with("HTTP/1.1 200") && answer.contains("\"result\"") {
            true => Ok(session),
            false => Err(format!("the server responds with {status}{answer}")),
        }
    }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}{meta}}}"#;
const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_is_parsed_from_valgrind_output() {
        assert_eq!(
            parse_total("version: 1\nevents: Ir\nfn=(1) main\n3 4\ntotals: 123456\n"),
            Some(123_456.0)
        );
        assert_eq!(parse_total("version: 1\n"), None);
    }
}
