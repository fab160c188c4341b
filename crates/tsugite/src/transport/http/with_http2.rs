//! HTTP/1.1 and HTTP/2 connections, with the cargo feature `http2`: chosen by TLS, or by the first bytes of the client.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};

use super::http_settings::Http;
use super::response_body::HttpBody;

/// The protocols offered by TLS (ALPN).
pub(super) const ALPN_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// One connection.
pub(super) struct HyperConnection<T, S>(Pin<Box<auto::Connection<'static, TokioIo<T>, S, TokioExecutor>>>)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<HttpBody>, Error = Infallible>;

impl<T, S> HyperConnection<T, S>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<HttpBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    pub(super) fn new(io: T, service: S, http: &Http) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            // `Connections` enforces the timeout for heads.
            .header_read_timeout(None)
            .max_buf_size(MAX_HEAD_BYTES)
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEADER_LIST_BYTES)
            // Notices a peer that is gone without closing the connection.
            .keep_alive_interval(http.keep_alive_interval)
            .keep_alive_timeout(http.write_timeout);
        Self(Box::pin(builder.serve_connection(TokioIo::new(io), service).into_owned()))
    }

    /// Accepts no more requests.
    pub(super) fn graceful_shutdown(&mut self) {
        self.0.as_mut().graceful_shutdown();
    }

    /// Serves requests until the connection is closed. Errors are of the peer: it disconnected or sent no HTTP.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx).map(drop)
    }
}

/// The size limit of a head.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADER_LIST_BYTES: u32 = 64 << 10;
