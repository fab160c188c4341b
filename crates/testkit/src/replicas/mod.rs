//! Replicas as they are deployed: a Redis server, nginx with plain round robin, and processes behind it, all on loopback.

mod monitor;
mod nginx;
mod redis_server;
mod replica_process;
mod server_args;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

use tsugite::Server;
use tsugite::server::SealKeys;
use tsugite_redis::Redis;

pub use monitor::Monitor;
pub use nginx::Nginx;
pub use redis_server::RedisServer;
use replica_process::ReplicaProcess;
pub use server_args::ServerArgs;

/// Replicas of one server behind nginx. All processes are stopped on drop.
#[derive(Debug)]
pub struct Replicas {
    // In the order in which they are stopped.
    nginx: Nginx,
    replicas: Vec<ReplicaProcess>,
    redis: RedisServer,
}

impl Replicas {
    /// Starts Redis, `count` processes and nginx. `command` makes the command of a process from the address of Redis. A
    /// process prints the address it listens on, or its URL, as the first line; [`KEYS_VARIABLE`] holds the keys.
    pub fn start(count: usize, command: impl Fn(&str) -> Command) -> Result<Self, String> {
        let redis = RedisServer::start()?;
        let replicas = (0..count).map(|_| ReplicaProcess::start(command(&redis.url())));
        let replicas = replicas.collect::<Result<Vec<_>, String>>()?;
        let addresses: Vec<SocketAddr> = replicas.iter().map(ReplicaProcess::address).collect();
        Ok(Self { nginx: Nginx::start(&addresses)?, replicas, redis })
    }

    /// The address of nginx.
    pub fn address(&self) -> SocketAddr {
        self.nginx.address()
    }

    /// The address of each replica, for tests that choose one.
    pub fn replica_addresses(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(ReplicaProcess::address).collect()
    }

    /// The Redis server that the replicas share.
    pub fn redis(&self) -> &RedisServer {
        &self.redis
    }

    /// Whether all replicas still run.
    pub fn are_running(&mut self) -> bool {
        self.replicas.iter_mut().all(ReplicaProcess::is_running)
    }
}

/// Makes a server a replica: its state is in the Redis server at `url`, behind a prefix.
pub fn replica(server: Server, url: &str, prefix: &str) -> Result<Server, String> {
    let store = Redis::at(url).map_err(|error| error.to_string())?.prefix(prefix);
    let keys = SealKeys::from_env(KEYS_VARIABLE).map_err(|error| error.to_string())?;
    Ok(server.store(store).seal_keys(keys))
}

/// The environment variable with the keys of the replicas.
pub const KEYS_VARIABLE: &str = "TSUGITE_SEAL_KEYS";

/// A temporary folder, removed on drop.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates an empty folder.
    pub fn create(name: &str) -> io::Result<Self> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("tsugite-{name}-{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
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
