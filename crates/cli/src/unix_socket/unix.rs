//! Unix sockets on Unix.

use tsugite::Server;
use tsugite::transport::http::HttpUnixListener;

/// A listener on a Unix socket.
pub(crate) type Listener = HttpUnixListener;

/// Binds a socket that only this user can open.
pub(crate) fn bind(server: &Server, path: &str) -> tsugite::Result<Listener> {
    server.bind_http_unix(path)
}
