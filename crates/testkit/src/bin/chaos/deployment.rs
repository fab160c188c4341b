//! The processes of a run: Redis, replicas with a proxy each between them and Redis, and nginx.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use std::{env, fs, io};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tsugite_testkit::replicas::{KEYS_VARIABLE, Nginx};

use crate::fault_log::{Effect, FaultLog};
use crate::redis_proxy::RedisProxy;
use crate::schedule::{Fault, FaultKind, Target};

/// Everything that runs. It is stopped on drop.
pub(crate) struct Deployment {
    nginx: Nginx,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) redis: Redis,
    faults: FaultLog,
}

impl Deployment {
    /// Starts everything. Files are in `folder`.
    pub(crate) async fn start(count: usize, folder: &Path, faults: FaultLog) -> Result<Self, String> {
        let redis = Redis::start(folder).await?;
        let mut replicas = Vec::new();
        for number in 0..count {
            replicas.push(Replica::start(number, redis.address, folder).await?);
        }
        let addresses: Vec<SocketAddr> = replicas.iter().map(|replica| replica.address).collect();
        Ok(Self { nginx: Nginx::start(&addresses)?, replicas, redis, faults })
    }

    /// The address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.nginx.address()
    }

    /// Causes a fault and mends it again.
    pub(crate) async fn apply(&self, fault: &Fault) -> Result<(), String> {
        match fault.target {
            Target::Redis => self.restart_redis(fault).await,
            Target::Replica(number) => match self.replicas.get(number) {
                Some(replica) => self.apply_to_replica(replica, fault).await,
                None => Err(format!("there is no replica {number}")),
            },
        }
    }

    async fn restart_redis(&self, fault: &Fault) -> Result<(), String> {
        let loses = fault.kind == FaultKind::EmptyRedis;
        let down = self.faults.begin(Effect::RedisDown);
        let lost = loses.then(|| self.faults.begin(Effect::DataLost));
        let result = self.redis.restart(loses, fault.lasts).await;
        self.faults.end(down);
        lost.into_iter().for_each(|lost| self.faults.end(lost));
        result
    }

    async fn apply_to_replica(&self, replica: &Replica, fault: &Fault) -> Result<(), String> {
        let effect = match fault.kind {
            FaultKind::Kill | FaultKind::Terminate => Effect::ReplicaDown,
            FaultKind::Freeze => Effect::ReplicaFrozen,
            _ => Effect::LinkDisturbed,
        };
        let number = self.faults.begin(effect);
        let stopping =
            (fault.kind == FaultKind::Terminate).then(|| self.faults.begin(Effect::ReplicaStopping));
        let proxy = &replica.proxy;
        let result = match fault.kind {
            FaultKind::Kill => replica.kill_and_start(fault.lasts).await,
            FaultKind::Terminate => replica.terminate_and_start(fault.lasts).await,
            FaultKind::Freeze => replica.freeze(fault.lasts).await,
            FaultKind::Delay(late) => {
                proxy.delay(late);
                tokio::time::sleep(fault.lasts).await;
                proxy.delay(Duration::ZERO);
                Ok(())
            }
            FaultKind::Stall => {
                proxy.stall(true);
                tokio::time::sleep(fault.lasts).await;
                proxy.stall(false);
                Ok(())
            }
            FaultKind::Cut => {
                proxy.cut();
                Ok(())
            }
            FaultKind::HalfCloseToReplica => {
                proxy.half_close_to_replica();
                Ok(())
            }
            FaultKind::HalfCloseToRedis => {
                proxy.half_close_to_redis();
                Ok(())
            }
            FaultKind::RestartRedis | FaultKind::EmptyRedis => Err("Redis is no replica".to_owned()),
        };
        self.faults.end(number);
        stopping.into_iter().for_each(|stopping| self.faults.end(stopping));
        result
    }
}

/// A replica that is started again at the same address.
pub(crate) struct Replica {
    number: usize,
    address: SocketAddr,
    proxy: RedisProxy,
    folder: PathBuf,
    process: Mutex<Child>,
}

impl Replica {
    async fn start(number: usize, redis: SocketAddr, folder: &Path) -> Result<Self, String> {
        let proxy =
            RedisProxy::start(redis).await.map_err(|error| format!("a proxy does not start: {error}"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, unused_port()?));
        let process = start_replica(number, address, &proxy.url(), folder).await?;
        Ok(Self { number, address, proxy, folder: folder.to_owned(), process: Mutex::new(process) })
    }

    /// The id of the process.
    pub(crate) async fn id(&self) -> Result<u32, String> {
        self.process.lock().await.id().ok_or_else(|| format!("replica {} has exited", self.number))
    }

    async fn kill_and_start(&self, pause: Duration) -> Result<(), String> {
        let mut process = self.process.lock().await;
        process.kill().await.map_err(|error| format!("replica {}: {error}", self.number))?;
        tokio::time::sleep(pause).await;
        *process = start_replica(self.number, self.address, &self.proxy.url(), &self.folder).await?;
        Ok(())
    }

    async fn terminate_and_start(&self, pause: Duration) -> Result<(), String> {
        let id = self.id().await?;
        let mut process = self.process.lock().await;
        signal("TERM", id).await?;
        match tokio::time::timeout(STOP_TIMEOUT, process.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(ended) => return Err(format!("replica {} ended with {ended:?} after SIGTERM", self.number)),
            Err(_) => return Err(format!("replica {} does not end after SIGTERM", self.number)),
        }
        tokio::time::sleep(pause).await;
        *process = start_replica(self.number, self.address, &self.proxy.url(), &self.folder).await?;
        Ok(())
    }

    async fn freeze(&self, time: Duration) -> Result<(), String> {
        let id = self.id().await?;
        signal("STOP", id).await?;
        tokio::time::sleep(time).await;
        signal("CONT", id).await
    }
}

async fn start_replica(
    number: usize,
    address: SocketAddr,
    redis: &str,
    folder: &Path,
) -> Result<Child, String> {
    let failed = |error: io::Error| format!("replica {number} does not start: {error}");
    let program = env::current_exe().map_err(failed)?;
    let errors = folder.join(format!("replica-{number}.txt"));
    let errors = fs::OpenOptions::new().append(true).create(true).open(errors).map_err(failed)?;
    let mut child = Command::new(program)
        .args(["replica", &address.to_string(), redis])
        .arg(folder.join(MARKS))
        .env(KEYS_VARIABLE, "07".repeat(32))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let output = child.stdout.take().ok_or_else(|| format!("replica {number} has no output"))?;
    let mut line = String::new();
    let read = tokio::time::timeout(START_TIMEOUT, BufReader::new(output).read_line(&mut line)).await;
    match read {
        Ok(Ok(length)) if length > 0 => Ok(child),
        _ => Err(format!("replica {number} does not say where it listens")),
    }
}

/// Sends a signal to a process that we started.
async fn signal(name: &str, id: u32) -> Result<(), String> {
    // The shell has `kill` built in.
    let sent = Command::new("sh").args(["-c", &format!("kill -s {name} {id}")]).status().await;
    match sent {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("SIG{name} to {id}: {other:?}")),
    }
}

/// A Redis server that is started again at the same port, with its data or without.
pub(crate) struct Redis {
    pub(crate) address: SocketAddr,
    folder: PathBuf,
    process: Mutex<Child>,
}

impl Redis {
    async fn start(folder: &Path) -> Result<Self, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, unused_port()?));
        let process = start_redis(address, folder).await?;
        Ok(Self { address, folder: folder.to_owned(), process: Mutex::new(process) })
    }

    async fn restart(&self, loses_data: bool, pause: Duration) -> Result<(), String> {
        let mut process = self.process.lock().await;
        process.kill().await.map_err(|error| format!("Redis: {error}"))?;
        if loses_data {
            // Kept for an analysis of failures.
            let lost = (1..).map(|number| self.folder.join(format!("{DATA}-lost-{number}")));
            let lost = lost.take(10_000).find(|lost| !lost.exists()).unwrap_or_default();
            let renamed = fs::rename(self.folder.join(DATA), lost);
            renamed.map_err(|error| format!("the data of Redis: {error}"))?;
        }
        tokio::time::sleep(pause).await;
        *process = start_redis(self.address, &self.folder).await?;
        Ok(())
    }

    /// Sends a command and returns the reply up to its end, as Redis writes it.
    pub(crate) async fn command(&self, words: &[&str]) -> Result<String, String> {
        redis_command(self.address, words).await.map_err(|error| format!("{}: {error}", words.join(" ")))
    }
}

async fn start_redis(address: SocketAddr, folder: &Path) -> Result<Child, String> {
    let program = env::var("TSUGITE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    // Redis writes the file before it replies, so a kill loses nothing that was acknowledged.
    let child = Command::new(&program)
        .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args([
            "--appendonly",
            "yes",
            "--appendfsync",
            "no",
            "--appenddirname",
            DATA,
            "--logfile",
            "redis.txt",
        ])
        .arg("--dir")
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let ready = async {
        while !redis_command(address, &["PING"]).await.is_ok_and(|reply| reply.starts_with("+PONG")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(START_TIMEOUT, ready).await.map_err(|_| format!("{program} does not start"))?;
    Ok(child)
}

async fn redis_command(address: SocketAddr, words: &[&str]) -> io::Result<String> {
    let mut socket = TcpStream::connect(address).await?;
    let mut command = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| command.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    // The reply of QUIT follows, and the end of the connection.
    command.push_str("*1\r\n$4\r\nQUIT\r\n");
    socket.write_all(command.as_bytes()).await?;
    let mut reply = Vec::new();
    socket.read_to_end(&mut reply).await?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

/// A port that no process listens on, below those that the system gives to outgoing connections: one of those could take it
/// while its server is down. Several runs at the same time begin at different ports.
fn unused_port() -> Result<u16, String> {
    static LAST: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id().wrapping_mul(64) % 11_000).unwrap_or_default();
    for _ in 0..1_000 {
        let port = 20_000 + (first + LAST.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".to_owned())
}

/// The file to which replicas append, in the folder of the run.
pub(crate) const MARKS: &str = "marks.txt";

/// The folder with the data of Redis.
const DATA: &str = "appendonly";

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a replica may take to stop: its time of grace, and generous slack.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
