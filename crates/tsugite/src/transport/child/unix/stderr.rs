//! Captures the end of a child's output on stderr.
//!
//! The pipe is read all the time, so that a child that logs much never blocks; only the last part is kept. A reader gets
//! everything written so far, so that the last message of a child that has ended is included.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use tokio::net::unix::pipe;

use super::super::stderr_tail::Tail;
use crate::lock::lock;

/// The last part of a child's output on stderr.
pub(super) struct StderrCapture {
    pipe: pipe::Receiver,
    tail: Mutex<Tail>,
}

impl StderrCapture {
    /// Captures the output of the child with the process id `child` from `pipe`.
    pub(super) fn new(pipe: OwnedFd, child: u32) -> io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(pipe)?;
        Ok(Self { pipe, tail: Mutex::new(Tail::new(child)) })
    }

    /// Reads until all processes that hold the other end have closed it.
    pub(super) async fn read(self: Arc<Self>) {
        while self.pipe.readable().await.is_ok() {
            if !self.drain_pipe(|chunk| self.pipe.try_read(chunk)) {
                return;
            }
            // Lets other tasks run, even if this child never stops writing.
            tokio::task::yield_now().await;
        }
    }

    /// Returns the captured part of everything written so far.
    pub(super) fn text(&self) -> String {
        // Reads without tokio, which may not know yet that the pipe is readable.
        self.drain_pipe(|chunk| Ok(rustix::io::read(&self.pipe, chunk)?));
        lock(&self.tail).text()
    }

    /// Reads what is in the pipe, at most as much as a pipe can hold. Returns false at the end of the stream.
    fn drain_pipe(&self, read: impl Fn(&mut [u8]) -> io::Result<usize>) -> bool {
        let mut tail = lock(&self.tail);
        let mut chunk = [0; CHUNK];
        for _ in 0..MAX_CHUNKS_PER_READ {
            match read(&mut chunk) {
                Ok(0) => {
                    tail.end_line();
                    return false;
                }
                Ok(length) => tail.push(chunk.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

/// The bytes of one read, and the number of reads before other tasks run: together 1 MiB, the default limit of a pipe
/// (`/proc/sys/fs/pipe-max-size`).
const CHUNK: usize = 8 << 10;
const MAX_CHUNKS_PER_READ: usize = 128;
