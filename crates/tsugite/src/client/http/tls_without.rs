//! Stands in for TLS without the cargo feature `tls`: an `https` URL is an error.

use std::convert::Infallible;
use std::io;

use tokio::net::TcpStream;

/// A TLS connector that cannot be created.
#[derive(Clone)]
pub(in crate::client) struct Tls(Infallible);

impl Tls {
    pub(in crate::client) fn new(_: &[std::path::PathBuf]) -> io::Result<Self> {
        let text = "https needs the cargo feature `tls` of tsugite, which is not enabled in this build";
        Err(io::Error::other(text))
    }

    pub(super) async fn connect(&self, _: &str, _: TcpStream) -> io::Result<TcpStream> {
        match self.0 {}
    }
}
