//! The commands that a Redis server receives.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Watches the commands of all clients (`MONITOR`).
#[derive(Debug)]
pub struct Monitor {
    address: SocketAddr,
    lines: BufReader<TcpStream>,
}

impl Monitor {
    pub(super) fn start(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut monitor = Self { address, lines: BufReader::new(socket) };
        monitor.lines.get_mut().write_all(b"MONITOR\r\n")?;
        monitor.next_line()?;
        Ok(monitor)
    }

    /// Returns the names of the commands that requests caused so far, at least `least` of them: without those that a script
    /// runs, and without what replicas do on their own.
    pub fn commands(mut self, least: usize) -> Result<Vec<String>, String> {
        let mut commands = Vec::new();
        while commands.len() < least {
            let line = self.next_line().map_err(|error| format!("only {commands:?}: {error}"))?;
            commands.extend(request_command(&line));
        }
        // What comes before the marker has been counted.
        let marker = TcpStream::connect(self.address).and_then(|mut socket| {
            socket.write_all(b"ECHO end-of-count\r\n")?;
            BufReader::new(socket).read_line(&mut String::new())
        });
        marker.map_err(|error| format!("ECHO: {error}"))?;
        loop {
            let line = self.next_line().map_err(|error| format!("{commands:?}: {error}"))?;
            if line.contains("end-of-count") {
                return Ok(commands);
            }
            commands.extend(request_command(&line));
        }
    }

    fn next_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        match self.lines.read_until(b'\n', &mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(String::from_utf8_lossy(&line).into_owned()),
        }
    }
}

/// The name of a command that a request caused. A line is `+TIME [DATABASE CLIENT] "NAME" "ARGUMENT"…`.
fn request_command(line: &str) -> Option<String> {
    let (client, command) = line.split_once(" [")?.1.split_once("] ")?;
    let name = command.split('"').nth(1)?;
    // Leases, receivers, messages to all replicas, and the search for replicas that have died.
    let is_background = [":lease:", ":broadcast"].iter().any(|key| command.contains(key))
        || command.contains(":record:") && !command.contains(":record:session/");
    // Scripts are loaded once by each replica.
    let is_request = !client.ends_with(" lua") && !["XREAD", "SCRIPT"].contains(&name) && !is_background;
    is_request.then(|| name.to_owned())
}

const READ_TIMEOUT: Duration = Duration::from_secs(20);
