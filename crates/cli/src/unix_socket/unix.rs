//! Unix sockets on Unix.

use tsugite::Server;
use tsugite::transport::http::HttpUnixListener;

/// Binds a socket that only this user can open.
pub(crate) fn bind(server: &Server, path: &str) -> tsugite::Result<HttpUnixListener> {
    server.bind_http_unix(path)
}
