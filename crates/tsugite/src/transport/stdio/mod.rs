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
use crate::server::connection::{ServerConnection, PendingRequest};
use crate::transport::outbox::Outbox;

use pipes::{Input, Output};

mod aside;
mod pipes;

impl Server {
    /// Serves one client on stdin and stdout, in every revision, until stdin ends or a signal asks to stop.
    ///
    /// What runs then has five seconds to finish, or what [`Server::grace`] says. What is printed goes to stderr, and so do
    /// warnings and errors, unless the application has set a `tracing` subscriber before. Fails when something was
    /// registered that cannot be offered, or when the pipes break.
    pub async fn serve_stdio(self) -> crate::Result<()> {
        // As a task it is woken by what it waits for alone, and not looked at whenever whoever serves is.
        let mut serving = Serving(tokio::spawn(self.serve_pipes()));
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
        super::log::fall_back_to_stderr();
        let (stdin, stdout) = pipes::take_stdio()?;
        let (input, (output, copier)) = (Input::new(stdin)?, Output::new(stdout)?);
        let wire = Arc::new(Wire { link: ServerConnection::new(&self, None), output, leaving: Mutex::default() });
        // Also if nobody waits for the end: the thread that may read must not answer then.
        let over = Over(&wire.link);
        // A task of its own, so that not every message asks whether there was a signal.
        let stop: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(super::signal::asked_to_stop());
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
                wire.link.close();
                let grace = wire.link.config.shutdown_grace;
                tokio::time::timeout(grace, wire.settle()).await.unwrap_or(Ok(()))
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
struct Serving(JoinHandle<crate::Result<()>>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Stops what runs when nobody serves any more.
struct Over<'a>(&'a ServerConnection);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}

struct Wire {
    link: Arc<ServerConnection>,
    output: Output,
    leaving: Mutex<Leaving>,
}

/// What was taken from the outbox, and how much of it has left.
#[derive(Default)]
struct Leaving {
    bytes: Vec<u8>,
    left: usize,
}

impl Leaving {
    fn is_there(&self) -> bool {
        self.left < self.bytes.len()
    }

    fn take(&mut self, outbox: &Outbox) -> bool {
        self.left = 0;
        let taken = outbox.take_now(&mut self.bytes);
        if !taken {
            self.bytes.clear();
        }
        taken
    }

    /// Writes as far as the client takes it; true if some of it must wait.
    fn leave(&mut self, output: &Output) -> io::Result<bool> {
        while self.is_there() {
            match output.try_write(self.bytes.get(self.left..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.left += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// What has been read.
struct Reading {
    lines: LineReader,
    chunk: Vec<u8>,
    /// How many messages in a row were answered at once.
    at_once: usize,
}

impl Reading {
    fn new(longest: usize) -> Self {
        // Most messages are short, and memory that nobody needs is not touched.
        Self { lines: LineReader::new(longest), chunk: vec![0; READ_FIRST], at_once: 0 }
    }

    /// So much of the chunk is new.
    fn push(&mut self, length: usize) {
        self.lines.push(self.chunk.get(..length).unwrap_or_default());
        if length == self.chunk.len() {
            self.chunk.resize(READ, 0);
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
        self.at_once = if work.is_empty() { self.at_once + 1 } else { 0 };
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

impl Wire {
    /// Reads and answers until the client closes stdin.
    async fn serve(self: &Arc<Self>, mut input: Input) -> io::Result<()> {
        let mut reading = Reading::new(self.link.config.limits.max_message_bytes);
        loop {
            // A client that does not read its answers is asked for no more questions, not even those that are here.
            let mut waiting = true;
            while waiting && !self.link.outbox().is_full() {
                match reading.receive(&self.link) {
                    Some(work) => self.start(work),
                    None => waiting = false,
                }
            }
            let blocked = self.write()?;
            let listens = !self.link.outbox().is_full();
            if waiting && listens {
                continue;
            }
            if listens && !blocked && reading.at_once >= AT_ONCE {
                match self.aside(input, reading).await? {
                    Some(back) => (input, reading) = back,
                    None => return Ok(()),
                }
                continue;
            }
            match self.next(&mut input, &mut reading.chunk, listens, blocked).await {
                Event::Read(Ok(0)) => {
                    self.start(reading.finish(&self.link));
                    return Ok(());
                }
                Event::Read(Ok(length)) => reading.push(length),
                Event::Read(Err(error)) if is_passing(&error) => {}
                Event::Read(Err(error)) => return Err(error),
                Event::Written(ready) => ready?,
                Event::Filled => {}
            }
        }
    }

    /// Waits for something to read if anybody `listens`, and for what was `blocked` to be written or for more to write.
    async fn next(&self, input: &mut Input, chunk: &mut [u8], listens: bool, blocked: bool) -> Event {
        let mut read = pin!(input.read(chunk));
        let mut written = pin!(self.output.writable());
        let mut filled = pin!(self.link.outbox().filled());
        poll_fn(|cx| {
            if listens && let Poll::Ready(read) = read.as_mut().poll(cx) {
                return Poll::Ready(Event::Read(read));
            }
            match blocked {
                true => written.as_mut().poll(cx).map(Event::Written),
                false => filled.as_mut().poll(cx).map(|()| Event::Filled),
            }
        })
        .await
    }

    fn start(&self, work: Vec<PendingRequest>) {
        for PendingRequest { id, serial, future, .. } in work {
            let task = tokio::spawn(future);
            self.link.register_task(&id, serial, task.abort_handle());
        }
    }

    /// Writes what is there as far as the client takes it; true if some of it must wait.
    fn write(&self) -> io::Result<bool> {
        let mut leaving = lock(&self.leaving);
        loop {
            if !leaving.is_there() && !leaving.take(self.link.outbox()) {
                return Ok(false);
            }
            if leaving.leave(&self.output)? {
                return Ok(true);
            }
        }
    }

    /// The same without a look whether there is more meanwhile.
    fn write_once(&self) -> io::Result<bool> {
        let mut leaving = lock(&self.leaving);
        if !leaving.is_there() && !leaving.take(self.link.outbox()) {
            return Ok(false);
        }
        leaving.leave(&self.output)
    }

    /// Lets what runs finish and what is written leave.
    async fn settle(&self) -> io::Result<()> {
        loop {
            let mut quiet = pin!(self.link.outbox().quiet());
            let waits = self.write()?;
            if !waits && !self.link.has_in_flight() {
                // Something may have been said between the two looks.
                if !self.write()? {
                    return Ok(());
                }
                continue;
            }
            let mut written = pin!(self.output.writable());
            let mut filled = pin!(self.link.outbox().filled());
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
enum Event {
    /// So much was read.
    Read(io::Result<usize>),
    /// More can be written.
    Written(io::Result<()>),
    /// There is more to write.
    Filled,
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn copy_failed() -> io::Error {
    io::Error::other("what was said could not be copied to stdout")
}

/// How much is read at once, as soon as that much comes, and before.
const READ: usize = 64 << 10;
const READ_FIRST: usize = 4 << 10;

/// So many messages in a row that were answered at once let a thread of its own read: starting it is paid back by then.
const AT_ONCE: usize = 64;
