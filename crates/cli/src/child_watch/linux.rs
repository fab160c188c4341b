//! A watcher process, which ends the servers that this program started if the program is killed.
//!
//! The watcher is this program again, with a pipe as its standard input. It reads a line for each server: its process id,
//! which is also the id of its process group, and its start time. The pipe ends with this program, however that ends.
//! Then the servers that still run get the same treatment as from the library: time to end by themselves, SIGTERM, time
//! again, and SIGKILL.
//!
//! Ids are reused. The start time shows whether an id still belongs to the server when the pipe ends; after that the
//! watcher looks at its groups much more often than ids come around.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// Runs the watcher if this process was started as one.
pub(crate) fn run_if_requested() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WATCHER_ARGUMENT || arguments.next().is_some() {
        return None;
    }
    run(io::stdin().lock());
    Some(ExitCode::SUCCESS)
}

/// Tells the watcher about a server that was started, and starts the watcher before the first one.
pub(crate) fn register(pid: u32) {
    static WATCHER: Mutex<Option<ChildStdin>> = Mutex::new(None);
    let told = i32::try_from(pid).ok().and_then(Pid::from_raw).and_then(Server::find).map(|server| {
        let mut watcher = WATCHER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if watcher.is_none() {
            *watcher = Some(start()?);
        }
        let written = watcher.as_mut().map_or(Ok(()), |pipe| pipe.write_all(server.to_line().as_bytes()));
        if written.is_err() {
            // The watcher is gone. The next server gets a new one.
            *watcher = None;
        }
        written
    });
    if let Some(Err(error)) = told {
        tracing::debug!(%error, pid, "a server is not watched");
    }
}

/// Starts the watcher, in a group of its own, so that Ctrl-C does not end it.
fn start() -> io::Result<ChildStdin> {
    // Finds the program also if its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tsugite").arg(WATCHER_ARGUMENT).env_clear().current_dir("/").process_group(0);
    let mut watcher = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    watcher.stdin.take().ok_or_else(|| io::Error::other("the watcher has no pipe"))
}

/// Reads servers until the pipe ends, then ends those that still run.
fn run(pipe: impl BufRead) {
    let mut servers: Vec<Server> = Vec::new();
    for line in pipe.lines().map_while(Result::ok) {
        servers.retain(Server::is_same);
        servers.extend(Server::from_line(&line));
    }
    servers.retain(Server::is_same);
    wait_for_end(&mut servers);
    signal_all(&servers, Signal::TERM);
    wait_for_end(&mut servers);
    signal_all(&servers, Signal::KILL);
}

/// Waits until the groups of all servers are empty, but not for ever. Forgets those that are.
fn wait_for_end(servers: &mut Vec<Server>) {
    let begun = Instant::now();
    loop {
        servers.retain(|server| test_kill_process_group(server.pid).is_ok());
        if servers.is_empty() || begun.elapsed() >= SHUTDOWN_GRACE {
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn signal_all(servers: &[Server], signal: Signal) {
    for server in servers {
        // Fails if no process is left, or if we may not signal it, as with `sudo`.
        let _ = kill_process_group(server.pid, signal);
    }
}

/// A server that was started, the leader of its process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Server {
    pid: Pid,
    /// In clock ticks since boot.
    start_time: u64,
}

impl Server {
    /// The process that has this id now, also if it is a zombie.
    fn find(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, start_time: start_time(&stat)? })
    }

    /// Whether the id still belongs to this process.
    fn is_same(&self) -> bool {
        Self::find(self.pid) == Some(*self)
    }

    fn to_line(self) -> String {
        format!("{} {}\n", self.pid, self.start_time)
    }

    fn from_line(line: &str) -> Option<Self> {
        let (pid, start_time) = line.split_once(' ')?;
        // The group 1 is that of init, and a signal to it could reach every process.
        let pid = Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 1)?)?;
        Some(Self { pid, start_time: start_time.parse().ok()? })
    }
}

/// Reads the start time of a process from its line in `/proc/<pid>/stat`.
fn start_time(stat: &[u8]) -> Option<u64> {
    // The name is in parentheses and may contain any byte; only numbers follow the last parenthesis.
    let (_, rest) = stat.split_at_checked(stat.iter().rposition(|byte| *byte == b')')? + 1)?;
    str::from_utf8(rest).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The only argument of the watcher.
const WATCHER_ARGUMENT: &str = "__watch-children";
/// How long a server may take to end by itself, and again after SIGTERM.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_a_process_and_its_start_time() {
        let own = Server::find(rustix::process::getpid()).unwrap();
        assert_eq!(Server::from_line(own.to_line().trim_end()), Some(own));
        assert!(own.is_same());
        for line in ["", "1 5", "0 5", "-7 5", "7", "7 x", "x 7"] {
            assert_eq!(Server::from_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn process_with_another_start_time_is_not_ended() {
        let mut sleeper = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let server = Server::find(Pid::from_child(&sleeper)).unwrap();
        let other = Server { start_time: server.start_time + 1, ..server };
        run(other.to_line().as_bytes());
        assert_eq!(sleeper.try_wait().unwrap(), None);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn name_of_a_process_may_contain_anything() {
        let stat = b"7 (a) 1 2 (b)) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(start_time(stat), Some(4711));
    }
}
