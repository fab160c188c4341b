//! Records the terminal output of a program, with a terminal from `script`.

use std::env;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{self, ChildProcess};

/// One command.
#[derive(Clone, Copy)]
pub(super) struct Scene {
    /// The arguments of `tsugite`.
    pub(super) args: &'static str,
    /// The input to type after given words.
    pub(super) replies: &'static [(&'static str, &'static str)],
    /// The number of lines to show.
    pub(super) max_lines: usize,
    /// Stops recording at these words, not at the end.
    pub(super) until: Option<&'static str>,
}

/// Runs a scene and returns its lines, with colors as escape sequences.
pub(super) fn record(scene: Scene, program: &Path) -> Result<Vec<String>, String> {
    let typed = format!("tsugite {}", scene.args);
    let said = capture_output(scene, &typed, program)?;
    let mut lines = vec![format!("\x1b[33m$\x1b[0m {typed}")];
    let all: Vec<&str> = said.lines().map(last_redraw).collect();
    lines.extend(all.iter().take(scene.max_lines).map(|line| (*line).to_owned()));
    if all.len() > scene.max_lines {
        lines.push("\x1b[2m  ⋮\x1b[0m".to_owned());
    }
    lines.push(String::new());
    Ok(lines)
}

fn capture_output(scene: Scene, typed: &str, program: &Path) -> Result<String, String> {
    let mut command = process::program("script", ["--quiet", "--return", "--command", typed, "/dev/null"]);
    let folder = program.parent().unwrap_or(program);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([folder.to_owned()].into_iter().chain(env::split_paths(&path)));
    command.env("PATH", path.map_err(|error| format!("PATH: {error}"))?);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = ChildProcess::start(command)?;
    let (mut to, mut from) = running.pipes().ok_or("`script` has no pipes")?;
    let (sender, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender.send(bytes.get(..count).unwrap_or_default().to_vec()).is_err() {
                return;
            }
        }
    });
    let mut bytes = Vec::new();
    let mut replies = scene.replies.iter();
    let mut reply = replies.next();
    let start = Instant::now();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if scene.until.is_some_and(|until| text.contains(until)) {
            return Ok(text);
        }
        if let Some((question, answer)) = reply
            && text.ends_with(question)
        {
            let typing = to.write_all(format!("{answer}\r").as_bytes()).and_then(|()| to.flush());
            typing.map_err(|error| format!("`{typed}` does not read its input: {error}"))?;
            reply = replies.next();
        }
        match heard.recv_timeout(OUTPUT_TIMEOUT.saturating_sub(start.elapsed())) {
            Ok(more) => bytes.extend(more),
            Err(mpsc::RecvTimeoutError::Disconnected) if reply.is_none() && scene.until.is_none() => {
                return Ok(text);
            }
            Err(_) => return Err(format!("`{typed}` runs too long or exits too soon\n  output: {text}")),
        }
    }
}

/// The last state of a line that was redrawn.
fn last_redraw(line: &str) -> &str {
    line.rsplit("\r\x1b[K").next().unwrap_or(line).trim_end()
}

const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_state_of_a_progress_bar_is_shown() {
        assert_eq!(last_redraw("\r\x1b[K░  0 %\r\x1b[K█ 50 %"), "█ 50 %");
        assert_eq!(last_redraw("plain\r"), "plain");
    }
}
