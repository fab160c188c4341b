//! Child processes: a [`Command`] describes the program that [`Client::spawn`](crate::Client::spawn) starts as a server.

// A platform supplies `Child`, `SpawnedChild` and `Command::spawn`, and with `environment` and `executable` what the names
// of variables and files mean.

mod command;
mod environment;
mod executable;
mod exit_status;
mod resolve_program;
mod stderr_tail;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use command::{Command, Stderr};
#[cfg(unix)]
pub(crate) use unix::{Child, SpawnedChild};
#[cfg(windows)]
pub(crate) use windows::{Child, SpawnedChild};
