//! The command that starts a server: program, arguments, environment and working directory.
//!
//! A server is third-party code. It gets only the environment variables that every program needs, so that a token in our
//! environment does not leak to it unless the caller passes it on.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::environment::{DEFAULT_ENV, same_name};

/// A command that starts a server: a program, its arguments and its environment.
///
/// The program is a path, or a name that is searched in `PATH`. No shell is involved: each argument is passed as it is.
///
/// From our environment the server inherits `HOME`, `LANG`, `LC_*`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ`
/// and `USER`; [`Command::env`] and [`Command::pass_env`] add more. Exported shell functions are never inherited.
///
/// On Windows `npx` is also `npx.cmd`, since the endings of `PATHEXT` are tried, and the server inherits what a program
/// needs there: `APPDATA`, `COMSPEC`, `HOMEDRIVE`, `HOMEPATH`, `LOCALAPPDATA`, `PATH`, `PATHEXT`, `SYSTEMROOT`, `TEMP`,
/// `USERPROFILE` and so on.
///
/// ```
/// use tsugite::transport::child::Command;
///
/// let command = Command::new("npx").args(["-y", "some-server"]).pass_env("SOME_TOKEN").current_dir("/tmp");
/// // The same without an environment or a directory:
/// let command = Command::from(["npx", "-y", "some-server"]);
/// ```
///
/// `Debug` and errors show no arguments and no values of variables, because they may be secrets.
#[derive(Clone)]
#[doc(alias("StdioClientTransport", "StdioServerParameters", "TokioChildProcess"))]
pub struct Command {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) variables: BTreeMap<OsString, EnvVar>,
    inherit_env: bool,
    pub(super) current_dir: Option<PathBuf>,
    pub(super) stderr: Stderr,
    pub(super) shutdown_grace: Duration,
    pub(super) on_spawn: Option<Arc<dyn Fn(u32) + Send + Sync>>,
}

/// The source of the value of an environment variable.
#[derive(Clone)]
pub(super) enum EnvVar {
    Set(OsString),
    Inherited,
    Removed,
}

impl EnvVar {
    pub(super) fn value(&self) -> Option<&OsStr> {
        match self {
            EnvVar::Set(value) => Some(value),
            EnvVar::Inherited | EnvVar::Removed => None,
        }
    }
}

/// The destination of a server's stderr.
///
/// The specification allows servers to log anything there, so output on stderr does not mean an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stderr {
    /// Keeps the last 64 KiB, which errors show when the server fails. Each line is also logged with `tracing` at the
    /// debug level.
    #[default]
    Capture,
    /// Goes to our own stderr.
    Inherit,
    /// Is dropped.
    Discard,
}

impl Command {
    /// Creates a command without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            variables: BTreeMap::new(),
            inherit_env: false,
            current_dir: None,
            stderr: Stderr::default(),
            shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
            on_spawn: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds several arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server.
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variable(name.into(), EnvVar::Set(value.into()))
    }

    /// Sets several environment variables of the server.
    pub fn envs(
        self,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        variables.into_iter().fold(self, |command, (name, value)| command.env(name, value))
    }

    /// Passes on one of our environment variables, with its value at the time the command is started. If it is not set
    /// then, it is not set for the server either.
    pub fn pass_env(self, name: impl Into<OsString>) -> Self {
        self.variable(name.into(), EnvVar::Inherited)
    }

    /// Never passes on this environment variable, also with [`Command::inherit_env`].
    pub fn env_remove(self, name: impl Into<OsString>) -> Self {
        self.variable(name.into(), EnvVar::Removed)
    }

    /// Passes on our whole environment. Use it only for programs that may see every secret in it.
    pub fn inherit_env(mut self) -> Self {
        self.inherit_env = true;
        self
    }

    /// Sets the working directory; ours unless set.
    ///
    /// A program given as a relative path is searched from there.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(folder.into());
        self
    }

    /// Sets the destination of the server's stderr; [`Stderr::Capture`] unless set.
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// Sets how long the server may run after its stdin is closed; two seconds unless set.
    ///
    /// After that it gets SIGTERM and the same time again, and then it is killed with all processes it started. Windows has
    /// no SIGTERM: there it is killed after the first time.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Calls a function with the process id of the server whenever it was started. The id is not reused before the
    /// function returns. On Unix the server leads a process group with the same id.
    ///
    /// A program that may be killed can tell another process about its servers, so that they do not survive it.
    pub fn on_spawn(mut self, observer: impl Fn(u32) + Send + Sync + 'static) -> Self {
        self.on_spawn = Some(Arc::new(observer));
        self
    }

    /// Builds the environment of the server from ours.
    pub(super) fn environment(
        &self,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        // A shell would run such a value as code (Shellshock, CVE-2014-6271).
        let is_function = |value: &OsStr| value.as_encoded_bytes().starts_with(b"()");
        let inherited =
            ours.into_iter().filter(|(name, value)| self.is_inherited(name) && !is_function(value));
        let set = self
            .variables
            .iter()
            .filter_map(|(name, variable)| Some((name.clone(), variable.value()?.to_owned())));
        inherited.chain(set).collect()
    }

    fn is_inherited(&self, name: &OsStr) -> bool {
        let is_default = || DEFAULT_ENV.iter().any(|default| same_name(name, OsStr::new(default)));
        let is_locale = || name.as_encoded_bytes().starts_with(b"LC_");
        match self.variables.iter().find(|(other, _)| same_name(name, other)) {
            Some((_, EnvVar::Removed | EnvVar::Set(_))) => false,
            Some((_, EnvVar::Inherited)) => true,
            None => self.inherit_env || is_default() || is_locale(),
        }
    }

    /// Replaces an earlier setting of the same variable.
    fn variable(mut self, name: OsString, variable: EnvVar) -> Self {
        self.variables.retain(|other, _| !same_name(&name, other));
        self.variables.insert(name, variable);
        self
    }
}

/// A program without arguments.
impl From<&str> for Command {
    fn from(program: &str) -> Self {
        Self::new(program)
    }
}

/// A program without arguments.
impl From<String> for Command {
    fn from(program: String) -> Self {
        Self::new(program)
    }
}

/// A program and its arguments. An empty array cannot be started.
impl<S: Into<OsString>, const N: usize> From<[S; N]> for Command {
    fn from(command_line: [S; N]) -> Self {
        from_args(command_line)
    }
}

/// A program and its arguments. An empty vector cannot be started.
impl<S: Into<OsString>> From<Vec<S>> for Command {
    fn from(command_line: Vec<S>) -> Self {
        from_args(command_line)
    }
}

/// A program and its arguments. An empty slice cannot be started.
impl<S: AsRef<OsStr>> From<&[S]> for Command {
    fn from(command_line: &[S]) -> Self {
        from_args(command_line.iter().map(AsRef::as_ref))
    }
}

fn from_args(command_line: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let mut arguments = command_line.into_iter();
    Command::new(arguments.next().map(Into::into).unwrap_or_default()).args(arguments)
}

/// Shows no arguments and no values of variables, because they may be secrets.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &redacted_program(&self.program))
            .field("args", &self.args.len())
            .field("env", &self.variables.keys().map(|name| redacted_env_name(name)).collect::<Vec<_>>())
            .field("inherit_env", &self.inherit_env)
            .field("current_dir", &self.current_dir)
            .field("stderr", &self.stderr)
            .field("grace", &self.shutdown_grace)
            .finish()
    }
}

/// Returns the program for an error message, without the rest of a command line that was passed as the program: that may
/// hold a secret.
pub(super) fn redacted_program(program: &OsStr) -> String {
    let program = program.to_string_lossy();
    match program.split_once(char::is_whitespace) {
        Some((first, _)) => format!("{first} …"),
        None => program.into_owned(),
    }
}

/// Returns the name of a variable for an error message, without a value that was passed as part of the name.
pub(super) fn redacted_env_name(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    name.split_once('=').map_or(&*name, |(name, _)| name).to_owned()
}

/// The default of [`Command::shutdown_grace`].
const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
