//! stdio: one message a line, on the pipes the client opened.
//!
//! Nothing but messages goes to stdout: the descriptor is moved away and stdout becomes stderr, so that a stray
//! `println!` cannot corrupt the stream. One loop reads and writes: all that has arrived is answered before one write
//! carries the answers, without a task or a channel between them.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tsugite_core::jsonrpc::LineReader;

use crate::server::Server;
use crate::server::link::{Link, Work};

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
        self.check()?;
        super::log::fall_back_to_stderr();
        let (stdin, stdout) = take_stdio()?;
        let (input, (output, copier)) = (Input::new(stdin)?, Output::new(stdout)?);
        let mut wire = Wire { link: Link::new(&self, None), input, output, leaving: Vec::new(), left: 0 };
        // A task of its own, so that not every message asks whether there was a signal.
        let mut asked_to_stop = tokio::spawn(super::signal::asked_to_stop());
        let served = {
            let mut serving = pin!(wire.serve());
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
                let grace = wire.link.config.grace;
                tokio::time::timeout(grace, wire.settle()).await.unwrap_or(Ok(()))
            }
            broken => broken,
        };
        wire.link.abandon();
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

/// Descriptors of our own for stdin and stdout. From then on, what is printed is not a message.
fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    let stdin = rustix::io::dup(rustix::stdio::stdin())?;
    let stdout = rustix::io::dup(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((stdin, stdout))
}

struct Wire {
    link: Arc<Link>,
    input: Input,
    output: Output,
    /// What was taken from the outbox, and how much of it has left.
    leaving: Vec<u8>,
    left: usize,
}

impl Wire {
    /// Reads and answers until the client closes stdin.
    async fn serve(&mut self) -> io::Result<()> {
        let mut lines = LineReader::new(self.link.config.limits.message_bytes);
        // Most messages are short, and memory that nobody needs is not touched.
        let mut chunk = vec![0; READ_FIRST];
        loop {
            // A client that does not read its answers is asked for no more questions, not even those that are here.
            let mut waiting = true;
            while waiting && !self.link.outbox().is_full() {
                match lines.next_line() {
                    Some(Ok(line)) => self.receive(line),
                    Some(Err(_)) => self.link.receive_too_long(),
                    None => waiting = false,
                }
            }
            let blocked = self.write()?;
            let listens = !self.link.outbox().is_full();
            if waiting && listens {
                continue;
            }
            match self.next(&mut chunk, listens, blocked).await {
                Event::Read(Ok(0)) => {
                    if let Some(Ok(line)) = lines.finish() {
                        self.receive(line);
                    }
                    return Ok(());
                }
                Event::Read(Ok(length)) => {
                    lines.push(chunk.get(..length).unwrap_or_default());
                    if length == chunk.len() {
                        chunk.resize(READ, 0);
                    }
                }
                Event::Read(Err(error)) if is_passing(&error) => {}
                Event::Read(Err(error)) => return Err(error),
                Event::Written(ready) => ready?,
                Event::Filled => {}
            }
        }
    }

    /// Waits for something to read if anybody `listens`, and for what was `blocked` to be written or for more to write.
    async fn next(&mut self, chunk: &mut [u8], listens: bool, blocked: bool) -> Event {
        let mut read = pin!(self.input.read(chunk));
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

    fn receive(&self, line: &[u8]) {
        for Work { id, serial, future, .. } in self.link.receive(line) {
            let task = tokio::spawn(future);
            self.link.started(&id, serial, task.abort_handle());
        }
    }

    /// Writes what is there as far as the client takes it; true if some of it must wait.
    fn write(&mut self) -> io::Result<bool> {
        loop {
            if self.left == self.leaving.len() {
                self.left = 0;
                if !self.link.outbox().take_now(&mut self.leaving) {
                    self.leaving.clear();
                    return Ok(false);
                }
            }
            match self.output.try_write(self.leaving.get(self.left..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.left += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets what runs finish and what is written leave.
    async fn settle(&mut self) -> io::Result<()> {
        let link = self.link.clone();
        loop {
            let mut quiet = pin!(link.outbox().quiet());
            let waits = self.write()?;
            if !waits && !link.is_busy() {
                // Something may have been said between the two looks.
                if !self.write()? {
                    return Ok(());
                }
                continue;
            }
            let mut written = pin!(self.output.writable());
            let mut filled = pin!(link.outbox().filled());
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

/// stdin, as something that can be waited for.
enum Input {
    Pipe(pipe::Receiver),
    /// Node.js opens sockets where others open pipes.
    Socket(UnixStream),
}

/// stdout, likewise.
enum Output {
    Pipe(pipe::Sender),
    Socket(UnixStream),
}

/// A thread between a pipe of ours and a terminal or file, which must not be made non-blocking: others share it.
type Copier = std::thread::JoinHandle<io::Result<u64>>;

impl Input {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(match kind(&fd)? {
            FileType::Fifo => Input::Pipe(pipe::Receiver::from_owned_fd(fd)?),
            FileType::Socket => Input::Socket(socket(fd)?),
            _ => {
                let (reader, mut writer) = io::pipe()?;
                // It ends with its file, or when nobody reads any more; a terminal may keep it until the process ends.
                std::thread::spawn(move || io::copy(&mut File::from(fd), &mut writer));
                Input::Pipe(pipe::Receiver::from_owned_fd(reader.into())?)
            }
        })
    }

    /// Reads what there is. One that brings less than fits is not followed by another to see that there is no more.
    async fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| {
            let mut buffer = ReadBuf::new(chunk);
            let read = match self {
                Input::Pipe(pipe) => Pin::new(pipe).poll_read(cx, &mut buffer),
                Input::Socket(socket) => Pin::new(socket).poll_read(cx, &mut buffer),
            };
            read.map_ok(|()| buffer.filled().len())
        })
        .await
    }
}

impl Output {
    fn new(fd: OwnedFd) -> io::Result<(Self, Option<Copier>)> {
        Ok(match kind(&fd)? {
            FileType::Fifo => (Output::Pipe(pipe::Sender::from_owned_fd(fd)?), None),
            FileType::Socket => (Output::Socket(socket(fd)?), None),
            _ => {
                let (mut reader, writer) = io::pipe()?;
                let copier = std::thread::spawn(move || io::copy(&mut reader, &mut File::from(fd)));
                (Output::Pipe(pipe::Sender::from_owned_fd(writer.into())?), Some(copier))
            }
        })
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Output::Pipe(pipe) => pipe.writable().await,
            Output::Socket(socket) => socket.writable().await,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Pipe(pipe) => pipe.try_write(bytes),
            Output::Socket(socket) => socket.try_write(bytes),
        }
    }
}

fn kind(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
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
