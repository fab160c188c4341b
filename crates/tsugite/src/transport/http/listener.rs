//! The listener: accepts connections, limits how long they may stall, and shuts them down gracefully.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use super::super::signal;
use super::connections::{ConnGuard, ConnState, Connections, RequestGuard};
use super::http_state::HttpState;
use super::hyper_connection::{ALPN_PROTOCOLS, HyperConnection};
use super::service::{HttpResponseFuture, HttpService, RequestSource};
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
        let service = self.http_service()?;
        let tls = match &service.0.http.tls {
            Some((chain, key)) => Some(tls::Acceptor::load(chain, key, ALPN_PROTOCOLS)?),
            None => None,
        };
        let listener = listen(address).await?;
        let local = listener.local_addr()?;
        if !local.ip().is_unspecified() {
            let _ = service.0.local_ip.set(local.ip());
        }
        Ok(HttpListener { state: service.0, listener, tls, local_addr: local })
    }

    /// The server as a `tower` service, for another listener or router.
    #[doc(alias("StreamableHttpService", "streamable_http_app", "tower", "axum"))]
    pub fn http_service(&self) -> crate::Result<HttpService> {
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
        let Self { state, listener, tls, local_addr } = self;
        let scheme = if tls.is_some() { "https" } else { "http" };
        log::info!("listening on {scheme}://{local_addr}{}", state.http.path);
        let connections = AbortConnectionsOnDrop(Connections::new(state.clone()));
        let permits = Arc::new(Semaphore::new(state.http.max_connections.min(Semaphore::MAX_PERMITS)));
        let mut stop = std::pin::pin!(stop);
        let mut idle_timeout = std::pin::pin!(connections.0.enforce_idle_timeout());
        loop {
            let permit = tokio::select! {
                biased;
                () = &mut stop => break,
                never = &mut idle_timeout => match never {},
                permit = permits.clone().acquire_owned() => permit,
            };
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                never = &mut idle_timeout => match never {},
                accepted = listener.accept() => accepted,
            };
            let socket = match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    // Most likely too many open files: wait until some are closed.
                    log::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            tokio::spawn(serve_connection(connections.0.register(), socket, tls.clone(), permit.ok()));
        }
        drop(listener);
        state.close();
        connections.0.graceful_shutdown();
        let finish = async {
            connections.0.wait_until_empty().await;
            state.wait_for_detached().await;
        };
        tokio::select! {
            never = idle_timeout => match never {},
            finished = tokio::time::timeout(state.config.shutdown_grace, finish) => if finished.is_err() {
                log::warn!("requests that outlasted the shutdown grace were aborted");
            },
        }
        connections.0.abort();
        connections.0.wait_until_empty().await;
        state.abort();
        Ok(())
    }
}

/// Aborts all connections when the future that serves them is dropped.
struct AbortConnectionsOnDrop(Arc<Connections>);

impl Drop for AbortConnectionsOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl std::fmt::Debug for HttpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpListener").field("local", &self.local_addr).finish_non_exhaustive()
    }
}

/// Serves one connection until either side closes it.
async fn serve_connection(
    guard: ConnGuard,
    socket: TcpStream,
    tls: Option<tls::Acceptor>,
    _permit: Option<OwnedSemaphorePermit>,
) {
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

async fn serve_requests<T>(connection_state: Arc<ConnState>, socket: T)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket =
        WriteTimeoutStream { io: socket, connection: connection_state.clone(), write_deadline: None };
    let state = connection_state.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let request_guard = RequestGuard::begin(state.clone(), request.version());
        HttpResponseFuture::new(RequestSource::Listener(request_guard), request)
    });
    let mut connection = HyperConnection::new(socket, service, &connection_state.state.http);
    connection_state
        .run_until_closed(|cx| {
            if connection_state.is_shutting_down() {
                connection.graceful_shutdown();
            }
            connection.poll(cx)
        })
        .await;
}

/// A socket that fails if the peer reads nothing for the write timeout.
struct WriteTimeoutStream<T> {
    io: T,
    connection: Arc<ConnState>,
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteTimeoutStream<T> {
    fn apply_timeout<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            if self.write_deadline.take().is_some() {
                self.connection.set_stalled(false);
            }
            return written;
        }
        let connection_state = &self.connection;
        let stalled = self.write_deadline.get_or_insert_with(|| {
            connection_state.set_stalled(true);
            Box::pin(tokio::time::sleep(connection_state.state.http.write_timeout))
        });
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.apply_timeout(cx, written)
    }

    /// With TLS, data that was written may not have been sent yet.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.apply_timeout(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.apply_timeout(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::future::poll_fn;

    use tokio::time::Instant;

    use super::*;

    /// Accepts all writes and never flushes.
    struct NeverFlushes;

    impl AsyncWrite for NeverFlushes {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_flush_is_limited_by_the_write_timeout() {
        let (head, write) = (Duration::from_secs(1), Duration::from_secs(30));
        let http =
            super::super::Http::new().header_read_timeout(head).body_read_timeout(head).write_timeout(write);
        let connections = Connections::new(HttpState::new(&Server::new("s", "1").http(http)));
        let guard = connections.register();
        drop(RequestGuard::begin(guard.connection.clone(), http::Version::HTTP_11));
        let mut socket = WriteTimeoutStream {
            io: NeverFlushes,
            connection: guard.connection.clone(),
            write_deadline: None,
        };
        let began = Instant::now();
        let flush = guard.connection.run_until_closed(|cx| Pin::new(&mut socket).poll_flush(cx));
        let flushed = tokio::select! { never = connections.enforce_idle_timeout() => match never {}, flushed = flush => flushed };
        assert_eq!(flushed.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), write);
        assert_eq!(poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, b"x")).await.unwrap(), 1);
    }
}
