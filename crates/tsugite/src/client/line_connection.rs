//! Connections over lines: to a child, whose pipes are written and read here, over other byte streams, and to a server in
//! this process.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tsugite_core::jsonrpc::LineReader;

use super::client_error::{ClientError, ConnectStep, ErrorKind};
use super::client_settings::Direction;
use super::client_state::ClientState;
use super::connection::ClientConnection;
use super::oversized_line::{response_id, response_id_at_end};
use super::transport::{ChildPipe, Transport};
use crate::lock::lock;
use crate::shared::in_process::{InProcessConnection, InProcessServer};
use crate::shared::log;
use crate::shared::outbound_queue::OutboundQueue;
use crate::shared::principal::Principal;
use crate::transport::child::{Command, SpawnedChild};

/// Starts a child and opens a connection over its pipes.
pub(super) fn spawn_child(
    shared: &Arc<ClientState>,
    command: &Command,
) -> Result<Arc<ClientConnection>, ClientError> {
    let SpawnedChild { child, stdin, stdout } =
        command.spawn().map_err(|error| ClientError::connect(ConnectStep::Spawn, error))?;
    let outbox = Arc::new(OutboundQueue::new(MAX_QUEUED_BYTES));
    let pipe = ChildPipe { outbox: Arc::clone(&outbox), child };
    let connection = ClientConnection::new(Arc::clone(shared), Transport::Child(pipe));
    connection.register_task(&tokio::spawn(write_child(Arc::clone(&connection), outbox, stdin)));
    connection.register_task(&tokio::spawn(read_child(Arc::clone(&connection), stdout)));
    Ok(connection)
}

/// Writes queued messages to the child until the queue is closed.
async fn write_child(
    connection: Arc<ClientConnection>,
    outbox: Arc<OutboundQueue>,
    mut stdin: impl AsyncWrite + Unpin,
) {
    let mut bytes = Vec::new();
    loop {
        outbox.readable().await;
        if !outbox.take_all(&mut bytes) {
            if outbox.is_closed() {
                return;
            }
            continue;
        }
        if stdin.write_all(&bytes).await.is_err() {
            outbox.close();
            // If the child has exited, its reader reports how; give it time to do so first.
            tokio::time::sleep(2 * EXIT_GRACE).await;
            return connection.mark_disconnected("the server closed its input");
        }
    }
}

/// Reads messages of the child until its output ends.
async fn read_child(connection: Arc<ClientConnection>, mut stdout: impl AsyncRead + Unpin) {
    let Transport::Child(pipe) = &connection.transport else { return };
    let mut lines = LineReader::new(connection.limits().max_message_bytes);
    // A descendant may hold the output open after the child has exited. The output until then is read.
    let mut ended = pin!(async {
        pipe.child.wait().await;
        tokio::time::sleep(EXIT_GRACE).await;
    });
    // Whether the current partial line was reported already as not a message.
    let mut reported = false;
    loop {
        let not_json = !reported && is_not_json(lines.partial_line());
        // Reserve first: `read_buf` reads only into spare capacity.
        lines.buffer_mut().reserve(MIN_READ_BYTES);
        let at_end = tokio::select! {
            biased;
            read = stdout.read_buf(lines.buffer_mut()) => !matches!(read, Ok(1..)),
            () = &mut ended => true,
            // The timer is created only if it is needed.
            () = async { tokio::time::sleep(PARTIAL_LINE_TIMEOUT).await }, if not_json => {
                connection.shared.report_invalid_message(lines.partial_line(), "a line without a line end");
                reported = true;
                continue;
            }
        };
        loop {
            match lines.next_line() {
                Some(Ok(line)) if std::mem::take(&mut reported) => {
                    connection.shared.trace_message(Direction::Received, line)
                }
                Some(Ok(line)) => connection.receive(line, None),
                Some(Err(_)) => {
                    reported = false;
                    skip_line(&connection, lines.skipped_line());
                }
                None => break,
            }
            end_skipped_line(&connection, &mut lines);
        }
        end_skipped_line(&connection, &mut lines);
        connection.wait_for_observer().await;
        if at_end {
            match lines.finish() {
                Some(Ok(line)) if reported => connection.shared.trace_message(Direction::Received, line),
                Some(Ok(line)) => connection.receive(line, None),
                Some(Err(_)) => skip_line(&connection, lines.skipped_line()),
                None => {}
            }
            end_skipped_line(&connection, &mut lines);
            break;
        }
    }
    pipe.outbox.close();
    // A child that closes its output usually exits soon.
    let reason = match tokio::time::timeout(EXIT_GRACE, pipe.child.wait()).await {
        Ok(ended) => format!("the server {ended}"),
        Err(_) => "the server closed its output".to_owned(),
    };
    connection.mark_disconnected(&reason);
    // The child may still have work to finish. If it has exited, this ends its remaining descendants and reaps it.
    pipe.child.close(()).await;
}

/// Whether a line does not start as JSON-RPC messages do.
fn is_not_json(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|first| !matches!(first, b'{' | b'['))
}

/// Reports a line over the size limit, and fails the call that it responds to if its id is at the beginning of the line.
fn skip_line(connection: &ClientConnection, beginning: &[u8]) {
    let limit = connection.limits().max_message_bytes;
    let failed = response_id(beginning).is_some_and(|id| connection.calls.fail_too_large(id, limit));
    log::warn!(limit, failed, "skipped a line of the server that exceeds the size limit");
}

/// Fails the call that a line over the size limit responds to, if its id was at the end of the line. A call whose id is
/// elsewhere times out: failing all calls would let one of them end the others.
fn end_skipped_line(connection: &ClientConnection, lines: &mut LineReader) {
    let Some(end) = lines.take_skipped_end() else { return };
    if let Some(id) = response_id_at_end(lines.skipped_line(), &end) {
        connection.calls.fail_too_large(id, connection.limits().max_message_bytes);
    }
}

/// A pair of byte streams, until a connection takes them.
#[derive(Clone)]
pub(super) struct StreamPair(Arc<Mutex<Option<(BoxedReader, BoxedWriter)>>>);

type BoxedReader = Box<dyn AsyncRead + Unpin + Send>;
type BoxedWriter = Box<dyn AsyncWrite + Unpin + Send>;

impl StreamPair {
    pub(super) fn new<R, W>(reader: R, writer: W) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        Self(Arc::new(Mutex::new(Some((Box::new(reader), Box::new(writer))))))
    }
}

/// Opens a connection over a pair of streams. Fails if they were used before.
pub(super) fn connect_streams(
    shared: &Arc<ClientState>,
    streams: &StreamPair,
) -> Result<Arc<ClientConnection>, ClientError> {
    let Some((reader, writer)) = lock(&streams.0).take() else {
        let text = "`Client::over` connects once: the streams have ended, or another client uses them";
        return Err(ErrorKind::Config(text.to_owned()).into());
    };
    let outbox = Arc::new(OutboundQueue::new(MAX_QUEUED_BYTES));
    let connection = ClientConnection::new(Arc::clone(shared), Transport::Streams(Arc::clone(&outbox)));
    connection.register_task(&tokio::spawn(write_stream(Arc::clone(&connection), outbox, writer)));
    connection.register_task(&tokio::spawn(read_stream(Arc::clone(&connection), reader)));
    Ok(connection)
}

/// Writes queued messages until the queue is closed, then shuts the stream down.
async fn write_stream(
    connection: Arc<ClientConnection>,
    outbox: Arc<OutboundQueue>,
    mut writer: BoxedWriter,
) {
    let mut bytes = Vec::new();
    loop {
        outbox.readable().await;
        if outbox.take_all(&mut bytes) {
            let written = async {
                writer.write_all(&bytes).await?;
                writer.flush().await
            };
            if let Err(error) = written.await {
                outbox.close();
                return connection.mark_disconnected(&format!("writing to the server failed: {error}"));
            }
        } else if outbox.is_closed() {
            // The server may be gone.
            drop(writer.shutdown().await);
            return outbox.notify_idle();
        }
    }
}

/// Reads messages until the stream ends.
async fn read_stream(connection: Arc<ClientConnection>, mut reader: BoxedReader) {
    let mut lines = LineReader::new(connection.limits().max_message_bytes);
    loop {
        lines.buffer_mut().reserve(MIN_READ_BYTES);
        let read = reader.read_buf(lines.buffer_mut()).await;
        loop {
            match lines.next_line() {
                Some(Ok(line)) => connection.receive(line, None),
                Some(Err(_)) => skip_line(&connection, lines.skipped_line()),
                None => break,
            }
            end_skipped_line(&connection, &mut lines);
        }
        end_skipped_line(&connection, &mut lines);
        connection.wait_for_observer().await;
        let reason = match read {
            Ok(0) => "the server closed the stream".to_owned(),
            Ok(_) => continue,
            Err(error) => format!("reading from the server failed: {error}"),
        };
        if let Some(Ok(line)) = lines.finish() {
            connection.receive(line, None);
        }
        connection.transport.kill();
        return connection.mark_disconnected(&reason);
    }
}

/// Closes the queue of a pair of streams, and waits until it is written.
pub(super) async fn close_streams(outbox: &OutboundQueue) {
    let idle = outbox.idle();
    outbox.close();
    // A server that does not read must not delay the close.
    drop(tokio::time::timeout(EXIT_GRACE, idle).await);
}

/// Opens a connection to a server in this process.
pub(super) fn connect_in_process(
    shared: &Arc<ClientState>,
    server: &Arc<dyn InProcessServer>,
    principal: &Option<Principal>,
) -> Result<Arc<ClientConnection>, ClientError> {
    let server = server.connect(principal.clone()).map_err(|error| ClientError::config(error.to_string()))?;
    let connection = ClientConnection::new(Arc::clone(shared), Transport::InProcess(Arc::clone(&server)));
    connection.register_task(&tokio::spawn(read_in_process(Arc::clone(&connection), server)));
    Ok(connection)
}

async fn read_in_process(connection: Arc<ClientConnection>, server: Arc<dyn InProcessConnection>) {
    let mut lines = LineReader::new(usize::MAX - 1);
    let mut bytes = Vec::new();
    loop {
        server.outbox().readable().await;
        if !server.outbox().take_all(&mut bytes) {
            if server.outbox().is_closed() {
                return connection.mark_disconnected("the server is gone");
            }
            continue;
        }
        lines.push(&bytes);
        while let Some(line) = lines.next_line() {
            connection.receive(line.unwrap_or_default(), None);
        }
        connection.wait_for_observer().await;
    }
}

/// Bytes that may be queued for a child before senders wait.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// The minimum size of a read from a child.
const MIN_READ_BYTES: usize = 8 << 10;
/// How long to wait for the rest of a line that is not a message before it is reported.
const PARTIAL_LINE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long to wait for the exit status of a child that closed its output.
const EXIT_GRACE: Duration = Duration::from_millis(500);
