//! A Redis server for one test.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, process, thread};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use tsugite_redis::Redis;
use tsugite_store::{Committed, Precondition, Store, StoreError, Write};

pub(crate) const TTL: Duration = Duration::from_secs(60);

/// A server on loopback that keeps nothing on disk. It is stopped when it is dropped.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with further options.
    pub(crate) fn with(options: &[&str]) -> Self {
        // Another process may take the port before Redis does.
        (0..20).find_map(|_| Self::at_port(free_port(), options)).expect("no Redis server starts")
    }

    /// Starts a server on a port; `None` if it is taken.
    pub(crate) fn at_port(port: u16, options: &[&str]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("tsugite-redis-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = env::var("TSUGITE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let port_option = if options.contains(&"--tls-port") { "0".to_owned() } else { port.to_string() };
        let child = Command::new(&program)
            .args(["--port", &port_option, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--dir", folder.to_str().unwrap(), "--logfile", ""])
            .args(options.iter().map(|option| option.replace("PORT", &port.to_string())))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.unwrap_or_else(|error| {
            panic!(
                "cannot run {program}: {error}; install Redis 7.0 or newer (Debian: `apt-get install redis-server` as \
                 root), or let TSUGITE_REDIS_SERVER name the program"
            )
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Ready to accept"));
        let server = Self { child, folder, port };
        // The pipe must not fill. The thread ends with the server.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        is_ready.then_some(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn store(&self) -> Redis {
        Redis::at(&self.url()).unwrap()
    }

    /// Stops the server and starts it again without its data.
    pub(crate) fn restart(self) -> Self {
        let port = self.port;
        drop(self);
        (0..20).find_map(|_| Self::at_port(port, &[])).expect("the port stays taken")
    }

    /// Freezes the process: connections stay open and nothing is answered.
    pub(crate) fn freeze(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    pub(crate) fn unfreeze(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Waits until a client waits for messages.
    pub(crate) async fn until_a_client_waits(&self) {
        let waits = |clients: String| clients.contains("blocked_clients:1\r\n").then_some(());
        eventually(|| async { waits(self.run(&["INFO", "clients"])) }).await;
    }

    /// Runs a command beside the store.
    pub(crate) fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = redis::Client::open(self.url()).unwrap().get_connection().unwrap();
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.query(&mut connection).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A write of one field.
pub(crate) fn set<'a>(key: &'a str, field: &'a str, value: &'static str) -> Write<'a> {
    let value = Bytes::from_static(value.as_bytes());
    Write::Set { key, field, value, precondition: Precondition::None, ttl: TTL }
}

/// Commits and expects no conflict.
pub(crate) async fn commit(store: &Redis, writes: &[Write<'_>]) -> Result<Committed, StoreError> {
    Ok(store.commit(writes).await?.expect("no conflict"))
}

/// Asks until there is an answer, for at most 20 seconds.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    let asked = async {
        loop {
            pace.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    within(asked).await
}

/// Waits for at most 20 seconds.
pub(crate) async fn within<T>(future: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("an end within 20 s")
}
