//! How messages reach a server: through a child's pipes, inside this process, or over HTTP.

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

/// A way to one server.
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

/// A request on its way out.
pub(super) struct EncodedRequest<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) method: &'a str,
    pub(super) name: Option<&'a str>,
    /// What mirrors arguments.
    pub(super) param_headers: Vec<(String, String)>,
    /// What the caller wants sent as well.
    pub(super) extra_headers: &'a [(String, String)],
}

/// What came of a call whose answer came.
pub(super) type ServerReply = Result<RawJson, ErrorObject>;

impl Transport {
    /// Sends a request and waits for its answer. Time is kept by whoever calls.
    pub(super) async fn exchange(
        &self,
        link: &Arc<ClientConnection>,
        waiting: &Arc<PendingCall>,
        outgoing: EncodedRequest<'_>,
    ) -> Result<ServerReply, CallError> {
        // The call is written down already, so whoever loses the connection from now on ends it.
        if let Some(seen) = link.disconnect_reason() {
            return Err(CallError::not_sent(seen));
        }
        link.shared.trace_message(Direction::Sent, &outgoing.bytes);
        match self {
            Transport::Child(pipe) => pipe.send(&outgoing.bytes).await,
            Transport::InProcess(server) => server.receive(&outgoing.bytes),
            // The answer may be there before the server has said that it took the request.
            Transport::HttpSse(sse) => tokio::select! {
                biased;
                sent = Box::pin(sse.send_request(outgoing)) => sent?,
                outcome = waiting.outcome() => return into_rpc_result(outcome),
            },
            // A pipe that ends settles the call; a request over HTTP would go on. Large, and a pipe's call should not be.
            Transport::StreamableHttp(http) => {
                return tokio::select! {
                    outcome = Box::pin(http.exchange(link, waiting, outgoing)) => outcome,
                    seen = link.aborted() => Err(CallError::disconnected(seen)),
                };
            }
        }
        into_rpc_result(waiting.outcome().await)
    }

    /// Sends a notification, or an answer to a question of the server. One that does not take it is not waited for
    /// longer than for an answer.
    pub(super) async fn send_message(
        &self,
        link: &Arc<ClientConnection>,
        bytes: Vec<u8>,
    ) -> Result<(), CallError> {
        link.shared.trace_message(Direction::Sent, &bytes);
        let told = async {
            match self {
                Transport::Child(pipe) => pipe.send(&bytes).await,
                Transport::InProcess(server) => server.receive(&bytes),
                Transport::StreamableHttp(http) => Box::pin(http.send_message(link, bytes)).await?,
                Transport::HttpSse(sse) => Box::pin(sse.send_message(bytes)).await?,
            }
            Ok(())
        };
        let limit = link.shared.settings.timeouts.idle_timeout;
        match tokio::time::timeout(limit, told).await {
            Ok(told) => told,
            Err(_) => Err(ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle }.into()),
        }
    }

    /// Does the same without waiting, as far as there is a runtime to do it.
    pub(super) fn send_message_detached(&self, link: &Arc<ClientConnection>, bytes: Vec<u8>) {
        match self {
            Transport::Child(pipe) => {
                link.shared.trace_message(Direction::Sent, &bytes);
                pipe.outbox.push(|out| out.extend_from_slice(&bytes));
            }
            Transport::InProcess(server) if tokio::runtime::Handle::try_current().is_ok() => {
                link.shared.trace_message(Direction::Sent, &bytes);
                server.receive(&bytes);
            }
            Transport::InProcess(_) => {}
            Transport::StreamableHttp(_) | Transport::HttpSse(_) => link.send_in_background(bytes),
        }
    }

    /// Sends an answer that nobody had to think about. A server that asks faster than it takes answers is left without
    /// some, so that what waits for it is bounded.
    pub(super) fn send_response_detached(&self, link: &Arc<ClientConnection>, bytes: Vec<u8>) {
        match self {
            Transport::Child(pipe) if pipe.outbox.is_full() => tracing::debug!("an answer finds no room"),
            Transport::Child(_) | Transport::InProcess(_) => self.send_message_detached(link, bytes),
            Transport::StreamableHttp(_) | Transport::HttpSse(_) => {
                let Ok(place) = Arc::clone(&link.queued_response_permits).try_acquire_owned() else {
                    return tracing::debug!("an answer finds no room");
                };
                let answering = Arc::clone(link);
                link.register_task(&tokio::spawn(async move {
                    let _turn = answering.response_send_permits.acquire().await;
                    if let Err(trouble) = answering.transport.send_message(&answering, bytes).await {
                        tracing::debug!(error = %ClientError::from(trouble), "an answer could not be sent");
                    }
                    drop(place);
                }));
            }
        }
    }

    /// Says good-bye.
    pub(super) async fn close(&self, link: &Arc<ClientConnection>) {
        match self {
            Transport::Child(pipe) => {
                // Its input is closed when its family has been looked for, and not before.
                pipe.child.close(CloseOnDrop(&pipe.outbox)).await;
            }
            Transport::InProcess(server) => server.close(),
            Transport::StreamableHttp(http) => http.close(link).await,
            Transport::HttpSse(_) => {}
        }
    }

    /// Ends it at once.
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

/// What came of a call, for whoever waited for it.
pub(super) fn into_rpc_result(outcome: CallOutcome) -> Result<ServerReply, CallError> {
    match outcome {
        CallOutcome::Response(answer) => Ok(answer),
        CallOutcome::Disconnected(seen) => Err(CallError::disconnected(seen)),
    }
}

/// The pipes of a child.
pub(super) struct ChildPipe {
    outbox: Arc<OutboundQueue>,
    pub(super) child: Child,
}

/// Dropping it ends what is said to a child: its writer lets go of the pipe.
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

/// Starts a child and a connection through its pipes.
pub(super) fn spawn_child(
    shared: &Arc<ClientState>,
    command: &Command,
) -> Result<Arc<ClientConnection>, ClientError> {
    let SpawnedChild { child, stdin, stdout } =
        command.spawn().map_err(|error| ClientError::connect(ConnectStep::Spawn, error))?;
    let outbox = Arc::new(OutboundQueue::new(MAX_QUEUED_BYTES));
    let pipe = ChildPipe { outbox: Arc::clone(&outbox), child };
    let link = ClientConnection::new(Arc::clone(shared), Transport::Child(pipe));
    link.register_task(&tokio::spawn(write_child(Arc::clone(&link), outbox, stdin)));
    link.register_task(&tokio::spawn(read_child(Arc::clone(&link), stdout)));
    Ok(link)
}

/// Writes to the child until nothing more is to be said to it.
async fn write_child(
    link: Arc<ClientConnection>,
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
            // One that has ended is lost by whoever reads from it, and sees how it ended.
            tokio::time::sleep(2 * EXIT_GRACE).await;
            return link.mark_disconnected("the server closed its input");
        }
    }
}

/// Reads from the child until it says no more.
async fn read_child(link: Arc<ClientConnection>, mut stdout: impl AsyncRead + Unpin) {
    let Transport::Child(pipe) = &link.transport else { return };
    let mut lines = LineReader::new(link.limits().max_message_bytes);
    // What it started may hold its output open when it has ended. What is there by then is read.
    let mut ended = pin!(async {
        pipe.child.wait().await;
        tokio::time::sleep(EXIT_GRACE).await;
    });
    // Whether a line is known to be no message although its end has not come.
    let mut told = false;
    loop {
        let noisy = !told && is_not_json(lines.partial_line());
        // Without room a read would take what little a buffer begins with.
        lines.buffer_mut().reserve(MIN_READ_BYTES);
        let at_end = tokio::select! {
            biased;
            read = stdout.read_buf(lines.buffer_mut()) => !matches!(read, Ok(1..)),
            () = &mut ended => true,
            // The clock is looked at only if it matters.
            () = async { tokio::time::sleep(PARTIAL_LINE_TIMEOUT).await }, if noisy => {
                link.shared.report_invalid_message(lines.partial_line(), "a line without an end");
                told = true;
                continue;
            }
        };
        loop {
            match lines.next_line() {
                Some(Ok(line)) if std::mem::take(&mut told) => {
                    link.shared.trace_message(Direction::Received, line)
                }
                Some(Ok(line)) => link.receive(line, None),
                Some(Err(_)) => {
                    told = false;
                    warn_line_too_long(&link);
                }
                None => break,
            }
        }
        link.wait_for_observer().await;
        if at_end {
            match lines.finish() {
                Some(Ok(line)) if told => link.shared.trace_message(Direction::Received, line),
                Some(Ok(line)) => link.receive(line, None),
                Some(Err(_)) => warn_line_too_long(&link),
                None => {}
            }
            break;
        }
    }
    pipe.outbox.close();
    // One that closes its output is usually about to end.
    let seen = match tokio::time::timeout(EXIT_GRACE, pipe.child.wait()).await {
        Ok(ended) => format!("the server {ended}"),
        Err(_) => "the server closed its output".to_owned(),
    };
    link.mark_disconnected(&seen);
    // Nobody will talk to it again, but it may have something to finish. If it has ended, what it left behind ends too, and
    // it stays no zombie.
    pipe.child.close(()).await;
}

/// Whether a line begins as no message does.
fn is_not_json(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|first| !matches!(first, b'{' | b'['))
}

fn warn_line_too_long(link: &ClientConnection) {
    let most = link.limits().max_message_bytes;
    tracing::warn!(most, "the server sent a line that is too long; it was skipped");
}

/// Opens a connection to a server in this process.
pub(super) fn connect_in_process(
    shared: &Arc<ClientState>,
    server: &Arc<dyn InProcessServer>,
    principal: &Option<Principal>,
) -> Result<Arc<ClientConnection>, ClientError> {
    let server =
        server.connect(principal.clone()).map_err(|error| ClientError::connect(ConnectStep::Spawn, error))?;
    let link = ClientConnection::new(Arc::clone(shared), Transport::InProcess(Arc::clone(&server)));
    link.register_task(&tokio::spawn(read_in_process(Arc::clone(&link), server)));
    Ok(link)
}

async fn read_in_process(link: Arc<ClientConnection>, server: Arc<dyn InProcessConnection>) {
    let mut lines = LineReader::new(usize::MAX - 1);
    let mut bytes = Vec::new();
    loop {
        server.outbox().readable().await;
        if !server.outbox().take_all(&mut bytes) {
            if server.outbox().is_closed() {
                return link.mark_disconnected("the server is gone");
            }
            continue;
        }
        lines.push(&bytes);
        while let Some(line) = lines.next_line() {
            link.receive(line.unwrap_or_default(), None);
        }
        link.wait_for_observer().await;
    }
}

/// Bytes that may wait for a child before whoever speaks to it does.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Bytes that are read from a child at a time, at least.
const MIN_READ_BYTES: usize = 8 << 10;
/// How long the end of a line is waited for that begins as no message does.
const PARTIAL_LINE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a child that closed its output is given to say how it ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);
