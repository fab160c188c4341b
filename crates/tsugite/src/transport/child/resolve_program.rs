//! Finds the program of a command and explains why it cannot be started.
//!
//! The system reports the same "not found" for a missing program, a missing directory and a missing interpreter. Therefore
//! the command is checked before it is started, and once more if starting it fails.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::command::{Command, redacted_env_name, redacted_program};
use super::environment::same_name;
use super::executable::{can_enter, candidates, is_executable, is_path, search_folder, start_error};

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
    let program = find_program(command, environment);
    program.map_err(|reason| match has_space(&command.program) {
        true => fail(format!("{reason}; arguments are given apart from the program")),
        false => fail(reason),
    })
}

/// Returns the error for a program that was found but could not be started.
pub(super) fn spawn_error(command: &Command, program: &Path, error: &io::Error) -> SpawnError {
    let reason = start_error(&in_current_dir(command, program), error);
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
        Ok(_) if !can_enter(folder) => "may not be entered".into(),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".into(),
        Err(error) => format!("cannot be entered: {error}"),
    };
    Err(format!("the folder {folder:?} to start it in {problem}"))
}

/// Searches the program and returns its path relative to the working directory of the command.
fn find_program(command: &Command, environment: &BTreeMap<OsString, OsString>) -> Result<PathBuf, String> {
    let program = Path::new(&command.program);
    let variable = |wanted: &str| {
        let found = environment.iter().find(|(name, _)| same_name(name, OsStr::new(wanted)));
        found.map(|(_, value)| value.as_os_str())
    };
    let endings = variable("PATHEXT");
    if is_path(&command.program) {
        return match check_candidates(command, program, endings) {
            ProgramCheck::Executable(found) => Ok(found),
            ProgramCheck::NotFound => Err("no such file".into()),
            ProgramCheck::Directory => Err("it is a folder".into()),
            ProgramCheck::NotExecutable => Err("it is not executable".into()),
            ProgramCheck::Inaccessible(error) => Err(error.to_string()),
        };
    }
    let path = variable("PATH").ok_or("not found, as there is no PATH")?;
    let mut not_executable = None;
    for folder in std::env::split_paths(path).filter_map(search_folder) {
        match check_candidates(command, &folder.join(program), endings) {
            ProgramCheck::Executable(found) => return Ok(found),
            ProgramCheck::NotExecutable => not_executable = not_executable.or(Some(folder)),
            ProgramCheck::NotFound | ProgramCheck::Directory | ProgramCheck::Inaccessible(_) => {}
        }
    }
    Err(match not_executable {
        Some(folder) => format!("the one in {folder:?} is not executable"),
        None => format!("not found in PATH ({})", format_search_path(path)),
    })
}

/// The result of checking the files that a path may mean.
enum ProgramCheck {
    /// The file to start.
    Executable(PathBuf),
    NotFound,
    Directory,
    NotExecutable,
    Inaccessible(io::Error),
}

/// Returns the first candidate that can be started, or why the path itself cannot.
fn check_candidates(command: &Command, path: &Path, endings: Option<&OsStr>) -> ProgramCheck {
    let startable = |candidate: &PathBuf| {
        let file = in_current_dir(command, candidate);
        fs::metadata(&file).is_ok_and(|found| !found.is_dir()) && is_executable(&file)
    };
    if let Some(found) = candidates(path, endings).into_iter().find(startable) {
        return ProgramCheck::Executable(found);
    }
    match fs::metadata(in_current_dir(command, path)) {
        Ok(found) if found.is_dir() => ProgramCheck::Directory,
        Ok(_) => ProgramCheck::NotExecutable,
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

/// How many directories of `PATH` an error lists.
const MAX_LISTED_DIRS: usize = 3;
