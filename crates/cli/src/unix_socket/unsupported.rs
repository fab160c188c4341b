//! Stands in for Unix sockets on platforms without them.

use std::convert::Infallible;
use std::io;

use tsugite::Server;

/// A listener that cannot exist.
pub(crate) struct Listener(Infallible);

impl Listener {
    pub(crate) async fn serve_until(self, _: impl Future<Output = ()>) -> tsugite::Result<()> {
        match self.0 {}
    }
}

/// Fails, because this platform has no Unix sockets.
pub(crate) fn bind(_: &Server, _: &str) -> tsugite::Result<Listener> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this platform has no Unix sockets").into())
}
