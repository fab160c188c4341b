//! Serves one client over a stream of bytes, one message a line.
//!
//! The reading half receives messages. A request whose handler is ready at its first poll is answered there and then:
//! everything that has arrived is answered before one write carries the responses. The writing half sends the rest:
//! output of requests that continue in the runtime, and what the client did not take at once.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tsugite_core::jsonrpc::LineReader;

use crate::lock::lock;
use crate::server::connection::ServerConnection;
use crate::server::pending::PendingRequest;
use crate::shared::outbound_queue::OutboundQueue;

/// One connection and the stream its output goes to.
pub(super) struct LineStream<W> {
    connection: Arc<ServerConnection>,
    output: Mutex<WriteBuffer<W>>,
}

impl<W: AsyncWrite + Unpin> LineStream<W> {
    pub(super) fn new(connection: Arc<ServerConnection>, writer: W) -> Self {
        let output = WriteBuffer { writer: Some(writer), bytes: Vec::new(), written: 0 };
        Self { connection, output: Mutex::new(output) }
    }

    /// An empty buffer for the reading half.
    pub(super) fn input_buffer(&self) -> InputBuffer {
        InputBuffer::new(self.connection.config.limits.max_message_bytes)
    }

    /// Serves until `reading` or `stop` completes or the stream breaks; then lets requests finish for as long as
    /// [`Server::shutdown_grace`](crate::Server::shutdown_grace) allows. `reading` must call [`Self::receive_chunk`] until it returns false.
    ///
    /// Dropping it aborts all requests.
    pub(super) async fn serve(
        &self,
        reading: impl Future<Output = io::Result<()>>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let _guard = AbortHandlersOnDrop(&self.connection);
        let (mut reading, mut stop) = (pin!(reading), pin!(stop));
        let ended = poll_fn(|cx| {
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            match reading.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(ended),
                Poll::Pending => self.poll_write_queue(cx),
            }
        });
        ended.await?;
        self.connection.close();
        let grace = self.connection.config.shutdown_grace;
        tokio::time::timeout(grace, self.drain()).await.unwrap_or(Ok(()))
    }

    /// Reads once and receives all lines that are whole. Returns false when nothing more is to be read.
    ///
    /// Polls the handlers of the lines once, on the calling thread, and spawns those that are still pending.
    pub(super) async fn receive_chunk<R: AsyncRead + Unpin>(
        &self,
        reader: &mut R,
        input: &mut InputBuffer,
    ) -> io::Result<bool> {
        let length = input.read(reader).await?;
        if self.connection.is_closing() {
            return Ok(false);
        }
        if length == 0 {
            self.connection.spawn(input.finish(&self.connection));
            return Ok(false);
        }
        loop {
            let more = self.receive_lines(input)?;
            // Back-pressure: a client that does not read its responses is not read from.
            self.connection.outbox().wait_for_capacity().await;
            if !more {
                return Ok(true);
            }
        }
    }

    /// Receives lines until none is left or the queue is full, then writes. Returns whether lines are left.
    fn receive_lines(&self, input: &mut InputBuffer) -> io::Result<bool> {
        let outbox = self.connection.outbox();
        let _held = outbox.hold_wakeups();
        let mut more = true;
        while more && !outbox.is_full() {
            match input.receive(&self.connection) {
                Some(pending) => self.connection.spawn(pending),
                None => more = false,
            }
        }
        self.write_inline()?;
        Ok(more)
    }

    /// Writes the queue as far as the client takes it now; the writing half continues with the rest.
    fn write_inline(&self) -> io::Result<()> {
        let mut output = lock(&self.output);
        // The writing half waits until the client takes these, with its own waker: leave them to it.
        if output.has_remaining() {
            return Ok(());
        }
        let outbox = self.connection.outbox();
        match output.poll_write_all(outbox, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(written) => written,
            Poll::Pending => {
                outbox.wake();
                Ok(())
            }
        }
    }

    /// The writing half: writes whatever is queued, until the stream breaks or the queue is closed.
    fn poll_write_queue(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Locked until the waker is registered: `write_inline` wakes this half only if it finds one.
        let mut output = lock(&self.output);
        let outbox = self.connection.outbox();
        while !outbox.is_closed() {
            ready!(output.poll_write_all(outbox, cx))?;
            ready!(outbox.poll_readable(cx));
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until no request is in flight and everything queued is written.
    async fn drain(&self) -> io::Result<()> {
        let outbox = self.connection.outbox();
        loop {
            let mut idle = pin!(outbox.idle());
            // Checked before writing: a request queues its response before it leaves the table.
            let last = !self.connection.has_in_flight();
            poll_fn(|cx| lock(&self.output).poll_write_all(outbox, cx)).await?;
            if last {
                return Ok(());
            }
            let mut readable = pin!(outbox.readable());
            poll_fn(|cx| match readable.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => idle.as_mut().poll(cx),
            })
            .await;
        }
    }

    /// Shuts the writer down, so that the client reads the end of the stream.
    pub(super) async fn shutdown_output(&self) {
        let writer = lock(&self.output).writer.take();
        if let Some(mut writer) = writer {
            // A client that is gone does not read the end.
            drop(poll_fn(|cx| Pin::new(&mut writer).poll_shutdown(cx)).await);
        }
    }

    /// Drops the writer although the reading half may still hold this stream.
    pub(super) fn close_output(&self) {
        lock(&self.output).writer = None;
    }
}

/// Aborts the requests of a connection that is no longer served.
struct AbortHandlersOnDrop<'a>(&'a ServerConnection);

impl Drop for AbortHandlersOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}

/// Bytes taken from the queue, and how many of them are written.
struct WriteBuffer<W> {
    writer: Option<W>,
    bytes: Vec<u8>,
    written: usize,
}

impl<W: AsyncWrite + Unpin> WriteBuffer<W> {
    fn has_remaining(&self) -> bool {
        self.written < self.bytes.len()
    }

    /// Writes until the queue is empty; pending if the client takes no more now.
    fn poll_write_all(&mut self, outbox: &OutboundQueue, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        loop {
            while let Some(rest @ [_, ..]) = self.bytes.get(self.written..) {
                match ready!(Pin::new(&mut *writer).poll_write(cx, rest))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    length => self.written += length,
                }
            }
            self.written = 0;
            if !outbox.take_all(&mut self.bytes) {
                self.bytes.clear();
                return Pin::new(writer).poll_flush(cx);
            }
        }
    }
}

/// Bytes read from the client that are not received yet.
pub(super) struct InputBuffer {
    lines: LineReader,
    chunk: Vec<u8>,
}

impl InputBuffer {
    fn new(max_line_bytes: usize) -> Self {
        Self { lines: LineReader::new(max_line_bytes), chunk: vec![0; INITIAL_READ_CHUNK] }
    }

    /// Reads once and returns the number of bytes; 0 at the end of the stream.
    async fn read(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        let length = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut self.chunk);
            Pin::new(&mut *reader).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
        })
        .await?;
        self.lines.push(self.chunk.get(..length).unwrap_or_default());
        // Most messages are short; a client that fills the chunk gets a larger one.
        if length == self.chunk.len() {
            self.chunk.resize(READ_CHUNK, 0);
        }
        Ok(length)
    }

    /// Receives the next line, if one is whole. Returns requests that are still pending after their first poll.
    fn receive(&mut self, connection: &Arc<ServerConnection>) -> Option<Vec<PendingRequest>> {
        match self.lines.next_line()? {
            Ok(line) => Some(connection.receive(line)),
            Err(_) => {
                connection.reject_oversized_message();
                Some(Vec::new())
            }
        }
    }

    /// Receives the last line, which may lack its newline.
    fn finish(&mut self, connection: &Arc<ServerConnection>) -> Vec<PendingRequest> {
        match self.lines.finish() {
            Some(Ok(line)) => connection.receive(line),
            _ => Vec::new(),
        }
    }
}

/// Bytes read at a time at first, and once a read has filled that.
const INITIAL_READ_CHUNK: usize = 4 << 10;
const READ_CHUNK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

    use super::*;
    use crate::Server;
    use crate::server::Tool;

    async fn receive_all<R, W>(stream: &LineStream<W>, mut reader: R) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut input = stream.input_buffer();
        while stream.receive_chunk(&mut reader, &mut input).await? {}
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn any_pair_of_streams_is_served() {
        // STDIO-026
        let slow = Tool::new("slow").handler(async || tokio::time::sleep(Duration::from_secs(1)).await);
        let server = Server::new("s", "1").tool(slow);
        // So small that neither a request nor a response fits.
        let (ours, theirs) = duplex(64);
        let (reader, writer) = split(theirs);
        let stream = LineStream::new(ServerConnection::new(&server, None), writer);
        let client = async {
            let (mut reader, mut writer) = split(ours);
            let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
            let call = |id: u32, name: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}",{meta}}}}}"#
                )
            };
            let sent = format!("{}\n{}", call(1, "slow"), call(2, "unknown"));
            writer.write_all(sent.as_bytes()).await.unwrap();
            writer.shutdown().await.unwrap();
            let mut received = String::new();
            reader.read_to_string(&mut received).await.unwrap();
            received
        };
        let serve = async {
            stream.serve(receive_all(&stream, reader), pending()).await.unwrap();
            stream.close_output();
        };
        let (received, ()) = tokio::join!(client, serve);
        let lines: Vec<_> = received.lines().collect();
        assert_eq!(lines.len(), 2, "{received}");
        assert!(lines[0].contains(r#""id":2"#) && lines[1].contains(r#""id":1"#), "{received}");
    }
}
