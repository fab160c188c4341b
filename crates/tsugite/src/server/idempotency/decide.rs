//! Decides about a call by the record of its key. Pure; one row per case, with a test below.

use super::key_error::Refusal;
use super::keyed_call::KeyedCall;
use crate::server::key_state::{KeyRecord, KeyState};

/// The decision about a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Its handler runs now.
    Run,
    /// It gets the stored outcome.
    Answer,
    /// It ran in this process when the record was written.
    RunsIn(String),
    Refuse(Refusal),
}

/// Decides about a call. `record` is the one of its key, if there is one.
pub(super) fn decide(call: &KeyedCall, record: Option<&KeyRecord>) -> Decision {
    let Some(record) = record else { return Decision::Run };
    if record.tool != call.tool || record.payload != call.payload {
        return Decision::Refuse(Refusal::OtherCall);
    }
    let is_same_round = match &call.state {
        Some(_) => record.round == call.round,
        // The call from its start, whatever round it is in by now.
        None => record.first_round == call.round,
    };
    match (&record.state, is_same_round) {
        (KeyState::InputRequired { next }, false) if call.state.as_ref() == Some(next) => Decision::Run,
        (_, false) => Decision::Refuse(Refusal::OtherRound),
        (KeyState::Running { .. }, true) if call.is_taken_over => Decision::Run,
        (KeyState::Running { process }, true) => Decision::RunsIn(process.clone()),
        (KeyState::Stopped, true) if call.is_restartable => Decision::Run,
        (KeyState::Stopped, true) => Decision::Refuse(Refusal::MayHaveRun),
        (KeyState::InputRequired { .. } | KeyState::Done | KeyState::Failed, true) => Decision::Answer,
    }
}

#[cfg(test)]
mod tests {
    use tsugite_core::revision::Revision;

    use super::*;

    fn call() -> KeyedCall {
        KeyedCall {
            name: "name".to_owned(),
            counted_for: None,
            tool: "pay".to_owned(),
            payload: "ten".to_owned(),
            revision: Revision::V2026_07_28,
            state: None,
            round: "one".to_owned(),
            is_restartable: false,
            is_taken_over: false,
        }
    }

    fn second_round() -> KeyedCall {
        KeyedCall { state: Some("state".to_owned()), round: "two".to_owned(), ..call() }
    }

    fn record(round: &str, state: KeyState) -> KeyRecord {
        KeyRecord { round: round.to_owned(), state, ..call().record(None, "here") }
    }

    fn decided(call: &KeyedCall, round: &str, state: KeyState) -> Decision {
        decide(call, Some(&record(round, state)))
    }

    #[test]
    fn call_without_a_record_runs() {
        assert_eq!(decide(&call(), None), Decision::Run);
        assert_eq!(decide(&second_round(), None), Decision::Run);
    }

    #[test]
    fn key_of_another_call_is_refused() {
        let done = record("one", KeyState::Done);
        for (other, refusal) in [
            (KeyedCall { tool: "refund".to_owned(), ..call() }, Refusal::OtherCall),
            (KeyedCall { payload: "eleven".to_owned(), ..call() }, Refusal::OtherCall),
            (KeyedCall { round: "other answers".to_owned(), ..call() }, Refusal::OtherRound),
            (second_round(), Refusal::OtherRound),
        ] {
            assert_eq!(decide(&other, Some(&done)), Decision::Refuse(refusal));
        }
    }

    #[test]
    fn outcome_answers_its_round_and_the_first_one() {
        for state in [KeyState::Done, KeyState::Failed, KeyState::InputRequired { next: "x".to_owned() }] {
            assert_eq!(decided(&call(), "one", state.clone()), Decision::Answer);
            assert_eq!(decided(&call(), "two", state.clone()), Decision::Answer);
            assert_eq!(decided(&second_round(), "two", state.clone()), Decision::Answer);
            assert_eq!(decided(&second_round(), "three", state), Decision::Refuse(Refusal::OtherRound));
        }
    }

    #[test]
    fn next_round_runs() {
        let next = KeyState::InputRequired { next: "state".to_owned() };
        assert_eq!(decided(&second_round(), "one", next), Decision::Run);
    }

    #[test]
    fn running_call_is_waited_for_unless_it_was_taken_over() {
        let running = || KeyState::Running { process: "there".to_owned() };
        assert_eq!(decided(&call(), "one", running()), Decision::RunsIn("there".to_owned()));
        let taken_over = KeyedCall { is_taken_over: true, ..call() };
        assert_eq!(decided(&taken_over, "one", running()), Decision::Run);
    }

    #[test]
    fn stopped_call_runs_again_only_if_restartable() {
        let refused = Decision::Refuse(Refusal::MayHaveRun);
        assert_eq!(decided(&call(), "one", KeyState::Stopped), refused);
        let restartable = KeyedCall { is_restartable: true, ..call() };
        assert_eq!(decided(&restartable, "one", KeyState::Stopped), Decision::Run);
    }
}
