//! A `redis-server` on loopback, killed on drop.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::BoxError;

/// What Redis writes to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    None,
    /// `appendonly yes` with `appendfsync everysec`.
    EverySecond,
}

pub(super) struct RedisServer {
    child: Child,
    port: u16,
}

impl RedisServer {
    pub(super) fn start(persistence: Persistence, folder: &Path) -> Result<Self, BoxError> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = folder.join(format!("redis-{port}"));
        std::fs::create_dir_all(&folder)?;
        let program = std::env::var("TSUGITE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let append = if persistence == Persistence::None { "no" } else { "yes" };
        let mut command = Command::new(&program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--logfile", ""]);
        command.args(["--appendonly", append, "--appendfsync", "everysec", "--dir"]).arg(&folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| {
            format!("cannot run {program}: {error}; install Redis 7 (Debian: `apt-get install redis-server` as root)")
        })?;
        let output = child.stdout.take().ok_or("no pipe to Redis")?;
        let server = Self { child, port };
        let mut lines = BufReader::new(output).lines();
        if !lines.by_ref().map_while(Result::ok).any(|line| line.contains("Ready to accept")) {
            return Err(format!("{program} ended before it was ready").into());
        }
        // The pipe must not fill. The thread ends with the server.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
