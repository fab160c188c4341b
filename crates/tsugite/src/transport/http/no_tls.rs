//! Stands in for TLS where the cargo feature `tls` is off.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use tokio::net::TcpStream;

/// A connection that is never encrypted, because there is none.
pub(super) type Stream = TcpStream;

/// Stands in for TLS, which this build does not have.
#[derive(Clone)]
pub(super) struct Acceptor(Infallible);

impl Acceptor {
    /// Fails: what should be encrypted is never sent in the clear.
    pub(super) fn load(_: &Path, _: &Path, _: Option<&Path>, _: &[&[u8]]) -> io::Result<Self> {
        Err(io::Error::other("`Http::tls` needs the cargo feature `tls`"))
    }

    pub(super) async fn accept(&self, _: TcpStream) -> io::Result<Stream> {
        match self.0 {}
    }
}
