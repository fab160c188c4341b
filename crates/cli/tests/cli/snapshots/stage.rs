//! Runs a session again: starts its servers, runs its commands, and replaces values that differ between runs by names.

use std::any::Any;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::LazyLock;

use super::command_line::CommandLine;
use super::shell::Shell;
use crate::paths::{tsugite_path, with_name};
use crate::support::{Place, Ran, Running, Served, always};

/// The environment of a session.
pub(super) struct Stage {
    place: Place,
    /// The folders of `tsugite` and `helper`.
    path: OsString,
    /// The names in the file, and their values in this run.
    names: Vec<(String, String)>,
    /// The servers, which end with the session.
    servers: Vec<Box<dyn Any>>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let place = Place::project();
        let home = place.path.to_str().unwrap().to_owned();
        let bin = Path::new(tsugite_path()).parent().unwrap();
        let path = std::env::join_paths([bin, &bin.join("examples")]).unwrap();
        let names = [
            ("[PATH]", path.to_str().unwrap()),
            ("[TSUGITE]", tsugite_path()),
            ("[BIN]", bin.to_str().unwrap()),
            ("~", &home),
            ("[VERSION]", env!("CARGO_PKG_VERSION")),
        ];
        let names = names.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self { place, path, names, servers: Vec::new() }
    }

    /// Runs the session and returns it with the new output.
    pub(super) fn play(mut self, file: &str) -> String {
        let mut transcript = String::new();
        let mut lines = file.lines().peekable();
        while let Some(line) = lines.next() {
            transcript.push_str(line);
            transcript.push('\n');
            if let Some(server) = line.strip_prefix("% ") {
                self.start_server(server);
            }
            let Some(step) = line.strip_prefix("$ ") else { continue };
            let (mut step, mut meanwhile) = (step.to_owned(), Vec::new());
            while let Some(more) = lines.next_if(|line| line.starts_with("> ") || line.starts_with("^ ")) {
                let _ = writeln!(transcript, "{more}");
                match more.strip_prefix("> ") {
                    Some(more) => step.extend(["\n", more]),
                    None => meanwhile.push(more),
                }
            }
            let mut old = String::new();
            while let Some(line) = lines.next_if(|line| !is_script(line)) {
                let _ = writeln!(old, "{line}");
            }
            // Only Unix has signals.
            if cfg!(windows) && meanwhile.iter().any(|line| line.contains("kill ")) {
                transcript.push_str(&old);
                continue;
            }
            let ran = self.run(&step, &meanwhile).unwrap_or_else(|error| panic!("$ {step}\n{error}"));
            transcript.push_str(&self.shown(&ran));
            if lines.peek().is_some() {
                transcript.push('\n');
            }
        }
        transcript
    }

    /// Starts a server: `[NAME] is tsugite serve` and the like.
    fn start_server(&mut self, line: &str) {
        let (name, behaviour) = line.split_once(' ').expect("a name");
        let address = match behaviour.split_once(' ') {
            Some(("is", "tsugite serve")) => {
                let served = Served::start();
                let address = served.address().to_owned();
                self.servers.push(Box::new(served));
                address
            }
            Some(("never", "answers")) => {
                // The system accepts connections, but no process reads them.
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap().to_string();
                self.servers.push(Box::new(listener));
                address
            }
            Some(("answers", head)) => always(&head.replace(" | ", "\r\n"), "").to_string(),
            _ => panic!("unknown server: {line}"),
        };
        self.names.push((name.to_owned(), address));
    }

    fn run(&self, step: &str, meanwhile: &[&str]) -> Result<Ran, String> {
        let line = CommandLine::parse(step)?;
        if meanwhile.is_empty() {
            return self.shell(None).run(&line);
        }
        let running = self.shell(None).start(line.single().ok_or("only one command can be watched")?)?;
        let (mut out, mut err) = (String::new(), String::new());
        for line in meanwhile {
            let line = line.strip_prefix("^ once \"").and_then(|line| line.split_once("\": "));
            let (words, elsewhere) = line.ok_or("^ once \"words\": command")?;
            running.until(&self.shell(None).expand(words), &mut out, &mut err);
            self.shell(Some(&running)).run(&CommandLine::parse(elsewhere)?)?.fine();
        }
        let rest = running.end();
        Ok(Ran { code: rest.code, out: out + &rest.out, err: err + &rest.err })
    }

    fn shell<'a>(&'a self, running: Option<&'a Running>) -> Shell<'a> {
        let folder = self.place.path.join("shop");
        Shell { place: &self.place, folder, path: self.path.clone(), names: &self.names, running }
    }

    /// Formats the output of a step as in the file.
    fn shown(&self, ran: &Ran) -> String {
        let mut text = ended(&ran.out);
        if !ran.err.is_empty() {
            text.push_str("[stderr]\n");
            text.push_str(&ended(&ran.err));
        }
        if ran.code != 0 {
            let _ = writeln!(text, "[exit {}]", ran.code);
        }
        let text = self.names.iter().fold(text, |text, (name, value)| with_name(&text, value, name));
        // The folder of hosts is another on macOS, and systems have their own words for errors.
        let text = text.replace("~/Library/Application Support", "~/.config");
        let text = SYSTEM_ERRORS.iter().fold(text, |text, (here, linux)| text.replace(here, linux));
        let text = named(&text, "[PORT]", 5, "127.0.0.1:", "");
        let text = named(&text, "[TIME]", 1, " in ", " ms");
        let text =
            ["\"ms\":", "\"connectMs\":"].iter().fold(text, |text, key| named(&text, "[TIME]", 1, key, ""));
        let text = ["\"id\":\"", " trusted  "].iter().fold(text, |text, before| named_digest(&text, before));
        // Escape output that looks like a part of the script.
        text.lines()
            .map(|line| if is_script(line) { format!("\\{line}\n") } else { format!("{line}\n") })
            .collect()
    }
}

/// Errors in the words of this system and in those of Linux.
static SYSTEM_ERRORS: LazyLock<[(String, &str); 6]> = LazyLock::new(|| {
    let missing = |path: &str| fs::read(path).unwrap_err().to_string();
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let used = TcpListener::bind(used.local_addr().unwrap()).unwrap_err().to_string();
    let refused = TcpStream::connect("127.0.0.1:1").unwrap_err().to_string();
    let existing = fs::create_dir(env!("CARGO_TARGET_TMPDIR")).unwrap_err().to_string();
    // The first part of the name is longer than 63 bytes, so no network is asked.
    let unknown = format!("{}.example:80", "x".repeat(64)).to_socket_addrs().unwrap_err().to_string();
    [
        (existing, "File exists (os error 17)"),
        (unknown, "failed to lookup address information: Name or service not known"),
        (missing("no-such-file"), "No such file or directory (os error 2)"),
        (missing("no/such/folder"), "No such file or directory (os error 2)"),
        (used, "Address already in use (os error 98)"),
        (refused, "Connection refused (os error 111)"),
    ]
});

pub(super) fn is_script(line: &str) -> bool {
    ["$ ", "> ", "^ ", "% ", "# "].iter().any(|mark| line.starts_with(mark))
}

/// Returns the text with a final newline, or a mark that it is missing.
fn ended(text: &str) -> String {
    match text.is_empty() || text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n[no newline at the end]\n"),
    }
}

/// Replaces every number with at least `least` digits between `before` and `after` by a name.
fn named(text: &str, name: &str, least: usize, before: &str, after: &str) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        out.push_str(before);
        match part.len() - rest.len() >= least && rest.starts_with(after) {
            true => out.extend([name, rest]),
            false => out.push_str(part),
        }
    }
    out
}

/// Replaces every digest after `before`, or its first 12 digits, by a name: it depends on the path of the folder.
fn named_digest(text: &str, before: &str) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
        out.push_str(before);
        match part.len() - rest.len() {
            12 | 64 => out.extend(["[ID]", rest]),
            _ => out.push_str(part),
        }
    }
    out
}
