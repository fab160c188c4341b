//! Listening: connections are accepted, timed, and ended politely.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Sleep;

use super::connection::{Connection, SNIFFED, SPOKEN};
use super::hub::Hub;
use super::service::{Answering, HttpService, Where};
use super::tls;
use crate::server::Server;

impl Server {
    /// Serves every client that comes over HTTP, in every revision, until a signal asks to stop.
    ///
    /// The endpoint is at `/mcp`; [`Server::http`] sets that and everything else. What runs when the signal comes has five
    /// seconds to finish, or what [`Server::grace`] says. Fails when something was registered that cannot be offered, or
    /// when nobody can listen there.
    pub async fn serve_http(self, address: impl ToSocketAddrs) -> crate::Result<()> {
        super::super::log::fall_back_to_stderr();
        self.bind_http(address).await?.serve().await
    }

    /// Listens, and serves when it is told to: for whoever wants to know the port first.
    pub async fn bind_http(&self, address: impl ToSocketAddrs) -> crate::Result<HttpListener> {
        let service = self.http_service()?;
        let tls = match &service.0.http.tls {
            Some((chain, key)) => Some(tls::Acceptor::load(chain, key, SPOKEN)?),
            None => None,
        };
        let listener = listen(address).await?;
        let local = listener.local_addr()?;
        if !local.ip().is_unspecified() {
            let _ = service.0.own.set(local.ip());
        }
        Ok(HttpListener { hub: service.0, listener, tls, local })
    }

    /// The server as a `tower` service, for a listener or a router of one's own.
    pub fn http_service(&self) -> crate::Result<HttpService> {
        self.check()?;
        let hub = Hub::new(self);
        if !hub.http.mistakes.is_empty() {
            return Err(crate::Error::registration(hub.http.mistakes.clone()));
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
    hub: Arc<Hub>,
    listener: TcpListener,
    tls: Option<tls::Acceptor>,
    local: SocketAddr,
}

impl HttpListener {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves until a signal asks to stop.
    pub async fn serve(self) -> crate::Result<()> {
        self.serve_until(super::super::signal::asked_to_stop()).await
    }

    /// Serves until `stop` is done: no more connections are accepted then, streams of changes end, and what runs has its
    /// grace to finish.
    pub async fn serve_until(self, stop: impl Future<Output = ()>) -> crate::Result<()> {
        let Self { hub, listener, tls, .. } = self;
        let stopping = Arc::new(Stopping::default());
        let places = Arc::new(Semaphore::new(hub.http.most_connections.min(Semaphore::MAX_PERMITS)));
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let place = tokio::select! {
                biased;
                () = &mut stop => break,
                place = places.clone().acquire_owned() => place,
            };
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
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
            while connections.try_join_next().is_some() {}
            connections.spawn(serve_connection(
                hub.clone(),
                socket,
                tls.clone(),
                stopping.clone(),
                place.ok(),
            ));
        }
        drop(listener);
        hub.close();
        stopping.now.store(true, Ordering::Release);
        stopping.news.notify_waiters();
        let finish = async {
            while connections.join_next().await.is_some() {}
            hub.settled().await;
        };
        if tokio::time::timeout(hub.config.grace, finish).await.is_err() {
            tracing::warn!("some requests took longer than the grace and were cut off");
        }
        connections.shutdown().await;
        hub.abandon();
        Ok(())
    }
}

impl std::fmt::Debug for HttpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpListener").field("local", &self.local).finish_non_exhaustive()
    }
}

/// The news that no more requests are taken.
#[derive(Default)]
struct Stopping {
    now: AtomicBool,
    news: Notify,
}

/// Serves one connection until either side has enough.
async fn serve_connection(
    hub: Arc<Hub>,
    socket: TcpStream,
    tls: Option<tls::Acceptor>,
    stopping: Arc<Stopping>,
    _place: Option<OwnedSemaphorePermit>,
) {
    // An answer is written at once; waiting for more would only hold it back.
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let head = hub.http.header_time;
    let Some(tls) = tls else {
        // Who says nothing is not listened to for ever.
        if !matches!(tokio::time::timeout(head, socket.readable()).await, Ok(Ok(()))) {
            return;
        }
        return speak(hub, socket, stopping).await;
    };
    // In a box, since most connections have none.
    Box::pin(async move {
        if let Ok(Ok(socket)) = tokio::time::timeout(head, tls.accept(socket)).await {
            speak(hub, socket, stopping).await;
        }
    })
    .await;
}

async fn speak<T>(hub: Arc<Hub>, socket: T, stopping: Arc<Stopping>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let young = SNIFFED.map(|bytes| (bytes, Box::pin(tokio::time::sleep(hub.http.header_time))));
    let socket = Timed { io: socket, limit: hub.http.write_time, stalled: None, young };
    let http = hub.http.clone();
    let service = service_fn(move |request| Answering::new(hub.clone(), request, Where::Own));
    let mut connection = Connection::new(socket, service, &http);
    let mut news = std::pin::pin!(stopping.news.notified());
    let mut waits = false;
    poll_fn(|cx| {
        // The news is waited for once, not with every request: it wakes the same task.
        if !waits {
            waits = true;
            let _ = news.as_mut().poll(cx);
        }
        if stopping.now.load(Ordering::Acquire) {
            connection.finish();
        }
        connection.poll(cx)
    })
    .await;
}

/// A connection whose peer must read on: what it does not take for long ends it.
struct Timed<T> {
    io: T,
    limit: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// How many bytes must still come until it is known what the peer speaks, and how long they may take.
    young: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<T> Timed<T> {
    fn timed<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Timed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if let Some((left, time)) = &mut self.young {
            match &read {
                Poll::Ready(_) => {
                    *left = left.saturating_sub(buf.filled().len() - before);
                    if *left == 0 {
                        self.young = None;
                    }
                }
                Poll::Pending if time.as_mut().poll(cx).is_ready() => {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Poll::Pending => {}
            }
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Timed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.timed(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
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
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
