//! A server that is a child process: how it is started, watched and ended.
//!
//! [`Command`] says what to start. A platform supplies `Child`, `SpawnedChild` and
//! `Command::spawn`.

mod command;
#[cfg(unix)]
mod unix;

pub use command::{Command, Stderr};
#[cfg(unix)]
pub(crate) use unix::{Child, SpawnedChild};
