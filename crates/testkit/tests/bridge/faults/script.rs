//! Servers written as scripts of `tsugite_testkit::script`, and what they report.

use std::fmt;

use tsugite::client::{Client, ClientBuilder};
use tsugite_testkit::script;

use super::{HANDSHAKE, within};

/// A server that is a script with a handshake.
pub(crate) fn spawn(text: &str) -> ClientBuilder {
    Client::spawn(script::command(env!("CARGO_BIN_EXE_helper"), text)).revision(HANDSHAKE)
}

/// Reports of a script, which fail the test instead of hanging.
pub(crate) struct Reports(script::Reports);

impl Reports {
    pub(crate) async fn listen() -> Self {
        Self(script::Reports::listen().await.unwrap())
    }

    /// Waits for `report`.
    pub(crate) async fn next(&self) -> String {
        within(self.0.next()).await.unwrap()
    }

    /// Lets a script continue after `wait_for`.
    pub(crate) async fn allow(&self) {
        within(self.0.allow()).await.unwrap();
    }
}

impl fmt::Display for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
