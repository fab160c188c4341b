//! Asks the questions of a call that can be kept, and stores the call while its handler waits for nothing else.
//!
//! The handler leaves its questions in the round and is polled again when an answer is there. Before a question is sent,
//! the call is stored as waiting, if nothing but answers can make its handler go on. Before the handler sees the answer,
//! the call is stored as running.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Map;
use tokio::time::Sleep;
use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::mrtr::InputRequest;

use crate::server::call_state::CallState;
use crate::server::kept_call::{KeepError, KeepFuture, KeptAnswer, KeptRequest, OpenQuestion, WaitingCall};
use crate::server::outgoing_requests::{AnswerGuard, OpenRequest, cancel_request};
use crate::server::round::{Round, WakeSignal};

/// The questions of a call that can be kept.
pub(crate) struct KeptQuestions {
    request: Arc<KeptRequest>,
    method: String,
    params: RawJson,
    call: Arc<CallState>,
    questions: Vec<AskedQuestion>,
    /// The questions of an earlier run of the handler that this one has not asked yet.
    unreached: Vec<OpenQuestion>,
    /// The ids of those that this run asks in other words. They are cancelled when the new ones are sent.
    replaced: Vec<String>,
    storing: Option<KeepFuture>,
    /// Whether the call is stored as waiting, or may be.
    is_waiting: bool,
    /// Whether the store was asked since the handler last ran.
    was_stored: bool,
    /// Answers that the handler has not seen yet.
    answers: Vec<(String, KeptAnswer)>,
    /// The guards of these answers.
    guards: Vec<AnswerGuard>,
}

struct AskedQuestion {
    key: String,
    question: InputRequest,
    request: OpenRequest,
    timeout: Pin<Box<Sleep>>,
    deadline_millis: u64,
}

/// The next step of the driver of the handler.
pub(super) enum KeptStep {
    /// Polls the handler again: answers are there.
    Continue,
    /// Waits.
    Wait,
    /// Drops the handler: another process has the call.
    Abandon,
}

impl KeptQuestions {
    pub(crate) fn new(
        request: Arc<KeptRequest>,
        call: Arc<CallState>,
        method: String,
        params: RawJson,
    ) -> Self {
        let resumed = request.resumed.as_ref();
        Self {
            unreached: resumed.map(|history| history.questions.clone()).unwrap_or_default(),
            replaced: Vec::new(),
            request,
            method,
            params,
            call,
            questions: Vec::new(),
            storing: None,
            is_waiting: false,
            was_stored: false,
            answers: Vec::new(),
            guards: Vec::new(),
        }
    }

    /// Handles the questions of a handler that is pending.
    pub(super) fn poll(
        &mut self,
        round: &Arc<Round>,
        signal: &Arc<WakeSignal>,
        cx: &mut task::Context<'_>,
    ) -> KeptStep {
        loop {
            if let Some(storing) = &mut self.storing {
                let Poll::Ready(stored) = storing.as_mut().poll(cx) else { return KeptStep::Wait };
                self.storing = None;
                match (stored, self.answers.is_empty()) {
                    (Err(KeepError::TakenOver), _) => return KeptStep::Abandon,
                    // It is stored as waiting, or may be; or it is not and continues here.
                    (stored, true) => {
                        self.is_waiting = matches!(stored, Ok(()) | Err(KeepError::Unknown));
                        self.was_stored = true;
                    }
                    (_, false) => (self.is_waiting, self.was_stored) = (false, false),
                }
                if !self.answers.is_empty() {
                    self.guards.clear();
                    for (key, answer) in self.answers.drain(..) {
                        self.questions.retain(|asked| asked.key != key);
                        round.answer(&key, answer);
                    }
                    self.call.driver().wake();
                    return KeptStep::Continue;
                }
                self.send();
            }
            self.update(round);
            self.poll_answers(cx);
            if !self.answers.is_empty() {
                self.storing = Some(match self.is_waiting {
                    true => self.request.keeper.clone().store_running(self.answers_by_id()),
                    false => Box::pin(std::future::ready(Ok(()))),
                });
                continue;
            }
            let rests = round.is_asking()
                && !signal.can_wake()
                && !self.call.has_handles_elsewhere(self.questions.len());
            if rests && !self.was_stored && self.request.can_be_kept() && self.storing.is_none() {
                self.storing = Some(self.request.keeper.clone().store_waiting(self.waiting_call(round)));
                continue;
            }
            self.send();
            return KeptStep::Wait;
        }
    }

    /// Takes the questions that the handler asks now.
    fn update(&mut self, round: &Round) {
        let open = round.open_questions();
        self.questions.retain(|asked| open.iter().any(|(key, ..)| *key == asked.key));
        for (key, question, timeout) in open {
            if self.questions.iter().any(|asked| asked.key == key) {
                continue;
            }
            let adopted = self.unreached.iter().position(|open| open.key == key);
            let adopted = adopted.map(|at| self.unreached.remove(at));
            let now = now_millis();
            let (timeout, deadline_millis) = match &adopted {
                Some(open) => {
                    (Duration::from_millis(open.deadline_millis.saturating_sub(now)), open.deadline_millis)
                }
                None => {
                    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                    (timeout, now.saturating_add(millis))
                }
            };
            let settings = &self.call.settings;
            let id = adopted.map(|open| open.id);
            let request = settings.outgoing_requests.open(&settings.outbox, settings.revision, id);
            // A closed connection takes no questions: the handler is about to be dropped.
            let Some(request) = request else { continue };
            let timeout = Box::pin(tokio::time::sleep(timeout));
            self.questions.push(AskedQuestion { key, question, request, timeout, deadline_millis });
        }
        let replaced = self.unreached.extract_if(.., |open| round.has_asked(&open.key));
        self.replaced.extend(replaced.map(|open| open.id));
    }

    fn poll_answers(&mut self, cx: &mut task::Context<'_>) {
        for asked in &mut self.questions {
            if self.answers.iter().any(|(key, _)| *key == asked.key) {
                continue;
            }
            let answer = match asked.request.poll_answer(cx) {
                Poll::Ready(Some((outcome, guard))) => {
                    self.guards.push(guard);
                    outcome.map_or_else(KeptAnswer::Error, KeptAnswer::Result)
                }
                // This process stops. The question of a call that is stored stays open at the client.
                Poll::Ready(None) if self.is_waiting => continue,
                Poll::Ready(None) => KeptAnswer::Closed,
                Poll::Pending if asked.timeout.as_mut().poll(cx).is_ready() => KeptAnswer::TimedOut,
                Poll::Pending => continue,
            };
            self.answers.push((asked.key.clone(), answer));
        }
    }

    /// The answers that the handler has not seen yet, with the ids of their questions.
    fn answers_by_id(&self) -> Vec<(String, KeptAnswer)> {
        let by_id = |(key, answer): &(String, KeptAnswer)| {
            let asked = self.questions.iter().find(|asked| asked.key == *key)?;
            Some((asked.request.wire_id().as_str()?.to_owned(), answer.clone()))
        };
        self.answers.iter().filter_map(by_id).collect()
    }

    /// Sends the questions that the client has not seen, and cancels those that they replace.
    fn send(&mut self) {
        for id in self.replaced.drain(..) {
            let settings = &self.call.settings;
            cancel_request(&settings.outbox, Id::from(id), settings.revision);
        }
        for asked in &mut self.questions {
            // A question that the revision cannot express fails when it is answered by its timeout; it was checked before.
            let _ = asked.request.send(asked.question.clone());
        }
    }

    fn waiting_call(&self, round: &Round) -> WaitingCall {
        let mut history = round.kept_history();
        history.rest = self.request.resumed.as_ref().map_or_else(Map::new, |resumed| resumed.rest.clone());
        history.questions = self
            .questions
            .iter()
            .map(|asked| OpenQuestion {
                key: asked.key.clone(),
                id: asked.request.wire_id().as_str().unwrap_or_default().to_owned(),
                deadline_millis: asked.deadline_millis,
                rest: Map::new(),
            })
            .collect();
        WaitingCall { method: self.method.clone(), params: self.params.clone(), history }
    }
}

impl Drop for KeptQuestions {
    fn drop(&mut self) {
        // Their answers are for the process that has the call next.
        if self.is_waiting && self.request.keeper.goes_on_elsewhere() {
            self.questions.iter_mut().for_each(|asked| asked.request.leave_open());
        }
    }
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
