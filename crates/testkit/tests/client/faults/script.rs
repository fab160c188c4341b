//! Servers written as scripts of `tsugite_testkit::script`.

use tsugite::client::{Client, ClientBuilder, Command};

use super::{HANDSHAKE, until};

/// A command that runs a script.
pub(crate) fn script(text: &str) -> Command {
    tsugite_testkit::script::command(env!("CARGO_BIN_EXE_helper"), text)
}

/// A client of a script with a handshake.
pub(crate) fn spawn(text: &str) -> ClientBuilder {
    Client::spawn(script(text)).revision(HANDSHAKE)
}

/// A client of a script without a handshake.
pub(crate) fn spawn_modern(text: &str) -> ClientBuilder {
    Client::spawn(script(text)).revision(tsugite::prelude::Revision::NEWEST)
}

/// Waits until the standard error of the script contains `text`.
pub(crate) async fn noted(client: &Client, text: &str) {
    until(|| client.stderr().contains(text)).await;
}
