//! A client of the revisions with sessions: each of its requests may reach another replica.

use std::time::Duration;

use serde_json::{Value, json};
use tsugite_testkit::http::{Connection, Request, initialize_request};

use crate::call_stream::{CallStream, MAX_EMPTY, finish};
use crate::fault_log::Effect;
use crate::get_stream::GetStream;
use crate::history::{CallKind, Outcome, Trace};
use crate::random::Random;
use crate::run::{CALL_TIMEOUT, Call, Exchange, Run, describe, response_outcome, status_outcome};
use crate::stateless_client::arguments;

pub(crate) struct SessionClient {
    number: usize,
    revision: &'static str,
    run: Run,
    random: Random,
    trace: Trace,
    last_id: u64,
    sessions: u64,
}

/// A session that was opened.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) revision: &'static str,
    pub(crate) began: Duration,
    /// The resource that it has subscribed to.
    uri: String,
    get_stream: Option<GetStream>,
}

impl Session {
    pub(crate) fn request(&self, request: Request) -> Request {
        request.session(&self.id).header("MCP-Protocol-Version", self.revision)
    }
}

/// The session is gone. The client opens another one.
struct SessionLost;

impl SessionClient {
    pub(crate) fn new(number: usize, run: Run) -> Self {
        let random = Random::for_client(run.seed, number as u64);
        let revision = if number.is_multiple_of(3) { "2025-06-18" } else { "2025-11-25" };
        Self { number, revision, run, random, trace: Trace::default(), last_id: 0, sessions: 0 }
    }

    /// Opens sessions and calls in them until the run is over.
    pub(crate) async fn work(mut self) {
        while !self.run.is_over() {
            let Some(mut session) = self.open().await else { continue };
            let lost = self.work_in(&session).await.is_err();
            if !lost && self.run.is_over() && session.get_stream.is_some() {
                self.check_notification(&mut session).await;
            }
            if !lost {
                self.delete(&session).await;
            }
        }
    }

    /// Calls until the session is lost, the client has enough of it, or the run is over.
    async fn work_in(&mut self, session: &Session) -> Result<(), SessionLost> {
        while !self.run.is_over() {
            let pause = Duration::from_millis(self.random.between(100, 1_500));
            self.run.pause(pause).await;
            let kind = match self.random.between(1, 100) {
                ..=35 => CallKind::Now,
                36..=60 => CallKind::Steps,
                61..=85 => CallKind::Question,
                86..=95 => CallKind::Slow,
                _ => return Ok(()),
            };
            if self.make_call(session, kind).await == Outcome::SessionLost {
                return Err(SessionLost);
            }
        }
        Ok(())
    }

    async fn make_call(&mut self, session: &Session, kind: CallKind) -> Outcome {
        self.last_id += 1;
        let call = Call {
            client: self.number,
            kind,
            id: self.last_id,
            nonce: format!("c{}-{}", self.number, self.last_id),
            began: self.run.now(),
            session_began: session.began,
        };
        self.trace.add(call.began, format!("call {} ({kind})", call.nonce));
        let outcome = match tokio::time::timeout(CALL_TIMEOUT, self.call(session, &call)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Unexpected(format!("no outcome after {} s", CALL_TIMEOUT.as_secs())),
        };
        call.finish(&self.run, outcome.clone(), &mut self.trace);
        outcome
    }

    /// Makes a call and follows its stream over all replicas.
    async fn call(&mut self, session: &Session, call: &Call) -> Outcome {
        let params = json!({"name": call.kind.tool(), "arguments": arguments(call),
            "_meta": {"progressToken": call.nonce}});
        let message = json!({"jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": params});
        let (mut connection, head) = match self.run.send(&session.request(Request::post(&message))).await {
            Exchange::Head(connection, head) => (connection, head),
            Exchange::Broken => return Outcome::Broken,
            Exchange::Silent => return Outcome::Unexpected("no response".to_owned()),
        };
        if let Some(outcome) = status_outcome(&head) {
            let body = connection.read_body().await;
            self.trace.add(self.run.now(), describe(&head, &body));
            return outcome;
        }
        if head.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
            // A body that was cut off is a broken connection.
            return match serde_json::from_str(&connection.read_body().await) {
                Ok(message) => response_outcome(&message, &call.nonce),
                Err(_) => Outcome::Broken,
            };
        }
        let cut_after = self.random.chance(40).then(|| self.random.between(0, 4));
        let mut stream = CallStream::new(cut_after);
        loop {
            if let Some(outcome) = self.read_stream(session, call, &mut connection, &mut stream).await {
                return outcome;
            }
            let Some(last) = stream.position.last_id().map(str::to_owned) else { return Outcome::Broken };
            if !stream.may_resume() {
                return Outcome::Unexpected(format!("the stream ended {MAX_EMPTY} times without a response"));
            }
            connection = match self.resume(session, &last).await {
                Ok(connection) => connection,
                Err(outcome) => return outcome,
            };
        }
    }

    /// Reads events until the call has an outcome, or the connection ends.
    async fn read_stream(
        &mut self,
        session: &Session,
        call: &Call,
        connection: &mut Connection,
        stream: &mut CallStream,
    ) -> Option<Outcome> {
        loop {
            let Some(event) = connection.next_event().await else {
                self.trace.add(self.run.now(), "the stream ended");
                return stream.is_cancelled.then_some(Outcome::Cancelled);
            };
            let is_new = match stream.position.accept(&event) {
                Ok(is_new) => is_new,
                Err(mistake) => return Some(Outcome::Unexpected(mistake)),
            };
            if !is_new {
                continue;
            }
            self.trace.add(self.run.now(), format!("event {:?}: {:.120}", event.id, event.data));
            let message = event.json();
            let outcome = match message.get("method").and_then(Value::as_str) {
                Some("notifications/progress") => self.accept_progress(session, call, stream, &message).await,
                Some("elicitation/create") => self.answer(session, call, stream, &message).await,
                Some(_) => Some(Outcome::Unexpected(format!("unexpected message {message}"))),
                None => Some(finish(&self.run, call, connection, (stream, &message)).await),
            };
            if outcome.is_some() {
                return outcome;
            }
            if stream.cut_after.is_some_and(|after| stream.position.count() > after) && !stream.is_cancelled {
                stream.cut_after = None;
                self.trace.add(self.run.now(), "the client closes the connection");
                return None;
            }
        }
    }

    /// Checks that progress counts on; cancels a call that would take too long.
    async fn accept_progress(
        &mut self,
        session: &Session,
        call: &Call,
        stream: &mut CallStream,
        message: &Value,
    ) -> Option<Outcome> {
        if message.pointer("/params/progressToken") != Some(&json!(call.nonce)) {
            return Some(Outcome::Unexpected(format!("progress of another call: {message}")));
        }
        let step = message.pointer("/params/progress").and_then(Value::as_f64).unwrap_or_default() as u64;
        stream.progress += 1;
        if step != stream.progress {
            return Some(Outcome::Unexpected(format!("progress {step} instead of {}", stream.progress)));
        }
        if call.kind == CallKind::Slow {
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": call.id, "reason": "chaos"}});
            stream.is_cancelled = true;
            return self.post_until_accepted(session, &cancel).await.err();
        }
        None
    }

    /// Answers a question, at any replica.
    async fn answer(
        &mut self,
        session: &Session,
        call: &Call,
        stream: &mut CallStream,
        question: &Value,
    ) -> Option<Outcome> {
        let asked = question.pointer("/params/message").and_then(Value::as_str).unwrap_or_default();
        if asked != format!("question {}", call.nonce) {
            return Some(Outcome::Unexpected(format!("the question of another call: {asked:?}")));
        }
        // Another replica may ask again; the answer stays the same.
        let answer = stream.answer.get_or_insert_with(|| format!("a{}", self.random.next())).clone();
        let pause = Duration::from_millis(self.random.between(0, 3_000));
        tokio::time::sleep(pause).await;
        let answer = json!({"jsonrpc": "2.0", "id": question.get("id"),
            "result": {"action": "accept", "content": {"answer": answer}}});
        self.post_until_accepted(session, &answer).await.err()
    }

    /// Posts a message again until a replica accepts it.
    async fn post_until_accepted(&mut self, session: &Session, message: &Value) -> Result<(), Outcome> {
        let request = session.request(Request::post(message));
        loop {
            match self.run.send(&request).await {
                Exchange::Head(_, head) if head.status == 202 => {
                    self.trace.add(self.run.now(), "the message was accepted");
                    return Ok(());
                }
                Exchange::Head(mut connection, head) => {
                    let body = connection.read_body().await;
                    self.trace.add(self.run.now(), describe(&head, &body));
                    match status_outcome(&head) {
                        Some(Outcome::Broken | Outcome::Unavailable) => {}
                        Some(outcome) => return Err(outcome),
                        None => {
                            return Err(Outcome::Unexpected(
                                "200 to a message without a response".to_owned(),
                            ));
                        }
                    }
                }
                Exchange::Broken => self.trace.add(self.run.now(), "the connection broke"),
                Exchange::Silent => return Err(Outcome::Unexpected("no response to a message".to_owned())),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Resumes a stream at any replica.
    async fn resume(&mut self, session: &Session, last: &str) -> Result<Box<Connection>, Outcome> {
        loop {
            let pause = Duration::from_millis(self.random.between(50, 300));
            tokio::time::sleep(pause).await;
            let request = session.request(Request::new("GET").header("Accept", "text/event-stream"));
            match self.run.send(&request.header("Last-Event-ID", last)).await {
                Exchange::Head(connection, head) if head.status == 200 => {
                    self.trace.add(self.run.now(), format!("resumed after {last}"));
                    return Ok(connection);
                }
                Exchange::Head(mut connection, head) => {
                    let body = connection.read_body().await;
                    self.trace.add(self.run.now(), describe(&head, &body));
                    match status_outcome(&head) {
                        Some(Outcome::Broken | Outcome::Unavailable) | None => {}
                        Some(Outcome::Unexpected(_)) if head.status == 400 => {
                            return Err(Outcome::StreamLost);
                        }
                        Some(outcome) => return Err(outcome),
                    }
                }
                Exchange::Broken => self.trace.add(self.run.now(), "the connection broke"),
                Exchange::Silent => return Err(Outcome::Unexpected("no response to a GET".to_owned())),
            }
        }
    }

    /// Opens a session; `None` if that did not succeed now.
    async fn open(&mut self) -> Option<Session> {
        let began = self.run.now();
        let opening = tokio::time::timeout(CALL_TIMEOUT, self.try_open(began)).await;
        match opening {
            Ok(Ok(session)) => return Some(session),
            // What the faults explain.
            Ok(Err(Outcome::Broken | Outcome::Unavailable | Outcome::SessionLost)) => {}
            Ok(Err(outcome)) => self.fail(&format!("opening a session: {outcome}")),
            Err(_) => self.fail("opening a session takes too long"),
        }
        self.run.pause(RETRY).await;
        None
    }

    async fn try_open(&mut self, began: Duration) -> Result<Session, Outcome> {
        let initialize = initialize_request(self.revision, json!({"elicitation": {}}));
        let head = match self.run.send(&Request::post(&initialize)).await {
            Exchange::Head(mut connection, head) => {
                let body = connection.read_body().await;
                if let Some(outcome) = status_outcome(&head) {
                    return Err(outcome);
                }
                if serde_json::from_str::<Value>(&body).is_err() {
                    return Err(Outcome::Broken);
                }
                head
            }
            Exchange::Broken => return Err(Outcome::Broken),
            Exchange::Silent => return Err(Outcome::Unexpected("no response".to_owned())),
        };
        let Some(id) = head.header("mcp-session-id").map(str::to_owned) else {
            return Err(Outcome::Unexpected("no session id".to_owned()));
        };
        self.sessions += 1;
        self.trace.add(self.run.now(), format!("session {} opened: {id}", self.sessions));
        let uri = format!("chaos://{}-{}", self.number, self.sessions);
        let mut session = Session { id, revision: self.revision, began, uri, get_stream: None };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post_until_accepted(&session, &ready).await?;
        if self.number.is_multiple_of(2) {
            self.subscribe(&session).await?;
            session.get_stream = Some(GetStream::open(self.number, &session, &self.run));
        }
        Ok(session)
    }

    /// Subscribes to the session's resource. May be repeated.
    async fn subscribe(&mut self, session: &Session) -> Result<(), Outcome> {
        loop {
            self.last_id += 1;
            let subscribe = json!({"jsonrpc": "2.0", "id": self.last_id, "method": "resources/subscribe",
                "params": {"uri": session.uri}});
            match self.exchange_whole(&session.request(Request::post(&subscribe))).await? {
                Some(message) if message.get("result").is_some() => return Ok(()),
                Some(message) => return Err(Outcome::Unexpected(format!("subscribe: {message}"))),
                None => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// Sends a request and reads a JSON response; `None` if it is to be tried again.
    async fn exchange_whole(&mut self, request: &Request) -> Result<Option<Value>, Outcome> {
        let (mut connection, head) = match self.run.send(request).await {
            Exchange::Head(connection, head) => (connection, head),
            Exchange::Broken => return Ok(None),
            Exchange::Silent => return Err(Outcome::Unexpected("no response".to_owned())),
        };
        let body = connection.read_body().await;
        match status_outcome(&head) {
            None => Ok(serde_json::from_str(&body).ok()),
            Some(Outcome::Broken | Outcome::Unavailable) => Ok(None),
            Some(outcome) => Err(outcome),
        }
    }

    /// After all faults: a change reaches the session's GET stream again.
    async fn check_notification(&mut self, session: &mut Session) {
        let Some(stream) = session.get_stream.as_mut() else { return };
        let before = stream.update_count();
        self.last_id += 1;
        let touch = json!({"jsonrpc": "2.0", "id": self.last_id, "method": "tools/call",
            "params": {"name": "touch", "arguments": {"uri": session.uri}}});
        let touch = Request::post(&touch).session(&session.id).header("MCP-Protocol-Version", self.revision);
        // The stream may just be opened again.
        if !stream.wait_until_open().await {
            self.fail("the GET stream does not open after the run");
            return;
        }
        match self.exchange_whole(&touch).await {
            Ok(Some(_)) => {}
            Err(Outcome::SessionLost) if self.run.faults.had(&[Effect::DataLost], session.began) => {
                return;
            }
            other => return self.fail(&format!("a call after the run: {other:?}")),
        }
        if !stream.wait_for_update(before).await {
            let state = stream.describe();
            self.fail(&format!("a change of {} does not reach the GET stream: {state}", session.uri));
        }
    }

    /// Ends a session.
    async fn delete(&mut self, session: &Session) {
        let request = session.request(Request::new("DELETE"));
        let ending = async {
            loop {
                match self.run.send(&request).await {
                    Exchange::Head(_, head) => match status_outcome(&head) {
                        Some(Outcome::Broken | Outcome::Unavailable) => {}
                        _ => return head.status,
                    },
                    Exchange::Broken => {}
                    Exchange::Silent => return 0,
                }
                tokio::time::sleep(RETRY).await;
            }
        };
        match tokio::time::timeout(CALL_TIMEOUT, ending).await {
            Ok(200..=204 | 404) => self.trace.add(self.run.now(), "session ended"),
            other => self.fail(&format!("ending a session: {other:?}")),
        }
    }

    fn fail(&self, failure: &str) {
        self.run.history.fail(self.number, failure, &self.trace);
    }
}

/// The pause before a message is sent again.
const RETRY: Duration = Duration::from_millis(200);
