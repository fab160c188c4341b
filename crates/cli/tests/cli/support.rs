//! Runs the binary in a temporary folder, without the user's configuration. Every wait has a timeout.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The binary.
pub(crate) const TSUGITE: &str = env!("CARGO_BIN_EXE_tsugite");

/// The program `helper` of the test kit, as an example of this package: cargo builds it with all tests, and puts it beside the
/// binary.
///
/// # Panics
///
/// Panics if it is not there: cargo builds no examples if a single test program is named.
pub(crate) fn helper() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| {
        let name = format!("helper{}", std::env::consts::EXE_SUFFIX);
        let path = Path::new(TSUGITE).with_file_name("examples").join(name);
        assert!(path.exists(), "{path:?} does not exist; run `cargo build -p tsugite-cli --example helper`");
        path.into_os_string().into_string().unwrap()
    });
    &PATH
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A temporary folder that is the home, configuration and working folder.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let name = format!("cli-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        // The binary prints canonical paths. Those of Windows have a prefix that no program writes into a file.
        let path = path.canonicalize().unwrap();
        let plain = path.to_str().and_then(|path| path.strip_prefix(r"\\?\")).map(PathBuf::from);
        Self { path: plain.unwrap_or(path) }
    }

    /// Writes a file in the folder.
    pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Waits until a file contains the text, and returns its contents.
    #[track_caller]
    pub(crate) fn holds(&self, path: &str, text: &str) -> String {
        for _ in 0..TRIES {
            match fs::read_to_string(self.path.join(path)) {
                Ok(found) if found.contains(text) => return found,
                _ => thread::sleep(PAUSE),
            }
        }
        panic!("{path} does not hold {text:?}");
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.dressed(TSUGITE);
        command.args(args);
        command
    }

    /// Returns a command for another program, with the same environment.
    pub(crate) fn dressed(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.path).env("HOME", &self.path).env("NO_COLOR", "1");
        command
            .env("XDG_CONFIG_HOME", self.path.join("config"))
            .env("XDG_STATE_HOME", self.path.join("state"))
            .env_remove("CLAUDE_CONFIG_DIR");
        // The same on Windows.
        command
            .env("USERPROFILE", &self.path)
            .env("APPDATA", self.path.join("config"))
            .env("LOCALAPPDATA", self.path.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        Running::start(self.command(args)).end()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Runs the binary with these words, separated by spaces.
pub(crate) fn tsugite(words: &str) -> Ran {
    Place::new().run(words.split_whitespace())
}

impl Ran {
    /// Returns standard output; panics unless the exit code is 0.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Returns standard error; panics unless the exit code matches and standard output is empty.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        self.err
    }
}

/// A running process.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let out = child.stdout.take().map_or_else(|| mpsc::channel().1, lines);
        let err = child.stderr.take().map_or_else(|| mpsc::channel().1, lines);
        Self { child, input, out, err }
    }

    /// Writes a line to its standard input.
    pub(crate) fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("standard input is piped");
        writeln!(input, "{line}").unwrap();
    }

    /// Returns the next line of standard output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.out.recv_timeout(LONG).expect("a line of standard output")
    }

    /// Waits for a line of standard error that contains the text.
    #[track_caller]
    pub(crate) fn wait_for_stderr(&self, words: &str) -> String {
        loop {
            let line = self
                .err
                .recv_timeout(LONG)
                .unwrap_or_else(|_| panic!("{words:?} did not appear on standard error"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Collects the lines of both streams until one of them contains the text.
    #[track_caller]
    pub(crate) fn until(&self, words: &str, out: &mut String, err: &mut String) {
        for _ in 0..TRIES {
            for (lines, text) in [(&self.out, &mut *out), (&self.err, &mut *err)] {
                while let Ok(line) = lines.try_recv() {
                    text.push_str(&line);
                }
            }
            if out.contains(words) || err.contains(words) {
                return;
            }
            thread::sleep(PAUSE);
        }
        panic!("{words:?} did not appear: {out}{err}");
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Kills the process, and collects its output.
    #[track_caller]
    pub(crate) fn kill(mut self) -> Ran {
        self.child.kill().unwrap();
        self.ends()
    }

    /// Closes standard input, and waits for the process and all that share its standard output or error.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ran {
        self.input = None;
        self.ends()
    }

    /// Waits in the same way, without closing standard input.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Ran {
        let rest = |lines: &Receiver<String>| {
            let mut text = String::new();
            loop {
                match lines.recv_timeout(LONG) {
                    Ok(line) => text.push_str(&line),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return text,
                    Err(mpsc::RecvTimeoutError::Timeout) => panic!("the process does not end: {text}"),
                }
            }
        };
        let (out, err) = (rest(&self.out), rest(&self.err));
        // Both streams are closed, so the process is about to end.
        let status: ExitStatus = self.child.wait().unwrap();
        Ran { code: status.code().unwrap_or(-1), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the lines of a stream as they arrive, with their newlines.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// A running `tsugite serve` on a free port.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) running: Running,
    _place: Place,
}

impl Served {
    pub(crate) fn start() -> Self {
        let place = Place::new();
        let running = Running::start(place.command(["serve", "--listen", "127.0.0.1:0"]));
        let url = running.line().trim().to_owned();
        Self { url, running, _place: place }
    }

    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).expect("an address")
    }
}

/// Starts a server that sends every request the same response: the head, without its last empty line, and a body.
pub(crate) fn always(head: &str, body: &str) -> SocketAddr {
    let (head, body) = (head.to_owned(), body.to_owned());
    responding(move |_| (head.clone(), body.clone()))
}

/// Starts a server over HTTP that answers requests with these results, and returns its URL.
pub(crate) fn answering(mut result: impl FnMut(&Value) -> Value + Send + 'static) -> String {
    let address = responding(move |body| {
        let Ok(request) = serde_json::from_str::<Value>(body) else {
            return ("405 Method Not Allowed".to_owned(), String::new());
        };
        if request["id"].is_null() {
            return ("202 Accepted".to_owned(), String::new());
        }
        let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result(&request)});
        ("200 OK\r\nContent-Type: application/json".to_owned(), response.to_string())
    });
    format!("http://{address}/mcp")
}

/// Starts a server that sends what a function makes of the body of a request: a head and a body.
pub(crate) fn responding(mut respond: impl FnMut(&str) -> (String, String) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let _ = socket.set_read_timeout(Some(LONG));
            let mut read = Vec::new();
            let mut chunk = [0; 4096];
            // Read the whole request: closing a socket with unread data resets the connection.
            while !is_whole(&read) {
                match socket.read(&mut chunk) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => read.extend_from_slice(&chunk[..count]),
                }
            }
            let request = String::from_utf8_lossy(&read);
            let (head, body) = respond(request.split_once("\r\n\r\n").map_or("", |(_, body)| body));
            let length = body.len();
            let _ = write!(
                socket,
                "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    // A request that is not HTTP ends at once.
    if !text.is_empty() && !text.starts_with(|letter: char| letter.is_ascii_uppercase()) {
        return true;
    }
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// The number of polls, a minute in total.
pub(crate) const TRIES: u32 = 1_200;
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The time limit of every wait.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[cfg(unix)]
pub(crate) mod unix {
    //! Modes of files.

    use std::fs::{metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    #[track_caller]
    pub(crate) fn assert_mode(path: impl AsRef<Path>, mode: u32) {
        let found = metadata(path.as_ref()).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{:?}: {found:o} is not {mode:o}", path.as_ref());
    }

    pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) {
        set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
}
