//! stdio: one message a line, on the pipes the client opened.
//!
//! Nothing but messages goes to stdout: the descriptor is moved away and stdout becomes stderr, so that a stray
//! `println!` cannot corrupt the stream. One loop reads and writes: all that has arrived is answered before one write
//! carries the answers, without a task or a channel between them. While every message is answered at once, a thread
//! that waits in `read` itself takes that loop over.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tokio::task::JoinHandle;
use tsugite_core::jsonrpc::LineReader;

use crate::lock::lock;
use crate::server::Server;
use crate::server::connection::ServerConnection;
use crate::server::pending::PendingRequest;
use crate::transport::outbound_queue::OutboundQueue;

use pipes::{StdinPipe, StdoutPipe};

mod blocking_reader;
mod pipes;

impl Server {
    /// Serves one client on stdin and stdout, in every revision, until stdin ends or a signal asks to stop.
    ///
    /// What runs then has five seconds to finish, or what [`Server::grace`] says. What is printed goes to stderr, and so do
    /// warnings and errors, unless the application has set a `tracing` subscriber before. Fails when something was
    /// registered that cannot be offered, or when the pipes break.
    pub async fn serve_stdio(self) -> crate::Result<()> {
        // As a task it is woken by what it waits for alone, and not looked at whenever whoever serves is.
        let mut serving = ServeTask(tokio::spawn(self.serve_pipes()));
        match (&mut serving.0).await {
            Ok(served) => served,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(ended) => Err(io::Error::other(ended).into()),
            },
        }
    }

    async fn serve_pipes(self) -> crate::Result<()> {
        self.check_registrations()?;
        super::stderr_log::fall_back_to_stderr();
        let (stdin, stdout) = pipes::take_stdio()?;
        let (input, (output, copier)) = (StdinPipe::new(stdin)?, StdoutPipe::new(stdout)?);
        let wire = Arc::new(StdioServer {
            connection: ServerConnection::new(&self, None),
            output,
            write_buffer: Mutex::default(),
        });
        // Also if nobody waits for the end: the thread that may read must not answer then.
        let over = StopOnDrop(&wire.connection);
        // A task of its own, so that not every message asks whether there was a signal.
        let stop: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(super::signal::shutdown_signal());
        let mut asked_to_stop = tokio::spawn(stop);
        let served = {
            let mut serving = pin!(wire.serve(input));
            poll_fn(|cx| match Pin::new(&mut asked_to_stop).poll(cx) {
                Poll::Ready(_) => Poll::Ready(Ok(())),
                Poll::Pending => serving.as_mut().poll(cx),
            })
            .await
        };
        asked_to_stop.abort();
        // Nobody will read more if the pipes broke.
        let settled = match served {
            Ok(()) => {
                wire.connection.close();
                let grace = wire.connection.config.shutdown_grace;
                tokio::time::timeout(grace, wire.drain()).await.unwrap_or(Ok(()))
            }
            broken => broken,
        };
        drop(over);
        drop(wire);
        if let Some(copier) = copier {
            tokio::task::spawn_blocking(move || copier.join()).await?.map_err(|_| copy_failed())??;
        }
        Ok(settled?)
    }
}

/// What serves. It ends with whoever waits for it.
struct ServeTask(JoinHandle<crate::Result<()>>);

impl Drop for ServeTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Stops what runs when nobody serves any more.
struct StopOnDrop<'a>(&'a ServerConnection);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}

struct StdioServer {
    connection: Arc<ServerConnection>,
    output: StdoutPipe,
    write_buffer: Mutex<WriteBuffer>,
}

/// What was taken from the outbox, and how much of it has left.
#[derive(Default)]
struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    fn has_remaining(&self) -> bool {
        self.written < self.bytes.len()
    }

    fn refill(&mut self, outbox: &OutboundQueue) -> bool {
        self.written = 0;
        let taken = outbox.take_all(&mut self.bytes);
        if !taken {
            self.bytes.clear();
        }
        taken
    }

    /// Writes as far as the client takes it; true if some of it must wait.
    fn flush(&mut self, output: &StdoutPipe) -> io::Result<bool> {
        while self.has_remaining() {
            match output.try_write(self.bytes.get(self.written..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// What has been read.
struct InputBuffer {
    lines: LineReader,
    chunk: Vec<u8>,
    /// How many messages in a row were answered at once.
    inline_responses: usize,
}

impl InputBuffer {
    fn new(longest: usize) -> Self {
        // Most messages are short, and memory that nobody needs is not touched.
        Self { lines: LineReader::new(longest), chunk: vec![0; INITIAL_READ_CHUNK], inline_responses: 0 }
    }

    /// So much of the chunk is new.
    fn push(&mut self, length: usize) {
        self.lines.push(self.chunk.get(..length).unwrap_or_default());
        if length == self.chunk.len() {
            self.chunk.resize(READ_CHUNK, 0);
        }
    }

    /// Receives the next message; none if there is no whole one. What is not done at once is given back.
    fn receive(&mut self, link: &Arc<ServerConnection>) -> Option<Vec<PendingRequest>> {
        let work = match self.lines.next_line()? {
            Ok(line) => link.receive(line),
            Err(_) => {
                link.reject_oversized_message();
                Vec::new()
            }
        };
        self.inline_responses = if work.is_empty() { self.inline_responses + 1 } else { 0 };
        Some(work)
    }

    /// Nothing more will come. What has no end of line is a message all the same.
    fn finish(&mut self, link: &Arc<ServerConnection>) -> Vec<PendingRequest> {
        match self.lines.finish() {
            Some(Ok(line)) => link.receive(line),
            _ => Vec::new(),
        }
    }
}

impl StdioServer {
    /// Reads and answers until the client closes stdin.
    async fn serve(self: &Arc<Self>, mut input: StdinPipe) -> io::Result<()> {
        let mut reading = InputBuffer::new(self.connection.config.limits.max_message_bytes);
        loop {
            // A client that does not read its answers is asked for no more questions, not even those that are here.
            let mut waiting = true;
            while waiting && !self.connection.outbox().is_full() {
                match reading.receive(&self.connection) {
                    Some(work) => self.connection.spawn(work),
                    None => waiting = false,
                }
            }
            let blocked = self.write()?;
            let listens = !self.connection.outbox().is_full();
            if waiting && listens {
                continue;
            }
            if listens && !blocked && reading.inline_responses >= BLOCKING_READER_THRESHOLD {
                match self.run_blocking_reader(input, reading).await? {
                    Some(back) => (input, reading) = back,
                    None => return Ok(()),
                }
                continue;
            }
            match self.next_event(&mut input, &mut reading.chunk, listens, blocked).await {
                IoEvent::Read(Ok(0)) => {
                    self.connection.spawn(reading.finish(&self.connection));
                    return Ok(());
                }
                IoEvent::Read(Ok(length)) => reading.push(length),
                IoEvent::Read(Err(error)) if is_transient(&error) => {}
                IoEvent::Read(Err(error)) => return Err(error),
                IoEvent::Writable(ready) => ready?,
                IoEvent::OutputQueued => {}
            }
        }
    }

    /// Waits for something to read if anybody `listens`, and for what was `blocked` to be written or for more to write.
    async fn next_event(
        &self,
        input: &mut StdinPipe,
        chunk: &mut [u8],
        listens: bool,
        blocked: bool,
    ) -> IoEvent {
        let mut read = pin!(input.read(chunk));
        let mut written = pin!(self.output.writable());
        let mut filled = pin!(self.connection.outbox().readable());
        poll_fn(|cx| {
            if listens && let Poll::Ready(read) = read.as_mut().poll(cx) {
                return Poll::Ready(IoEvent::Read(read));
            }
            match blocked {
                true => written.as_mut().poll(cx).map(IoEvent::Writable),
                false => filled.as_mut().poll(cx).map(|()| IoEvent::OutputQueued),
            }
        })
        .await
    }

    /// Writes what is there as far as the client takes it; true if some of it must wait.
    fn write(&self) -> io::Result<bool> {
        let mut leaving = lock(&self.write_buffer);
        loop {
            if !leaving.has_remaining() && !leaving.refill(self.connection.outbox()) {
                return Ok(false);
            }
            if leaving.flush(&self.output)? {
                return Ok(true);
            }
        }
    }

    /// The same without a look whether there is more meanwhile.
    fn write_once(&self) -> io::Result<bool> {
        let mut leaving = lock(&self.write_buffer);
        if !leaving.has_remaining() && !leaving.refill(self.connection.outbox()) {
            return Ok(false);
        }
        leaving.flush(&self.output)
    }

    /// Lets what runs finish and what is written leave.
    async fn drain(&self) -> io::Result<()> {
        loop {
            let mut quiet = pin!(self.connection.outbox().idle());
            let waits = self.write()?;
            if !waits && !self.connection.has_in_flight() {
                // Something may have been said between the two looks.
                if !self.write()? {
                    return Ok(());
                }
                continue;
            }
            let mut written = pin!(self.output.writable());
            let mut filled = pin!(self.connection.outbox().readable());
            poll_fn(|cx| match waits {
                true => written.as_mut().poll(cx),
                false => match filled.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Ok(())),
                    Poll::Pending => quiet.as_mut().poll(cx).map(Ok),
                },
            })
            .await?;
        }
    }
}

/// What was waited for.
enum IoEvent {
    /// So much was read.
    Read(io::Result<usize>),
    /// More can be written.
    Writable(io::Result<()>),
    /// There is more to write.
    OutputQueued,
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn copy_failed() -> io::Error {
    io::Error::other("what was said could not be copied to stdout")
}

/// How much is read at once, as soon as that much comes, and before.
const READ_CHUNK: usize = 64 << 10;
const INITIAL_READ_CHUNK: usize = 4 << 10;

/// So many messages in a row that were answered at once let a thread of its own read: starting it is paid back by then.
const BLOCKING_READER_THRESHOLD: usize = 64;
