//! Child processes: a [`Command`] describes the program that [`Client::spawn`](crate::Client::spawn) starts as a server.

// A platform supplies `Child`, `SpawnedChild` and `Command::spawn`.

mod command;
#[cfg(unix)]
mod unix;

pub use command::{Command, Stderr};
#[cfg(unix)]
pub(crate) use unix::{Child, SpawnedChild};
