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

use super::pipes::Input;
use super::{Reading, Wire, is_passing};
use crate::lock::lock;

/// What whoever reads has.
pub(super) struct Reader {
    pub(super) input: OwnedFd,
    pub(super) reading: Reading,
}

impl Wire {
    /// Lets a thread read and answer as long as that is all there is to do, and gives back what it was given; none if the
    /// client has closed stdin.
    pub(super) async fn aside(
        self: &Arc<Self>,
        input: Input,
        reading: Reading,
    ) -> io::Result<Option<(Input, Reading)>> {
        // Kept here as well, in case there can be no thread.
        let reader = Arc::new(Mutex::new(Some(Reader { input: input.into_waiting()?, reading })));
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
        let Some(Reader { input, mut reading }) = reader else { return Ok(None) };
        reading.at_once = 0;
        Ok(Some((Input::new(input)?, reading)))
    }

    /// Writes what is said meanwhile, until the thread is done.
    async fn write_until(
        &self,
        returned: &mut oneshot::Receiver<io::Result<Option<Reader>>>,
    ) -> io::Result<Option<Reader>> {
        loop {
            let blocked = self.write()?;
            let mut written = pin!(self.output.writable());
            let mut filled = pin!(self.link.outbox().filled());
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

impl Reader {
    /// Reads and answers until there is something else to do; none if nothing more will come.
    fn run(mut self, wire: &Wire) -> io::Result<Option<Self>> {
        let outbox = wire.link.outbox();
        loop {
            let length =
                match rustix::io::read(&self.input, &mut *self.reading.chunk).map_err(io::Error::from) {
                    Ok(length) => length,
                    Err(error) if is_passing(&error) => return Ok(Some(self)),
                    Err(error) => return Err(error),
                };
            if wire.link.is_closing() {
                return Ok(None);
            }
            if length == 0 {
                wire.start(self.reading.finish(&wire.link));
                return Ok(None);
            }
            self.reading.push(length);
            // What is said until the write below leaves with it.
            let mut taker = outbox.hold();
            let mut all_done = true;
            while let Some(work) = self.reading.receive(&wire.link) {
                all_done &= work.is_empty();
                wire.start(work);
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
                if outbox.release(&mut taker) {
                    break;
                }
            }
        }
    }
}
