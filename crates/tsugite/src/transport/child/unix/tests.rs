//! Starting and ending child processes. Their descendants are watched through pidfds, which report when a process has
//! ended.

use std::fs;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::*;

#[tokio::test]
async fn child_that_ends_with_its_stdin_is_reaped_without_signal() {
    // LIFE-019, STDIO-018
    // Slow, but within the grace period.
    let script = "trap 'exit 9' TERM; echo ready; read line; sleep 0.2; exit 7";
    let SpawnedChild { child, stdin, stdout } = spawn(sh(script));
    assert_eq!(ChildStdout::new(stdout).read_line().await, "ready");
    let other = tokio::spawn({
        let child = child.clone();
        async move { child.wait().await }
    });
    with_timeout(child.close(stdin)).await;
    assert!(!has_proc_entry(child.id()));
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Code(7));
    assert_eq!(with_timeout(other).await.unwrap(), ChildExitStatus::Code(7));
}

#[tokio::test]
async fn child_that_ignores_end_of_stdin_gets_sigterm() {
    // LIFE-019, STDIO-018
    let script = "trap 'sleep 0.2; echo asked; exit 7' TERM; echo ready; sleep 300 & wait";
    // The default grace period, because a shell may take long to start.
    let SpawnedChild { child, stdin, stdout } = spawn(Command::from(["/bin/sh", "-c", script]));
    let mut output = ChildStdout::new(stdout);
    assert_eq!(output.read_line().await, "ready");
    with_timeout(child.close(stdin)).await;
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Code(7));
    assert_eq!(output.read_to_end().await, "asked\n");
}

#[tokio::test]
async fn child_that_ignores_sigterm_is_killed_with_its_descendants() {
    // LIFE-019, STDIO-018, L-08
    let SpawnedChild { child, stdin, stdout } = spawn(sh(IGNORES_SIGTERM).shutdown_grace(Duration::ZERO));
    let mut output = ChildStdout::new(stdout);
    let processes = output.read_processes(IGNORES_SIGTERM_COUNT).await;
    with_timeout(child.close(stdin)).await;
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Signal(9));
    assert_eq!(child.wait().await.to_string(), "was killed by signal 9");
    assert!(!has_proc_entry(child.id()));
    assert_all_exited(&processes);
    assert_eq!(output.read_to_end().await, "");
}

#[test]
fn dropped_child_is_killed_and_reaped_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (child, pipes, processes) = runtime.block_on(async {
        let SpawnedChild { child, stdin, stdout } = spawn(sh(IGNORES_SIGTERM));
        let mut output = ChildStdout::new(stdout);
        let processes = output.read_processes(IGNORES_SIGTERM_COUNT).await;
        (child, (stdin, output), processes)
    });
    drop((pipes, runtime));
    let id = child.id();
    drop(child);
    assert_all_exited(&processes);
    wait_reaped(id);
}

#[tokio::test]
async fn child_lives_until_its_last_clone_is_dropped() {
    let SpawnedChild { child, stdin, stdout } = spawn(sh("echo ready; read line; echo heard; read line"));
    let mut output = ChildStdout::new(stdout);
    assert_eq!(output.read_line().await, "ready");
    drop(child.clone());
    with_timeout(stdin.writable()).await.unwrap();
    stdin.try_write(b"still there?\n").unwrap();
    assert_eq!(output.read_line().await, "heard");
    let id = child.id();
    drop(child);
    assert_eq!(output.read_to_end().await, "");
    wait_reaped(id);
}

#[tokio::test]
async fn second_kill_sends_no_signal() {
    let SpawnedChild { child, stdin: _stdin, stdout } = spawn(sh(IGNORES_SIGTERM));
    let processes = ChildStdout::new(stdout).read_processes(IGNORES_SIGTERM_COUNT).await;
    child.kill();
    child.kill();
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Signal(9));
    assert_all_exited(&processes);
    with_timeout(child.0.reaper.wait_reaped()).await;
    assert!(!has_proc_entry(child.id()));
    // Its id may belong to another process by now.
    assert_eq!(child.0.reaper.with_process_tree(|_| ()).await, None);
    child.kill();
}

#[tokio::test]
async fn processes_started_during_the_kill_are_killed() {
    let script =
        format!("n=0; while [ $n -lt 400 ]; do n=$((n+1)); {START} sleep 300 & echo started; done; wait");
    let SpawnedChild { child, stdin: _stdin, stdout } = spawn(sh(&script));
    let mut output = ChildStdout::new(stdout);
    for _ in 0..20 {
        assert_eq!(output.read_line().await, "started");
    }
    drop(child);
    // Each of them holds the pipe open.
    output.read_to_end().await;
}

#[tokio::test]
async fn ended_child_keeps_its_id_until_descendants_are_killed() {
    let SpawnedChild { child, stdin: _stdin, stdout } = spawn(sh("sleep 300 & echo $!; exit 3"));
    let mut output = ChildStdout::new(stdout);
    let left = output.read_processes(1).await;
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Code(3));
    assert!(has_proc_entry(child.id()));
    assert!(!left[0].has_exited());
    with_timeout(child.close(())).await;
    assert!(!has_proc_entry(child.id()));
    assert_all_exited(&left);
}

#[tokio::test]
async fn descendants_of_an_ended_child_are_killed_on_drop() {
    let script = r#"sh -c "trap '' TERM; echo \$\$; sleep 300" & read line"#;
    let SpawnedChild { child, stdin, stdout } = spawn(sh(script));
    let mut output = ChildStdout::new(stdout);
    let left = output.read_processes(1).await;
    drop(stdin);
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Code(1));
    let id = child.id();
    drop(child);
    assert_all_exited(&left);
    wait_reaped(id);
}

#[tokio::test]
async fn descendants_of_an_ended_child_get_sigterm_first() {
    let server = "trap 'sleep 0.2; echo bye; exit' TERM; echo ready; sleep 300 & wait";
    let script = format!("sh -c \"{server}\" & read line; exit 0");
    let SpawnedChild { child, stdin, stdout } = spawn(sh(&script));
    let mut output = ChildStdout::new(stdout);
    assert_eq!(output.read_line().await, "ready");
    with_timeout(child.close(stdin)).await;
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Code(0));
    assert_eq!(output.read_to_end().await, "bye\n");
}

#[cfg(not(tsugite_no_proc))]
#[tokio::test]
async fn descendants_outside_the_group_are_ended_too() {
    // L-08
    let SpawnedChild { child, stdin, stdout } = spawn(sh("setsid sleep 300 & echo $!; read line; exit 0"));
    let mut output = ChildStdout::new(stdout);
    let left = output.read_processes(1).await;
    wait_for_own_session(&left[0], child.id());
    with_timeout(child.close(stdin)).await;
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Code(0));
    assert_all_exited(&left);
}

#[tokio::test]
async fn stderr_is_complete_once_the_exit_is_known() {
    for _ in 0..20 {
        let started = spawn(sh("echo 'no token' >&2; exit 3"));
        let ended = with_timeout(started.child.wait()).await;
        assert_eq!(started.child.stderr(), "no token\n");
        assert_eq!(ended.to_string(), "ended with code 3");
    }
}

#[tokio::test]
async fn child_that_logs_much_is_not_blocked() {
    // STDIO-007, L-05
    let script = "head -c 10000000 /dev/zero | tr '\\0' x >&2; echo last >&2; echo done; read line";
    let SpawnedChild { child, stdin: _stdin, stdout } = spawn(sh(script));
    assert_eq!(ChildStdout::new(stdout).read_line().await, "done");
    let text = child.stderr();
    let (mark, kept) = text.split_once('\n').unwrap();
    let omitted = 10_000_000 + "last\n".len() - (64 << 10);
    assert_eq!(mark, format!("[{omitted} bytes before this are not kept]"));
    assert_eq!(kept.len(), 64 << 10);
    assert!(kept.starts_with('x') && kept.ends_with("xlast\n"));
}

#[tokio::test]
async fn child_that_closes_stdout_keeps_running_and_logging() {
    let script = "exec 1>&-; read line; head -c 1000000 /dev/zero >&2; echo heard >&2; exit 5";
    let SpawnedChild { child, stdin, stdout } = spawn(sh(script));
    assert_eq!(ChildStdout::new(stdout).read_to_end().await, "");
    assert!(has_proc_entry(child.id()));
    with_timeout(stdin.writable()).await.unwrap();
    stdin.try_write(b"go\n").unwrap();
    assert_eq!(with_timeout(child.wait()).await, ChildExitStatus::Code(5));
    assert!(child.stderr().ends_with("heard\n"));
}

#[tokio::test]
async fn spawn_error_names_the_cause() {
    let folder = TempDir::new("cannot-start");
    let plain = folder.write("plain", "text", "644");
    let orphan = folder.write("orphan", "#! /no/such/interpreter -x\n", "755");
    let foreign = folder.write("foreign", "\x7fELF but not really", "755");
    let here = folder.0.to_str().unwrap().to_owned();
    let missing = format!("{here}/missing");
    let long = "x".repeat(3 << 20);
    let cases = [
        (Command::from("npxx").env("PATH", "/usr/bin:/bin"), "not found in PATH (/usr/bin, /bin)".into()),
        (
            Command::from("npxx").env("PATH", "/a:".repeat(17) + "/b"),
            "not found in PATH (/a, /a, /a and 15 more)".into(),
        ),
        (Command::from("plain").env("PATH", &here), format!("the one in {here:?} is not executable")),
        (Command::from(&*missing), "no such file".into()),
        (Command::from("./missing").current_dir(&here), "no such file".into()),
        (Command::from(&*here), "it is a folder".into()),
        (Command::from(&*plain), "it is not executable".into()),
        (Command::from(&*orphan), "its interpreter \"/no/such/interpreter\" does not exist".into()),
        (
            Command::from("./orphan").current_dir(&here),
            "its interpreter \"/no/such/interpreter\" does not exist".into(),
        ),
        (
            Command::from(&*foreign),
            "it is not a program for this machine; a script begins with a line such as #!/bin/sh".into(),
        ),
        (
            Command::from("true").current_dir(&missing),
            format!("the folder {missing:?} to start it in does not exist"),
        ),
        (
            Command::from("true").current_dir(&plain),
            format!("the folder {plain:?} to start it in is not a folder"),
        ),
        (Command::from("true").arg("x").arg("secret\0"), "argument 2 has a NUL byte in it".into()),
        (Command::from("tr\0ue"), "its name has a NUL byte in it".into()),
        (
            Command::from("true").env("KEY", "secret\0"),
            "the environment variable \"KEY\" has a NUL byte in it".into(),
        ),
        (
            Command::from("true").env("KEY=secret", ""),
            "the environment variable \"KEY\" has a = in its name".into(),
        ),
        (Command::from("true").env("", "secret"), "a variable of its environment has no name".into()),
        (Command::from("true").arg(long), "its arguments and its environment are too long".into()),
        (Command::from(Vec::<String>::new()), "no program is named".into()),
    ];
    for (command, why) in cases {
        let program = command.program.to_str().unwrap().to_owned();
        let message = spawn_error(&command);
        assert_eq!(message, format!("cannot start {program:?}: {why}"));
    }
    let message = spawn_error(&Command::from("npxx --token=secret").env("PATH", "/bin"));
    assert_eq!(
        message,
        "cannot start \"npxx …\": not found in PATH (/bin); arguments are given apart from the program"
    );
}

#[tokio::test]
async fn relative_program_is_searched_in_the_working_directory() {
    let folder = TempDir::new("relative");
    folder.write("hello", "#!/bin/sh\necho hello from $0\n", "755");
    let usual = std::env::var("PATH").unwrap();
    for command in [Command::from("./hello"), Command::from("hello").env("PATH", format!(":{usual}"))] {
        let started = spawn(command.current_dir(&folder.0));
        assert_eq!(ChildStdout::new(started.stdout).read_to_end().await, "hello from ./hello\n");
    }
}

/// Prints the ids of a child, of its grandchild in its group, of one that left the group, and of a descendant of that in a
/// third group. All of them ignore SIGTERM and the end of stdin.
#[cfg(not(tsugite_no_proc))]
const IGNORES_SIGTERM: &str = r#"
trap '' TERM
echo $$
sh -c 'echo $$; sleep 300' &
setsid sh -c 'echo $$; setsid sh -c "echo \$\$; sleep 300" & sleep 300' &
sleep 300
"#;
#[cfg(not(tsugite_no_proc))]
const IGNORES_SIGTERM_COUNT: usize = 4;

/// The same without those that leave the group, which nothing finds on systems without a process table.
#[cfg(tsugite_no_proc)]
const IGNORES_SIGTERM: &str = r#"
trap '' TERM
echo $$
sh -c 'echo $$; sh -c "echo \$\$; sleep 300" & sleep 300' &
sleep 300
"#;
#[cfg(tsugite_no_proc)]
const IGNORES_SIGTERM_COUNT: usize = 3;

/// Starts a process: in a session of its own if there is a process table to find it in, otherwise in the group.
#[cfg(not(tsugite_no_proc))]
const START: &str = "setsid";
#[cfg(tsugite_no_proc)]
const START: &str = "exec";

/// A shell with a long grace period.
fn sh(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script]).shutdown_grace(TEST_TIMEOUT)
}

fn spawn(command: Command) -> SpawnedChild {
    command.spawn().unwrap()
}

fn spawn_error(command: &Command) -> String {
    match command.spawn() {
        Ok(_) => panic!("{command:?} was started"),
        Err(error) => error.to_string(),
    }
}

/// Fails the test instead of waiting forever.
async fn with_timeout<T>(work: impl Future<Output = T>) -> T {
    timeout(TEST_TIMEOUT, work).await.expect("it takes too long")
}

fn has_proc_entry(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

/// Waits until a child is reaped.
fn wait_reaped(id: u32) {
    let end = Instant::now() + TEST_TIMEOUT;
    while has_proc_entry(id) {
        assert!(Instant::now() < end, "{id} is a zombie");
        std::thread::yield_now();
    }
}

/// Waits until a process has started its own session.
fn wait_for_own_session(process: &ForeignProcess, group: u32) {
    let end = Instant::now() + TEST_TIMEOUT;
    let stat = || fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap();
    while stat().split_whitespace().nth(4).unwrap() == group.to_string() {
        assert!(Instant::now() < end, "it did not leave");
        std::thread::yield_now();
    }
}

/// The stdout of a child.
struct ChildStdout {
    pipe: pipe::Receiver,
    buffer: Vec<u8>,
}

impl ChildStdout {
    fn new(pipe: pipe::Receiver) -> Self {
        Self { pipe, buffer: Vec::new() }
    }

    async fn read_line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.drain(..=end).collect::<Vec<_>>();
                return String::from_utf8(line).unwrap().trim_end().to_owned();
            }
            assert!(self.fill().await, "it ended before its line");
        }
    }

    /// Reads until all writers have closed the pipe.
    async fn read_to_end(&mut self) -> String {
        while self.fill().await {}
        String::from_utf8(self.buffer.split_off(0)).unwrap()
    }

    /// Reads the ids of the next `count` processes.
    async fn read_processes(&mut self, count: usize) -> Vec<ForeignProcess> {
        let mut found = Vec::new();
        for _ in 0..count {
            let pid = Pid::from_raw(self.read_line().await.parse().unwrap()).unwrap();
            found.push(ForeignProcess { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).unwrap() });
        }
        found
    }

    async fn fill(&mut self) -> bool {
        loop {
            with_timeout(self.pipe.readable()).await.unwrap();
            let mut chunk = [0; 4096];
            match self.pipe.try_read(&mut chunk) {
                Ok(length) => {
                    self.buffer.extend(&chunk[..length]);
                    return length > 0;
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }
}

/// A process that is not our child, watched through a pidfd.
struct ForeignProcess {
    pid: Pid,
    pidfd: OwnedFd,
}

impl ForeignProcess {
    fn has_exited(&self) -> bool {
        self.exits_within(Duration::ZERO)
    }

    fn exits_within(&self, time: Duration) -> bool {
        let mut descriptors = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut descriptors, Some(&time.try_into().unwrap())).unwrap() == 1
    }
}

/// Waits until all of them have ended.
fn assert_all_exited(processes: &[ForeignProcess]) {
    for process in processes {
        assert!(process.exits_within(TEST_TIMEOUT), "{} still runs", process.pid);
    }
}

/// A temporary directory for one test.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tsugite-child-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file, in another process: a child that another test starts meanwhile could inherit our descriptor, and a file
    /// that is open for writing cannot be executed (ETXTBSY).
    fn write(&self, name: &str, text: &str, mode: &str) -> String {
        let path = self.0.join(name).into_os_string().into_string().unwrap();
        let script = "printf %s \"$1\" > \"$2\" && chmod \"$3\" \"$2\"";
        let written =
            std::process::Command::new("/bin/sh").args(["-c", script, "sh", text, &path, mode]).status();
        assert!(written.unwrap().success());
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Longer than any machine needs, so that only a bug takes this long.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
