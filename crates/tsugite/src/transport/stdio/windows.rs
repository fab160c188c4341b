//! stdin and stdout on Windows.
//!
//! A read or a write of a pipe cannot be interrupted there, so each has a thread of its own: the caller's for stdin, and one
//! that writes from a bounded buffer for stdout.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::windows::io::AsRawHandle;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use filedescriptor::{FileDescriptor, StdioDescriptor};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use crate::lock::lock;

/// The handles of the client, taken from the process.
pub(super) struct Stdio {
    pub(super) stdin: Stdin,
    pub(super) stdout: Stdout,
    pub(super) copier: Copier,
}

/// Takes stdin and stdout from the process. Afterwards its stdin is empty, and text that Rust prints goes to stderr.
pub(super) fn take_stdio() -> io::Result<Stdio> {
    let stdin = Stdin(replace_stdin()?);
    let (stdout, copier) = Stdout::new(replace_stdout()?)?;
    Ok(Stdio { stdin, stdout, copier })
}

/// Makes the stdin of this process empty and returns the stdin of before, as a handle that child processes do not inherit.
fn replace_stdin() -> io::Result<File> {
    let original = FileDescriptor::redirect_stdio(&File::open("NUL")?, StdioDescriptor::Stdin);
    original.and_then(|original| original.as_file()).map_err(io::Error::other)
}

/// Makes stderr the stdout of this process and returns the stdout of before. A process without stderr drops what is printed.
fn replace_stdout() -> io::Result<File> {
    let stderr = io::stderr();
    let original = if stderr.as_raw_handle().is_null() {
        FileDescriptor::redirect_stdio(&OpenOptions::new().write(true).open("NUL")?, StdioDescriptor::Stdout)
    } else {
        FileDescriptor::redirect_stdio(&stderr, StdioDescriptor::Stdout)
    };
    original.and_then(|original| original.as_file()).map_err(io::Error::other)
}

/// stdin. Reading blocks the thread that polls, so that thread must have nothing else to do.
pub(super) struct Stdin(File);

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.0.read(buffer.initialize_unfilled())?;
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

/// stdout: a bounded buffer that a thread writes from. Dropping it ends the thread once everything is written.
pub(super) struct Stdout(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// The task that waits for room in the buffer.
    waker: Option<Waker>,
    closed: bool,
    failed: Option<io::ErrorKind>,
}

impl Stdout {
    fn new(mut file: File) -> io::Result<(Self, Copier)> {
        let shared = Arc::new(Shared::default());
        let (sender, ended) = oneshot::channel();
        let source = Arc::clone(&shared);
        thread::Builder::new().name("tsugite-stdout".into()).spawn(move || {
            let result = source.copy_to(&mut file);
            // Fails if the server was dropped meanwhile.
            drop(sender.send(result));
        })?;
        Ok((Self(shared), Copier(ended)))
    }
}

impl Shared {
    /// Writes until the buffer is closed and empty, or the client is gone.
    fn copy_to(&self, file: &mut File) -> io::Result<()> {
        loop {
            let state = lock(&self.state);
            let waits = |state: &mut State| state.bytes.is_empty() && !state.closed;
            let mut state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
            if state.bytes.is_empty() {
                return Ok(());
            }
            let bytes = std::mem::take(&mut state.bytes);
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
            if let Err(error) = file.write_all(&bytes) {
                let mut state = lock(&self.state);
                state.failed = Some(error.kind());
                if let Some(waker) = state.waker.take() {
                    waker.wake();
                }
                return Err(error);
            }
        }
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0.state);
        if let Some(kind) = state.failed {
            return Poll::Ready(Err(kind.into()));
        }
        let room = MAX_BUFFERED_BYTES.saturating_sub(state.bytes.len());
        if room == 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let written = bytes.len().min(room);
        state.bytes.extend_from_slice(bytes.get(..written).unwrap_or_default());
        drop(state);
        self.0.changed.notify_one();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stdout {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.changed.notify_one();
    }
}

/// The thread that writes stdout.
pub(super) struct Copier(oneshot::Receiver<io::Result<()>>);

impl Copier {
    /// Waits until everything is written, once stdout is dropped. A client that does not read is not waited for.
    pub(super) async fn finish(self) -> io::Result<()> {
        match tokio::time::timeout(FINISH_TIMEOUT, self.0).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(io::Error::other("the thread that writes stdout panicked")),
            Err(_) => Ok(()),
        }
    }
}

/// How many bytes may wait to be written.
const MAX_BUFFERED_BYTES: usize = 64 << 10;

/// How long the last bytes may take.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[tokio::test]
    async fn full_buffer_waits_for_the_client_and_then_ends() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (mut stdout, copier) =
            Stdout::new(File::from(std::os::windows::io::OwnedHandle::from(writer))).unwrap();
        let chunk = vec![b'a'; 1 << 20];
        let mut cx = Context::from_waker(Waker::noop());
        let mut accepted = 0;
        while let Poll::Ready(written) = Pin::new(&mut stdout).poll_write(&mut cx, &chunk) {
            accepted += written.unwrap();
            // The buffer, the chunk that the thread writes, and the pipe itself.
            assert!(accepted < 1 << 20, "{accepted} bytes were accepted and nothing was read");
        }
        drop(stdout);
        let read = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all.len())
        });
        copier.finish().await.unwrap();
        assert_eq!(read.join().unwrap().unwrap(), accepted);
    }
}
