//! Opens connections to one server, in steps, so that an error names the step that failed.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::address::ServerOrigin;
use super::full_body::FullBody;
use super::proxy::Proxy;
use super::resolver::{AddressFilter, Resolver};
use super::tls::Tls;
use super::unix_socket;
use crate::client::client_error::{ClientError, ConnectStep};

/// Opens connections to one server.
pub(super) struct Connector {
    pub(super) origin: ServerOrigin,
    pub(super) route: Route,
    pub(super) tls: Option<Tls>,
    /// The timeout of each step.
    pub(super) timeout: Duration,
    pub(super) resolver: Arc<dyn Resolver>,
    /// Decides which addresses of the server may be connected to.
    pub(super) filter: Option<Arc<dyn AddressFilter>>,
}

/// The way to a server.
pub(super) enum Route {
    /// A TCP connection to its host.
    Direct,
    /// A TCP connection to a proxy.
    Proxy(Proxy),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A connection that was just opened.
pub(super) struct NewConnection {
    pub(super) sender: SendRequest<FullBody>,
    pub(super) task: AbortHandle,
    /// The address of the server, unless a proxy or a Unix socket is between.
    pub(super) remote_address: Option<IpAddr>,
}

impl Connector {
    /// Opens a connection.
    pub(super) async fn connect(&self) -> Result<NewConnection, ClientError> {
        match &self.route {
            Route::Direct => {
                let socket =
                    self.connect_tcp(&self.origin.host, self.origin.port, self.filter.as_deref()).await?;
                let remote_address = socket.peer_addr().ok().map(|address| address.ip());
                let connection = self.start_http(socket).await?;
                Ok(NewConnection { remote_address, ..connection })
            }
            Route::Unix(path) => {
                let socket = self.limit(ConnectStep::Tcp, unix_socket::connect(path)).await?;
                let shown = path.display();
                let socket = socket
                    .map_err(|error| ClientError::connect(ConnectStep::Tcp, format!("{shown}: {error}")))?;
                http_handshake(socket).await
            }
            Route::Proxy(proxy) => {
                if let Some(filter) = &self.filter {
                    let host = &self.origin.host;
                    filter.check_proxied_host(host).map_err(|reason| refused(host, &reason))?;
                }
                let mut socket = self.connect_tcp(&proxy.host, proxy.port, None).await?;
                if self.origin.secure {
                    let tunnel = proxy.open_tunnel(&mut socket, &self.origin);
                    self.limit(ConnectStep::Proxy, tunnel)
                        .await?
                        .map_err(|error| ClientError::connect(ConnectStep::Proxy, error))?;
                }
                self.start_http(socket).await
            }
        }
    }

    /// Changes a request to what the route requires.
    pub(super) fn prepare(&self, request: &mut Request<FullBody>) {
        if let Route::Proxy(proxy) = &self.route
            && !self.origin.secure
        {
            proxy.address_request(request, &self.origin);
        }
    }

    /// Resolves a host and connects to the first of its addresses that accepts a connection. All of them must pass the
    /// filter: a name with an address that is refused is not to be trusted.
    async fn connect_tcp(
        &self,
        host: &str,
        port: u16,
        filter: Option<&dyn AddressFilter>,
    ) -> Result<TcpStream, ClientError> {
        let dns_error = |reason: &dyn std::fmt::Display| {
            ClientError::connect(ConnectStep::Dns, format!("{host}: {reason}"))
        };
        let addresses = self
            .limit(ConnectStep::Dns, self.resolver.resolve(host, port))
            .await?
            .map_err(|error| dns_error(&error))?;
        if let Some(filter) = filter {
            for address in &addresses {
                filter.check_address(host, address.ip()).map_err(|reason| refused(host, &reason))?;
            }
        }
        let mut last_error = dns_error(&"no address found");
        for address in addresses {
            match self.limit(ConnectStep::Tcp, TcpStream::connect(address)).await {
                Err(error) => last_error = error,
                Ok(Err(error)) => {
                    last_error = ClientError::connect(ConnectStep::Tcp, format!("{address}: {error}"));
                }
                Ok(Ok(socket)) => {
                    // Messages are small and the sender waits for the response, so Nagle's algorithm only adds latency.
                    let _ = socket.set_nodelay(true);
                    return Ok(socket);
                }
            }
        }
        Err(last_error)
    }

    /// Starts HTTP on a socket, over TLS for `https`.
    async fn start_http(&self, socket: TcpStream) -> Result<NewConnection, ClientError> {
        let Some(tls) = &self.tls else { return http_handshake(socket).await };
        let host = &self.origin.host;
        let encrypted = self
            .limit(ConnectStep::Tls, tls.connect(host, socket))
            .await?
            .map_err(|error| ClientError::connect(ConnectStep::Tls, format!("{host}: {error}")))?;
        http_handshake(encrypted).await
    }

    /// Fails if a step exceeds the timeout.
    async fn limit<T>(
        &self,
        step: ConnectStep,
        future: impl Future<Output = io::Result<T>>,
    ) -> Result<io::Result<T>, ClientError> {
        let limit = self.timeout;
        timeout(limit, future)
            .await
            .map_err(|_| ClientError::connect(step, format!("no response within {} s", limit.as_secs_f64())))
    }
}

async fn http_handshake<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: T,
) -> Result<NewConnection, ClientError> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(|error| ClientError::connect(ConnectStep::Http, error))?;
    let task = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an HTTP connection has failed");
        }
    });
    Ok(NewConnection { sender, task: task.abort_handle(), remote_address: None })
}

fn refused(host: &str, reason: &str) -> ClientError {
    ClientError::connect(ConnectStep::Dns, format!("{host}: {reason}"))
}

/// The read buffer in bytes, which also limits the head of a response.
const MAX_HEAD_BYTES: usize = 256 << 10;
