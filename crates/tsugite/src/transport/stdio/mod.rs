//! stdio: one message a line, on the pipes the client opened.
//!
//! stdout carries nothing but messages: the descriptor is moved away and stdout becomes stderr, so that a stray
//! `println!` cannot corrupt the stream. On Windows that holds for Rust, and not for the `printf` of a C library.
//! stdin is moved away, too, and is empty afterwards, so that a handler and its child processes cannot take messages.
//!
//! A thread blocks in `read` and receives the messages. Waiting in the runtime instead costs each message one more
//! system call and a turn of the scheduler. Measured against a bare loop that reads, answers and writes, an echo takes
//! 1.03 times its CPU with one request at a time and 1.7 times with 64 requests in flight.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::line_stream::LineStream;
use crate::server::Server;
use crate::server::connection::ServerConnection;
use crate::server::serving::ServingGuard;
use crate::shared::boxed::boxed;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix::{Stdin, Stdio, Stdout, take_stdio};
#[cfg(windows)]
use windows::{Stdin, Stdio, Stdout, take_stdio};

impl Server {
    /// Serves one client on stdin and stdout, in every revision, until stdin ends or SIGTERM or SIGINT arrives
    /// (on Windows Ctrl-C, Ctrl-Break, or the end of the console or the session).
    ///
    /// Requests that run then have five seconds to finish, or [`Server::shutdown_grace`]; a second signal ends them at
    /// once. Printed text goes to stderr,
    /// and so do warnings and errors, unless the application has set a `tracing` subscriber. From then on
    /// `std::io::stdin()` is at its end, also in child processes that inherit it. Fails if a registration
    /// is invalid, or if the pipes break.
    ///
    /// The first poll of a handler runs on the thread that reads stdin, inside the context of the runtime that called
    /// this; a handler that is still pending continues as a task of that runtime. A handler that blocks without
    /// [`Blocking`](crate::server::Blocking) therefore delays the next message, not the runtime. After a signal, or
    /// when this future is dropped, the thread stays in `read` until the client sends something or closes stdin.
    #[doc(alias("StdioServerTransport", "run_stdio"))]
    pub async fn serve_stdio(self) -> crate::Result<()> {
        // A task of its own, so that it is polled only when there is something to write.
        let mut serving = ServeTask::start(self);
        match (&mut serving.0).await {
            Ok(served) => served,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(ended) => Err(io::Error::other(ended).into()),
            },
        }
    }

    async fn serve_taken_stdio(self) -> crate::Result<()> {
        self.check_registrations()?;
        let serving = ServingGuard::new(&self);
        let Stdio { stdin, stdout, copier } = take_stdio()?;
        let principal = self.shared.config().stdio_principal.clone();
        let stream = Arc::new(LineStream::new(ServerConnection::new(&self, principal), stdout));
        // Before the first response: a signal after it must not kill the process.
        let (stop, stop_now) = (super::signal::shutdown_signal(), super::signal::second_shutdown_signal());
        let ended = start_reader(stdin, Arc::clone(&stream))?;
        let reading = async { ended.await.unwrap_or_else(|_| Err(reader_panicked())) };
        let served = first_of(stream.serve(reading, stop), async {
            stop_now.await;
            Ok(())
        })
        .await;
        crate::server::tasks::stop(serving).await;
        stream.close_output();
        copier.finish().await?;
        Ok(served?)
    }
}

/// Starts the thread that reads stdin. It sends its result when stdin ends or breaks.
fn start_reader(
    mut stdin: Stdin,
    stream: Arc<LineStream<Stdout>>,
) -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let (sender, ended) = oneshot::channel();
    let runtime = Handle::current();
    thread::Builder::new().name("tsugite-stdin".into()).spawn(move || {
        let mut input = stream.input_buffer();
        let result = loop {
            // Entered anew for each chunk, which gives the handlers in it a fresh budget of tokio's cooperative scheduling.
            match runtime.block_on(stream.receive_chunk(&mut stdin, &mut input)) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Fails if the server was dropped meanwhile.
        drop(sender.send(result));
    })?;
    Ok(ended)
}

/// The output of the future that completes first. The other one is dropped.
async fn first_of<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(output),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await
}

/// The task that serves. Dropping it aborts the task.
struct ServeTask(JoinHandle<crate::Result<()>>);

impl ServeTask {
    /// Not an `async fn`, so that the task is compiled with this crate and not with each that awaits it.
    fn start(server: Server) -> Self {
        Self(tokio::spawn(boxed(server.serve_taken_stdio())))
    }
}

impl Drop for ServeTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn reader_panicked() -> io::Error {
    io::Error::other("the thread that reads stdin panicked")
}
