//! Children that behave, and children that do not. What they started is watched from outside, through descriptors that
//! say when a process has ended.

use std::ffi::OsString;
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
async fn a_child_that_ends_with_its_stdin_is_not_killed_and_leaves_no_zombie() {
    // It is slow, but in time.
    let script = "trap 'exit 9' TERM; echo ready; read line; sleep 0.2; exit 7";
    let Started { child, stdin, stdout } = start(sh(script));
    assert_eq!(Output::new(stdout).line().await, "ready");
    let other = tokio::spawn({
        let child = child.clone();
        async move { child.ended().await }
    });
    within(child.close(stdin)).await;
    assert!(!is_in_table(child.id()));
    assert_eq!(within(child.ended()).await, Ended::Code(7));
    assert_eq!(within(other).await.unwrap(), Ended::Code(7));
}

#[tokio::test]
async fn a_child_that_ignores_the_end_of_stdin_is_asked_to_end() {
    let script = "trap 'sleep 0.2; echo asked; exit 7' TERM; echo ready; sleep 300 & wait";
    // Nobody can say how long a shell takes, so this is the usual time, not a short one.
    let Started { child, stdin, stdout } = start(Command::from(["/bin/sh", "-c", script]));
    let mut output = Output::new(stdout);
    assert_eq!(output.line().await, "ready");
    within(child.close(stdin)).await;
    assert_eq!(within(child.ended()).await, Ended::Code(7));
    assert_eq!(output.rest().await, "asked\n");
}

#[tokio::test]
async fn a_child_that_ignores_every_request_is_killed_with_everything_it_started() {
    let Started { child, stdin, stdout } = start(sh(STUBBORN).grace(Duration::ZERO));
    let mut output = Output::new(stdout);
    let family = output.outsiders(4).await;
    within(child.close(stdin)).await;
    assert_eq!(within(child.ended()).await, Ended::Signal(9));
    assert_eq!(child.ended().await.to_string(), "was killed by signal 9");
    assert!(!is_in_table(child.id()));
    all_died(&family);
    assert_eq!(output.rest().await, "");
}

#[test]
fn a_dropped_child_is_killed_with_everything_it_started_and_reaped_though_there_is_no_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (child, pipes, family) = runtime.block_on(async {
        let Started { child, stdin, stdout } = start(sh(STUBBORN));
        let mut output = Output::new(stdout);
        let family = output.outsiders(4).await;
        (child, (stdin, output), family)
    });
    drop((pipes, runtime));
    let id = child.id();
    drop(child);
    all_died(&family);
    reaped(id);
}

#[tokio::test]
async fn a_child_lives_until_its_last_owner_is_dropped() {
    let Started { child, stdin, stdout } = start(sh("echo ready; read line; echo heard; read line"));
    let mut output = Output::new(stdout);
    assert_eq!(output.line().await, "ready");
    drop(child.clone());
    within(stdin.writable()).await.unwrap();
    stdin.try_write(b"still there?\n").unwrap();
    assert_eq!(output.line().await, "heard");
    let id = child.id();
    drop(child);
    assert_eq!(output.rest().await, "");
    reaped(id);
}

#[tokio::test]
async fn a_kill_works_at_once_and_a_second_one_finds_nobody() {
    let Started { child, stdin: _stdin, stdout } = start(sh(STUBBORN));
    let family = Output::new(stdout).outsiders(4).await;
    child.kill();
    child.kill();
    assert_eq!(within(child.ended()).await, Ended::Signal(9));
    all_died(&family);
    within(child.0.watch.reaped()).await;
    assert!(!is_in_table(child.id()));
    // Its number may be a stranger's by now.
    assert_eq!(child.0.watch.with_family(|_| ()).await, None);
    child.kill();
}

#[tokio::test]
async fn nothing_escapes_by_starting_others_while_it_is_killed() {
    let script = "n=0; while [ $n -lt 400 ]; do n=$((n+1)); setsid sleep 300 & echo started; done; wait";
    let Started { child, stdin: _stdin, stdout } = start(sh(script));
    let mut output = Output::new(stdout);
    for _ in 0..20 {
        assert_eq!(output.line().await, "started");
    }
    drop(child);
    // Each of them holds the pipe.
    output.rest().await;
}

#[tokio::test]
async fn an_ended_child_keeps_its_number_until_what_it_left_behind_is_killed() {
    let Started { child, stdin: _stdin, stdout } = start(sh("sleep 300 & echo $!; exit 3"));
    let mut output = Output::new(stdout);
    let left = output.outsiders(1).await;
    assert_eq!(within(child.ended()).await, Ended::Code(3));
    assert!(is_in_table(child.id()));
    assert!(!left[0].has_died());
    within(child.close(())).await;
    assert!(!is_in_table(child.id()));
    all_died(&left);
}

#[tokio::test]
async fn what_an_ended_child_left_behind_is_killed_when_it_is_dropped() {
    let script = r#"sh -c "trap '' TERM; echo \$\$; sleep 300" & read line"#;
    let Started { child, stdin, stdout } = start(sh(script));
    let mut output = Output::new(stdout);
    let left = output.outsiders(1).await;
    drop(stdin);
    assert_eq!(within(child.ended()).await, Ended::Code(1));
    let id = child.id();
    drop(child);
    all_died(&left);
    reaped(id);
}

#[tokio::test]
async fn what_an_ended_child_left_behind_may_end_politely() {
    let server = "trap 'sleep 0.2; echo bye; exit' TERM; echo ready; sleep 300 & wait";
    let script = format!("sh -c \"{server}\" & read line; exit 0");
    let Started { child, stdin, stdout } = start(sh(&script));
    let mut output = Output::new(stdout);
    assert_eq!(output.line().await, "ready");
    within(child.close(stdin)).await;
    assert_eq!(within(child.ended()).await, Ended::Code(0));
    assert_eq!(output.rest().await, "bye\n");
}

#[tokio::test]
async fn who_left_the_group_of_a_child_that_ends_by_itself_is_ended_too() {
    let Started { child, stdin, stdout } = start(sh("setsid sleep 300 & echo $!; read line; exit 0"));
    let mut output = Output::new(stdout);
    let left = output.outsiders(1).await;
    left_the_group(&left[0], child.id());
    within(child.close(stdin)).await;
    assert_eq!(within(child.ended()).await, Ended::Code(0));
    all_died(&left);
}

#[tokio::test]
async fn what_a_child_says_before_it_ends_is_there_when_its_end_is_known() {
    for _ in 0..20 {
        let started = start(sh("echo 'no token' >&2; exit 3"));
        let ended = within(started.child.ended()).await;
        assert_eq!(started.child.stderr(), "no token\n");
        assert_eq!(ended.to_string(), "ended with code 3");
    }
}

#[tokio::test]
async fn a_child_that_logs_much_is_not_held_up_and_its_last_words_are_kept() {
    let script = "head -c 10000000 /dev/zero | tr '\\0' x >&2; echo last >&2; echo done; read line";
    let Started { child, stdin: _stdin, stdout } = start(sh(script));
    assert_eq!(Output::new(stdout).line().await, "done");
    let text = child.stderr();
    let (mark, kept) = text.split_once('\n').unwrap();
    let left_out = 10_000_000 + "last\n".len() - (64 << 10);
    assert_eq!(mark, format!("[{left_out} bytes before this are not kept]"));
    assert_eq!(kept.len(), 64 << 10);
    assert!(kept.starts_with('x') && kept.ends_with("xlast\n"));
}

#[tokio::test]
async fn a_child_that_closes_its_stdout_lives_and_is_still_heard_on_stderr() {
    let script = "exec 1>&-; read line; head -c 1000000 /dev/zero >&2; echo heard >&2; exit 5";
    let Started { child, stdin, stdout } = start(sh(script));
    assert_eq!(Output::new(stdout).rest().await, "");
    assert!(is_in_table(child.id()));
    within(stdin.writable()).await.unwrap();
    stdin.try_write(b"go\n").unwrap();
    assert_eq!(within(child.ended()).await, Ended::Code(5));
    assert!(child.stderr().ends_with("heard\n"));
}

#[tokio::test]
async fn what_is_not_kept_is_not_there() {
    let started = start(sh("echo noise >&2").stderr(Stderr::Discard));
    within(started.child.ended()).await;
    assert_eq!(started.child.stderr(), "");
}

#[tokio::test]
async fn a_child_sees_of_our_environment_only_what_it_may() {
    // Cargo sets it, and nobody passes it on by accident.
    let name = "CARGO_PKG_NAME";
    assert!(std::env::var_os(name).is_some());
    let lines = |command: Command| async move {
        let started = start(command);
        Output::new(started.stdout).rest().await
    };
    let usual = lines(Command::new("env").env("GIVEN", "1")).await;
    assert!(usual.contains("GIVEN=1\n") && usual.contains("PATH=") && !usual.contains(name), "{usual}");
    assert!(lines(Command::new("env").pass(name)).await.contains("CARGO_PKG_NAME=tsugite\n"));
    assert!(lines(Command::new("env").inherit_env()).await.contains("CARGO_PKG_NAME=tsugite\n"));
    let replaced = lines(Command::new("env").inherit_env().env(name, "other")).await;
    assert!(replaced.contains("CARGO_PKG_NAME=other\n") && !replaced.contains("CARGO_PKG_NAME=tsugite"));
}

#[test]
fn exported_functions_are_not_passed_on() {
    let ours = || {
        [("PATH", "/bin"), ("LC_TIME", "C"), ("HOME", "() { :;}; echo"), ("TOKEN", "t"), ("F", "() { :; }")]
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
    };
    let names = |command: Command| -> Vec<_> {
        command.environment(ours()).into_keys().map(|name| name.into_string().unwrap()).collect()
    };
    assert_eq!(names(Command::new("x")), ["LC_TIME", "PATH"]);
    assert_eq!(names(Command::new("x").pass("TOKEN").pass("F").pass("NONE")), ["LC_TIME", "PATH", "TOKEN"]);
    assert_eq!(names(Command::new("x").inherit_env()), ["LC_TIME", "PATH", "TOKEN"]);
    assert_eq!(names(Command::new("x").envs([("F", "() { :; }")])), ["F", "LC_TIME", "PATH"]);
}

#[tokio::test]
async fn a_command_is_written_in_several_ways() {
    let words = ["printf", "%s|", "a b", "$HOME"];
    let commands = [
        Command::from(words),
        Command::from(words.to_vec()),
        Command::from(&words[..]),
        Command::from(words.map(String::from)),
        Command::new("printf").arg("%s|").args(["a b", "$HOME"]),
    ];
    for command in commands {
        let started = start(command);
        assert_eq!(Output::new(started.stdout).rest().await, "a b|$HOME|");
    }
    for command in [Command::from("true"), Command::from(String::from("true"))] {
        let started = start(command);
        assert_eq!(within(started.child.ended()).await, Ended::Code(0));
    }
    let started = start(Command::new("pwd").current_dir("/usr"));
    assert_eq!(Output::new(started.stdout).rest().await, "/usr\n");
}

#[tokio::test]
async fn what_cannot_be_started_says_what_is_wrong() {
    let folder = Folder::new("cannot-start");
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
            format!("not found in PATH ({} and 2 more)", ["/a"; 16].join(", ")),
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
        let said = failure(&command);
        assert_eq!(said, format!("cannot start {program:?}: {why}"));
    }
    let said = failure(&Command::from("npxx --token=secret").env("PATH", "/bin"));
    assert_eq!(
        said,
        "cannot start \"npxx …\": not found in PATH (/bin); arguments are given apart from the program"
    );
}

#[tokio::test]
async fn a_relative_program_is_looked_for_where_it_starts() {
    let folder = Folder::new("relative");
    folder.write("hello", "#!/bin/sh\necho hello from $0\n", "755");
    let usual = std::env::var("PATH").unwrap();
    for command in [Command::from("./hello"), Command::from("hello").env("PATH", format!(":{usual}"))] {
        let started = start(command.current_dir(&folder.0));
        assert_eq!(Output::new(started.stdout).rest().await, "hello from ./hello\n");
    }
}

#[test]
fn what_shows_a_command_shows_no_values() {
    let command = Command::new("npx")
        .args(["-y", "secret"])
        .env("TOKEN", "secret")
        .env("KEY=secret", "")
        .pass("OURS")
        .current_dir("/tmp");
    assert_eq!(
        format!("{command:?}"),
        "Command { program: \"npx\", args: 2, env: [\"KEY\", \"OURS\", \"TOKEN\"], inherit_env: false, \
         current_dir: Some(\"/tmp\"), stderr: Keep, grace: 2s }"
    );
    assert!(!format!("{:?}", Command::from("npx --token=secret")).contains("secret"));
}

/// Prints the numbers of a child, its grandchild in its group, one that left it, and a descendant of that in yet
/// another. None of them listens to SIGTERM, nor ends with its stdin.
const STUBBORN: &str = r#"
trap '' TERM
echo $$
sh -c 'echo $$; sleep 300' &
setsid sh -c 'echo $$; setsid sh -c "echo \$\$; sleep 300" & sleep 300' &
sleep 300
"#;

/// A shell that has all the time in the world.
fn sh(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script]).grace(PATIENCE)
}

fn start(command: Command) -> Started {
    command.start().unwrap()
}

fn failure(command: &Command) -> String {
    match command.start() {
        Ok(_) => panic!("{command:?} was started"),
        Err(error) => error.to_string(),
    }
}

/// Fails the test instead of hanging.
async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("it takes too long")
}

fn is_in_table(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

/// Waits until a child is no zombie either.
fn reaped(id: u32) {
    let end = Instant::now() + PATIENCE;
    while is_in_table(id) {
        assert!(Instant::now() < end, "{id} is a zombie");
        std::thread::yield_now();
    }
}

/// Waits until a process has begun a session of its own.
fn left_the_group(outsider: &Outsider, group: u32) {
    let end = Instant::now() + PATIENCE;
    let stat = || fs::read_to_string(format!("/proc/{}/stat", outsider.pid)).unwrap();
    while stat().split_whitespace().nth(4).unwrap() == group.to_string() {
        assert!(Instant::now() < end, "it did not leave");
        std::thread::yield_now();
    }
}

/// What a child writes to stdout.
struct Output {
    pipe: pipe::Receiver,
    read: Vec<u8>,
}

impl Output {
    fn new(pipe: pipe::Receiver) -> Self {
        Self { pipe, read: Vec::new() }
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.drain(..=end).collect::<Vec<_>>();
                return String::from_utf8(line).unwrap().trim_end().to_owned();
            }
            assert!(self.more().await, "it ended before its line");
        }
    }

    /// Everything until nobody holds the pipe.
    async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8(self.read.split_off(0)).unwrap()
    }

    /// Those whose numbers are written next.
    async fn outsiders(&mut self, count: usize) -> Vec<Outsider> {
        let mut found = Vec::new();
        for _ in 0..count {
            let pid = Pid::from_raw(self.line().await.parse().unwrap()).unwrap();
            found.push(Outsider { pid, descriptor: pidfd_open(pid, PidfdFlags::empty()).unwrap() });
        }
        found
    }

    async fn more(&mut self) -> bool {
        loop {
            within(self.pipe.readable()).await.unwrap();
            let mut chunk = [0; 4096];
            match self.pipe.try_read(&mut chunk) {
                Ok(length) => {
                    self.read.extend(&chunk[..length]);
                    return length > 0;
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }
}

/// A process that is not our child, through a descriptor that says when it has ended.
struct Outsider {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Outsider {
    fn has_died(&self) -> bool {
        self.dies_within(Duration::ZERO)
    }

    fn dies_within(&self, time: Duration) -> bool {
        let mut descriptors = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut descriptors, Some(&time.try_into().unwrap())).unwrap() == 1
    }
}

/// Waits until all of them have ended.
fn all_died(outsiders: &[Outsider]) {
    for outsider in outsiders {
        assert!(outsider.dies_within(PATIENCE), "{} still runs", outsider.pid);
    }
}

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tsugite-child-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file. Another process does it: what another test starts meanwhile may inherit a descriptor of ours, and
    /// nobody runs a file that somebody could write to.
    fn write(&self, name: &str, text: &str, mode: &str) -> String {
        let path = self.0.join(name).into_os_string().into_string().unwrap();
        let script = "printf %s \"$1\" > \"$2\" && chmod \"$3\" \"$2\"";
        let written =
            std::process::Command::new("/bin/sh").args(["-c", script, "sh", text, &path, mode]).status();
        assert!(written.unwrap().success());
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Longer than any machine needs, so that only a mistake takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
