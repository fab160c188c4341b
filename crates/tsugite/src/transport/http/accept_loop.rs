//! The accept loop of a listener: accepts connections, limits how long they may stall, and shuts them down gracefully.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::Sleep;

use super::client_address::is_trusted;
use super::connections::{ConnGuard, ConnState, Connections, RequestGuard};
use super::http_state::HttpState;
use super::hyper_connection::HyperConnection;
use super::service::{HttpResponseFuture, RequestOrigin};
use crate::server::limits::{CallerKey, Resource};
use crate::shared::log;

/// A socket that accepts connections.
pub(super) trait Accept: Send + Sync {
    /// A connection.
    type Socket: Send + 'static;

    /// Accepts the next connection, with the network address of the client.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Socket, Option<IpAddr>)>> + Send;

    /// Serves one connection until either side closes it.
    fn serve(&self, guard: ConnGuard, socket: Self::Socket) -> impl Future<Output = ()> + Send + 'static;
}

/// Serves all connections until `stop` completes. Then it accepts no more connections, ends the streams that only carry
/// notifications, and waits for requests in progress for the time of grace.
pub(super) async fn serve_connections<A: Accept>(
    state: Arc<HttpState>,
    listener: A,
    stop: impl Future<Output = ()>,
) {
    let connections = AbortConnectionsOnDrop(Connections::new(state.clone()));
    let max_connections = state.http.effective_max_connections();
    let permits = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
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
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely too many open files: wait until some are closed.
                log::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // All clients of a proxy share its address.
        let caller = peer.filter(|peer| !is_trusted(*peer, &state.http.trusted_proxies));
        let caller = CallerKey::new(None, caller);
        // A caller above its share is disconnected, so that others can connect.
        let Ok(counted) = state.limits.acquire(caller, Some(Resource::Connection), 0) else { continue };
        let served = listener.serve(connections.0.register(peer), socket);
        tokio::spawn(async move {
            let _permits = (permit, counted);
            served.await;
        });
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
    // Before the connections end, so that no call which waits ends with them.
    state.begin_abort();
    connections.0.abort();
    connections.0.wait_until_empty().await;
    state.abort().await;
}

/// Aborts all connections when the future that serves them is dropped.
struct AbortConnectionsOnDrop(Arc<Connections>);

impl Drop for AbortConnectionsOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves the requests of one connection.
pub(super) async fn serve_requests<T>(connection_state: Arc<ConnState>, socket: T)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket =
        WriteTimeoutStream { io: socket, connection: connection_state.clone(), write_deadline: None };
    let state = connection_state.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let request_guard = RequestGuard::begin(state.clone(), request.version());
        HttpResponseFuture::new(RequestOrigin::Listener(request_guard), request)
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
    use crate::Server;

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
        let guard = connections.register(None);
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
