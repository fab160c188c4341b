//! Runs command lines: the programs `tsugite` and `helper`, and a few commands of a shell that work on every system.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Cursor, PipeReader, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use super::command_line::{self, CommandLine, Input, Pipeline};
use crate::support::{Place, Ran, Running, TSUGITE, helper};

/// Where command lines run.
pub(super) struct Shell<'a> {
    pub(super) place: &'a Place,
    /// The folder of the project.
    pub(super) folder: PathBuf,
    pub(super) path: OsString,
    /// The names in the file, and their values in this run.
    pub(super) names: &'a [(String, String)],
    /// The program of `$PID`.
    pub(super) running: Option<&'a Running>,
}

impl Shell<'_> {
    /// Runs a command line. The result is an error if the command line uses what is not supported here.
    pub(super) fn run(&self, line: &CommandLine) -> Result<Ran, String> {
        let mut all = Ran { code: 0, out: String::new(), err: String::new() };
        for pipeline in &line.0 {
            if pipeline.after_success && all.code != 0 {
                continue;
            }
            let ran = self.pipeline(pipeline)?;
            all = Ran { code: ran.code, out: all.out + &ran.out, err: all.err + &ran.err };
        }
        Ok(all)
    }

    /// Starts a program with nothing to read.
    pub(super) fn start(&self, command: &command_line::Command) -> Result<Running, String> {
        if command.input.is_some() || command.output.is_some() {
            return Err("a program that is watched has no files".to_owned());
        }
        Ok(Running::start(self.program(command)?))
    }

    /// Replaces the names in brackets by their values.
    pub(super) fn expand(&self, text: &str) -> String {
        let named = self.names.iter().filter(|(name, _)| name.starts_with('['));
        named.fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    fn pipeline(&self, pipeline: &Pipeline) -> Result<Ran, String> {
        let (mut flow, mut started) = (Flow::Nothing, Vec::new());
        for (index, command) in pipeline.commands.iter().enumerate() {
            if let Some(input) = &command.input {
                flow = Flow::Bytes(match input {
                    Input::File(file) if file == "/dev/null" => Vec::new(),
                    Input::File(file) => read(&self.folder.join(file))?,
                    Input::Text(text) => self.expand(text).into_bytes(),
                });
            }
            let words: Vec<String> = command.words.iter().map(|word| self.expand(word)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if BUILT_IN.contains(&words[0]) {
                let output = self.built_in(&words, flow).map_err(|error| format!("{words:?}: {error}"))?;
                flow = match &command.output {
                    Some(file) => {
                        fs::write(self.folder.join(file), output).map_err(|error| error.to_string())?;
                        Flow::Nothing
                    }
                    None => Flow::Bytes(output),
                };
                continue;
            }
            if command.output.is_some() {
                return Err(format!("{words:?} cannot write to a file here"));
            }
            let mut program = self.program(command)?;
            feed(&mut program, flow).map_err(|error| error.to_string())?;
            flow = Flow::Nothing;
            if index + 1 < pipeline.commands.len() {
                let (reader, writer) = pipe().map_err(|error| error.to_string())?;
                program.stdout(writer);
                flow = Flow::Pipe(reader);
            }
            started.push(Running::start(program));
        }
        let mut all = Ran { code: 0, out: String::new(), err: String::new() };
        if let Flow::Bytes(bytes) = flow {
            all.out = String::from_utf8_lossy(&bytes).into_owned();
            // The code is that of the last command, which succeeded.
            all.err = started.into_iter().map(|running| running.end().err).collect();
            return Ok(all);
        }
        for running in started {
            let ran = running.end();
            all = Ran { code: ran.code, out: ran.out, err: all.err + &ran.err };
        }
        Ok(all)
    }

    /// Returns the command that runs a program in the project, without the user's variables.
    fn program(&self, command: &command_line::Command) -> Result<Command, String> {
        let (name, words) = command.words.split_first().ok_or("no command")?;
        let mut program = self.place.dressed(match name.as_str() {
            "tsugite" => TSUGITE,
            "helper" => helper(),
            // Its step sends a signal, and so runs only on Unix.
            "nohup" => "/usr/bin/nohup",
            _ => {
                return Err(format!(
                    "there is no command {name:?} in sessions; `helper` is a program for tests"
                ));
            }
        });
        program.args(words.iter().map(|word| self.expand(word))).current_dir(&self.folder);
        program.env("PATH", &self.path).env("LC_ALL", "C").env_remove("XDG_CONFIG_HOME");
        // Windows has the folder of Linux, so that its files have the same names.
        program.env("APPDATA", self.place.path.join(".config"));
        program.envs(command.variables.iter().map(|(name, value)| (name, self.expand(value))));
        program.stdin(Stdio::null());
        Ok(program)
    }

    /// Runs a command of `BUILT_IN` and returns its output.
    fn built_in(&self, words: &[&str], input: Flow) -> Result<Vec<u8>, String> {
        let file = |path: &str| self.folder.join(path);
        let done = |result: io::Result<()>| result.map(|()| Vec::new()).map_err(|error| error.to_string());
        match words {
            ["echo", words @ ..] => Ok(format!("{}\n", words.join(" ")).into_bytes()),
            ["printf", text] if !text.contains('%') => Ok(text.replace("\\n", "\n").into_bytes()),
            ["cat"] => input.read_all(),
            ["cat", path] => read(&file(path)),
            ["mkdir", "-p", path] => done(fs::create_dir_all(file(path))),
            ["cp", from, to] => done(fs::copy(file(from), file(to)).map(drop)),
            ["rm", path] => done(fs::remove_file(file(path))),
            ["ls", path] => list(&file(path)),
            ["head", count] => input.read_lines(count.strip_prefix('-').and_then(|count| count.parse().ok())),
            ["wc", "-c"] => input.read_all().map(|bytes| format!("{}\n", bytes.len()).into_bytes()),
            ["kill", signal, "$PID"] => {
                self.running.ok_or("no program is watched")?.signal(signal);
                Ok(Vec::new())
            }
            _ => Err("these arguments are not supported".to_owned()),
        }
    }
}

/// The commands of a shell that sessions may use.
const BUILT_IN: [&str; 10] = ["cat", "cp", "echo", "head", "kill", "ls", "mkdir", "printf", "rm", "wc"];

/// The input of a command.
enum Flow {
    Nothing,
    Bytes(Vec<u8>),
    /// The output of a program that still runs.
    Pipe(PipeReader),
}

impl Flow {
    fn read_all(self) -> Result<Vec<u8>, String> {
        self.read_lines(Some(usize::MAX))
    }

    /// Reads so many lines, and then closes the input.
    fn read_lines(self, count: Option<usize>) -> Result<Vec<u8>, String> {
        let count = count.ok_or("a number is missing")?;
        let mut input: Box<dyn BufRead> = match self {
            Self::Nothing => return Err("there is no input".to_owned()),
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Self::Pipe(reader) => Box::new(BufReader::new(reader)),
        };
        let mut lines = Vec::new();
        for _ in 0..count {
            if input.read_until(b'\n', &mut lines).map_err(|error| error.to_string())? == 0 {
                break;
            }
        }
        Ok(lines)
    }
}

/// Makes a flow the input of a program.
fn feed(program: &mut Command, flow: Flow) -> io::Result<()> {
    match flow {
        Flow::Nothing => {}
        Flow::Pipe(reader) => drop(program.stdin(reader)),
        Flow::Bytes(bytes) => {
            let (reader, mut writer) = pipe()?;
            program.stdin(reader);
            // A program may end before it has read everything.
            thread::spawn(move || drop(writer.write_all(&bytes)));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn list(folder: &Path) -> Result<Vec<u8>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    names.sort();
    Ok(names.iter().map(|name| format!("{name}\n")).collect::<String>().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a command line in a new project.
    fn run(line: &str) -> Result<(i32, String), String> {
        let place = Place::project();
        let folder = place.path.join("shop");
        let shell = Shell { place: &place, folder, path: OsString::new(), names: &[], running: None };
        shell.run(&CommandLine::parse(line)?).map(|ran| (ran.code, ran.out + &ran.err))
    }

    #[test]
    fn built_in_commands_use_files_and_pipes() {
        for (line, expected) in [
            ("echo a  'b  c'; printf 'd\\ne\\n'", "a b  c\nd\ne\n"),
            ("echo a > b; cp b c; cat < c; cat c; rm c; ls .", "a\na\nb\n"),
            ("mkdir -p x/y && ls x", "y\n"),
            ("printf '1\\n2\\n3' | head -2; printf 123 | wc -c", "1\n2\n3\n"),
        ] {
            assert_eq!(run(line), Ok((0, expected.to_owned())), "{line}");
        }
    }

    #[test]
    fn programs_are_connected_and_their_codes_count() {
        let copy = "helper script 'read_line; send_line $line; drain'";
        for (line, code, expected) in [
            (&*format!("echo a | {copy} | {copy}"), 0, "a\na\na\n"),
            ("helper fails 3 b && echo c", 3, "b\n"),
            ("helper fails 3 b; echo c", 0, "c\nb\n"),
            // It ends without an error if its output is closed.
            ("tsugite list demo | head -1", 0, "tools\n"),
        ] {
            assert_eq!(run(line), Ok((code, expected.to_owned())), "{line}");
        }
    }

    #[test]
    fn unknown_commands_are_errors() {
        for (line, expected) in [
            ("sleep 1", "no command \"sleep\""),
            ("printf %s a", "these arguments are not supported"),
            ("rm -r a", "these arguments are not supported"),
            ("head -x < /dev/null", "a number is missing"),
            ("cat", "there is no input"),
            ("kill -INT $PID", "no program is watched"),
            ("helper replies > a", "cannot write to a file"),
        ] {
            let error = run(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
