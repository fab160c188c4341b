//! A client of 2026-07-28: each request stands alone, and needs no Redis.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite_testkit::http::{Connection, Request};

use crate::history::{CallKind, Outcome, Trace};
use crate::random::Random;
use crate::run::{CALL_TIMEOUT, Call, Exchange, Run, describe, response_outcome, status_outcome};

pub(crate) struct StatelessClient {
    number: usize,
    run: Run,
    random: Random,
    trace: Trace,
    last_id: u64,
}

impl StatelessClient {
    pub(crate) fn new(number: usize, run: Run) -> Self {
        let random = Random::for_client(run.seed, number as u64);
        Self { number, run, random, trace: Trace::default(), last_id: 0 }
    }

    /// Makes one call after the other until the run is over.
    pub(crate) async fn work(mut self) {
        while !self.run.is_over() {
            let pause = Duration::from_millis(self.random.between(100, 1_500));
            self.run.pause(pause).await;
            let kind = match self.random.between(1, 100) {
                ..=60 => CallKind::StatelessNow,
                61..=80 => CallKind::StatelessSteps,
                _ => CallKind::StatelessQuestion,
            };
            self.last_id += 1;
            let call = Call {
                client: self.number,
                kind,
                id: self.last_id,
                nonce: format!("c{}-{}", self.number, self.last_id),
                began: self.run.now(),
                session_began: Duration::ZERO,
            };
            self.trace.add(call.began, format!("call {} ({kind})", call.nonce));
            let outcome = match tokio::time::timeout(CALL_TIMEOUT, self.call(&call)).await {
                Ok(outcome) => outcome,
                Err(_) => Outcome::Unexpected(format!("no outcome after {} s", CALL_TIMEOUT.as_secs())),
            };
            call.finish(&self.run, outcome, &mut self.trace);
        }
    }

    async fn call(&mut self, call: &Call) -> Outcome {
        let params = json!({"name": call.kind.tool(), "arguments": arguments(call), "_meta": {
            "progressToken": call.nonce,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        }});
        let first = match self.round(call, params.clone()).await {
            Ok(message) => message,
            Err(outcome) => return outcome,
        };
        if call.kind != CallKind::StatelessQuestion || first.get("error").is_some() {
            return response_outcome(&first, &call.nonce);
        }
        let answer = format!("a{}", self.random.next());
        let result = first.get("result").cloned().unwrap_or_default();
        let mut responses = serde_json::Map::new();
        for (key, question) in result.get("inputRequests").and_then(Value::as_object).into_iter().flatten() {
            let asked = question.pointer("/params/message").and_then(Value::as_str).unwrap_or_default();
            if asked != format!("question {}", call.nonce) {
                return Outcome::Unexpected(format!("the question of another call: {asked:?}"));
            }
            responses.insert(key.clone(), json!({"action": "accept", "content": {"answer": answer}}));
        }
        if responses.is_empty() {
            return Outcome::Unexpected(format!("no question: {first}"));
        }
        let mut retry = params;
        if let Some(retry) = retry.as_object_mut() {
            retry.insert("inputResponses".to_owned(), responses.into());
            retry.insert("requestState".to_owned(), result.get("requestState").cloned().unwrap_or_default());
        }
        match self.round(call, retry).await {
            Ok(message) => response_outcome(&message, &format!("{} {answer}", call.nonce)),
            Err(outcome) => outcome,
        }
    }

    /// Sends one request and returns the response message.
    async fn round(&mut self, call: &Call, params: Value) -> Result<Value, Outcome> {
        let message = json!({"jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": params});
        let (mut connection, head) = match self.run.send(&Request::stateless(message)).await {
            Exchange::Head(connection, head) => (connection, head),
            Exchange::Broken => return Err(Outcome::Broken),
            Exchange::Silent => return Err(Outcome::Unexpected("no response".to_owned())),
        };
        if let Some(outcome) = status_outcome(&head) {
            let body = connection.read_body().await;
            self.trace.add(self.run.now(), describe(&head, &body));
            return Err(outcome);
        }
        if head.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
            // A body that was cut off is a broken connection.
            return serde_json::from_str(&connection.read_body().await).map_err(|_| Outcome::Broken);
        }
        read_stream(&mut connection, call).await
    }
}

/// Reads progress and the response. Such a stream cannot be resumed.
async fn read_stream(connection: &mut Connection, call: &Call) -> Result<Value, Outcome> {
    let mut progress = 0;
    while let Some(event) = connection.next_event().await {
        let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
        if message.get("method").is_some() {
            let step = message.pointer("/params/progress").and_then(Value::as_f64).unwrap_or_default() as u64;
            progress += 1;
            if step != progress {
                return Err(Outcome::Unexpected(format!("progress {step} instead of {progress}")));
            }
            continue;
        }
        match connection.next_event().await {
            None if message.get("id") == Some(&json!(call.id)) => return Ok(message),
            None => return Err(Outcome::Unexpected(format!("the response to another request: {message}"))),
            Some(more) => return Err(Outcome::Unexpected(format!("an event after the response: {more:?}"))),
        }
    }
    Err(Outcome::Broken)
}

/// The arguments of a call. They follow from its number.
pub(crate) fn arguments(call: &Call) -> Value {
    match call.kind {
        CallKind::Steps | CallKind::StatelessSteps | CallKind::HttpSseSteps => {
            json!({"nonce": call.nonce, "steps": 2 + call.id % 6, "pause_millis": 20 + 40 * (call.id % 5)})
        }
        _ => json!({"nonce": call.nonce}),
    }
}
