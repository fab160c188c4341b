//! The stream of one call, over all connections that carry it.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite_testkit::http::Connection;

use crate::fault_log::Effect;
use crate::history::Outcome;
use crate::run::{Call, Run, response_outcome};
use crate::stateless_client::arguments;
use crate::stream_position::StreamPosition;

/// What a client knows of the stream of one call.
#[derive(Default)]
pub(crate) struct CallStream {
    pub(crate) position: StreamPosition,
    pub(crate) progress: u64,
    pub(crate) answer: Option<String>,
    pub(crate) is_cancelled: bool,
    /// After how many events the client closes the connection, once.
    pub(crate) cut_after: Option<u64>,
    /// How many events were seen when the stream was last resumed, and how often it ended since then without another one.
    resumed_at: u64,
    empty: u32,
}

impl CallStream {
    pub(crate) fn new(cut_after: Option<u64>) -> Self {
        Self { cut_after, ..Self::default() }
    }

    /// Counts the resumptions since the last event. A client gives up when there are too many.
    pub(crate) fn may_resume(&mut self) -> bool {
        match self.position.count() == self.resumed_at {
            true => self.empty += 1,
            false => (self.resumed_at, self.empty) = (self.position.count(), 0),
        }
        self.empty < MAX_EMPTY
    }
}

/// Checks the response and that nothing follows it.
pub(crate) async fn finish(
    run: &Run,
    call: &Call,
    connection: &mut Connection,
    (stream, message): (&CallStream, &Value),
) -> Outcome {
    if message.get("id") != Some(&json!(call.id)) {
        return Outcome::Unexpected(format!("the response to another request: {message}"));
    }
    match tokio::time::timeout(END_TIMEOUT, connection.next_event()).await {
        Ok(None) => {}
        Ok(Some(more)) => return Outcome::Unexpected(format!("an event after the response: {more:?}")),
        Err(_) => return Outcome::Unexpected("the stream stays open after the response".to_owned()),
    }
    let expected = match &stream.answer {
        Some(answer) => format!("{} {answer}", call.nonce),
        None => call.nonce.clone(),
    };
    let outcome = response_outcome(message, &expected);
    let steps = arguments(call).get("steps").and_then(Value::as_u64);
    match outcome {
        // A cancellation that was accepted can be lost with the data of Redis.
        Outcome::Result if stream.is_cancelled && run.faults.had(&[Effect::DataLost], call.began) => {
            Outcome::StreamLost
        }
        Outcome::Result if stream.is_cancelled => {
            Outcome::Unexpected("a result although the call was cancelled".to_owned())
        }
        Outcome::Result if steps.is_some_and(|steps| steps != stream.progress) => {
            Outcome::Unexpected(format!("a result after {} steps of {steps:?}", stream.progress))
        }
        outcome => outcome,
    }
}

/// How often a stream may end in a row without an event.
pub(crate) const MAX_EMPTY: u32 = 20;

/// How long a stream may stay open after its response.
const END_TIMEOUT: Duration = Duration::from_secs(10);
