//! Listening: connections are accepted, timed, and ended politely.

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

use super::connections::{ConnGuard, ConnState, Connections, RequestGuard};
use super::http_state::HttpState;
use super::hyper_connection::{ALPN_PROTOCOLS, HyperConnection};
use super::service::{HttpResponseFuture, HttpService, RequestSource};
use super::tls;
use crate::server::Server;

impl Server {
    /// Serves every client that comes over HTTP, in every revision, until a signal asks to stop.
    ///
    /// The endpoint is at `/mcp`; [`Server::http`] sets that and everything else. What runs when the signal comes has five
    /// seconds to finish, or what [`Server::grace`] says. Fails when something was registered that cannot be offered, or
    /// when nobody can listen there.
    pub async fn serve_http(self, address: impl ToSocketAddrs) -> crate::Result<()> {
        super::super::stderr_log::fall_back_to_stderr();
        self.bind_http(address).await?.serve().await
    }

    /// Listens, and serves when it is told to: for whoever wants to know the port first.
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

    /// The server as a `tower` service, for a listener or a router of one's own.
    pub fn http_service(&self) -> crate::Result<HttpService> {
        self.check_registrations()?;
        let hub = HttpState::new(self);
        if !hub.http.config_errors.is_empty() {
            return Err(crate::Error::registration(hub.http.config_errors.clone()));
        }
        Ok(HttpService(hub))
    }
}

/// Listens at the first address that can be. The error names them: "Address already in use" alone helps nobody.
async fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(address).await?.collect();
    TcpListener::bind(&*addresses).await.map_err(|error| {
        let named: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
        io::Error::new(error.kind(), format!("{}: {error}", named.join(", ")))
    })
}

/// A server that listens.
pub struct HttpListener {
    state: Arc<HttpState>,
    listener: TcpListener,
    tls: Option<tls::Acceptor>,
    local_addr: SocketAddr,
}

impl HttpListener {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until a signal asks to stop.
    pub async fn serve(self) -> crate::Result<()> {
        self.serve_until(super::super::signal::shutdown_signal()).await
    }

    /// Serves until `stop` is done: no more connections are accepted then, streams of changes end, and what runs has its
    /// grace to finish.
    pub async fn serve_until(self, stop: impl Future<Output = ()>) -> crate::Result<()> {
        let Self { state: hub, listener, tls, .. } = self;
        raise_trim_threshold();
        let guests = AbortConnectionsOnDrop(Connections::new(hub.clone()));
        let places = Arc::new(Semaphore::new(hub.http.max_connections.min(Semaphore::MAX_PERMITS)));
        let mut stop = std::pin::pin!(stop);
        let mut watch = std::pin::pin!(guests.0.enforce_idle_timeout());
        loop {
            let place = tokio::select! {
                biased;
                () = &mut stop => break,
                never = &mut watch => match never {},
                place = places.clone().acquire_owned() => place,
            };
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                never = &mut watch => match never {},
                accepted = listener.accept() => accepted,
            };
            let socket = match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    // Too many open files, most likely: some will close.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            tokio::spawn(serve_connection(guests.0.register(), socket, tls.clone(), place.ok()));
        }
        drop(listener);
        hub.close();
        guests.0.graceful_shutdown();
        let finish = async {
            guests.0.wait_until_empty().await;
            hub.wait_for_detached().await;
        };
        tokio::select! {
            never = watch => match never {},
            finished = tokio::time::timeout(hub.config.shutdown_grace, finish) => if finished.is_err() {
                tracing::warn!("some requests took longer than the grace and were cut off");
            },
        }
        guests.0.abort();
        guests.0.wait_until_empty().await;
        hub.abort();
        Ok(())
    }
}

/// Lets the allocator keep what large answers need. That of glibc gives free memory at the end of its heap back to the
/// kernel from 128 KiB on, only to fetch it for the next answer, until something larger was freed: then it keeps up to
/// twice as much.
fn raise_trim_threshold() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(512 << 10)));
}

/// Nobody is served on when the listener is gone.
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

/// Serves one connection until either side has enough.
async fn serve_connection(
    seat: ConnGuard,
    socket: TcpStream,
    tls: Option<tls::Acceptor>,
    _place: Option<OwnedSemaphorePermit>,
) {
    // An answer is written at once; waiting for more would only hold it back.
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let Some(tls) = tls else {
        // Who says nothing costs no buffers. A new socket is taken for readable until somebody has looked.
        let first =
            seat.connection.run_until_shutdown(|cx| socket.poll_peek(cx, &mut ReadBuf::new(&mut [0])));
        if matches!(first.await, Some(Ok(_))) {
            serve_requests(seat.connection.clone(), socket).await;
        }
        return;
    };
    // In a box, since most connections have none.
    Box::pin(async move {
        let mut accepting = std::pin::pin!(tls.accept(socket));
        if let Some(Ok(socket)) = seat.connection.run_until_shutdown(|cx| accepting.as_mut().poll(cx)).await {
            serve_requests(seat.connection.clone(), socket).await;
        }
    })
    .await;
}

async fn serve_requests<T>(guest: Arc<ConnState>, socket: T)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket = WriteTimeoutStream { io: socket, connection: guest.clone(), write_deadline: None };
    let asking = guest.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let visit = RequestGuard::begin(asking.clone(), request.version());
        HttpResponseFuture::new(RequestSource::Listener(visit), request)
    });
    let mut connection = HyperConnection::new(socket, service, &guest.state.http);
    guest
        .run_until_closed(|cx| {
            if guest.is_shutting_down() {
                connection.graceful_shutdown();
            }
            connection.poll(cx)
        })
        .await;
}

/// A connection whose peer must read on: what it does not take for long ends it.
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
        let guest = &self.connection;
        let stalled = self.write_deadline.get_or_insert_with(|| {
            guest.set_stalled(true);
            Box::pin(tokio::time::sleep(guest.state.http.write_timeout))
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

    /// What is encrypted may have been taken without having been sent.
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

    /// Takes everything and sends nothing.
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
    async fn what_is_taken_and_not_sent_has_the_time_of_a_write_and_not_of_a_head() {
        let (head, write) = (Duration::from_secs(1), Duration::from_secs(30));
        let http =
            super::super::Http::new().header_read_timeout(head).body_read_timeout(head).write_timeout(write);
        let guests = Connections::new(HttpState::new(&Server::new("s", "1").http(http)));
        let seat = guests.register();
        drop(RequestGuard::begin(seat.connection.clone(), http::Version::HTTP_11));
        let mut socket = WriteTimeoutStream {
            io: NeverFlushes,
            connection: seat.connection.clone(),
            write_deadline: None,
        };
        let began = Instant::now();
        let flush = seat.connection.run_until_closed(|cx| Pin::new(&mut socket).poll_flush(cx));
        let flushed = tokio::select! { never = guests.enforce_idle_timeout() => match never {}, flushed = flush => flushed };
        assert_eq!(flushed.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), write);
        assert_eq!(poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, b"x")).await.unwrap(), 1);
    }
}
