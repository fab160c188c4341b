//! Transports: a child's pipes, a server in this process, Streamable HTTP and HTTP+SSE.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tsugite_core::jsonrpc::{ErrorObject, LineReader, RawJson};

use super::call_error::CallError;
use super::client_error::{ClientError, ConnectStep, ErrorKind, TimeoutKind};
use super::client_settings::Direction;
use super::client_state::ClientState;
use super::connection::ClientConnection;
use super::http::{HttpSse, StreamableHttp};
use super::pending_calls::{CallOutcome, PendingCall};
use crate::shared::in_process::{InProcessConnection, InProcessServer};
use crate::shared::outbound_queue::OutboundQueue;
use crate::shared::principal::Principal;
use crate::transport::child::{Child, Command, SpawnedChild};

/// The transport of one connection.
pub(super) enum Transport {
    /// A child's pipes.
    Child(ChildPipe),
    /// A server in this process.
    InProcess(Arc<dyn InProcessConnection>),
    /// Streamable HTTP.
    StreamableHttp(Box<StreamableHttp>),
    /// HTTP+SSE of 2024-11-05.
    HttpSse(Box<HttpSse>),
}

/// A request that is ready to be sent.
pub(super) struct EncodedRequest<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) method: &'a str,
    pub(super) name: Option<&'a str>,
    /// The headers that repeat arguments.
    pub(super) param_headers: Vec<(String, String)>,
    /// The headers that the caller set.
    pub(super) extra_headers: &'a [(String, String)],
}

/// The result or the error in a response.
pub(super) type ServerReply = Result<RawJson, ErrorObject>;

impl Transport {
    /// Sends a request and waits for its response. The caller enforces the timeouts.
    pub(super) async fn exchange(
        &self,
        connection: &Arc<ClientConnection>,
        call: &Arc<PendingCall>,
        outgoing: EncodedRequest<'_>,
    ) -> Result<ServerReply, CallError> {
        // The call is registered already, so a connection that is lost from now on fails it.
        if let Some(reason) = connection.disconnect_reason() {
            return Err(CallError::not_sent(reason));
        }
        connection.shared.trace_message(Direction::Sent, &outgoing.bytes);
        match self {
            Transport::Child(pipe) => pipe.send(&outgoing.bytes).await,
            Transport::InProcess(server) => server.receive(&outgoing.bytes),
            // The response may arrive before the server has accepted the POST.
            Transport::HttpSse(sse) => tokio::select! {
                biased;
                sent = Box::pin(sse.send_request(outgoing)) => sent?,
                outcome = call.outcome() => return into_rpc_result(outcome),
            },
            // Closing a pipe fails the call, but an HTTP request would continue. Boxed to keep the future of a pipe's
            // call small.
            Transport::StreamableHttp(http) => {
                return tokio::select! {
                    outcome = Box::pin(http.exchange(connection, call, outgoing)) => outcome,
                    reason = connection.aborted() => Err(CallError::disconnected(reason)),
                };
            }
        }
        into_rpc_result(call.outcome().await)
    }

    /// Sends a notification, or a response to a request of the server. Fails after the idle timeout if the server does
    /// not accept it.
    pub(super) async fn send_message(
        &self,
        connection: &Arc<ClientConnection>,
        bytes: Vec<u8>,
    ) -> Result<(), CallError> {
        connection.shared.trace_message(Direction::Sent, &bytes);
        let sending = async {
            match self {
                Transport::Child(pipe) => pipe.send(&bytes).await,
                Transport::InProcess(server) => server.receive(&bytes),
                Transport::StreamableHttp(http) => Box::pin(http.send_message(connection, bytes)).await?,
                Transport::HttpSse(sse) => Box::pin(sse.send_message(bytes)).await?,
            }
            Ok(())
        };
        let limit = connection.shared.settings.timeouts.idle_timeout;
        match tokio::time::timeout(limit, sending).await {
            Ok(result) => result,
            Err(_) => Err(ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle }.into()),
        }
    }

    /// Sends a message without waiting, if there is a runtime to send it.
    pub(super) fn send_message_detached(&self, connection: &Arc<ClientConnection>, bytes: Vec<u8>) {
        match self {
            Transport::Child(pipe) => {
                connection.shared.trace_message(Direction::Sent, &bytes);
                pipe.outbox.push(|out| out.extend_from_slice(&bytes));
            }
            Transport::InProcess(server) if tokio::runtime::Handle::try_current().is_ok() => {
                connection.shared.trace_message(Direction::Sent, &bytes);
                server.receive(&bytes);
            }
            Transport::InProcess(_) => {}
            Transport::StreamableHttp(_) | Transport::HttpSse(_) => connection.send_in_background(bytes),
        }
    }

    /// Sends a response that needed no handler, without waiting. If too many are queued it is dropped, so that a server
    /// that does not read its responses cannot fill the memory.
    pub(super) fn send_response_detached(&self, connection: &Arc<ClientConnection>, bytes: Vec<u8>) {
        match self {
            Transport::Child(pipe) if pipe.outbox.is_full() => {
                tracing::debug!("dropped a response: the queue is full")
            }
            Transport::Child(_) | Transport::InProcess(_) => self.send_message_detached(connection, bytes),
            Transport::StreamableHttp(_) | Transport::HttpSse(_) => {
                let Ok(permit) = Arc::clone(&connection.queued_response_permits).try_acquire_owned() else {
                    return tracing::debug!("dropped a response: the queue is full");
                };
                let responder = Arc::clone(connection);
                connection.register_task(&tokio::spawn(async move {
                    let _send_permit = responder.response_send_permits.acquire().await;
                    if let Err(error) = responder.transport.send_message(&responder, bytes).await {
                        tracing::debug!(error = %ClientError::from(error), "cannot send a response");
                    }
                    drop(permit);
                }));
            }
        }
    }

    /// Closes the transport gracefully.
    pub(super) async fn close(&self, connection: &Arc<ClientConnection>) {
        match self {
            Transport::Child(pipe) => {
                // The child's input is closed after its descendants were looked up: the child may exit at once.
                pipe.child.close(CloseOnDrop(&pipe.outbox)).await;
            }
            Transport::InProcess(server) => server.close(),
            Transport::StreamableHttp(http) => http.close(connection).await,
            Transport::HttpSse(_) => {}
        }
    }

    /// Ends the transport at once.
    pub(super) fn kill(&self) {
        match self {
            Transport::Child(pipe) => {
                pipe.outbox.close();
                pipe.child.kill();
            }
            Transport::InProcess(server) => server.abort_all(),
            Transport::StreamableHttp(http) => http.kill(),
            Transport::HttpSse(_) => {}
        }
    }
}

/// Converts the outcome of a call.
pub(super) fn into_rpc_result(outcome: CallOutcome) -> Result<ServerReply, CallError> {
    match outcome {
        CallOutcome::Response(answer) => Ok(answer),
        CallOutcome::Disconnected(reason) => Err(CallError::disconnected(reason)),
    }
}

/// The pipes of a child.
pub(super) struct ChildPipe {
    outbox: Arc<OutboundQueue>,
    pub(super) child: Child,
}

/// Closes the queue when dropped, upon which the writer closes the child's input.
struct CloseOnDrop<'a>(&'a OutboundQueue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl ChildPipe {
    async fn send(&self, bytes: &[u8]) {
        self.outbox.wait_for_capacity().await;
        self.outbox.push(|out| out.extend_from_slice(bytes));
    }
}

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
                    warn_line_too_long(&connection);
                }
                None => break,
            }
        }
        connection.wait_for_observer().await;
        if at_end {
            match lines.finish() {
                Some(Ok(line)) if reported => connection.shared.trace_message(Direction::Received, line),
                Some(Ok(line)) => connection.receive(line, None),
                Some(Err(_)) => warn_line_too_long(&connection),
                None => {}
            }
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

fn warn_line_too_long(connection: &ClientConnection) {
    let limit = connection.limits().max_message_bytes;
    tracing::warn!(limit, "skipped a line of the server that exceeds the size limit");
}

/// Opens a connection to a server in this process.
pub(super) fn connect_in_process(
    shared: &Arc<ClientState>,
    server: &Arc<dyn InProcessServer>,
    principal: &Option<Principal>,
) -> Result<Arc<ClientConnection>, ClientError> {
    let server =
        server.connect(principal.clone()).map_err(|error| ClientError::connect(ConnectStep::Spawn, error))?;
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
