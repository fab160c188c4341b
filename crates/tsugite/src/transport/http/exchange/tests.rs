//! Tests of exchanges: which outcome messages make, and when they are sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use tsugite_core::jsonrpc::Id;

use super::*;

const MESSAGE: &[u8] = b"{}";

/// Counts how often the task was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An exchange whose handler sends so many messages, yields after each, and then waits for ever.
fn yielding(max_bytes: usize, messages: usize) -> Exchange {
    let output = Output::new(OutboundQueue::new(max_bytes));
    let queue = output.queue.clone();
    let handler = async move {
        for _ in 0..messages {
            queue.push(|out| out.extend_from_slice(MESSAGE));
            tokio::task::yield_now().await;
        }
        std::future::pending().await
    };
    Exchange::new(output, Some(Box::pin(handler)), None)
}

/// Polls until lines are returned, and says how often that was.
fn poll_until_ready(exchange: &mut Exchange) -> (usize, Vec<u8>) {
    let wakes = Arc::new(Wakes::default());
    let waker = wakes.clone().into();
    let mut cx = Context::from_waker(&waker);
    for polls in 1.. {
        if let Poll::Ready(lines) = exchange.poll_lines(&mut cx) {
            return (polls, lines);
        }
        assert!(wakes.0.load(Ordering::Relaxed) >= polls, "a pending exchange wakes its task");
    }
    (0, Vec::new())
}

/// The outcome of a handler that sends so many messages and then responds, or is cancelled.
fn outcome(messages: usize, responds: bool) -> Outcome {
    let output = Output::new(OutboundQueue::new(1 << 20));
    for _ in 0..messages {
        output.queue.push(|out| out.extend_from_slice(MESSAGE));
    }
    if responds {
        let writer = ResponseWriter::with_slot(output.queue.clone(), output.response.clone());
        writer.send_error(Some(&Id::from(1)), &RpcError::Internal, Revision::NEWEST);
    }
    output.take_outcome()
}

#[test]
fn a_response_alone_is_json_with_its_error_code() {
    let Outcome::Json(response) = outcome(0, true) else { panic!("not JSON") };
    assert_eq!(response.error_code, Some(-32603));
    assert!(response.body.ends_with(b"}"));
}

#[test]
fn messages_before_a_response_make_events() {
    let Outcome::Events(lines) = outcome(2, true) else { panic!("no events") };
    let lines: Vec<_> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.last().is_some_and(|last| last.starts_with(br#"{"jsonrpc""#)), "the response is last");
}

#[test]
fn a_cancelled_request_has_an_empty_outcome() {
    assert!(matches!(outcome(0, false), Outcome::Empty));
    assert!(matches!(outcome(1, false), Outcome::Events(lines) if lines == b"{}\n"));
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_yielding_handler_are_sent_together() {
    let mut exchange = yielding(1 << 20, 100);
    let (polls, lines) = poll_until_ready(&mut exchange);
    assert_eq!(lines.len(), 100 * (MESSAGE.len() + 1));
    assert_eq!(polls, 101, "the handler is polled once each time the task is scheduled");
    assert_eq!(poll_until_ready(&mut exchange), (2, Vec::new()), "pending once, so that hyper flushes");
}

#[tokio::test(start_paused = true)]
async fn messages_are_held_back_only_while_the_queue_has_room() {
    let mut exchange = yielding(10, 100);
    let (_, lines) = poll_until_ready(&mut exchange);
    assert!((10..20).contains(&lines.len()), "{}", lines.len());
}

#[tokio::test(start_paused = true)]
async fn messages_are_held_back_no_longer_than_the_window() {
    let mut exchange = yielding(1 << 20, 100);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(exchange.poll_lines(&mut cx).is_pending());
    tokio::time::advance(COALESCE_WINDOW).await;
    assert_eq!(exchange.poll_lines(&mut cx), Poll::Ready(b"{}\n{}\n".to_vec()));
}
