//! A server that listens on a Unix socket, which only its owner can open.

use std::fs::{self, DirBuilder, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};

use super::super::signal;
use super::accept_loop::{Accept, serve_connections, serve_requests};
use super::connections::ConnGuard;
use super::http_state::HttpState;
use crate::server::Server;
use crate::shared::log;

impl Server {
    /// Serves HTTP on a Unix socket, like [`Server::serve_http`] on a port. Clients connect to `unix:PATH`.
    ///
    /// Only processes of the same user can open the socket. It is removed when the server stops, and replaced if it is
    /// left from a server that no longer runs. TLS settings do not apply.
    pub async fn serve_http_unix(self, path: impl AsRef<Path>) -> crate::Result<()> {
        self.bind_http_unix(path)?.serve().await
    }

    /// Binds a Unix socket, which [`HttpUnixListener::serve`] serves. Fails if another server listens on it, or if
    /// something else than a socket has this path.
    pub fn bind_http_unix(&self, path: impl AsRef<Path>) -> crate::Result<HttpUnixListener> {
        let service = self.http_service()?;
        let path = path.as_ref();
        let socket = OwnedSocket::bind(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(HttpUnixListener { state: service.0, socket })
    }
}

/// A server that is bound to a Unix socket.
pub struct HttpUnixListener {
    state: Arc<HttpState>,
    socket: OwnedSocket,
}

impl HttpUnixListener {
    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }

    /// Serves until the process receives SIGINT or SIGTERM. Requests in progress then have the time of
    /// [`Server::shutdown_grace`](crate::Server::shutdown_grace); a second signal ends them at once.
    pub async fn serve(self) -> crate::Result<()> {
        let (stop, stop_now) = (signal::shutdown_signal(), signal::second_shutdown_signal());
        tokio::select! {
            biased;
            served = self.serve_until(stop) => served,
            () = stop_now => Ok(()),
        }
    }

    /// Logs the path and serves until `stop` completes, like
    /// [`HttpListener::serve_until`](super::HttpListener::serve_until).
    pub async fn serve_until(self, stop: impl Future<Output = ()>) -> crate::Result<()> {
        let Self { state, socket } = self;
        log::info!("listening on unix:{}:{}", socket.path.display(), state.http.path);
        serve_connections(state, socket, stop).await;
        Ok(())
    }
}

impl std::fmt::Debug for HttpUnixListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpUnixListener").field("path", &self.socket.path).finish_non_exhaustive()
    }
}

/// A bound socket, whose file is removed when it is dropped.
struct OwnedSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and inode of the file, so that the socket of a later server is not removed.
    file: (u64, u64),
}

impl OwnedSocket {
    fn bind(path: &Path) -> io::Result<Self> {
        refuse_if_in_use(path)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Bound in a private folder and then moved, so that no other user can open it before its mode is set, and so that
        // a socket that was left behind is replaced in one step.
        let private = PrivateFolder::create(folder)?;
        let unready = private.0.join("s");
        let listener = UnixListener::bind(&unready)?;
        fs::set_permissions(&unready, Permissions::from_mode(0o600))?;
        let metadata = fs::symlink_metadata(&unready)?;
        fs::rename(&unready, path)?;
        Ok(Self { listener, path: path.to_owned(), file: (metadata.dev(), metadata.ino()) })
    }
}

impl Drop for OwnedSocket {
    fn drop(&mut self) {
        let is_own = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file);
        if is_own {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Accept for OwnedSocket {
    type Socket = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(socket, _)| socket)
    }

    fn serve(&self, guard: ConnGuard, socket: UnixStream) -> impl Future<Output = ()> + Send + 'static {
        let connection = guard.connection.clone();
        async move {
            serve_requests(connection, socket).await;
            drop(guard);
        }
    }
}

/// Fails unless the path is free, or a socket that no process listens on.
fn refuse_if_in_use(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens on this socket")),
    }
}

/// A folder that only its owner can enter, removed when it is dropped.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn create(parent: &Path) -> io::Result<Self> {
        let process = std::process::id();
        for attempt in 0..MAX_FOLDER_ATTEMPTS {
            let path = parent.join(format!(".{process}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MAX_FOLDER_ATTEMPTS: u32 = 100;
