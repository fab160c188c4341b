//! Runs a session again: starts its servers, runs its commands, and replaces values that differ between runs by names.

use std::any::Any;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::support::{Place, Ran, Running, Served, TSUGITE, always};

/// The environment of a session.
pub(super) struct Stage {
    place: Place,
    /// The names in the file, and their values in this run.
    names: Vec<(String, String)>,
    /// The servers, which end with the session.
    servers: Vec<Box<dyn Any>>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let place = Place::project();
        let home = place.path.to_str().unwrap().to_owned();
        let names = [
            ("[TSUGITE]", TSUGITE),
            ("[BIN]", Path::new(TSUGITE).parent().unwrap().to_str().unwrap()),
            ("~", &home),
            ("[VERSION]", env!("CARGO_PKG_VERSION")),
        ];
        let names = names.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self { place, names, servers: Vec::new() }
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
            // Skip the old output.
            while lines.next_if(|line| !is_script(line)).is_some() {}
            let ran = self.run(&step, &meanwhile);
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

    fn run(&self, step: &str, meanwhile: &[&str]) -> Ran {
        // `exec`, so that signals go to the command itself.
        let running = Running::start(self.shell(&match meanwhile.is_empty() {
            true => step.to_owned(),
            false => format!("exec {step}"),
        }));
        let (mut out, mut err) = (String::new(), String::new());
        for line in meanwhile {
            let line = line.strip_prefix("^ once \"").and_then(|line| line.split_once("\": "));
            let (words, elsewhere) = line.expect("^ once \"words\": command");
            running.until(&self.spelt_out(words), &mut out, &mut err);
            let mut command = self.shell(elsewhere);
            command.env("PID", running.id().to_string());
            Running::start(command).end().fine();
        }
        let rest = running.end();
        Ran { code: rest.code, out: out + &rest.out, err: err + &rest.err }
    }

    /// Returns the command that runs a step with `sh` in the project, without the user's variables.
    fn shell(&self, step: &str) -> Command {
        let mut command = self.place.dressed("sh");
        command.arg("-c").arg(self.spelt_out(step)).current_dir(self.place.path.join("shop"));
        let bin = Path::new(TSUGITE).parent().unwrap().display();
        command.env("PATH", format!("{bin}:/usr/bin:/bin")).env("LC_ALL", "C").env_remove("XDG_CONFIG_HOME");
        command
    }

    fn spelt_out(&self, text: &str) -> String {
        let named = self.names.iter().filter(|(name, _)| name.starts_with('['));
        named.fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
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
        let text = self.names.iter().fold(text, |text, (name, value)| text.replace(value, name));
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
