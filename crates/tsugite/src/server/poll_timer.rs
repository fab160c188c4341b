//! Warns about handlers that block their thread: everything else on that thread waits meanwhile.
//!
//! Each poll of a handler reads the clock twice, which takes 40 ns.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::subject::Subject;
use crate::shared::log;

/// The clock that measures polls.
pub(crate) type PollClock = fn() -> Instant;

/// A handler whose polls are measured.
pub(crate) struct PollTimer<F> {
    pub(crate) handler: F,
    pub(crate) subject: Arc<Subject<'static>>,
    pub(crate) clock: PollClock,
}

impl<F: Future + Unpin> Future for PollTimer<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        poll_timed(&mut this.handler, &this.subject, this.clock, cx)
    }
}

/// Polls a handler once, and warns if that takes too long.
pub(crate) fn poll_timed<F: Future + Unpin>(
    handler: &mut F,
    subject: &Subject<'_>,
    clock: PollClock,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    let started = clock();
    let polled = Pin::new(handler).poll(cx);
    let took = clock().saturating_duration_since(started);
    if took > MAX_POLL {
        warn_of_blocking(subject, took);
    }
    polled
}

/// Warns once for each item. Returns whether this was the first time.
#[cold]
fn warn_of_blocking(subject: &Subject<'_>, took: Duration) -> bool {
    let name = subject.registered_name();
    let first = log::is_first(subject.kind, name);
    if first {
        log::warn!(
            kind = subject.kind,
            name,
            "{subject} `{name}` blocked its thread for {:.1} s in one poll; make it a plain `fn`, which runs on a \
             thread of its own, or use `tokio::task::spawn_blocking`",
            took.as_secs_f64()
        );
    }
    first
}

/// The longest poll without a warning.
const MAX_POLL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::Waker;

    use super::*;
    use crate::server::{Server, Tool};
    use crate::shared::log::recorder::Recorder;
    use crate::transport::memory;

    thread_local! {
        static START: Instant = Instant::now();
        static BLOCKED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// A clock that only [`block_for`] advances.
    fn clock() -> Instant {
        START.with(|start| *start) + BLOCKED.get()
    }

    fn block_for(time: Duration) {
        BLOCKED.set(BLOCKED.get() + time);
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn item_is_warned_about_once() {
        let log = Recorder::start();
        assert!(warn_of_blocking(&Subject::tool("slow_1"), SECOND));
        assert!(!warn_of_blocking(&Subject::tool("slow_1"), SECOND));
        assert!(warn_of_blocking(&Subject::prompt("slow_1"), SECOND));
        assert!(warn_of_blocking(&Subject::resource("slow://1", Some("slow://{id}")), SECOND));
        assert!(!warn_of_blocking(&Subject::resource("slow://2", Some("slow://{id}")), SECOND));
        assert_eq!(log.take().len(), 3);
    }

    #[test]
    fn only_a_long_poll_is_warned_about() {
        let log = Recorder::start();
        let mut cx = Context::from_waker(Waker::noop());
        for (name, time) in [("slow_2", MAX_POLL), ("slow_3", MAX_POLL + Duration::from_millis(1))] {
            let mut handler = Box::pin(async move { block_for(time) });
            assert!(poll_timed(&mut handler, &Subject::tool(name), clock, &mut cx).is_ready());
        }
        let logged = log.take();
        assert!(
            logged.len() == 1 && logged[0].contains("tool `slow_3` blocked its thread for 0.5 s"),
            "{logged:?}"
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn blocking_in_any_poll_of_a_tool_is_warned_about() {
        let log = Recorder::start();
        let first =
            Tool::new("slow_4").description("Blocks at once.").handler(async || block_for(SECOND * 2));
        let later = Tool::new("slow_5").description("Blocks after a pause.").handler(async || {
            tokio::task::yield_now().await;
            block_for(SECOND * 3);
        });
        let server =
            Server::new("s", "1").tool(first).tool(later).configure(|config| config.poll_clock = clock);
        let mut connection = memory::connect(&server).unwrap();
        for name in ["slow_4", "slow_5", "slow_4", "slow_5"] {
            connection.send(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
            ));
            assert!(connection.next().await.contains("result"));
        }
        let logged = log.take();
        assert_eq!(logged.len(), 2, "{logged:?}");
        assert!(logged[0].contains("tool `slow_4` blocked its thread for 2.0 s in one poll"), "{logged:?}");
        assert!(logged[1].contains("tool `slow_5` blocked its thread for 3.0 s in one poll"), "{logged:?}");
    }
}
