//! While every message is answered at once, nothing needs the runtime: a thread waits in `read`, answers and writes.
//!
//! To wait in the runtime costs each message one more system call and a turn of the scheduler. The thread gives the pipe
//! back as soon as something is not done at once, or not taken by the client at once: the loop in the runtime knows how
//! to go on, and what is under way there is answered without a way between threads.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::pipes::StdinPipe;
use super::{InputBuffer, StdioServer, is_transient};
use crate::lock::lock;

/// What whoever reads has.
pub(super) struct BlockingReader {
    pub(super) input: OwnedFd,
    pub(super) buffer: InputBuffer,
}

impl StdioServer {
    /// Lets a thread read and answer as long as that is all there is to do, and gives back what it was given; none if the
    /// client has closed stdin.
    pub(super) async fn run_blocking_reader(
        self: &Arc<Self>,
        input: StdinPipe,
        reading: InputBuffer,
    ) -> io::Result<Option<(StdinPipe, InputBuffer)>> {
        // Kept here as well, in case there can be no thread.
        let reader =
            Arc::new(Mutex::new(Some(BlockingReader { input: input.into_blocking_fd()?, buffer: reading })));
        let (back, mut returned) = oneshot::channel();
        let (wire, taken, runtime) = (self.clone(), reader.clone(), Handle::current());
        let started = thread::Builder::new().name("tsugite-stdin".into()).spawn(move || {
            let _entered = runtime.enter();
            let Some(reader) = lock(&taken).take() else { return };
            // Nobody waits for it if nobody serves any more.
            drop(back.send(reader.run(&wire)));
        });
        let reader = match started {
            Ok(_) => self.write_until(&mut returned).await?,
            Err(_) => lock(&reader).take(),
        };
        let Some(BlockingReader { input, buffer: mut reading }) = reader else { return Ok(None) };
        reading.inline_responses = 0;
        Ok(Some((StdinPipe::new(input)?, reading)))
    }

    /// Writes what is said meanwhile, until the thread is done.
    async fn write_until(
        &self,
        returned: &mut oneshot::Receiver<io::Result<Option<BlockingReader>>>,
    ) -> io::Result<Option<BlockingReader>> {
        loop {
            let blocked = self.write()?;
            let mut written = pin!(self.output.writable());
            let mut filled = pin!(self.connection.outbox().readable());
            let returned = poll_fn(|cx| {
                if let Poll::Ready(returned) = Pin::new(&mut *returned).poll(cx) {
                    return Poll::Ready(Ok(Some(returned)));
                }
                match blocked {
                    true => written.as_mut().poll(cx).map_ok(|()| None),
                    false => filled.as_mut().poll(cx).map(|()| Ok(None)),
                }
            })
            .await?;
            if let Some(returned) = returned {
                return returned.map_err(|_| io::Error::other("the thread that reads stdin has panicked"))?;
            }
        }
    }
}

impl BlockingReader {
    /// Reads and answers until there is something else to do; none if nothing more will come.
    fn run(mut self, wire: &StdioServer) -> io::Result<Option<Self>> {
        let outbox = wire.connection.outbox();
        loop {
            let length = match rustix::io::read(&self.input, &mut *self.buffer.chunk).map_err(io::Error::from)
            {
                Ok(length) => length,
                Err(error) if is_transient(&error) => return Ok(Some(self)),
                Err(error) => return Err(error),
            };
            if wire.connection.is_closing() {
                return Ok(None);
            }
            if length == 0 {
                wire.connection.spawn(self.buffer.finish(&wire.connection));
                return Ok(None);
            }
            self.buffer.push(length);
            // What is said until the write below leaves with it.
            let mut taker = outbox.take_waker();
            let mut all_done = true;
            while let Some(work) = self.buffer.receive(&wire.connection) {
                all_done &= work.is_empty();
                wire.connection.spawn(work);
                if outbox.is_full() {
                    all_done = false;
                    break;
                }
            }
            if !all_done {
                return Ok(Some(self));
            }
            // Nearly always something was said, and nothing more meanwhile.
            loop {
                if wire.write_once()? {
                    return Ok(Some(self));
                }
                if outbox.restore_waker(&mut taker) {
                    break;
                }
            }
        }
    }
}
