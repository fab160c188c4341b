//! Serves one client over any pair of byte streams: a TCP or Unix socket, a pipe, tokio's `duplex`.

use std::future::pending;

use tokio::io::{AsyncRead, AsyncWrite};

use super::line_stream::LineStream;
use crate::server::Server;
use crate::server::connection::ServerConnection;

impl Server {
    /// Serves one client over a pair of byte streams, one message a line as on stdio, until `reader` ends.
    ///
    /// Requests that run then have the time of [`Server::shutdown_grace`]. Dropping the future aborts them. Streams have
    /// no signals, no headers and no caller. Fails if a registration is invalid, or if a stream breaks.
    ///
    /// ```no_run
    /// use tokio::net::UnixListener;
    /// use tsugite::prelude::*;
    ///
    /// # async fn f() -> tsugite::Result<()> {
    /// let server = Server::new("clock", "1.0.0");
    /// let listener = UnixListener::bind("/run/clock.sock")?;
    /// loop {
    ///     let (reader, writer) = listener.accept().await?.0.into_split();
    ///     tokio::spawn(server.clone().serve_on(reader, writer));
    /// }
    /// # }
    /// ```
    #[doc(alias("transport", "duplex", "serve_stream"))]
    pub async fn serve_on<R, W>(self, mut reader: R, writer: W) -> crate::Result<()>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        self.check_registrations()?;
        let stream = LineStream::new(ServerConnection::new(&self, None), writer);
        let reading = async {
            let mut input = stream.input_buffer();
            while stream.receive_chunk(&mut reader, &mut input).await? {}
            Ok(())
        };
        let served = stream.serve(reading, pending()).await;
        stream.shutdown_output().await;
        Ok(served?)
    }
}
