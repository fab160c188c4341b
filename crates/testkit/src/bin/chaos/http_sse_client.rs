//! A client of HTTP+SSE, the transport of 2024-11-05: one replica has its stream, and its messages reach any of them.
//!
//! The transport promises less than the later one: a session ends with its stream, and nothing can be resumed. A message
//! that was accepted for the replica of the stream is lost if Redis loses its data.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tsugite_testkit::http::{Connection, Request, initialize_request};

use crate::fault_log::Effect;
use crate::history::{CallKind, Outcome, Trace};
use crate::random::Random;
use crate::run::{CALL_TIMEOUT, Call, Exchange, Run, describe, response_outcome, status_outcome};
use crate::stateless_client::arguments;

pub(crate) struct HttpSseClient {
    number: usize,
    /// Questions came after 2024-11-05. The transport carries later revisions as well.
    revision: &'static str,
    run: Run,
    random: Random,
    trace: Trace,
    last_id: u64,
    sessions: u64,
}

/// A session: its stream, and where to post.
struct Session {
    endpoint: String,
    messages: mpsc::UnboundedReceiver<Value>,
    reader: JoinHandle<()>,
    began: Duration,
    /// The resource that it has subscribed to.
    uri: String,
    updates: u64,
    /// Requests whose responses the client no longer waits for.
    abandoned: HashSet<u64>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// What a client knows of a call.
#[derive(Default)]
struct Progress {
    steps: u64,
    answer: Option<String>,
}

impl HttpSseClient {
    pub(crate) fn new(number: usize, run: Run) -> Self {
        let random = Random::for_client(run.seed, number as u64);
        let revision = if number.is_multiple_of(3) { "2025-06-18" } else { "2024-11-05" };
        Self { number, revision, run, random, trace: Trace::default(), last_id: 0, sessions: 0 }
    }

    /// Opens sessions and calls in them until the run is over.
    pub(crate) async fn work(mut self) {
        while !self.run.is_over() {
            let opened = tokio::time::timeout(CALL_TIMEOUT, self.open()).await;
            match opened {
                Ok(Ok(mut session)) => {
                    let is_lost = self.work_in(&mut session).await;
                    if !is_lost && self.run.is_over() {
                        self.check_notification(&mut session).await;
                    }
                }
                Ok(Err(Outcome::Unexpected(what))) => self.fail(&format!("opening a session: {what}")),
                // What the faults explain.
                Ok(Err(_)) => {}
                Err(_) => self.fail("opening a session takes too long"),
            }
            self.run.pause(RETRY).await;
        }
    }

    /// Calls until the session is lost, the client has enough of it, or the run is over. Returns whether it is lost.
    async fn work_in(&mut self, session: &mut Session) -> bool {
        while !self.run.is_over() {
            let pause = Duration::from_millis(self.random.between(100, 1_500));
            self.run.pause(pause).await;
            let kind = match (self.random.between(1, 100), self.revision) {
                (..=35, _) => CallKind::HttpSseNow,
                (36..=60, _) | (61..=85, "2024-11-05") => CallKind::HttpSseSteps,
                (61..=85, _) => CallKind::HttpSseQuestion,
                (86..=95, _) => CallKind::HttpSseSlow,
                _ => return false,
            };
            // The stream may have ended while the client did nothing.
            if session.messages.is_closed() && session.messages.is_empty() {
                self.trace.add(self.run.now(), "the stream ended");
                return true;
            }
            let outcome = self.make_call(session, kind).await;
            if matches!(outcome, Outcome::SessionLost) || session.messages.is_closed() {
                return true;
            }
        }
        false
    }

    async fn make_call(&mut self, session: &mut Session, kind: CallKind) -> Outcome {
        let id = self.next_id();
        let call = Call {
            client: self.number,
            kind,
            id,
            nonce: format!("c{}-{id}", self.number),
            began: self.run.now(),
            session_began: session.began,
        };
        self.trace.add(call.began, format!("call {} ({kind})", call.nonce));
        let outcome = match tokio::time::timeout(CALL_TIMEOUT, self.call(session, &call)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Unexpected(format!("no outcome after {} s", CALL_TIMEOUT.as_secs())),
        };
        session.abandoned.insert(call.id);
        call.finish(&self.run, outcome.clone(), &mut self.trace);
        outcome
    }

    async fn call(&mut self, session: &mut Session, call: &Call) -> Outcome {
        let params = json!({"name": call.kind.tool(), "arguments": arguments(call),
            "_meta": {"progressToken": call.nonce}});
        let message = json!({"jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": params});
        if let Err(outcome) = self.post(&session.endpoint, &message).await {
            return outcome;
        }
        let mut progress = Progress::default();
        loop {
            let message = match self.next_message(session, call.began).await {
                Ok(message) => message,
                Err(outcome) => return outcome,
            };
            if let Some(outcome) = self.accept(session, call, &mut progress, &message).await {
                return outcome;
            }
        }
    }

    /// The next message on the stream. An error is the outcome of the call that waits for it.
    async fn next_message(&mut self, session: &mut Session, began: Duration) -> Result<Value, Outcome> {
        loop {
            match tokio::time::timeout(LOST_AFTER, session.messages.recv()).await {
                Ok(Some(message)) => {
                    self.trace.add(self.run.now(), format!("{message:.160}"));
                    return Ok(message);
                }
                Ok(None) => {
                    self.trace.add(self.run.now(), "the stream ended");
                    return Err(Outcome::Broken);
                }
                // The message was accepted, and lost with the data of Redis.
                Err(_) if self.run.faults.had(&[Effect::DataLost], began) => return Err(Outcome::StreamLost),
                Err(_) => {}
            }
        }
    }

    /// Accepts a message while a call runs. Returns the outcome of the call, if the message decides it.
    async fn accept(
        &mut self,
        session: &mut Session,
        call: &Call,
        progress: &mut Progress,
        message: &Value,
    ) -> Option<Outcome> {
        let unexpected = || Some(Outcome::Unexpected(format!("unexpected message {message}")));
        match message.get("method").and_then(Value::as_str) {
            Some("notifications/progress") => {
                // A call that the client gave up may still report something.
                if message.pointer("/params/progressToken") != Some(&json!(call.nonce)) {
                    return None;
                }
                progress.steps += 1;
                if message.pointer("/params/progress").and_then(Value::as_f64) != Some(progress.steps as f64)
                {
                    return unexpected();
                }
                match call.kind {
                    CallKind::HttpSseSlow => Some(self.cancel(session, call).await),
                    _ => None,
                }
            }
            Some("elicitation/create") => self.answer(session, call, progress, message).await,
            Some("notifications/resources/updated") => {
                session.updates += 1;
                None
            }
            Some(method) if method.ends_with("list_changed") => None,
            Some(_) => unexpected(),
            None if message.get("id") == Some(&json!(call.id)) => {
                Some(match finish(call, progress, message) {
                    // The replica of the stream stops: its handler cannot wait for the answer, and fails.
                    Outcome::Unexpected(_)
                        if call.kind == CallKind::HttpSseQuestion
                            && message.get("error").is_some()
                            && self.run.faults.had(&[Effect::ReplicaStopping], call.began) =>
                    {
                        Outcome::MayHaveRun
                    }
                    outcome => outcome,
                })
            }
            None => match message.get("id").and_then(Value::as_u64) {
                Some(id) if session.abandoned.contains(&id) => None,
                _ => unexpected(),
            },
        }
    }

    async fn cancel(&mut self, session: &Session, call: &Call) -> Outcome {
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": call.id}});
        match self.post_until_accepted(&session.endpoint, &cancelled).await {
            // The cancellation may be lost with the data.
            Ok(()) if self.run.faults.had(&[Effect::DataLost], call.began) => Outcome::StreamLost,
            Ok(()) => Outcome::Cancelled,
            Err(outcome) => outcome,
        }
    }

    async fn answer(
        &mut self,
        session: &Session,
        call: &Call,
        progress: &mut Progress,
        question: &Value,
    ) -> Option<Outcome> {
        let asked = question.pointer("/params/message").and_then(Value::as_str).unwrap_or_default();
        if asked != format!("question {}", call.nonce) {
            // One that the client gave up; its question stays unanswered.
            let known = asked.strip_prefix(&format!("question c{}-", self.number));
            let id = known.and_then(|id| id.parse().ok());
            return match id.is_some_and(|id| session.abandoned.contains(&id)) {
                true => None,
                false => Some(Outcome::Unexpected(format!("the question of another call: {asked:?}"))),
            };
        }
        let answer = format!("a{}", self.random.next());
        progress.answer = Some(answer.clone());
        let answer = json!({"jsonrpc": "2.0", "id": question.get("id"),
            "result": {"action": "accept", "content": {"answer": answer}}});
        self.post_until_accepted(&session.endpoint, &answer).await.err()
    }

    /// Posts a message. An error is the outcome of its call.
    async fn post(&mut self, endpoint: &str, message: &Value) -> Result<(), Outcome> {
        let request = Request::new("POST").path(endpoint).header("Content-Type", "application/json");
        match self.run.send(&request.body(message.to_string())).await {
            Exchange::Head(_, head) if head.status == 202 => Ok(()),
            Exchange::Head(mut connection, head) => {
                let body = connection.read_body().await;
                self.trace.add(self.run.now(), describe(&head, &body));
                let unexpected = || Outcome::Unexpected("200 to a message".to_owned());
                Err(status_outcome(&head).unwrap_or_else(unexpected))
            }
            Exchange::Broken => Err(Outcome::Broken),
            Exchange::Silent => Err(Outcome::Unexpected("no response to a message".to_owned())),
        }
    }

    /// Posts a message again until a replica accepts it.
    async fn post_until_accepted(&mut self, endpoint: &str, message: &Value) -> Result<(), Outcome> {
        loop {
            match self.post(endpoint, message).await {
                Err(Outcome::Broken | Outcome::Unavailable) => tokio::time::sleep(RETRY).await,
                posted => return posted,
            }
        }
    }

    /// Opens a stream, completes the handshake and subscribes to a resource.
    async fn open(&mut self) -> Result<Session, Outcome> {
        let began = self.run.now();
        let request = Request::new("GET").path("/sse").header("Accept", "text/event-stream");
        let mut stream = match self.run.send(&request).await {
            Exchange::Head(stream, head) => match status_outcome(&head) {
                None => stream,
                Some(outcome) => return Err(outcome),
            },
            Exchange::Broken => return Err(Outcome::Broken),
            Exchange::Silent => return Err(Outcome::Unexpected("no response to GET".to_owned())),
        };
        let Some(endpoint) = stream.next_event().await else { return Err(Outcome::Broken) };
        self.sessions += 1;
        self.trace.add(self.run.now(), format!("session {} opened: {}", self.sessions, endpoint.data));
        let (sender, messages) = mpsc::unbounded_channel();
        let mut session = Session {
            endpoint: endpoint.data,
            messages,
            reader: tokio::spawn(read(stream, sender)),
            began,
            uri: format!("chaos://{}-{}", self.number, self.sessions),
            updates: 0,
            abandoned: HashSet::new(),
        };
        let mut initialize = initialize_request(self.revision, json!({"elicitation": {}}));
        if let Some(id) = initialize.get_mut("id") {
            *id = json!(self.next_id());
        }
        self.request(&mut session, initialize).await?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post_until_accepted(&session.endpoint, &ready).await?;
        let subscribe = json!({"jsonrpc": "2.0", "id": self.next_id(), "method": "resources/subscribe",
            "params": {"uri": session.uri}});
        self.request(&mut session, subscribe).await?;
        Ok(session)
    }

    /// Sends a request and waits for its result.
    async fn request(&mut self, session: &mut Session, request: Value) -> Result<(), Outcome> {
        let began = self.run.now();
        self.post(&session.endpoint, &request).await?;
        loop {
            let message = self.next_message(session, began).await?;
            match message.get("method").and_then(Value::as_str) {
                Some("notifications/resources/updated") => session.updates += 1,
                Some(_) => {}
                None if message.get("id") == request.get("id") => {
                    return match message.get("result") {
                        Some(_) => Ok(()),
                        None => Err(Outcome::Unexpected(message.to_string())),
                    };
                }
                None => {}
            }
        }
    }

    /// After all faults: a change reaches the stream.
    async fn check_notification(&mut self, session: &mut Session) {
        let before = session.updates;
        let touch = json!({"jsonrpc": "2.0", "id": self.next_id(), "method": "tools/call",
            "params": {"name": "touch", "arguments": {"uri": session.uri}}});
        let checking = async {
            self.request(session, touch).await?;
            let began = self.run.now();
            while session.updates == before {
                let message = self.next_message(session, began).await?;
                let method = message.get("method").and_then(Value::as_str);
                session.updates += u64::from(method == Some("notifications/resources/updated"));
            }
            Ok(())
        };
        match tokio::time::timeout(NOTIFICATION_TIMEOUT, checking).await {
            Ok(Ok(())) => {}
            Ok(Err(Outcome::SessionLost)) if self.run.faults.had(&[Effect::DataLost], session.began) => {}
            Ok(Err(outcome)) => self.fail(&format!("a call after the run: {outcome}")),
            Err(_) => self.fail(&format!("a change of {} does not reach the stream", session.uri)),
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn fail(&self, failure: &str) {
        self.run.history.fail(self.number, failure, &self.trace);
    }
}

/// Reads the messages of a stream until it ends.
async fn read(mut stream: Box<Connection>, messages: mpsc::UnboundedSender<Value>) {
    while let Some(event) = stream.next_event().await {
        if !event.data.is_empty() && messages.send(event.json()).is_err() {
            return;
        }
    }
}

/// The outcome of a call from its response.
fn finish(call: &Call, progress: &Progress, message: &Value) -> Outcome {
    let expected = match &progress.answer {
        Some(answer) => format!("{} {answer}", call.nonce),
        None => call.nonce.clone(),
    };
    let steps = arguments(call).get("steps").and_then(Value::as_u64);
    match response_outcome(message, &expected) {
        Outcome::Result if steps.is_some_and(|steps| steps != progress.steps) => {
            Outcome::Unexpected(format!("a result after {} steps of {steps:?}", progress.steps))
        }
        outcome => outcome,
    }
}

/// The pause before something is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// How long a message may take that can have been lost with the data of Redis. Longer than any step of a call.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// How long a notification may take when no fault is there.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(15);
