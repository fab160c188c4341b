//! The pipes the client opened, whatever they are: pipes, sockets, a terminal, a file.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Descriptors of our own for stdin and stdout. From then on, what is printed is not a message.
pub(super) fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((stdin, stdout))
}

/// stdin, as something the runtime waits for.
pub(super) enum StdinPipe {
    Pipe(pipe::Receiver),
    /// Node.js opens sockets where others open pipes.
    Socket(UnixStream),
}

/// A thread between a pipe of ours and a terminal or file, which must not be made non-blocking: others share it.
pub(super) type Copier = std::thread::JoinHandle<io::Result<u64>>;

impl StdinPipe {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(match file_type(&fd)? {
            FileType::Fifo => StdinPipe::Pipe(pipe::Receiver::from_owned_fd(fd)?),
            FileType::Socket => StdinPipe::Socket(socket(fd)?),
            _ => {
                let (reader, mut writer) = io::pipe()?;
                // It ends with its file, or when nobody reads any more; a terminal may keep it until the process ends.
                std::thread::spawn(move || io::copy(&mut File::from(fd), &mut writer));
                StdinPipe::Pipe(pipe::Receiver::from_owned_fd(reader.into())?)
            }
        })
    }

    /// Reads what there is. One that brings less than fits is not followed by another to see that there is no more.
    pub(super) async fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| {
            let mut buffer = ReadBuf::new(chunk);
            let read = match self {
                StdinPipe::Pipe(pipe) => Pin::new(pipe).poll_read(cx, &mut buffer),
                StdinPipe::Socket(socket) => Pin::new(socket).poll_read(cx, &mut buffer),
            };
            read.map_ok(|()| buffer.filled().len())
        })
        .await
    }

    /// Takes it from the runtime: a read waits from now on.
    pub(super) fn into_blocking_fd(self) -> io::Result<OwnedFd> {
        match self {
            StdinPipe::Pipe(pipe) => pipe.into_blocking_fd(),
            StdinPipe::Socket(socket) => {
                let socket = socket.into_std()?;
                socket.set_nonblocking(false)?;
                Ok(socket.into())
            }
        }
    }
}

/// stdout: written at once as far as the client takes it. The runtime knows of it only while somebody waits.
pub(super) struct StdoutPipe(OwnedFd);

impl StdoutPipe {
    pub(super) fn new(fd: OwnedFd) -> io::Result<(Self, Option<Copier>)> {
        let (fd, copier) = match file_type(&fd)? {
            FileType::Fifo | FileType::Socket => (fd, None),
            _ => {
                let (mut reader, writer) = io::pipe()?;
                let copier = std::thread::spawn(move || io::copy(&mut reader, &mut File::from(fd)));
                (writer.into(), Some(copier))
            }
        };
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok((Self(fd), copier))
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, bytes)?)
    }

    /// Waits until more can be written.
    pub(super) async fn writable(&self) -> io::Result<()> {
        let fd = self.0.try_clone()?;
        match file_type(&fd)? {
            FileType::Socket => socket(fd)?.writable().await,
            _ => pipe::Sender::from_owned_fd(fd)?.writable().await,
        }
    }
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

fn file_type(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}
