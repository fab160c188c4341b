//! What to run, and in which surroundings.
//!
//! A server is somebody else's program. Of our environment it sees what every program needs, and no token that happens
//! to be there, unless it is told to.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What to run: a program, its arguments, and deliberately chosen surroundings.
///
/// The program is a path, or a name that is looked for in `PATH`. No shell reads it: arguments are given apart, and
/// nothing in them has a meaning of its own.
///
/// Of our environment it gets `HOME`, `LANG`, `LC_*`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ` and `USER`,
/// and what [`Command::env`] and [`Command::pass_env`] add. Exported shell functions are never passed on.
///
/// ```
/// use tsugite::transport::child::Command;
///
/// let command = Command::new("npx").args(["-y", "some-server"]).pass_env("SOME_TOKEN").current_dir("/tmp");
/// // The same without surroundings:
/// let command = Command::from(["npx", "-y", "some-server"]);
/// ```
///
/// What shows a command, such as `Debug`, shows no argument and no value of a variable: there may be secrets among
/// them.
#[derive(Clone)]
pub struct Command {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) variables: BTreeMap<OsString, EnvVar>,
    inherit_env: bool,
    pub(super) current_dir: Option<PathBuf>,
    pub(super) stderr: Stderr,
    pub(super) shutdown_grace: Duration,
}

/// Where the value of a variable comes from.
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

/// What becomes of what a server writes to stderr.
///
/// The specification lets servers log there whatever they like; it need not be an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stderr {
    /// The last 64 KiB are kept, for whoever wants to know why the server failed. Each line goes to `tracing` too, at
    /// the level of debugging.
    #[default]
    Capture,
    /// It goes where ours goes.
    Inherit,
    /// Nobody sees it.
    Discard,
}

impl Command {
    /// A command without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            variables: BTreeMap::new(),
            inherit_env: false,
            current_dir: None,
            stderr: Stderr::default(),
            shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
        }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), EnvVar::Set(value.into()));
        self
    }

    /// Sets several variables of its environment.
    pub fn envs(
        self,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        variables.into_iter().fold(self, |command, (name, value)| command.env(name, value))
    }

    /// Passes on a variable of our environment, as it is when the command is started. If we have none of that name,
    /// neither has the server.
    pub fn pass_env(mut self, name: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), EnvVar::Inherited);
        self
    }

    /// Does not pass on a variable of our environment, whatever else is passed.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), EnvVar::Removed);
        self
    }

    /// Passes on all of our environment. Only for programs that may know every secret in it.
    pub fn inherit_env(mut self) -> Self {
        self.inherit_env = true;
        self
    }

    /// The folder to start it in, ours unless told otherwise.
    ///
    /// A program that is given as a relative path is looked for from there.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(folder.into());
        self
    }

    /// What becomes of what it writes to stderr, [`StderrSubscriber::Capture`] unless told otherwise.
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// How long it may take to end once its stdin is closed, two seconds unless told otherwise.
    ///
    /// Then it is asked with SIGTERM, has that time again, and is killed with everything it started.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Its environment, in view of ours.
    pub(super) fn environment(
        &self,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        // A shell would run such a value as code; that is how Shellshock came in.
        let is_function = |value: &OsStr| value.as_encoded_bytes().starts_with(b"()");
        let passed = ours.into_iter().filter(|(name, value)| self.is_inherited(name) && !is_function(value));
        let given = self
            .variables
            .iter()
            .filter_map(|(name, variable)| Some((name.clone(), variable.value()?.to_owned())));
        passed.chain(given).collect()
    }

    fn is_inherited(&self, name: &OsStr) -> bool {
        let is_usual =
            || DEFAULT_ENV.iter().any(|usual| name == *usual) || name.as_encoded_bytes().starts_with(b"LC_");
        match self.variables.get(name) {
            Some(EnvVar::Removed) => false,
            Some(EnvVar::Inherited) => true,
            _ => self.inherit_env || is_usual(),
        }
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

/// A program and its arguments. An empty one cannot be started.
impl<S: Into<OsString>, const N: usize> From<[S; N]> for Command {
    fn from(words: [S; N]) -> Self {
        from_args(words)
    }
}

/// A program and its arguments. An empty one cannot be started.
impl<S: Into<OsString>> From<Vec<S>> for Command {
    fn from(words: Vec<S>) -> Self {
        from_args(words)
    }
}

/// A program and its arguments. An empty one cannot be started.
impl<S: AsRef<OsStr>> From<&[S]> for Command {
    fn from(words: &[S]) -> Self {
        from_args(words.iter().map(AsRef::as_ref))
    }
}

fn from_args(words: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let mut words = words.into_iter();
    Command::new(words.next().map(Into::into).unwrap_or_default()).args(words)
}

/// Without values: they may be secrets.
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

/// A program as it may be shown: whoever writes a whole command line in its place may have written a secret.
pub(super) fn redacted_program(program: &OsStr) -> String {
    let program = program.to_string_lossy();
    match program.split_once(char::is_whitespace) {
        Some((first, _)) => format!("{first} …"),
        None => program.into_owned(),
    }
}

/// The name of a variable as it may be shown, without a value that was written into it.
pub(super) fn redacted_env_name(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    name.split_once('=').map_or(&*name, |(name, _)| name).to_owned()
}

/// What every program may see. The official SDKs pass `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`; the others
/// are the place, the language and the time a program cannot guess.
const DEFAULT_ENV: [&str; 9] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// How long a child may take to end.
const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
