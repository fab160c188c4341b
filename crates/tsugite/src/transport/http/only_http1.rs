//! HTTP/1.1 connections, without the cargo feature `http2`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::http_settings::Http;
use super::response_body::HttpBody;

/// The protocols offered by TLS (ALPN).
pub(super) const ALPN_PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// One connection.
pub(super) struct HyperConnection<T: AsyncRead + AsyncWrite + Unpin, S: Service<Request<Incoming>>>(
    Pin<Box<http1::Connection<TokioIo<T>, S>>>,
)
where
    S: Service<Request<Incoming>, Response = Response<HttpBody>, Error = Infallible>;

impl<T, S> HyperConnection<T, S>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<HttpBody>, Error = Infallible>,
{
    pub(super) fn new(io: T, service: S, _: &Http) -> Self {
        let mut builder = http1::Builder::new();
        // `Connections` enforces the timeout for heads.
        builder.header_read_timeout(None).max_header_size(MAX_HEAD_BYTES);
        Self(Box::pin(builder.serve_connection(TokioIo::new(io), service)))
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

/// The size limit of a head. hyper's limit of 100 headers applies as well.
const MAX_HEAD_BYTES: usize = 64 << 10;
