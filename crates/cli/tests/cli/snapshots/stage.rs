//! Plays a session again: its servers are set up, its commands run, and what changes from run to run gets a name.

use std::any::Any;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::support::{Place, Ran, Running, Served, TSUGITE, always};

/// Where a session is played.
pub(super) struct Stage {
    place: Place,
    /// What stands in the file for what is there.
    names: Vec<(String, String)>,
    /// Servers, which end with it.
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

    /// The session as it went this time.
    pub(super) fn play(mut self, file: &str) -> String {
        let mut told = String::new();
        let mut lines = file.lines().peekable();
        while let Some(line) = lines.next() {
            told.push_str(line);
            told.push('\n');
            if let Some(server) = line.strip_prefix("% ") {
                self.stand_in(server);
            }
            let Some(step) = line.strip_prefix("$ ") else { continue };
            let (mut step, mut meanwhile) = (step.to_owned(), Vec::new());
            while let Some(more) = lines.next_if(|line| line.starts_with("> ") || line.starts_with("^ ")) {
                let _ = writeln!(told, "{more}");
                match more.strip_prefix("> ") {
                    Some(more) => step.extend(["\n", more]),
                    None => meanwhile.push(more),
                }
            }
            // What came of it the last time.
            while lines.next_if(|line| !is_script(line)).is_some() {}
            let ran = self.run(&step, &meanwhile);
            told.push_str(&self.shown(&ran));
            if lines.peek().is_some() {
                told.push('\n');
            }
        }
        told
    }

    /// `[MCP_NAME] is tsugite serve` and the like.
    fn stand_in(&mut self, line: &str) {
        let (name, what) = line.split_once(' ').expect("a name");
        let address = match what.split_once(' ') {
            Some(("is", "tsugite serve")) => {
                let served = Served::start();
                let address = served.address().to_owned();
                self.servers.push(Box::new(served));
                address
            }
            Some(("never", "answers")) => {
                // Connections are taken by the system, and by nobody else.
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap().to_string();
                self.servers.push(Box::new(listener));
                address
            }
            Some(("answers", head)) => always(&head.replace(" | ", "\r\n"), "").to_string(),
            _ => panic!("no such server: {line}"),
        };
        self.names.push((name.to_owned(), address));
    }

    fn run(&self, step: &str, meanwhile: &[&str]) -> Ran {
        // It is the command itself that signals go to.
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

    /// What `sh` runs, in the project, where nobody's variables are known.
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

    /// What came of a step, as it stands in a file.
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
        // What looks like a part of the script is none.
        text.lines()
            .map(|line| if is_script(line) { format!("\\{line}\n") } else { format!("{line}\n") })
            .collect()
    }
}

pub(super) fn is_script(line: &str) -> bool {
    ["$ ", "> ", "^ ", "% ", "# "].iter().any(|mark| line.starts_with(mark))
}

/// A text that ends with its line, or says that it does not.
fn ended(text: &str) -> String {
    match text.is_empty() || text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n[no newline at the end]\n"),
    }
}

/// Gives every number with at least so many digits that stands between `before` and `after` a name.
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
