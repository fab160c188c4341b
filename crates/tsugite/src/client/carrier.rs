//! How messages reach a server: through a child's pipes, inside this process, or over HTTP.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tsugite_core::jsonrpc::{ErrorObject, LineReader, RawJson};

use super::calls::{Outcome, Waiting};
use super::error::{Error, Kind, Step};
use super::http::{Http, Sse};
use super::link::{Link, Trouble, cancellation};
use super::settings::Direction;
use super::shared::Shared;
use crate::server::connection::ServerConnection as ServerLink;
use crate::server::{Principal, Server};
use crate::transport::child::{Child, Command, SpawnedChild};
use crate::transport::outbound_queue::OutboundQueue;

/// A way to one server.
pub(super) enum Carrier {
    /// A child's pipes.
    Child(ChildPipe),
    /// A server in this process.
    Memory(Arc<ServerLink>),
    /// Streamable HTTP.
    Http(Box<Http>),
    /// HTTP+SSE of 2024-11-05.
    Sse(Box<Sse>),
}

/// A request on its way out.
pub(super) struct Outgoing<'a> {
    pub(super) bytes: Vec<u8>,
    pub(super) method: &'a str,
    pub(super) name: Option<&'a str>,
    /// What mirrors arguments.
    pub(super) headers: Vec<(String, String)>,
    /// What the caller wants sent as well.
    pub(super) extra: &'a [(String, String)],
}

/// What came of a call whose answer came.
pub(super) type Answered = Result<RawJson, ErrorObject>;

impl Carrier {
    /// Sends a request and waits for its answer. Time is kept by whoever calls.
    pub(super) async fn exchange(
        &self,
        link: &Arc<Link>,
        waiting: &Arc<Waiting>,
        outgoing: Outgoing<'_>,
    ) -> Result<Answered, Trouble> {
        // The call is written down already, so whoever loses the connection from now on ends it.
        if let Some(seen) = link.lost() {
            return Err(Trouble::not_run(seen));
        }
        link.shared.wire(Direction::Sent, &outgoing.bytes);
        match self {
            Carrier::Child(pipe) => pipe.send(&outgoing.bytes).await,
            Carrier::Memory(server) => send_in_memory(server, &outgoing.bytes),
            // The answer may be there before the server has said that it took the request.
            Carrier::Sse(sse) => tokio::select! {
                biased;
                sent = Box::pin(sse.send(outgoing)) => sent?,
                outcome = waiting.outcome() => return answered(outcome),
            },
            // A pipe that ends settles the call; a request over HTTP would go on. Large, and a pipe's call should not be.
            Carrier::Http(http) => {
                return tokio::select! {
                    outcome = Box::pin(http.exchange(link, waiting, outgoing)) => outcome,
                    seen = link.ended() => Err(Trouble::lost(seen)),
                };
            }
        }
        answered(waiting.outcome().await)
    }

    /// Sends a notification, or an answer to a question of the server. One that does not take it is not waited for
    /// longer than for an answer.
    pub(super) async fn tell(&self, link: &Arc<Link>, bytes: Vec<u8>) -> Result<(), Trouble> {
        link.shared.wire(Direction::Sent, &bytes);
        let told = async {
            match self {
                Carrier::Child(pipe) => pipe.send(&bytes).await,
                Carrier::Memory(server) => send_in_memory(server, &bytes),
                Carrier::Http(http) => Box::pin(http.tell(link, bytes)).await?,
                Carrier::Sse(sse) => Box::pin(sse.tell(bytes)).await?,
            }
            Ok(())
        };
        let limit = link.shared.settings.patience.idle_timeout;
        match tokio::time::timeout(limit, told).await {
            Ok(told) => told,
            Err(_) => Err(Kind::TimedOut { limit, total: false }.into()),
        }
    }

    /// Does the same without waiting, as far as there is a runtime to do it.
    pub(super) fn tell_soon(&self, link: &Arc<Link>, bytes: Vec<u8>) {
        match self {
            Carrier::Child(pipe) => {
                link.shared.wire(Direction::Sent, &bytes);
                pipe.outbox.push(|out| out.extend_from_slice(&bytes));
            }
            Carrier::Memory(server) if tokio::runtime::Handle::try_current().is_ok() => {
                link.shared.wire(Direction::Sent, &bytes);
                send_in_memory(server, &bytes);
            }
            Carrier::Memory(_) => {}
            Carrier::Http(_) | Carrier::Sse(_) => link.say_soon(bytes),
        }
    }

    /// Sends an answer that nobody had to think about. A server that asks faster than it takes answers is left without
    /// some, so that what waits for it is bounded.
    pub(super) fn answer_soon(&self, link: &Arc<Link>, bytes: Vec<u8>) {
        match self {
            Carrier::Child(pipe) if pipe.outbox.is_full() => tracing::debug!("an answer finds no room"),
            Carrier::Child(_) | Carrier::Memory(_) => self.tell_soon(link, bytes),
            Carrier::Http(_) | Carrier::Sse(_) => {
                let Ok(place) = Arc::clone(&link.places).try_acquire_owned() else {
                    return tracing::debug!("an answer finds no room");
                };
                let answering = Arc::clone(link);
                link.keep(&tokio::spawn(async move {
                    let _turn = answering.turns.acquire().await;
                    if let Err(trouble) = answering.carrier.tell(&answering, bytes).await {
                        tracing::debug!(error = %Error::from(trouble), "an answer could not be sent");
                    }
                    drop(place);
                }));
            }
        }
    }

    /// Tells the server that a call is no longer wanted, the way its era wants it.
    pub(super) fn cancel(&self, link: &Arc<Link>, id: i64) {
        let revision = link.revision();
        // Over HTTP, 2026-07-28 knows it by the closed stream.
        if !(revision.is_stateless() && matches!(self, Carrier::Http(_))) {
            self.tell_soon(link, cancellation(id, revision));
        }
    }

    /// Says good-bye.
    pub(super) async fn close(&self, link: &Arc<Link>) {
        match self {
            Carrier::Child(pipe) => {
                // Its input is closed when its family has been looked for, and not before.
                pipe.child.close(Hangup(&pipe.outbox)).await;
            }
            Carrier::Memory(server) => server.close(),
            Carrier::Http(http) => http.close(link).await,
            Carrier::Sse(_) => {}
        }
    }

    /// Ends it at once.
    pub(super) fn kill(&self) {
        match self {
            Carrier::Child(pipe) => {
                pipe.outbox.close();
                pipe.child.kill();
            }
            Carrier::Memory(server) => server.abort_all(),
            Carrier::Http(http) => http.kill(),
            Carrier::Sse(_) => {}
        }
    }
}

/// What came of a call, for whoever waited for it.
pub(super) fn answered(outcome: Outcome) -> Result<Answered, Trouble> {
    match outcome {
        Outcome::Answered(answer) => Ok(answer),
        Outcome::Lost(seen) => Err(Trouble::lost(seen)),
    }
}

/// The pipes of a child.
pub(super) struct ChildPipe {
    outbox: Arc<OutboundQueue>,
    pub(super) child: Child,
}

/// Dropping it ends what is said to a child: its writer lets go of the pipe.
struct Hangup<'a>(&'a OutboundQueue);

impl Drop for Hangup<'_> {
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
pub(super) fn through_child(shared: &Arc<Shared>, command: &Command) -> Result<Arc<Link>, Error> {
    let SpawnedChild { child, stdin, stdout } =
        command.spawn().map_err(|error| Error::connect(Step::Start, error))?;
    let outbox = Arc::new(OutboundQueue::new(WAITING));
    let pipe = ChildPipe { outbox: Arc::clone(&outbox), child };
    let link = Link::new(Arc::clone(shared), Carrier::Child(pipe));
    link.keep(&tokio::spawn(write_child(Arc::clone(&link), outbox, stdin)));
    link.keep(&tokio::spawn(read_child(Arc::clone(&link), stdout)));
    Ok(link)
}

/// Writes to the child until nothing more is to be said to it.
async fn write_child(link: Arc<Link>, outbox: Arc<OutboundQueue>, mut stdin: impl AsyncWrite + Unpin) {
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
            tokio::time::sleep(2 * ENDING).await;
            return link.lose("the server closed its input");
        }
    }
}

/// Reads from the child until it says no more.
async fn read_child(link: Arc<Link>, mut stdout: impl AsyncRead + Unpin) {
    let Carrier::Child(pipe) = &link.carrier else { return };
    let mut lines = LineReader::new(link.limits().max_message_bytes);
    // What it started may hold its output open when it has ended. What is there by then is read.
    let mut ended = pin!(async {
        pipe.child.wait().await;
        tokio::time::sleep(ENDING).await;
    });
    // Whether a line is known to be no message although its end has not come.
    let mut told = false;
    loop {
        let noisy = !told && is_noise(lines.partial_line());
        // Without room a read would take what little a buffer begins with.
        lines.buffer_mut().reserve(READ);
        let at_end = tokio::select! {
            biased;
            read = stdout.read_buf(lines.buffer_mut()) => !matches!(read, Ok(1..)),
            () = &mut ended => true,
            // The clock is looked at only if it matters.
            () = async { tokio::time::sleep(UNFINISHED).await }, if noisy => {
                link.shared.noise(lines.partial_line(), "a line without an end");
                told = true;
                continue;
            }
        };
        loop {
            match lines.next_line() {
                Some(Ok(line)) if std::mem::take(&mut told) => link.shared.wire(Direction::Received, line),
                Some(Ok(line)) => link.receive(line, None),
                Some(Err(_)) => {
                    told = false;
                    too_long(&link);
                }
                None => break,
            }
        }
        link.room_behind().await;
        if at_end {
            match lines.finish() {
                Some(Ok(line)) if told => link.shared.wire(Direction::Received, line),
                Some(Ok(line)) => link.receive(line, None),
                Some(Err(_)) => too_long(&link),
                None => {}
            }
            break;
        }
    }
    pipe.outbox.close();
    // One that closes its output is usually about to end.
    let seen = match tokio::time::timeout(ENDING, pipe.child.wait()).await {
        Ok(ended) => format!("the server {ended}"),
        Err(_) => "the server closed its output".to_owned(),
    };
    link.lose(&seen);
    // Nobody will talk to it again, but it may have something to finish. If it has ended, what it left behind ends too, and
    // it stays no zombie.
    pipe.child.close(()).await;
}

/// Whether a line begins as no message does.
fn is_noise(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|first| !matches!(first, b'{' | b'['))
}

fn too_long(link: &Link) {
    let most = link.limits().max_message_bytes;
    tracing::warn!(most, "the server sent a line that is too long; it was skipped");
}

/// A connection to a server in this process.
pub(super) fn in_memory(
    shared: &Arc<Shared>,
    server: &Server,
    who: &Option<Principal>,
) -> Result<Arc<Link>, Error> {
    server.check_registrations().map_err(|error| Error::connect(Step::Start, error))?;
    let server = ServerLink::new(server, who.clone());
    let link = Link::new(Arc::clone(shared), Carrier::Memory(Arc::clone(&server)));
    link.keep(&tokio::spawn(read_memory(Arc::clone(&link), server)));
    Ok(link)
}

async fn read_memory(link: Arc<Link>, server: Arc<ServerLink>) {
    let mut lines = LineReader::new(usize::MAX - 1);
    let mut bytes = Vec::new();
    loop {
        server.outbox().readable().await;
        if !server.outbox().take_all(&mut bytes) {
            if server.outbox().is_closed() {
                return link.lose("the server is gone");
            }
            continue;
        }
        lines.push(&bytes);
        while let Some(line) = lines.next_line() {
            link.receive(line.unwrap_or_default(), None);
        }
        link.room_behind().await;
    }
}

fn send_in_memory(server: &Arc<ServerLink>, bytes: &[u8]) {
    for work in server.receive(bytes) {
        let task = tokio::spawn(work.future);
        server.register_task(&work.id, work.serial, task.abort_handle());
    }
}

/// Bytes that may wait for a child before whoever speaks to it does.
const WAITING: usize = 1 << 20;
/// Bytes that are read from a child at a time, at least.
const READ: usize = 8 << 10;
/// How long the end of a line is waited for that begins as no message does.
const UNFINISHED: Duration = Duration::from_millis(250);
/// How long a child that closed its output is given to say how it ended.
const ENDING: Duration = Duration::from_millis(500);
