//! A terminal for tests: tmux, with a server of its own that ends with the test.
//!
//! The screen is polled until it shows the expected text, so that no test depends on a pause.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::support::{PAUSE, Place, TRIES, TSUGITE};

/// A terminal in which `tsugite` runs.
pub(crate) struct Terminal {
    socket: String,
    pub(crate) place: Place,
}

impl Terminal {
    /// Runs `tsugite` with these words in a shell. When it ends, `(ended with CODE)` is printed.
    pub(crate) fn run(words: &str) -> Self {
        Self::within(Place::new(), &format!("\"$TSUGITE\" {words}"))
    }

    /// Runs a script in an existing folder.
    pub(crate) fn within(place: Place, script: &str) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let socket = format!("tsugite-test-{}-{number}", std::process::id());
        // The environment must not depend on the user who runs the tests.
        let script = format!(
            "cd '{0}' && export HOME='{0}' XDG_CONFIG_HOME='{0}/config' XDG_STATE_HOME='{0}/state' NO_COLOR=1\n\
             export TSUGITE='{TSUGITE}'\n\
             trap : INT\n\
             {script}\n\
             echo \"(ended with $?)\"\n\
             read -r wait\n",
            place.path.display()
        );
        place.file("run.sh", &script);
        let terminal = Self { socket, place };
        let run = terminal.place.path.join("run.sh");
        let begin = ["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "50", "-s", "test", "sh"];
        terminal.tmux(&begin.into_iter().chain([run.to_str().unwrap()]).collect::<Vec<_>>());
        terminal
    }

    /// Types a text.
    pub(crate) fn types(&self, text: &str) -> &Self {
        self.tmux(&["send-keys", "-t", "test", "-l", text]);
        self
    }

    /// Presses a key: `Enter`, `Tab`, `Up`, `C-c`.
    pub(crate) fn presses(&self, key: &str) -> &Self {
        self.tmux(&["send-keys", "-t", "test", key]);
        self
    }

    /// Waits until the screen shows this.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(&format!("the screen shows {text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the last line of the screen is this, without trailing spaces.
    #[track_caller]
    pub(crate) fn ends_with(&self, line: &str) -> String {
        self.until(&format!("the last line is {line:?}"), |screen| {
            screen.trim_end().lines().next_back().is_some_and(|last| last.trim_end() == line)
        })
    }

    /// Waits until a process has ended.
    #[track_caller]
    pub(crate) fn gone(&self, id: &str) {
        for _ in 0..TRIES {
            let alive = Command::new("kill").args(["-0", id.trim()]).stderr(Stdio::null()).status().unwrap();
            if !alive.success() {
                return;
            }
            thread::sleep(PAUSE);
        }
        panic!("{id} is still there; the screen:\n{}", self.screen());
    }

    /// Resizes the terminal, and waits until programs can see it.
    #[track_caller]
    pub(crate) fn resize(&self, columns: &str) {
        self.tmux(&["resize-window", "-t", "test", "-x", columns, "-y", "50"]);
        // tmux applies it a little later.
        let tty = self.tmux(&["display-message", "-p", "-t", "test", "#{pane_tty}"]);
        for _ in 0..TRIES {
            let size =
                Command::new("sh").args(["-c", &format!("stty size < {}", tty.trim())]).output().unwrap();
            if size.stdout == format!("50 {columns}\n").as_bytes() {
                return;
            }
            thread::sleep(PAUSE);
        }
        panic!("the terminal was not resized");
    }

    #[track_caller]
    fn until(&self, condition: &str, holds: impl Fn(&str) -> bool) -> String {
        for _ in 0..TRIES {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            thread::sleep(PAUSE);
        }
        panic!("timed out waiting until {condition}; the screen:\n{}", self.screen());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "test"])
    }

    #[track_caller]
    fn tmux(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        // Inside a tmux session it would use that one.
        tmux.args(["-L", &self.socket])
            .args(words)
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        let output = tmux.output().unwrap_or_else(|error| {
            panic!("tmux cannot be run ({error}); `cargo xtask test` installs it, or: apt-get install tmux")
        });
        assert!(output.status.success(), "tmux {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let tmux = |words: &[&str]| {
            let mut tmux = Command::new("tmux");
            tmux.args(["-L", &self.socket]).args(words).env_remove("TMUX").stderr(Stdio::null()).output()
        };
        let path = tmux(&["display-message", "-p", "#{socket_path}"]);
        let _ = tmux(&["kill-server"]);
        // tmux does not remove its socket.
        if let Some(path) = path.ok().and_then(|path| String::from_utf8(path.stdout).ok()) {
            let _ = std::fs::remove_file(path.trim());
        }
    }
}
