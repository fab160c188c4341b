//! Finds the program of a command and explains why it cannot be started.
//!
//! The system reports the same "not found" for a missing program, a missing directory and a missing interpreter. Therefore
//! the command is checked before it is started, and once more if starting it fails.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::super::command::{redacted_env_name, redacted_program};
use super::Command;

/// An error that a command could not be started. It shows no arguments and no values of variables other than `PATH`.
#[derive(Debug)]
pub(crate) struct SpawnError {
    program: String,
    reason: String,
}

impl SpawnError {
    pub(super) fn new(command: &Command, reason: String) -> Self {
        Self { program: redacted_program(&command.program), reason }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start {:?}: {}", self.program, self.reason)
    }
}

impl std::error::Error for SpawnError {}

/// Returns the path of the program, or an error for the first invalid part of the command.
pub(super) fn resolve(
    command: &Command,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<PathBuf, SpawnError> {
    let fail = |reason| SpawnError::new(command, reason);
    check_arguments(command).map_err(fail)?;
    if let Some(folder) = &command.current_dir {
        check_current_dir(folder).map_err(fail)?;
    }
    let program = find_program(command, environment.get(OsStr::new("PATH")).map(OsString::as_os_str));
    program.map_err(|reason| match has_space(&command.program) {
        true => fail(format!("{reason}; arguments are given apart from the program")),
        false => fail(reason),
    })
}

/// Returns the error for a program that was found but could not be started.
pub(super) fn spawn_error(command: &Command, program: &Path, error: &io::Error) -> SpawnError {
    let path = in_current_dir(command, program);
    let reason = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => match interpreter(&path) {
            Some(interpreter) => format!("its interpreter {interpreter:?} does not exist"),
            None => "the loader it needs does not exist, or it was deleted just now".into(),
        },
        Some(Errno::NOEXEC) => {
            "it is not a program for this machine; a script begins with a line such as #!/bin/sh".into()
        }
        Some(Errno::TOOBIG) => "its arguments and its environment are too long".into(),
        _ => error.to_string(),
    };
    SpawnError::new(command, reason)
}

fn check_arguments(command: &Command) -> Result<(), String> {
    let has_nul = |text: &OsStr| text.as_encoded_bytes().contains(&0);
    if command.program.is_empty() {
        return Err("no program is named".into());
    }
    if has_nul(&command.program) {
        return Err("its name has a NUL byte in it".into());
    }
    if let Some(index) = command.args.iter().position(|arg| has_nul(arg)) {
        return Err(format!("argument {} has a NUL byte in it", index + 1));
    }
    for (name, variable) in &command.variables {
        let shown = redacted_env_name(name);
        if shown.is_empty() {
            return Err("a variable of its environment has no name".into());
        }
        if name.as_encoded_bytes().contains(&b'=') {
            return Err(format!("the environment variable {shown:?} has a = in its name"));
        }
        if has_nul(name) || variable.value().is_some_and(has_nul) {
            return Err(format!("the environment variable {shown:?} has a NUL byte in it"));
        }
    }
    Ok(())
}

fn check_current_dir(folder: &Path) -> Result<(), String> {
    let problem = match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => "is not a folder".into(),
        Ok(_) if access(folder, Access::EXEC_OK).is_err() => "may not be entered".into(),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".into(),
        Err(error) => format!("cannot be entered: {error}"),
    };
    Err(format!("the folder {folder:?} to start it in {problem}"))
}

/// Searches the program and returns its path relative to the working directory of the command.
fn find_program(command: &Command, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let program = Path::new(&command.program);
    if command.program.as_encoded_bytes().contains(&b'/') {
        return match check_file(&in_current_dir(command, program)) {
            ProgramCheck::Executable => Ok(program.into()),
            ProgramCheck::NotFound => Err("no such file".into()),
            ProgramCheck::Directory => Err("it is a folder".into()),
            ProgramCheck::NotExecutable => Err("it is not executable".into()),
            ProgramCheck::Inaccessible(error) => Err(error.to_string()),
        };
    }
    let path = path.ok_or("not found, as there is no PATH")?;
    let mut not_executable = None;
    for folder in std::env::split_paths(path) {
        // An empty entry means the working directory. A name without a slash would be searched in PATH again.
        let candidate = match folder.as_os_str().is_empty() {
            true => Path::new(".").join(program),
            false => folder.join(program),
        };
        match check_file(&in_current_dir(command, &candidate)) {
            ProgramCheck::Executable => return Ok(candidate),
            ProgramCheck::NotExecutable => not_executable = not_executable.or(Some(folder)),
            ProgramCheck::NotFound | ProgramCheck::Directory | ProgramCheck::Inaccessible(_) => {}
        }
    }
    Err(match not_executable {
        Some(folder) => format!("the one in {folder:?} is not executable"),
        None => format!("not found in PATH ({})", format_search_path(path)),
    })
}

/// The result of checking the file at a path.
enum ProgramCheck {
    Executable,
    NotFound,
    Directory,
    NotExecutable,
    Inaccessible(io::Error),
}

fn check_file(path: &Path) -> ProgramCheck {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => ProgramCheck::Directory,
        Ok(_) if access(path, Access::EXEC_OK).is_err() => ProgramCheck::NotExecutable,
        Ok(_) => ProgramCheck::Executable,
        Err(error) if error.kind() == io::ErrorKind::NotFound => ProgramCheck::NotFound,
        Err(error) => ProgramCheck::Inaccessible(error),
    }
}

fn in_current_dir(command: &Command, path: &Path) -> PathBuf {
    command.current_dir.as_ref().map_or_else(|| path.into(), |folder| folder.join(path))
}

/// Lists the directories of `PATH` for an error message, up to a limit.
fn format_search_path(path: &OsStr) -> String {
    let folders: Vec<_> =
        std::env::split_paths(path).map(|folder| folder.to_string_lossy().into_owned()).collect();
    let shown = folders.iter().take(MAX_LISTED_DIRS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match folders.len().saturating_sub(MAX_LISTED_DIRS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn has_space(program: &OsStr) -> bool {
    program.to_string_lossy().contains(char::is_whitespace)
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(program: &Path) -> Option<String> {
    let mut first = Vec::new();
    File::open(program).ok()?.take(MAX_SHEBANG_BYTES).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// How many directories of `PATH` an error lists.
const MAX_LISTED_DIRS: usize = 3;

/// How many bytes of the first line Linux reads.
const MAX_SHEBANG_BYTES: u64 = 256;
