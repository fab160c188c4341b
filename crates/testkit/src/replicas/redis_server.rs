//! A Redis server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::{env, io, thread};

use super::{Monitor, START_ATTEMPTS, TempDir, free_port};

/// A Redis server on loopback that keeps nothing on disk. It is stopped on drop.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    /// Removed after the server has ended.
    _folder: TempDir,
    port: u16,
}

impl RedisServer {
    /// Starts `redis-server`, or the program that `TSUGITE_REDIS_SERVER` names.
    pub fn start() -> Result<Self, String> {
        let program = env::var("TSUGITE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let advice = format!(
            "cannot run {program}; install Redis 7.0 or newer (Debian: `apt-get install redis-server` as root), or let \
             TSUGITE_REDIS_SERVER name the program"
        );
        for _ in 0..START_ATTEMPTS {
            if let Some(server) =
                Self::start_once(&program).map_err(|error| format!("{advice}\n  error: {error}"))?
            {
                return Ok(server);
            }
        }
        Err(format!("{program} does not start"))
    }

    /// `None` if it exits at once, since its port is taken.
    fn start_once(program: &str) -> io::Result<Option<Self>> {
        let (folder, port) = (TempDir::create("redis")?, free_port()?);
        let mut child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--logfile", "", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = child.stdout.take();
        let server = Self { child, _folder: folder, port };
        let Some(output) = output else { return Ok(None) };
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains("Ready to accept"));
        // The pipe must not fill. The thread ends with the server.
        thread::spawn(move || lines.for_each(drop));
        Ok(is_ready.then_some(server))
    }

    /// Its address for replicas.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How often each command was called so far, by its name in lower case (`INFO commandstats`). Commands that a script
    /// runs count, too.
    pub fn command_counts(&self) -> Result<BTreeMap<String, u64>, String> {
        let text = self.info().map_err(|error| format!("INFO commandstats: {error}"))?;
        let calls = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        Ok(text.lines().filter_map(calls).collect())
    }

    /// Limits the memory (`CONFIG SET maxmemory`); 0 is no limit. Beyond it Redis refuses writes, and removes nothing.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        let limit = || {
            let mut socket = TcpStream::connect(self.address())?;
            socket.write_all(format!("CONFIG SET maxmemory {bytes}\r\n").as_bytes())?;
            let mut reply = String::new();
            BufReader::new(socket).read_line(&mut reply)?;
            if reply.trim() == "+OK" { Ok(()) } else { Err(io::Error::other(reply)) }
        };
        limit().map_err(|error| format!("CONFIG SET maxmemory: {error}"))
    }

    /// Watches the commands from now on.
    pub fn monitor(&self) -> Result<Monitor, String> {
        Monitor::start(self.address()).map_err(|error| format!("MONITOR: {error}"))
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn info(&self) -> io::Result<String> {
        let mut socket = TcpStream::connect(self.address())?;
        socket.write_all(b"INFO commandstats\r\n")?;
        let mut reader = BufReader::new(socket);
        let mut length = String::new();
        reader.read_line(&mut length)?;
        let length = length.trim().strip_prefix('$').and_then(|digits| digits.parse().ok());
        let mut text = vec![0; length.ok_or_else(|| io::Error::other("an unexpected reply"))?];
        reader.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
