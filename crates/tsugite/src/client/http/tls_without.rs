//! Without the cargo feature `tls` nothing is encrypted, and whoever asks for it hears how to get it.

use std::convert::Infallible;
use std::io;

use tokio::net::TcpStream;

/// What would encrypt.
#[derive(Clone)]
pub(in crate::client) struct Tls(Infallible);

impl Tls {
    pub(in crate::client) fn new(_: &[std::path::PathBuf]) -> io::Result<Self> {
        let text = "https is spoken only with the cargo feature `tls` of tsugite, which this program was built without";
        Err(io::Error::other(text))
    }

    pub(super) async fn connect(&self, _: &str, _: TcpStream) -> io::Result<TcpStream> {
        match self.0 {}
    }
}
