//! Replicas as they are deployed: a Redis server, nginx with plain round robin, and processes behind it, all on loopback.

mod nginx;
mod redis_server;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

pub use nginx::Nginx;
pub use redis_server::RedisServer;

/// A temporary folder, removed on drop.
#[derive(Debug)]
struct TempDir(PathBuf);

impl TempDir {
    fn create(name: &str) -> io::Result<Self> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("tsugite-{name}-{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port that was free a moment ago. Another process may take it first, so callers try again.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// How often a program is started before its failure counts: another process may have taken its port.
const START_ATTEMPTS: usize = 10;
