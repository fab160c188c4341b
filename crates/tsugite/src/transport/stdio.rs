//! stdio: one message a line, on the pipes the client opened.
//!
//! Nothing but messages goes to stdout: the descriptor is moved away and stdout becomes stderr, so that a stray
//! `println!` cannot corrupt the stream. All that has arrived is answered before one write carries the answers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FileType, fstat};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tsugite_core::jsonrpc::LineReader;

use crate::server::Server;
use crate::server::link::{Link, Work};

impl Server {
    /// Serves one client on stdin and stdout, in every revision, until stdin ends or a signal asks to stop.
    ///
    /// What runs then has five seconds to finish. Fails when something was registered that cannot be offered, or when
    /// the pipes break.
    pub async fn serve_stdio(self) -> crate::Result<()> {
        self.check()?;
        let (stdin, stdout) = take_stdio()?;
        let link = Link::new(&self);
        let mut writer = tokio::spawn(write_all(link.clone(), Output::new(stdout)?));
        let ended = tokio::select! {
            ended = read_all(&link, Input::new(stdin)?) => ended,
            // The client no longer reads; there is nobody left to answer.
            broken = &mut writer => broken?,
            () = asked_to_stop() => Ok(()),
        };
        settle(&link).await;
        writer.abort();
        Ok(ended?)
    }
}

/// Descriptors of our own for stdin and stdout. From then on, what is printed is not a message.
fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    let stdin = rustix::io::dup(rustix::stdio::stdin())?;
    let stdout = rustix::io::dup(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((stdin, stdout))
}

/// Reads lines until the client closes stdin.
async fn read_all(link: &Arc<Link>, stdin: Input) -> io::Result<()> {
    let mut lines = LineReader::new(link.config.limits.message_bytes);
    let mut chunk = vec![0; READ];
    loop {
        // A client that does not read is not read from either.
        link.outbox.room().await;
        let length = stdin.read(&mut chunk).await?;
        if length == 0 {
            if let Some(Ok(line)) = lines.finish() {
                link.receive(line).into_iter().for_each(|work| spawn(link, work));
            }
            return Ok(());
        }
        lines.push(chunk.get(..length).unwrap_or_default());
        while let Some(line) = lines.next_line() {
            match line {
                Ok(line) => link.receive(line).into_iter().for_each(|work| spawn(link, work)),
                Err(_) => link.receive_too_long(),
            }
            if link.outbox.is_full() {
                link.outbox.room().await;
            }
        }
    }
}

fn spawn(link: &Arc<Link>, work: Work) {
    let task = tokio::spawn(work.future);
    link.started(&work.id, task.abort_handle());
}

async fn write_all(link: Arc<Link>, stdout: Output) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        buffer = link.outbox.take(buffer).await;
        stdout.write_all(&buffer).await?;
        link.outbox.left();
    }
}

/// Lets what runs finish, within a limit, and what is written leave.
async fn settle(link: &Link) {
    let finished = link.outbox.settled(|| !link.is_busy());
    if tokio::time::timeout(GRACE, finished).await.is_err() {
        link.abandon();
    }
}

async fn asked_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// stdin: waited for where the kernel can tell when it is ready, read on a thread where it cannot.
enum Input {
    Pipe(pipe::Receiver),
    /// Node.js opens sockets where others open pipes.
    Socket(UnixStream),
    /// A terminal or a file, which must not be made non-blocking: others share it.
    Blocking(Arc<File>),
}

/// stdout, likewise.
enum Output {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    Blocking(Arc<File>),
}

impl Input {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(match kind(&fd)? {
            FileType::Fifo => Input::Pipe(pipe::Receiver::from_owned_fd(fd)?),
            FileType::Socket => Input::Socket(socket(fd)?),
            _ => Input::Blocking(Arc::new(File::from(fd))),
        })
    }

    async fn read(&self, chunk: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            let read = match self {
                Input::Pipe(pipe) => {
                    pipe.readable().await?;
                    pipe.try_read(chunk)
                }
                Input::Socket(socket) => {
                    socket.readable().await?;
                    socket.try_read(chunk)
                }
                Input::Blocking(file) => {
                    let (file, mut taken) = (file.clone(), std::mem::take(chunk));
                    let reading = move || {
                        let read = (&*file).read(&mut taken);
                        (read, taken)
                    };
                    let (read, taken) = tokio::task::spawn_blocking(reading).await?;
                    *chunk = taken;
                    read
                }
            };
            match read {
                Err(error) if is_passing(&error) => {}
                read => return read,
            }
        }
    }
}

impl Output {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(match kind(&fd)? {
            FileType::Fifo => Output::Pipe(pipe::Sender::from_owned_fd(fd)?),
            FileType::Socket => Output::Socket(socket(fd)?),
            _ => Output::Blocking(Arc::new(File::from(fd))),
        })
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match self {
                Output::Pipe(pipe) => {
                    pipe.writable().await?;
                    pipe.try_write(bytes)
                }
                Output::Socket(socket) => {
                    socket.writable().await?;
                    socket.try_write(bytes)
                }
                Output::Blocking(file) => {
                    let (file, bytes) = (file.clone(), bytes.to_vec());
                    return tokio::task::spawn_blocking(move || (&*file).write_all(&bytes)).await?;
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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

/// How much is read at once.
const READ: usize = 64 << 10;

/// How long what runs may take to finish when the client has gone.
const GRACE: Duration = Duration::from_secs(5);
