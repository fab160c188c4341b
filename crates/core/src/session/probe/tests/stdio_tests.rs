//! Tests of the stdio probe.

use proptest::prelude::*;

use super::*;
use crate::jsonrpc::RawJson;

/// A probe and its next step.
struct StdioScript {
    probe: StdioProbe,
    next: StdioProbeStep,
}

impl StdioScript {
    fn new(policy: ProbePolicy) -> Self {
        let (probe, next) = StdioProbe::new(policy);
        Self { probe, next }
    }

    fn with_record(policy: ProbePolicy, revision: Revision) -> Self {
        let (probe, next) = StdioProbe::with_record(policy, ProbeRecord::new(revision, TransportKind::Stdio));
        Self { probe, next }
    }

    fn receive(mut self, outcome: StdioProbeEvent<'_>) -> Self {
        self.next = self.probe.receive(outcome);
        self
    }

    fn result(self, result: &Value) -> Self {
        let result = RawJson::from(result.clone());
        self.receive(StdioProbeEvent::Result((&result).into()))
    }

    fn error(self, error: &ErrorObject) -> Self {
        self.receive(StdioProbeEvent::Error(error))
    }

    fn timeout(self) -> Self {
        self.receive(StdioProbeEvent::Timeout)
    }

    fn exit(self) -> Self {
        self.receive(StdioProbeEvent::Exited)
    }

    #[track_caller]
    fn expect_request(self, ask: ProbeRequest) -> Self {
        assert_eq!(self.next, StdioProbeStep::Send(ask));
        self
    }

    #[track_caller]
    fn expect_restart(self, ask: ProbeRequest) -> Self {
        assert_eq!(self.next, StdioProbeStep::Restart(ask));
        self
    }

    #[track_caller]
    fn expect_done(&self) -> &ProbeOutcome {
        match &self.next {
            StdioProbeStep::Done(settled) => settled,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn expect_error(self, failure: ProbeError) {
        assert_eq!(self.next, StdioProbeStep::Fail(failure));
    }
}

fn rejected(error: &ErrorObject) -> ProbeError {
    ProbeError::Rejected(error.clone())
}

#[test]
fn first_request_claims_the_preferred_revision() {
    // STDIO-021, STDIO-025, VER-033
    StdioScript::new(auto_policy()).expect_request(DISCOVER);
    StdioScript::new(auto_policy().mode(ProbeMode::StatelessOnly)).expect_request(DISCOVER);
}

#[test]
fn handshake_offers_newest_and_accepts_any_supported() {
    // LIFE-007, LIFE-009, LIFE-010: no other request is sent before the response.
    let spoken = ProbePolicy::new(Revisions::ALL.handshake().without(V2025_11_25));
    for version in ["2025-06-18", "2024-11-05"] {
        let script = StdioScript::new(spoken)
            .expect_request(ProbeRequest::Initialize(V2025_06_18))
            .result(&initialize_result(version));
        assert_eq!(handshake_outcome(script.expect_done()).unwrap().as_str(), version);
    }
}

#[test]
fn handshake_fails_on_an_unsupported_revision() {
    // LIFE-014
    for version in ["1.0", "2026-07-28", ""] {
        let script = StdioScript::new(auto_policy().mode(ProbeMode::HandshakeOnly))
            .result(&initialize_result(version));
        script.expect_error(no_common(&[version], Revisions::ALL.handshake()));
    }
}

#[test]
fn result_is_final() {
    // STDIO-022
    let settled = StdioScript::new(auto_policy()).result(&discover_result(&["2025-11-25", "2026-07-28"]));
    assert_eq!(stateless_outcome(settled.expect_done()), Some((V2026_07_28, true)));
    assert_eq!(settled.probe.record(), Some(ProbeRecord::new(V2026_07_28, TransportKind::Stdio)));
    StdioScript::new(auto_policy())
        .result(&discover_result(&["2025-06-18"]))
        .expect_request(ProbeRequest::Initialize(V2025_06_18));
    StdioScript::new(auto_policy()).result(&json!({})).expect_request(INITIALIZE);
}

#[test]
fn unsupported_version_is_retried_with_a_listed_one() {
    // STDIO-023
    let again = || {
        StdioScript::new(auto_policy())
            .error(&unsupported(&["2026-07-28", "2025-11-25"]))
            .expect_request(DISCOVER)
    };
    again().result(&discover_result(&["2026-07-28"])).expect_done();
    let wrong = unsupported(&["2026-07-28"]);
    again().error(&wrong).expect_error(rejected(&wrong));
    again().error(&error(-32601)).expect_error(rejected(&error(-32601)));
    again().timeout().expect_error(ProbeError::NoResponse);
    again().exit().expect_error(ProbeError::Exited);
    let mixed = ["2030-01-01", "2025-11-25"];
    StdioScript::new(auto_policy())
        .error(&unsupported(&mixed))
        .expect_error(no_common(&mixed, Revisions::ALL.stateless()));
    for error in unsupported_without_list() {
        StdioScript::new(auto_policy()).error(&error).expect_error(rejected(&error));
    }
    // Only a list of nothing but handshake revisions leads to a handshake.
    StdioScript::new(auto_policy())
        .error(&unsupported(&["2025-03-26"]))
        .expect_request(ProbeRequest::Initialize(V2025_03_26));
}

#[test]
fn header_mismatch_or_a_missing_capability_is_corrected_once() {
    // STDIO-023
    for code in [-32020, -32021] {
        let corrected = || StdioScript::new(auto_policy()).error(&error(code)).expect_request(DISCOVER);
        corrected().result(&discover_result(&["2026-07-28"])).expect_done();
        corrected().error(&error(code)).expect_error(rejected(&error(code)));
    }
}

#[test]
fn any_other_error_leads_to_initialize_in_the_same_process() {
    // STDIO-024
    for code in [-32601, -32602, -32600, -32700, -32603, -32000, -32002, 0, 1] {
        let probe = StdioScript::new(auto_policy()).error(&error(code)).expect_request(INITIALIZE);
        let settled = probe.result(&initialize_result("2025-03-26"));
        assert_eq!(handshake_outcome(settled.expect_done()), Some(V2025_03_26));
        assert_eq!(settled.probe.record(), Some(ProbeRecord::new(V2025_03_26, TransportKind::Stdio)));
    }
}

#[test]
fn timeout_leads_to_initialize_in_the_same_process() {
    // STDIO-024
    let probe = || StdioScript::new(auto_policy()).timeout().expect_request(INITIALIZE);
    probe().result(&initialize_result("2025-11-25")).expect_done();
    probe().timeout().expect_error(ProbeError::NoResponse);
}

#[test]
fn late_result_counts_while_initialize_is_pending() {
    let waiting = || StdioScript::new(auto_policy()).timeout().expect_request(INITIALIZE).probe;
    let mut probe = waiting();
    let result = RawJson::from(discover_result(&["2026-07-28", "2025-11-25"]));
    let done = probe.receive_late_discover(Ok((&result).into()));
    let Some(StdioProbeStep::Done(outcome)) = done else { panic!("{done:?}") };
    assert_eq!(stateless_outcome(&outcome), Some((V2026_07_28, true)));
    assert_eq!(probe.record(), Some(ProbeRecord::new(V2026_07_28, TransportKind::Stdio)));
    // Anything else leaves the decision to `initialize`, but is an answer.
    let (older, empty) = (RawJson::from(discover_result(&["2025-11-25"])), RawJson::empty_object());
    let refused = error(-32601);
    for response in [Ok((&older).into()), Ok((&empty).into()), Err(&refused)] {
        let mut probe = waiting();
        assert_eq!(probe.receive_late_discover(response), None);
        let result = RawJson::from(initialize_result("2025-11-25"));
        probe.receive(StdioProbeEvent::Result((&result).into()));
        assert_eq!(probe.record(), Some(ProbeRecord::new(V2025_11_25, TransportKind::Stdio)));
    }
}

#[test]
fn handshake_after_a_timeout_is_not_recorded() {
    let script = StdioScript::new(auto_policy()).timeout().result(&initialize_result("2025-11-25"));
    assert_eq!(handshake_outcome(script.expect_done()), Some(V2025_11_25));
    assert_eq!(script.probe.record(), None);
}

#[test]
fn slow_stateless_server_is_probed_again() {
    let probe = || {
        StdioScript::new(auto_policy())
            .timeout()
            .error(&unsupported(&["2026-07-28"]))
            .expect_request(DISCOVER)
    };
    probe().result(&discover_result(&["2026-07-28"])).expect_done();
    probe().timeout().expect_error(ProbeError::NoResponse);
    probe().error(&error(-32601)).expect_error(rejected(&error(-32601)));
    let itself = unsupported(&["2026-07-28"]);
    probe().error(&itself).expect_error(rejected(&itself));
    // A server that responded before is not probed again.
    let baffled = StdioScript::new(auto_policy()).error(&error(-32601)).error(&itself);
    baffled.expect_error(ProbeError::NoDiscover(itself));
}

#[test]
fn exited_process_is_restarted_once_with_initialize() {
    let probe = || StdioScript::new(auto_policy()).exit().expect_restart(INITIALIZE);
    probe().result(&initialize_result("2025-11-25")).expect_done();
    probe().exit().expect_error(ProbeError::Exited);
    // The crash may come after a later request.
    for asked in
        [StdioScript::new(auto_policy()).timeout(), StdioScript::new(auto_policy()).error(&error(-32601))]
    {
        asked
            .expect_request(INITIALIZE)
            .exit()
            .expect_restart(INITIALIZE)
            .exit()
            .expect_error(ProbeError::Exited);
    }
    // Without `server/discover` a restart would not help.
    StdioScript::new(auto_policy().mode(ProbeMode::HandshakeOnly)).exit().expect_error(ProbeError::Exited);
}

#[test]
fn line_that_is_not_a_message_is_skipped() {
    let mut probe = StdioScript::new(auto_policy());
    for _ in 0..100 {
        probe = probe.receive(StdioProbeEvent::NotAMessage);
        assert_eq!(probe.next, StdioProbeStep::KeepWaiting);
    }
    let probe = probe.timeout().expect_request(INITIALIZE).receive(StdioProbeEvent::NotAMessage);
    assert_eq!(probe.next, StdioProbeStep::KeepWaiting);
    probe.result(&initialize_result("2025-11-25")).expect_done();
}

#[test]
fn initialize_with_unsupported_revision_is_a_failure() {
    let ours = Revisions::ALL.handshake();
    for version in ["2026-07-28", "1.0"] {
        let probe = StdioScript::new(auto_policy()).timeout().result(&initialize_result(version));
        probe.expect_error(no_common(&[version], ours));
    }
    StdioScript::new(auto_policy()).timeout().error(&error(-32603)).expect_error(rejected(&error(-32603)));
}

#[test]
fn stateless_only_fails_with_a_handshake_server() {
    // VER-033
    let probe = || StdioScript::new(auto_policy().mode(ProbeMode::StatelessOnly)).expect_request(DISCOVER);
    let wants = || ProbeError::HandshakeRequired { ours: Revisions::ALL.stateless() };
    probe().error(&error(-32601)).expect_error(wants());
    probe().timeout().expect_error(wants());
    // It may have ended for any reason, which the client reports.
    probe().exit().expect_error(ProbeError::Exited);
}

#[test]
fn handshake_only_and_pinned_are_not_probed() {
    StdioScript::new(auto_policy().mode(ProbeMode::HandshakeOnly)).expect_request(INITIALIZE);
    let pinned = StdioScript::new(auto_policy().mode(ProbeMode::Pin(V2026_07_28)));
    assert_eq!(stateless_outcome(pinned.expect_done()), Some((V2026_07_28, false)));
    let pinned = || {
        StdioScript::new(auto_policy().mode(ProbeMode::Pin(V2024_11_05)))
            .expect_request(ProbeRequest::Initialize(V2024_11_05))
    };
    pinned().result(&initialize_result("2024-11-05")).expect_done();
    let other = pinned().result(&initialize_result("2025-11-25"));
    other.expect_error(no_common(&["2025-11-25"], Revisions::NONE.with(V2024_11_05)));
}

#[test]
fn record_skips_the_probe_and_a_stale_handshake_is_probed() {
    // VER-031
    let probe = StdioScript::with_record(auto_policy(), V2026_07_28);
    assert_eq!(stateless_outcome(probe.expect_done()), Some((V2026_07_28, false)));
    assert_eq!(probe.probe.record(), Some(ProbeRecord::new(V2026_07_28, TransportKind::Stdio)));

    let trusting = || {
        StdioScript::with_record(auto_policy(), V2025_06_18)
            .expect_request(ProbeRequest::Initialize(V2025_06_18))
    };
    trusting().result(&initialize_result("2025-06-18")).expect_done();
    trusting()
        .error(&error(-32601))
        .expect_request(DISCOVER)
        .error(&error(-32601))
        .expect_request(INITIALIZE);
    trusting().timeout().expect_request(DISCOVER);
    trusting().exit().expect_restart(DISCOVER).exit().expect_error(ProbeError::Exited);

    let only = StdioScript::with_record(auto_policy().mode(ProbeMode::HandshakeOnly), V2025_11_25)
        .expect_request(INITIALIZE);
    only.error(&error(-32603)).expect_error(rejected(&error(-32603)));
    StdioScript::with_record(ProbePolicy::new(Revisions::ALL.handshake()), V2026_07_28)
        .expect_request(INITIALIZE);
    let (_, next) =
        StdioProbe::with_record(auto_policy(), ProbeRecord::new(V2025_11_25, TransportKind::StreamableHttp));
    assert_eq!(next, StdioProbeStep::Send(DISCOVER));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_conversation_ends(
        record in prop::option::of(0_usize..5),
        outcomes in prop::collection::vec(0_u8..13, 20),
    ) {
        let mut script = match record {
            Some(at) => StdioScript::with_record(auto_policy(), Revision::ALL[at]),
            None => StdioScript::new(auto_policy()),
        };
        let mut outcomes = outcomes.into_iter();
        let mut starts = 1;
        loop {
            match &script.next {
                StdioProbeStep::Done(_) | StdioProbeStep::Fail(_) => break,
                next => {
                    starts += usize::from(matches!(next, StdioProbeStep::Restart(_)));
                    let Some(outcome) = outcomes.next() else { panic!("no end: {next:?}") };
                    script = match outcome {
                        0..=1 => script.timeout(),
                        2..=3 => script.exit(),
                        4 => script.result(&json!({})),
                        5 => script.result(&discover_result(&["2025-11-25"])),
                        6 => script.result(&initialize_result("2025-06-18")),
                        7 => script.error(&unsupported(&["2026-07-28"])),
                        8 => script.error(&unsupported(&["2025-06-18", "2025-11-25"])),
                        9 => script.error(&unsupported(&["2025-06-18", "2026-07-28"])),
                        10 => script.error(&error(-32020)),
                        11 => script.error(&error(-32601)),
                        _ => script.error(&error(-32022)),
                    };
                }
            }
        }
        prop_assert!(starts <= 2);
    }
}
