//! A server that listens on a TCP port.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::ReadBuf;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::oneshot;

use super::super::signal;
use super::accept_loop::{Accept, serve_connections, serve_requests};
use super::connections::ConnGuard;
use super::http_state::HttpState;
use super::hyper_connection::ALPN_PROTOCOLS;
use super::service::HttpService;
use super::tls;
use crate::server::Server;
use crate::shared::log;

impl Server {
    /// Serves over HTTP, in every revision, until the process receives SIGINT or SIGTERM.
    ///
    /// The endpoint is at `/mcp`; [`Server::http`] sets that and everything else. The address is logged. Requests in progress have five seconds to
    /// finish after the signal, or the time set by [`Server::shutdown_grace`]. Fails if something was registered that cannot be
    /// offered, or if the address cannot be bound.
    #[doc(alias("StreamableHttpService", "streamable_http", "StreamableHTTPServerTransport"))]
    pub async fn serve_http(self, address: impl ToSocketAddrs) -> crate::Result<()> {
        self.bind_http(address).await?.serve().await
    }

    /// Binds the address, so that the port is known before [`HttpListener::serve`] serves it.
    pub async fn bind_http(&self, address: impl ToSocketAddrs) -> crate::Result<HttpListener> {
        let service = self.new_http_service()?;
        let tls = match &service.0.http.tls {
            Some((chain, key)) => {
                let client_ca = service.0.http.tls_client_ca.as_deref();
                Some(tls::Acceptor::load(chain, key, client_ca, ALPN_PROTOCOLS)?)
            }
            None if service.0.http.tls_client_ca.is_some() => {
                return Err(io::Error::other("`Http::tls_client_ca` needs `Http::tls`").into());
            }
            None => None,
        };
        let listener = listen(address).await?;
        let local = listener.local_addr()?;
        if !local.ip().is_unspecified() {
            let _ = service.0.local_ip.set(local.ip());
        }
        if let Some(authorization) = &service.0.authorization {
            authorization.url().set_listener(local);
            authorization.check_address().map_err(|error| crate::Error::registration(vec![error]))?;
        }
        Ok(HttpListener { state: service.0, listener, tls, local_addr: local })
    }

    /// The server as a `tower` service, for another listener or router.
    #[doc(alias("StreamableHttpService", "streamable_http_app", "tower", "axum"))]
    pub fn http_service(&self) -> crate::Result<HttpService> {
        let service = self.new_http_service()?;
        if let Some(authorization) = &service.0.authorization {
            authorization.check_address().map_err(|error| crate::Error::registration(vec![error]))?;
        }
        Ok(service)
    }

    fn new_http_service(&self) -> crate::Result<HttpService> {
        self.check_registrations()?;
        let state = HttpState::new(self);
        if !state.http.config_errors.is_empty() {
            return Err(crate::Error::registration(state.http.config_errors.clone()));
        }
        Ok(HttpService(state))
    }
}

/// Binds the first address that can be bound. The error names the addresses.
async fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(address).await?.collect();
    TcpListener::bind(&*addresses).await.map_err(|error| {
        let named: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
        io::Error::new(error.kind(), format!("{}: {error}", named.join(", ")))
    })
}

/// A server that is bound to an address.
pub struct HttpListener {
    state: Arc<HttpState>,
    listener: TcpListener,
    tls: Option<tls::Acceptor>,
    local_addr: SocketAddr,
}

impl HttpListener {
    /// The address that it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
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

    /// Logs the address and serves until `stop` completes. Then it accepts no more connections, ends the streams that only carry notifications,
    /// and waits for requests in progress for the time of grace.
    pub async fn serve_until(self, stop: impl Future<Output = ()>) -> crate::Result<()> {
        let (stopping, stopped) = oneshot::channel();
        let mut serving = self.start(stopped);
        tokio::select! {
            biased;
            () = stop => drop(stopping),
            () = &mut serving => return Ok(()),
        }
        serving.await;
        Ok(())
    }

    /// Serves until the sender of `stopped` is dropped. Neither generic nor an `async fn`, so that it is compiled with this
    /// crate and not with each that awaits it.
    fn start(self, stopped: oneshot::Receiver<()>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self { state, listener, tls, local_addr } = self;
        let scheme = if tls.is_some() { "https" } else { "http" };
        log::info!("listening on {scheme}://{local_addr}{}", state.http.path);
        let stop = async { drop(stopped.await) };
        Box::pin(serve_connections(state, TcpAccept { listener, tls }, stop))
    }
}

/// Accepts TCP connections, with TLS or without.
struct TcpAccept {
    listener: TcpListener,
    tls: Option<tls::Acceptor>,
}

impl Accept for TcpAccept {
    type Socket = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        self.listener.accept().await.map(|(socket, peer)| (socket, Some(peer.ip())))
    }

    fn serve(&self, guard: ConnGuard, socket: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        serve_connection(guard, socket, self.tls.clone())
    }
}

impl std::fmt::Debug for HttpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpListener").field("local", &self.local_addr).finish_non_exhaustive()
    }
}

/// Serves one connection until either side closes it.
async fn serve_connection(guard: ConnGuard, socket: TcpStream, tls: Option<tls::Acceptor>) {
    // A response is written in one piece, so Nagle's algorithm would only delay it.
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let Some(tls) = tls else {
        // A connection without a request allocates no buffers. Peeks first, since a new socket is reported as readable.
        let first =
            guard.connection.run_until_shutdown(|cx| socket.poll_peek(cx, &mut ReadBuf::new(&mut [0])));
        if matches!(first.await, Some(Ok(_))) {
            serve_requests(guard.connection.clone(), socket).await;
        }
        return;
    };
    // In a box, so that connections without TLS stay small.
    Box::pin(async move {
        let mut accepting = std::pin::pin!(tls.accept(socket));
        if let Some(Ok(socket)) = guard.connection.run_until_shutdown(|cx| accepting.as_mut().poll(cx)).await
        {
            serve_requests(guard.connection.clone(), socket).await;
        }
    })
    .await;
}
