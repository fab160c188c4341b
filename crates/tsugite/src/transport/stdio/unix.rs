//! stdin and stdout on Unix, whatever the client opened: pipes, sockets, a terminal, a file.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, retry_on_intr};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// The descriptors of the client, taken from the process.
pub(super) struct Stdio {
    pub(super) stdin: Stdin,
    pub(super) stdout: Stdout,
    pub(super) copier: Copier,
}

/// Takes stdin and stdout from the process. Afterwards its stdin is empty, and text printed goes to stderr.
pub(super) fn take_stdio() -> io::Result<Stdio> {
    let empty = File::open(NULL_DEVICE)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot open {NULL_DEVICE}: {error}")))?;
    let stdin = Stdin(io::stdin().as_fd().try_clone_to_owned()?);
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(&empty)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let (stdout, copier) = Stdout::new(stdout)?;
    Ok(Stdio { stdin, stdout, copier })
}

/// stdin. Reading blocks the thread that polls, so that thread must have nothing else to do.
pub(super) struct Stdin(OwnedFd);

impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match rustix::io::read(&self.0, buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::INTR) => {}
                // A socket that is stdout as well is non-blocking for both.
                Err(Errno::AGAIN) => wait_readable(&self.0)?,
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

fn wait_readable(fd: &OwnedFd) -> io::Result<()> {
    match poll(&mut [PollFd::new(fd, PollFlags::IN)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The thread that copies to a terminal or a file, if stdout is one.
pub(super) struct Copier(Option<JoinHandle<io::Result<u64>>>);

impl Copier {
    /// Waits until everything is copied, once stdout is dropped. Call it before the process exits.
    pub(super) async fn finish(self) -> io::Result<()> {
        let Some(copier) = self.0 else { return Ok(()) };
        let panicked = |_| io::Error::other("the thread that copies output to stdout panicked");
        tokio::task::spawn_blocking(move || copier.join()).await?.map_err(panicked)?.map(drop)
    }
}

/// stdout, non-blocking. The runtime watches it only while a write waits for the client.
pub(super) struct Stdout {
    fd: OwnedFd,
    watched: Option<WatchedFd>,
}

/// A duplicate of stdout that the runtime watches.
enum WatchedFd {
    Pipe(pipe::Sender),
    /// Node.js opens sockets where others open pipes.
    Socket(UnixStream),
}

impl Stdout {
    /// Terminals and files get a pipe and a thread that copies: others share them, so they must stay blocking.
    fn new(fd: OwnedFd) -> io::Result<(Self, Copier)> {
        let (fd, copier) = match file_type(&fd)? {
            FileType::Fifo | FileType::Socket => (fd, None),
            _ => {
                let (mut reader, writer) = io::pipe()?;
                let copier = thread::spawn(move || io::copy(&mut reader, &mut File::from(fd)));
                (writer.into(), Some(copier))
            }
        };
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok((Self { fd, watched: None }, Copier(copier)))
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(watched) = &mut self.watched {
            let written = ready!(watched.poll_write(cx, bytes));
            self.watched = None;
            return Poll::Ready(written);
        }
        match retry_on_intr(|| rustix::io::write(&self.fd, bytes)) {
            Err(Errno::AGAIN) => {
                let mut watched = WatchedFd::new(self.fd.try_clone()?)?;
                let written = watched.poll_write(cx, bytes);
                self.watched = written.is_pending().then_some(watched);
                written
            }
            written => Poll::Ready(Ok(written?)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl WatchedFd {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        match file_type(&fd)? {
            FileType::Socket => Ok(WatchedFd::Socket(UnixStream::from_std(fd.into())?)),
            _ => Ok(WatchedFd::Pipe(pipe::Sender::from_owned_fd(fd)?)),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            WatchedFd::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            WatchedFd::Socket(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }
}

fn file_type(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// Not a closed pipe: some programs search stdin instead of the folder if it is one.
const NULL_DEVICE: &str = "/dev/null";
